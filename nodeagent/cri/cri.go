// Package cri is the container runtime of a node, reached over its CRI v1
// socket, in terms of pods.
//
// It translates and calls; it decides nothing and retries nothing. All state is
// in the runtime: what a sandbox or container belongs to is in the labels and
// annotations that crictl and other tools know too.
package cri

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The errors that callers test for.
var (
	// ErrNotFound is a sandbox, container or image that the runtime does not have.
	ErrNotFound = errors.New("not found in the container runtime")
	// ErrUnavailable is a runtime that cannot be reached.
	ErrUnavailable = errors.New("container runtime is unavailable")
	// ErrUnsupported is something that the runtime cannot do.
	ErrUnsupported = errors.New("not supported by the container runtime")
)

// DefaultEndpoint is where containerd listens.
const DefaultEndpoint = "unix:///run/containerd/containerd.sock"

// Config says which runtime to use.
type Config struct {
	// Endpoint is the runtime's socket, "unix:///path" or "/path".
	// Default: DefaultEndpoint.
	Endpoint string
	// Timeout bounds the calls that have no deadline of their own.
	// Default: 2 minutes.
	Timeout time.Duration
	// SeccompDir holds the profiles that Localhost profiles name.
	SeccompDir string
}

// A Runtime is a connection to a container runtime. It reconnects by itself;
// while the runtime is away, calls fail at once with ErrUnavailable. Its
// methods may be called from several goroutines.
type Runtime struct {
	config Config
	conn   *grpc.ClientConn
	rt     runtimeapi.RuntimeServiceClient
	images runtimeapi.ImageServiceClient
}

// Dial returns the Runtime at an endpoint. It does not wait for it to answer.
func Dial(c Config) (*Runtime, error) {
	if c.Endpoint == "" {
		c.Endpoint = DefaultEndpoint
	}
	if c.Timeout == 0 {
		c.Timeout = 2 * time.Minute
	}
	path := strings.TrimPrefix(c.Endpoint, "unix://")
	if !strings.HasPrefix(path, "/") {
		return nil, fmt.Errorf("runtime endpoint %q is not the path of a unix socket", c.Endpoint)
	}
	const maxMessage = 16 << 20
	conn, err := grpc.NewClient("passthrough:///"+path,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", addr)
		}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: time.Second,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
	)
	if err != nil {
		return nil, fmt.Errorf("dial container runtime %q: %w", c.Endpoint, err)
	}
	return &Runtime{
		config: c, conn: conn,
		rt: runtimeapi.NewRuntimeServiceClient(conn), images: runtimeapi.NewImageServiceClient(conn),
	}, nil
}

// Close ends the connection; calls under way fail.
func (r *Runtime) Close() error { return r.conn.Close() }

// Path returns the path of the runtime's socket.
func (r *Runtime) Path() string { return strings.TrimPrefix(r.config.Endpoint, "unix://") }

// A Version tells what the runtime is.
type Version struct {
	Name       string // "containerd"
	Version    string // "v2.4.2"
	APIVersion string // of CRI: "v1"
}

func (v Version) String() string { return v.Name + "://" + strings.TrimPrefix(v.Version, "v") }

// Version asks the runtime what it is.
func (r *Runtime) Version(ctx context.Context) (Version, error) {
	ctx, cancel := r.timeout(ctx)
	defer cancel()
	v, err := r.rt.Version(ctx, &runtimeapi.VersionRequest{})
	if err != nil {
		return Version{}, wrap("ask for the version", err)
	}
	return Version{Name: v.RuntimeName, Version: v.RuntimeVersion, APIVersion: v.RuntimeApiVersion}, nil
}

// A Status tells whether the runtime can run pods.
type Status struct {
	RuntimeReady, NetworkReady bool
	Message                    string // why it is not
	Handlers                   []string
}

// Status asks the runtime whether it can run pods.
func (r *Runtime) Status(ctx context.Context) (Status, error) {
	ctx, cancel := r.timeout(ctx)
	defer cancel()
	resp, err := r.rt.Status(ctx, &runtimeapi.StatusRequest{})
	if err != nil {
		return Status{}, wrap("ask for the status", err)
	}
	var s Status
	var why []string
	for _, c := range resp.GetStatus().GetConditions() {
		switch c.Type {
		case runtimeapi.RuntimeReady:
			s.RuntimeReady = c.Status
		case runtimeapi.NetworkReady:
			s.NetworkReady = c.Status
		default:
			continue
		}
		if !c.Status {
			why = append(why, fmt.Sprintf("%s=false reason:%s message:%s", c.Type, c.Reason, c.Message))
		}
	}
	s.Message = strings.Join(why, ", ")
	for _, h := range resp.GetRuntimeHandlers() {
		s.Handlers = append(s.Handlers, h.Name)
	}
	return s, nil
}

func (r *Runtime) timeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, r.config.Timeout)
}

// A callError is a failed call; its text is the runtime's own.
type callError struct {
	what     string
	sentinel error
	err      error
}

func (e *callError) Error() string {
	if s, ok := status.FromError(e.err); ok {
		return s.Message()
	}
	return e.err.Error()
}

func (e *callError) Unwrap() []error { return []error{e.sentinel, e.err} }

// wrap returns the error of a call with the sentinel for its kind. The text is
// what the runtime said, for it goes into statuses and events.
func wrap(what string, err error) error {
	switch status.Code(err) {
	case codes.OK:
		return nil
	case codes.NotFound:
		return &callError{what, ErrNotFound, err}
	case codes.Unavailable:
		return &callError{what, ErrUnavailable, fmt.Errorf("%s: %w", what, err)}
	case codes.Unimplemented:
		return &callError{what, ErrUnsupported, fmt.Errorf("%s: %w", what, err)}
	case codes.Canceled:
		return &callError{what, context.Canceled, fmt.Errorf("%s: %w", what, err)}
	case codes.DeadlineExceeded:
		return &callError{what, context.DeadlineExceeded, fmt.Errorf("%s: %w", what, err)}
	default:
		return &callError{what, errCall, err}
	}
}

var errCall = errors.New("container runtime call failed")
