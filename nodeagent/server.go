package nodeagent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/proa-project/proa/nodeagent/podworker"
	"github.com/proa-project/proa/nodeagent/streaming"
)

// serve starts the agent's server and returns the port.
func (a *Agent) serve(ctx context.Context, g *errgroup.Group) (int32, error) {
	l := a.Listener
	if l == nil {
		var err error
		if l, err = (&net.ListenConfig{}).Listen(ctx, "tcp", a.ListenAddr); err != nil {
			return 0, fmt.Errorf("listen on %s: %w", a.ListenAddr, err)
		}
	}
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok || a.TLS == nil {
		return 0, errors.Join(errors.New("the agent's server needs a TCP listener and a TLS configuration"), l.Close())
	}
	config := a.TLS.Clone()
	config.NextProtos = []string{"http/1.1"} // connections are upgraded
	handler := streaming.New(streaming.Config{Pods: a, Runtime: a.Runtime, Log: a.Log})
	var active sync.WaitGroup // the server does not wait for connections that were upgraded
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			active.Add(1)
			defer active.Done()
			handler.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          stdlog.New(debugWriter{a.Log}, "", 0),
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	g.Go(func() error {
		if err := server.Serve(tls.NewListener(l, config)); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		err := server.Close()
		active.Wait()
		return errors.Join(ctx.Err(), err)
	})
	return int32(addr.Port), nil //nolint:gosec // 16 bits
}

// A debugWriter logs what net/http has to say of failed connections.
type debugWriter struct{ log zerolog.Logger }

func (d debugWriter) Write(p []byte) (int, error) {
	d.log.Debug().Str("detail", strings.TrimSpace(string(p))).Msg("a connection failed")
	return len(p), nil
}

// List implements streaming.Pods.
func (a *Agent) List() []*corev1.Pod { return a.workers.list() }

// Sandbox implements streaming.Pods.
func (a *Agent) Sandbox(_ context.Context, namespace, name string) (string, error) {
	w := a.workers.find(namespace, name)
	if w == nil {
		return "", apierrors.NewNotFound(corev1.Resource("pods"), name)
	}
	_, o := w.snapshot()
	for _, s := range o.Sandboxes {
		if s.Ready {
			return s.ID, nil
		}
	}
	return "", apierrors.NewBadRequest(fmt.Sprintf("pod %s is not running", name))
}

// Instance implements streaming.Pods.
func (a *Agent) Instance(_ context.Context, namespace, name, containerName string, previous bool) (streaming.Instance, error) {
	w := a.workers.find(namespace, name)
	if w == nil {
		return streaming.Instance{}, apierrors.NewNotFound(corev1.Resource("pods"), name)
	}
	pod, o := w.snapshot()
	if container(pod, containerName) == nil {
		return streaming.Instance{}, apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", containerName, name))
	}
	var newest, before *podworker.Container
	for i := range o.Containers {
		c := &o.Containers[i]
		switch {
		case c.Name != containerName || c.State == podworker.Created:
		case newest == nil || c.Attempt > newest.Attempt:
			newest, before = c, newest
		case before == nil || c.Attempt > before.Attempt:
			before = c
		}
	}
	if previous {
		// the instance before the one that runs, or the last if none runs
		if newest != nil && (newest.State == podworker.Running || terminated(pod, containerName)) {
			newest = before
		}
		if newest == nil {
			return streaming.Instance{}, apierrors.NewBadRequest(fmt.Sprintf("previous terminated container %q in pod %q not found", containerName, name))
		}
	}
	if newest == nil {
		return streaming.Instance{}, apierrors.NewBadRequest(fmt.Sprintf("container %q in pod %q is waiting to start: %s", containerName, name, whyWaiting(pod, containerName)))
	}
	id := newest.ID
	return streaming.Instance{ID: id, Log: w.logPath(containerName, newest.Attempt), Running: func(context.Context) bool { return w.runs(id) }}, nil
}

// whyWaiting returns what the API says of a container that has not started.
func whyWaiting(pod *corev1.Pod, name string) string {
	for _, s := range append(append([]corev1.ContainerStatus(nil), pod.Status.InitContainerStatuses...), pod.Status.ContainerStatuses...) {
		if s.Name != name || s.State.Waiting == nil {
			continue
		}
		if s.State.Waiting.Message != "" {
			return s.State.Waiting.Message
		}
		if s.State.Waiting.Reason != "" {
			return s.State.Waiting.Reason
		}
	}
	return "ContainerCreating"
}

// terminated tells whether the API shows a container as ended, rather than as
// waiting for its next instance.
func terminated(pod *corev1.Pod, name string) bool {
	for _, s := range append(append([]corev1.ContainerStatus(nil), pod.Status.InitContainerStatuses...), pod.Status.ContainerStatuses...) {
		if s.Name == name {
			return s.State.Terminated != nil
		}
	}
	return false
}

// runs tells whether an instance ran when it was last looked at.
func (w *worker) runs(id string) bool {
	_, o := w.snapshot()
	for _, c := range o.Containers {
		if c.ID == id {
			return c.State == podworker.Running
		}
	}
	return false
}
