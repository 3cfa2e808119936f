// Package critest is an in-memory container runtime that speaks CRI, and the
// suite that it and a real containerd pass.
//
// Its containers are goroutines that understand the commands of the test
// image's helper program (print, sleep, exit and so on), write logs where CRI
// says, and can be ended or failed by the test. It keeps its state over
// Restart, as a runtime does whose daemon is restarted.
package critest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The images that a Server has from the start.
const (
	Helper  = "local.test/helper:1"
	NonRoot = "local.test/helper-nonroot:1"
	Web     = "local.test/web:1"
)

// A Server is the runtime. Its methods may be called at any time.
type Server struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	runtimeapi.UnimplementedImageServiceServer

	dir string

	mu         sync.Mutex // guards the fields below
	grpc       *grpc.Server
	served     chan struct{}
	noEvents   bool
	sandboxes  map[string]*sandbox
	containers map[string]*container
	images     map[string]*runtimeapi.Image // by name
	pullable   map[string]*runtimeapi.Image
	failures   map[string][]error // by method, the next first
	calls      map[string]int
	followers  map[chan *runtimeapi.ContainerEventResponse]bool
	ids        int
	programs   sync.WaitGroup
}

type sandbox struct {
	config    *runtimeapi.PodSandboxConfig
	id, ip    string
	ready     bool
	createdAt time.Time
}

// Start starts a Server that ends with the test.
func Start(tb testing.TB) *Server {
	tb.Helper()
	dir, err := os.MkdirTemp("", "critest-") //nolint:usetesting // that folder's name is too long for a socket
	if err != nil {
		tb.Fatal(err)
	}
	s := &Server{
		dir: dir, sandboxes: map[string]*sandbox{}, containers: map[string]*container{},
		images: map[string]*runtimeapi.Image{}, pullable: map[string]*runtimeapi.Image{},
		failures: map[string][]error{}, calls: map[string]int{},
		followers: map[chan *runtimeapi.ContainerEventResponse]bool{},
	}
	s.AddImage(Helper, "")
	s.AddImage(Web, "65532")
	s.AddImage(NonRoot, "65532")
	if err := s.Serve(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		s.Kill()
		s.mu.Lock()
		for _, c := range s.containers {
			c.end(137, "")
		}
		s.mu.Unlock()
		s.programs.Wait()
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// Endpoint returns where the server listens.
func (s *Server) Endpoint() string { return "unix://" + filepath.Join(s.dir, "s") }

// Serve lets the server answer again after Kill.
func (s *Server) Serve() error {
	path := filepath.Join(s.dir, "s")
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	l, err := net.Listen("unix", path) //nolint:noctx // done at once
	if err != nil {
		return err
	}
	g := grpc.NewServer(grpc.UnaryInterceptor(s.intercept))
	runtimeapi.RegisterRuntimeServiceServer(g, s)
	runtimeapi.RegisterImageServiceServer(g, s)
	served := make(chan struct{})
	s.mu.Lock()
	s.grpc, s.served = g, served
	s.mu.Unlock()
	go func() {
		defer close(served)
		g.Serve(l) //nolint:errcheck // it ends when stopped
	}()
	return nil
}

// Kill breaks all connections and answers no more; containers run on.
func (s *Server) Kill() {
	s.mu.Lock()
	g, served := s.grpc, s.served
	s.grpc = nil
	s.mu.Unlock()
	if g != nil {
		g.Stop()
		<-served
	}
}

// DisableEvents makes the server one that has no event stream.
func (s *Server) DisableEvents() { s.locked(func() { s.noEvents = true }) }

// FailNext makes the next call of a method ("CreateContainer") fail. Several
// failures queue up.
func (s *Server) FailNext(method string, code codes.Code, message string) {
	s.locked(func() { s.failures[method] = append(s.failures[method], status.Error(code, message)) })
}

// Calls returns how often a method was called.
func (s *Server) Calls(method string) (n int) {
	s.locked(func() { n = s.calls[method] })
	return n
}

// AddImage adds an image; user is what it runs as, "" for root.
func (s *Server) AddImage(name, user string) {
	s.locked(func() { s.images[name] = fakeImage(name, user) })
}

// AddPullable adds an image that can be pulled.
func (s *Server) AddPullable(name string) {
	s.locked(func() { s.pullable[name] = fakeImage(name, "") })
}

// Exit ends the running container of a pod with a code, as if its program did.
func (s *Server) Exit(pod, name string, code int32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.containers {
		if c.config.Metadata.Name == name && c.podName() == pod && c.state == runtimeapi.ContainerState_CONTAINER_RUNNING {
			c.end(code, "")
			return nil
		}
	}
	return fmt.Errorf("no running container %q in pod %q", name, pod)
}

// LoseSandbox makes the sandbox of a pod end, with all in it, as after a reboot.
func (s *Server) LoseSandbox(pod string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.sandboxes {
		if b.config.Metadata.Name != pod || !b.ready {
			continue
		}
		b.ready = false
		for _, c := range s.containers {
			if c.sandbox == b {
				c.end(255, "Unknown")
			}
		}
		s.emit(b, "", runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT)
	}
}

// Running returns the IDs of running containers by pod and container name
// ("web/main").
func (s *Server) Running() map[string]string {
	m := map[string]string{}
	s.locked(func() {
		for _, c := range s.containers {
			if c.state == runtimeapi.ContainerState_CONTAINER_RUNNING {
				m[c.podName()+"/"+c.config.Metadata.Name] = c.id
			}
		}
	})
	return m
}

// Sandboxes returns how many sandboxes there are, in any state.
func (s *Server) Sandboxes() (n int) {
	s.locked(func() { n = len(s.sandboxes) })
	return n
}

func (s *Server) locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// intercept counts calls and lets those fail that are to.
func (s *Server) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	method := info.FullMethod[strings.LastIndexByte(info.FullMethod, '/')+1:]
	s.mu.Lock()
	s.calls[method]++
	var err error
	if q := s.failures[method]; len(q) > 0 {
		err, s.failures[method] = q[0], q[1:]
	}
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return handler(ctx, req)
}

// newID returns a name for something; s.mu is held.
func (s *Server) newID(kind string) string {
	s.ids++
	return fmt.Sprintf("%s-%04d", kind, s.ids)
}

func fakeImage(name, user string) *runtimeapi.Image {
	i := &runtimeapi.Image{Id: "sha256:" + fmt.Sprintf("%x", name), RepoTags: []string{name}, Size: 1 << 20}
	if user != "" {
		i.Username = user
	}
	return i
}

func notFound(kind, id string) error {
	return status.Errorf(codes.NotFound, "an error occurred when try to find %s %q: not found", kind, id)
}
