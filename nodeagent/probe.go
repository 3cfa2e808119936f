package nodeagent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A target is what a probe or hook is pointed at.
type target struct {
	container *corev1.Container
	id        string
	ip        string // of the pod
}

// probe does one check. The error says why it failed; nil is success.
func (w *worker) probe(ctx context.Context, t target, p *corev1.ProbeHandler, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	switch {
	case p.Exec != nil:
		out, code, err := w.agent.Runtime.Exec(ctx, t.id, p.Exec.Command, max(timeout, time.Second))
		if err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("command timed out: %q timed out after %v", strings.Join(p.Exec.Command, " "), timeout)
			}
			return err
		}
		if code != 0 {
			return errors.New(strings.TrimSpace(string(out)))
		}
		return nil
	case p.HTTPGet != nil:
		return t.httpGet(ctx, p.HTTPGet)
	case p.TCPSocket != nil:
		addr, err := t.address(p.TCPSocket.Host, p.TCPSocket.Port)
		if err != nil {
			return err
		}
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		return c.Close()
	case p.GRPC != nil:
		return t.grpcHealth(ctx, p.GRPC)
	}
	return errors.New("missing probe handler")
}

// address returns host and port; a host that is not given is the pod.
func (t target) address(host string, port intstr.IntOrString) (string, error) {
	n := port.IntValue()
	if port.Type == intstr.String {
		n = 0
		for _, p := range t.container.Ports {
			if p.Name == port.StrVal {
				n = int(p.ContainerPort)
			}
		}
		if n == 0 {
			if v, err := strconv.Atoi(port.StrVal); err == nil {
				n = v
			}
		}
	}
	if n < 1 || n > 65535 {
		return "", fmt.Errorf("invalid port number: %v", port.String())
	}
	if host == "" {
		host = t.ip
	}
	return net.JoinHostPort(host, strconv.Itoa(n)), nil
}

func (t target) httpGet(ctx context.Context, g *corev1.HTTPGetAction) error {
	addr, err := t.address(g.Host, g.Port)
	if err != nil {
		return err
	}
	scheme := strings.ToLower(string(g.Scheme))
	if scheme == "" {
		scheme = "http"
	}
	u, err := url.Parse(g.Path)
	if err != nil {
		u = &url.URL{Path: g.Path}
	}
	u.Scheme, u.Host = scheme, addr
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", "kube-probe/1.37")
	req.Header.Set("Accept", "*/*")
	for _, h := range g.HTTPHeaders {
		if strings.EqualFold(h.Name, "Host") {
			req.Host = h.Value
			continue
		}
		req.Header.Add(h.Name, h.Value)
	}
	transport := &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // a probe asks whether it answers, not who
	}
	c := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()                                //nolint:errcheck // only read
	io.Copy(io.Discard, io.LimitReader(resp.Body, 10<<10)) //nolint:errcheck // the status is the answer
	if resp.StatusCode < 200 || resp.StatusCode >= 400 {
		return fmt.Errorf("HTTP probe failed with statuscode: %d", resp.StatusCode)
	}
	return nil
}

func (t target) grpcHealth(ctx context.Context, g *corev1.GRPCAction) error {
	addr, err := t.address("", intstr.FromInt32(g.Port))
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // only asked
	req := &healthpb.HealthCheckRequest{}
	if g.Service != nil {
		req.Service = *g.Service
	}
	resp, err := healthpb.NewHealthClient(conn).Check(ctx, req)
	if err != nil {
		return err
	}
	if resp.Status != healthpb.HealthCheckResponse_SERVING {
		return fmt.Errorf("service unhealthy (responded with %q)", resp.Status)
	}
	return nil
}

// hook runs what a container's lifecycle asks for.
func (w *worker) hook(ctx context.Context, pod *corev1.Pod, c *corev1.Container, id string, h *corev1.LifecycleHandler, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	t := target{container: c, id: id, ip: pod.Status.PodIP}
	switch {
	case h.Exec != nil:
		_, code, err := w.agent.Runtime.Exec(ctx, id, h.Exec.Command, 0)
		if err == nil && code != 0 {
			err = fmt.Errorf("command exited with %d", code)
		}
		return err
	case h.HTTPGet != nil:
		return t.httpGet(ctx, h.HTTPGet)
	case h.Sleep != nil:
		timer := time.NewTimer(time.Duration(h.Sleep.Seconds) * time.Second)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return nil
		}
	}
	return nil
}
