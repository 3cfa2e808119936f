// Package streaming serves what the API server asks a node for: logs of
// containers, and connections into them.
//
// Logs are read from the files that the runtime writes. Connections (exec,
// attach, port-forward) are joined with one to the runtime's own streaming
// server. SPDY passes through untouched; WebSocket is translated to it.
package streaming

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/nodeagent/cri"
)

// An Instance is one instance of a container.
type Instance struct {
	ID  string
	Log string // path of its log
	// Running tells whether it still runs.
	Running func(context.Context) bool
}

// Pods knows the pods of the node. Its errors are *errors.StatusError of
// apimachinery: they are answers.
type Pods interface {
	// Instance returns the newest instance of a container, or the one before.
	Instance(ctx context.Context, namespace, pod, container string, previous bool) (Instance, error)
	// Sandbox returns the ID of the pod's sandbox.
	Sandbox(ctx context.Context, namespace, pod string) (string, error)
	// List returns all pods.
	List() []*corev1.Pod
}

// Config says what a Server serves. Pods and Runtime are required.
type Config struct {
	Pods    Pods
	Runtime *cri.Runtime
	// Group is the group, the organization of the client's certificate, that
	// may ask. Default: system:masters.
	Group string
	Log   zerolog.Logger
}

// New returns the handler of a node's server. It answers only clients with a
// certificate that the TLS layer has verified, except on /healthz.
func New(c Config) http.Handler {
	if c.Group == "" {
		c.Group = "system:masters"
	}
	s := &server{c}
	m := http.NewServeMux()
	m.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("ok")) }) //nolint:errcheck // the client is gone
	m.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", s.answer(s.logs))
	m.HandleFunc("/exec/{namespace}/{pod}/{container}", s.answer(s.exec))
	m.HandleFunc("/attach/{namespace}/{pod}/{container}", s.answer(s.attach))
	m.HandleFunc("/portForward/{namespace}/{pod}", s.answer(s.portForward))
	m.HandleFunc("GET /pods", s.answer(s.pods))
	return m
}

type server struct{ Config }

// answer makes a handler of one that returns errors, for clients that may ask.
func (s *server) answer(f func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := s.allowed(r)
		if err == nil {
			err = f(w, r)
		}
		if err == nil {
			return
		}
		var status *apierrors.StatusError
		if !errors.As(err, &status) {
			s.Log.Debug().Err(err).Str("path", r.URL.Path).Msg("request failed")
			status = apierrors.NewInternalError(err)
		}
		body, encodeErr := json.Marshal(statusBody(status))
		if encodeErr != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(status.ErrStatus.Code))
		w.Write(body) //nolint:errcheck // the client is gone
	}
}

func statusBody(e *apierrors.StatusError) *metav1.Status {
	s := e.ErrStatus
	s.Kind, s.APIVersion = "Status", "v1"
	return &s
}

func (s *server) allowed(r *http.Request) error {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return apierrors.NewUnauthorized("Unauthorized")
	}
	if !slices.Contains(r.TLS.VerifiedChains[0][0].Subject.Organization, s.Group) {
		return forbidden()
	}
	return nil
}

func forbidden() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "Forbidden",
	}}
}

func (s *server) pods(w http.ResponseWriter, _ *http.Request) error {
	list := &corev1.PodList{}
	for _, p := range s.Pods.List() {
		list.Items = append(list.Items, *p)
	}
	body, err := api.Encode(list)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(body) //nolint:errcheck // the client is gone
	return nil
}

func (s *server) logs(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	o, err := logOptions(q, time.Now())
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	i, err := s.Pods.Instance(r.Context(), r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container"), flag(q, "previous"))
	if err != nil {
		return err
	}
	if _, err := os.Stat(i.Log); err != nil {
		return apierrors.NewNotFound(corev1.Resource("pods/log"), r.PathValue("pod"))
	}
	w.Header().Set("Content-Type", "text/plain")
	fw := &flushWriter{w: w, c: http.NewResponseController(w)}
	fw.Flush()
	if err := ReadLog(r.Context(), fw, i.Log, o, i.Running); err != nil {
		s.Log.Debug().Err(err).Str("path", i.Log).Msg("reading a log broke off")
	}
	return nil
}

type flushWriter struct {
	w http.ResponseWriter
	c *http.ResponseController
}

func (f *flushWriter) Write(b []byte) (int, error) { return f.w.Write(b) }
func (f *flushWriter) Flush()                      { f.c.Flush() } //nolint:errcheck // the next write tells

// logOptions reads the options of a request for logs.
func logOptions(q url.Values, now time.Time) (LogOptions, error) {
	o := LogOptions{Tail: -1, Follow: flag(q, "follow"), Timestamps: flag(q, "timestamps")}
	number := func(name string, set func(int64)) error {
		v := q.Get(name)
		if v == "" {
			return nil
		}
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < 0 {
			return fmt.Errorf("%s: %q is not a number of 0 or more", name, v)
		}
		set(n)
		return nil
	}
	err := errors.Join(
		number("tailLines", func(n int64) { o.Tail = n }),
		number("limitBytes", func(n int64) { o.Limit = n }),
		number("sinceSeconds", func(n int64) { o.Since = now.Add(-time.Duration(n) * time.Second) }),
	)
	if err != nil {
		return o, err
	}
	if v := q.Get("sinceTime"); v != "" {
		if o.Since, err = time.Parse(time.RFC3339, v); err != nil {
			return o, fmt.Errorf("sinceTime: %w", err)
		}
	}
	switch v := q.Get("stream"); v {
	case "", "All":
	case "Stdout", "Stderr":
		o.Stream = strings.ToLower(v)
	default:
		return o, fmt.Errorf("stream: %q is not All, Stdout or Stderr", v)
	}
	return o, nil
}

// flag reads a boolean parameter; one that is there without a value is true.
func flag(q url.Values, name string) bool {
	v, ok := q[name]
	if !ok {
		return false
	}
	b, err := strconv.ParseBool(v[0])
	return err != nil || b
}

// streamOptions reads which streams a client wants, by the names of the API
// or of the node's own protocol.
func streamOptions(q url.Values) cri.StreamOptions {
	return cri.StreamOptions{
		Stdin:  flag(q, "stdin") || flag(q, "input"),
		Stdout: flag(q, "stdout") || flag(q, "output"),
		Stderr: (flag(q, "stderr") || flag(q, "error")) && !flag(q, "tty"),
		TTY:    flag(q, "tty"),
	}
}

func (s *server) exec(w http.ResponseWriter, r *http.Request) error {
	i, err := s.running(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	if len(q["command"]) == 0 {
		return apierrors.NewBadRequest("you must specify at least one command for the container")
	}
	o := streamOptions(q)
	u, err := s.Runtime.ExecURL(r.Context(), i.ID, q["command"], o)
	if err != nil {
		return err
	}
	return s.join(w, r, u, &o)
}

func (s *server) attach(w http.ResponseWriter, r *http.Request) error {
	i, err := s.running(r)
	if err != nil {
		return err
	}
	o := streamOptions(r.URL.Query())
	u, err := s.Runtime.AttachURL(r.Context(), i.ID, o)
	if err != nil {
		return err
	}
	return s.join(w, r, u, &o)
}

func (s *server) portForward(w http.ResponseWriter, r *http.Request) error {
	id, err := s.Pods.Sandbox(r.Context(), r.PathValue("namespace"), r.PathValue("pod"))
	if err != nil {
		return err
	}
	var ports []int32
	for _, v := range r.URL.Query()["port"] {
		for one := range strings.SplitSeq(v, ",") {
			n, failed := strconv.ParseUint(one, 10, 16)
			if failed != nil {
				return apierrors.NewBadRequest(fmt.Sprintf("port %q is not one", one))
			}
			ports = append(ports, int32(n))
		}
	}
	u, err := s.Runtime.PortForwardURL(r.Context(), id, ports)
	if err != nil {
		return err
	}
	return s.join(w, r, u, nil)
}

// running returns the container of a request, which must run.
func (s *server) running(r *http.Request) (Instance, error) {
	i, err := s.Pods.Instance(r.Context(), r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container"), false)
	if err != nil {
		return i, err
	}
	if !i.Running(r.Context()) {
		return i, apierrors.NewBadRequest(fmt.Sprintf("container %s is not running", r.PathValue("container")))
	}
	return i, nil
}

// join joins the client's connection with one to the runtime. Streams of a
// command, with options, may come over a WebSocket.
func (s *server) join(w http.ResponseWriter, r *http.Request, target *url.URL, o *cri.StreamOptions) error {
	switch {
	case r.Header.Get("Upgrade") == "":
		return apierrors.NewBadRequest("Upgrade request required")
	case isWebSocket(r) && o != nil:
		return s.translate(w, r, target, *o)
	case isWebSocket(r):
		return apierrors.NewBadRequest("ports are forwarded over SPDY only")
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL = target
			p.Out.Host = target.Host
			p.Out.Header.Del("Origin")
		},
		Transport: &http.Transport{DisableKeepAlives: true},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			s.Log.Debug().Err(err).Str("path", r.URL.Path).Msg("connection to the runtime failed")
			http.Error(w, "connect to the container runtime: "+err.Error(), http.StatusBadGateway)
		},
	}
	proxy.ServeHTTP(w, r)
	return nil
}
