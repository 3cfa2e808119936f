package httpapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/httpapi/registry"
	"github.com/proa-project/proa/httpapi/request"
	"github.com/proa-project/proa/storage"
)

// Serve answers requests from the listener, with TLS if tc is not nil, until
// ctx is done. Then watches end, other requests may finish, and Serve returns
// nil. It sees to it that the first namespaces are there (see Bootstrap).
func (s *Server) Serve(ctx context.Context, l net.Listener, tc *tls.Config) error {
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel() // ends what has outlived the grace, such as upgraded connections
	hs := &http.Server{
		Handler:           s,
		TLSConfig:         tc,
		BaseContext:       func(net.Listener) context.Context { return base },
		ReadHeaderTimeout: 30 * time.Second,
		IdleTimeout:       3 * time.Minute,
		MaxHeaderBytes:    1 << 20,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 1000, MaxReadFrameSize: 1 << 20},
		ErrorLog:          stdlog.New(debugWriter{s}, "", 0),
	}
	served, begun := make(chan error, 1), make(chan error, 1)
	var running sync.WaitGroup
	running.Go(func() {
		if tc != nil {
			served <- hs.ServeTLS(l, "", "")
		} else {
			served <- hs.Serve(l)
		}
	})
	beginning, giveUp := context.WithCancel(ctx)
	defer giveUp()
	running.Go(func() {
		if err := s.Bootstrap(beginning); err != nil {
			begun <- err
		}
	})

	var err error
	select {
	case err = <-served:
	case err = <-begun:
	case <-ctx.Done():
	}
	giveUp()
	s.endStreams()
	graceCtx, done := context.WithTimeout(base, s.cfg.StopGrace)
	defer done()
	if serr := hs.Shutdown(graceCtx); serr != nil {
		hs.Close() //nolint:errcheck // there is nothing left to do
	}
	s.streams.Wait()
	running.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("serve: %w", err)
}

// Stop ends watches, and has /readyz fail. Serve calls it; those who call the
// handler directly do so before they close the store. It waits for the
// watches.
func (s *Server) Stop() {
	s.endStreams()
	s.streams.Wait()
}

// endStreams ends watches, and has no more of them begin.
func (s *Server) endStreams() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
}

// beginStream notes that a watch begins, unless the server is stopping. Its
// end is s.streams.Done.
func (s *Server) beginStream() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping.Err() != nil {
		return false
	}
	s.streams.Add(1)
	return true
}

// A debugWriter takes what net/http has to say about connections.
type debugWriter struct{ s *Server }

func (d debugWriter) Write(p []byte) (int, error) {
	d.s.cfg.Log.Debug().Bytes("detail", p).Msg("connection failed")
	return len(p), nil
}

// systemNamespaces are there from the start and stay.
func systemNamespaces() []string {
	return []string{corev1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease}
}

// Bootstrap creates the namespaces that every cluster has. It tries again
// while the store is unavailable, until ctx is done. The server is not ready
// before.
func (s *Server) Bootstrap(ctx context.Context) error {
	ep := s.endpoints["/v1/namespaces"]
	if ep == nil {
		s.started.Store(true)
		return nil
	}
	user := &request.User{Name: "system:apiserver", Groups: []string{"system:masters", "system:authenticated"}}
	for _, name := range systemNamespaces() {
		for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
			err := s.ensureNamespace(ctx, ep, user, name)
			if err == nil {
				break
			}
			if !errors.Is(err, storage.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("create namespace %q: %w", name, err)
			}
			s.cfg.Log.Info().Err(err).Str("namespace", name).Msg("namespace not created yet")
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(wait):
			}
		}
	}
	s.started.Store(true)
	return nil
}

func (s *Server) ensureNamespace(ctx context.Context, ep *endpoint, user *request.User, name string) error {
	c := &registry.Call{UID: "bootstrap-" + name, User: user, Name: name}
	if _, err := ep.Load(ctx, c, false); err == nil {
		return nil
	}
	ns := &corev1.Namespace{TypeMeta: metav1.TypeMeta{Kind: "Namespace", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := ep.Create(ctx, c, ns)
	var refusal *registry.Error
	if errors.As(err, &refusal) && refusal.Reason == registry.Exists {
		return nil
	}
	return err
}
