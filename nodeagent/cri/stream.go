package cri

import (
	"context"
	"fmt"
	"net/url"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// StreamOptions says which streams a client wants to attach.
type StreamOptions struct{ Stdin, Stdout, Stderr, TTY bool }

// ExecURL returns where the runtime serves the streams of a command that it
// runs in a container once a client connects.
func (r *Runtime) ExecURL(ctx context.Context, id string, command []string, o StreamOptions) (*url.URL, error) {
	ctx, cancel := r.timeout(ctx)
	defer cancel()
	resp, err := r.rt.Exec(ctx, &runtimeapi.ExecRequest{
		ContainerId: id, Cmd: command, Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr, Tty: o.TTY,
	})
	if err != nil {
		return nil, wrap("exec in the container", err)
	}
	return streamURL(resp.Url)
}

// AttachURL returns where the runtime serves the streams of a container's main
// process.
func (r *Runtime) AttachURL(ctx context.Context, id string, o StreamOptions) (*url.URL, error) {
	ctx, cancel := r.timeout(ctx)
	defer cancel()
	resp, err := r.rt.Attach(ctx, &runtimeapi.AttachRequest{
		ContainerId: id, Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr, Tty: o.TTY,
	})
	if err != nil {
		return nil, wrap("attach to the container", err)
	}
	return streamURL(resp.Url)
}

// PortForwardURL returns where the runtime serves connections to ports of a
// sandbox.
func (r *Runtime) PortForwardURL(ctx context.Context, sandboxID string, ports []int32) (*url.URL, error) {
	ctx, cancel := r.timeout(ctx)
	defer cancel()
	resp, err := r.rt.PortForward(ctx, &runtimeapi.PortForwardRequest{PodSandboxId: sandboxID, Port: ports})
	if err != nil {
		return nil, wrap("forward ports of the pod sandbox", err)
	}
	return streamURL(resp.Url)
}

func streamURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, fmt.Errorf("parse the runtime's streaming address: %w", err)
	}
	return u, nil
}
