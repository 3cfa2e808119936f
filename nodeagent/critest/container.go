package critest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A container is guarded by its server's mutex.
type container struct {
	server  *Server
	sandbox *sandbox
	config  *runtimeapi.ContainerConfig
	id      string
	image   *runtimeapi.Image

	state                            runtimeapi.ContainerState
	createdAt, startedAt, finishedAt time.Time
	code                             int32
	reason, message                  string
	term                             chan struct{} // closed by the stop signal
	termed                           bool
	done                             chan struct{} // closed at the end
}

func (c *container) podName() string { return c.sandbox.config.Metadata.Name }

// end ends a container that runs; s.mu is held.
func (c *container) end(code int32, reason string) {
	if c.state != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return
	}
	c.state = runtimeapi.ContainerState_CONTAINER_EXITED
	c.finishedAt, c.code, c.reason = time.Now(), code, reason
	if reason == "" {
		c.reason = "Completed"
		if code != 0 {
			c.reason = "Error"
		}
	}
	close(c.done)
	c.server.emit(c.sandbox, c.id, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT)
}

// CreateContainer makes a container.
func (s *Server) CreateContainer(_ context.Context, req *runtimeapi.CreateContainerRequest) (*runtimeapi.CreateContainerResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.sandboxes[req.PodSandboxId]
	if b == nil {
		return nil, notFound("sandbox", req.PodSandboxId)
	}
	if !b.ready {
		return nil, status.Errorf(codes.Unknown, "sandbox container %q is not running", b.id)
	}
	image := s.find(req.GetConfig().GetImage().GetImage())
	if image == nil {
		return nil, notFound("image", req.GetConfig().GetImage().GetImage())
	}
	for _, c := range s.containers {
		if c.sandbox == b && c.config.Metadata.Name == req.Config.Metadata.Name && c.config.Metadata.Attempt == req.Config.Metadata.Attempt {
			return nil, status.Errorf(codes.Unknown, "failed to reserve container name %q: name is reserved", c.config.Metadata.Name)
		}
	}
	for _, m := range req.Config.Mounts {
		if _, err := os.Stat(m.HostPath); err != nil {
			return nil, status.Errorf(codes.Unknown, "failed to generate spec: failed to stat %q: %v", m.HostPath, err)
		}
	}
	c := &container{
		server: s, sandbox: b, config: req.Config, id: s.newID("container"), image: image,
		createdAt: time.Now(), term: make(chan struct{}), done: make(chan struct{}),
	}
	s.containers[c.id] = c
	s.emit(b, c.id, runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT)
	return &runtimeapi.CreateContainerResponse{ContainerId: c.id}, nil
}

// StartContainer runs the container's program.
func (s *Server) StartContainer(_ context.Context, req *runtimeapi.StartContainerRequest) (*runtimeapi.StartContainerResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.containers[req.ContainerId]
	if c == nil {
		return nil, notFound("container", req.ContainerId)
	}
	if c.state != runtimeapi.ContainerState_CONTAINER_CREATED {
		return nil, status.Errorf(codes.Unknown, "container %q is in %v state", c.id, c.state)
	}
	if program := c.config.Command; len(program) > 0 && filepath.Base(program[0]) != "helper" {
		c.state = runtimeapi.ContainerState_CONTAINER_EXITED
		c.startedAt, c.finishedAt, c.code, c.reason = c.createdAt, time.Now(), 128, "StartError"
		c.message = fmt.Sprintf("failed to create containerd task: exec: %q: stat %s: no such file or directory", program[0], program[0])
		s.emit(c.sandbox, c.id, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT)
		return nil, status.Error(codes.Unknown, c.message)
	}
	log, err := os.OpenFile(filepath.Join(c.sandbox.config.LogDirectory, c.config.LogPath), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640) //nolint:gosec // as runtimes make it
	if err != nil {
		return nil, status.Errorf(codes.Unknown, "failed to create container log: %v", err)
	}
	c.state, c.startedAt = runtimeapi.ContainerState_CONTAINER_RUNNING, time.Now()
	args := append([]string(nil), c.config.Args...)
	if len(c.config.Command) > 1 {
		args = append(slices.Clone(c.config.Command[1:]), args...)
	}
	s.programs.Go(func() {
		defer log.Close() //nolint:errcheck // only a log
		code := c.run(args, &logWriter{w: log, stream: "stdout"}, &logWriter{w: log, stream: "stderr"})
		s.locked(func() { c.end(code, "") })
	})
	s.emit(c.sandbox, c.id, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT)
	return &runtimeapi.StartContainerResponse{}, nil
}

// StopContainer sends TERM, waits, and kills.
func (s *Server) StopContainer(ctx context.Context, req *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	s.mu.Lock()
	c := s.containers[req.ContainerId]
	if c == nil || c.state != runtimeapi.ContainerState_CONTAINER_RUNNING {
		s.mu.Unlock()
		return &runtimeapi.StopContainerResponse{}, nil
	}
	if req.Timeout > 0 && !c.termed {
		c.termed = true
		close(c.term)
	}
	s.mu.Unlock()
	grace := time.NewTimer(time.Duration(req.Timeout) * time.Second)
	defer grace.Stop()
	select {
	case <-c.done:
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	case <-grace.C:
		s.locked(func() { c.end(137, "") })
	}
	return &runtimeapi.StopContainerResponse{}, nil
}

// RemoveContainer removes a container.
func (s *Server) RemoveContainer(_ context.Context, req *runtimeapi.RemoveContainerRequest) (*runtimeapi.RemoveContainerResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.containers[req.ContainerId]; c != nil {
		c.end(137, "")
		delete(s.containers, c.id)
		s.emit(c.sandbox, c.id, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT)
	}
	return &runtimeapi.RemoveContainerResponse{}, nil
}

// ListContainers lists containers.
func (s *Server) ListContainers(_ context.Context, req *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resp := &runtimeapi.ListContainersResponse{}
	for _, c := range s.containers {
		if matches(c.config.Labels, req.GetFilter().GetLabelSelector()) {
			resp.Containers = append(resp.Containers, &runtimeapi.Container{
				Id: c.id, PodSandboxId: c.sandbox.id, Metadata: c.config.Metadata, Image: c.config.Image, ImageRef: c.image.Id,
				State: c.state, CreatedAt: c.createdAt.UnixNano(), Labels: c.config.Labels, Annotations: c.config.Annotations,
			})
		}
	}
	return resp, nil
}

// ContainerStatus returns a container.
func (s *Server) ContainerStatus(_ context.Context, req *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.containers[req.ContainerId]
	if c == nil {
		return nil, notFound("container", req.ContainerId)
	}
	nano := func(t time.Time) int64 {
		if t.IsZero() {
			return 0
		}
		return t.UnixNano()
	}
	return &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{
		Id: c.id, Metadata: c.config.Metadata, State: c.state, Image: c.config.Image, ImageRef: c.image.Id, ImageId: c.image.Id,
		CreatedAt: nano(c.createdAt), StartedAt: nano(c.startedAt), FinishedAt: nano(c.finishedAt),
		ExitCode: c.code, Reason: c.reason, Message: c.message,
		Labels: c.config.Labels, Annotations: c.config.Annotations, LogPath: c.config.LogPath,
	}}, nil
}

// ExecSync runs a command of the helper in a container.
func (s *Server) ExecSync(_ context.Context, req *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
	s.mu.Lock()
	c := s.containers[req.ContainerId]
	running := c != nil && c.state == runtimeapi.ContainerState_CONTAINER_RUNNING
	s.mu.Unlock()
	switch {
	case c == nil:
		return nil, notFound("container", req.ContainerId)
	case !running:
		return nil, status.Errorf(codes.Unknown, "container %q is not running", c.id)
	case len(req.Cmd) == 0 || filepath.Base(req.Cmd[0]) != "helper":
		return nil, status.Errorf(codes.Unknown, "failed to exec in container: exec: %q: no such file or directory", req.Cmd)
	}
	var out, errs bytes.Buffer
	code := c.run(req.Cmd[1:], &out, &errs)
	return &runtimeapi.ExecSyncResponse{Stdout: out.Bytes(), Stderr: errs.Bytes(), ExitCode: code}, nil
}

// run does what the helper program does with these arguments.
func (c *container) run(args []string, out, errs io.Writer) int32 {
	if len(args) == 0 {
		args = []string{"sleep", "ever"}
	}
	for len(args) > 0 {
		end := slices.Index(args, ",")
		if end < 0 {
			end = len(args)
		}
		if code, over := c.do(args[0], args[1:end], out, errs); over {
			return code
		}
		args = args[min(end+1, len(args)):]
	}
	return 0
}

func (c *container) do(verb string, args []string, out, errs io.Writer) (code int32, over bool) {
	first := strings.Join(args[:min(1, len(args))], "")
	switch verb {
	case "print":
		fmt.Fprintln(out, strings.Join(args, " ")) // only a log
	case "error":
		fmt.Fprintln(errs, strings.Join(args, " ")) // only a log
	case "env":
		var env []string
		for _, e := range c.config.Envs {
			env = append(env, e.Key+"="+string(e.Value))
		}
		slices.Sort(env)
		fmt.Fprintln(out, strings.Join(env, "\n")) // only a log
	case "cat":
		b, err := os.ReadFile(c.hostPath(first))
		if err != nil {
			fmt.Fprintln(errs, err) // only a log
			return 1, true
		}
		out.Write(b) //nolint:errcheck // only a log
	case "write":
		if err := os.WriteFile(c.hostPath(first), []byte(strings.Join(args[1:], " ")), 0o644); err != nil { //nolint:gosec // a test's file
			fmt.Fprintln(errs, err) // only a log
			return 1, true
		}
	case "sleep", "deaf", "serve":
		term := c.term
		if verb == "deaf" {
			term = nil
		}
		var wake <-chan time.Time
		if d, err := time.ParseDuration(first); err == nil && verb != "serve" {
			wake = time.After(d)
		}
		select {
		case <-wake:
		case <-term:
			return 143, true
		case <-c.done:
			return 137, true
		}
	case "exit":
		n, err := strconv.ParseInt(first, 10, 32)
		if err != nil {
			return 1, true
		}
		return int32(n), true
	default:
		fmt.Fprintln(errs, "helper: no verb", verb) // only a log
		return 1, true
	}
	return 0, false
}

// hostPath returns the file of the host that the container sees as name.
func (c *container) hostPath(name string) string {
	best, path := "", filepath.Join("/nowhere", name)
	for _, m := range c.config.Mounts {
		rest, ok := strings.CutPrefix(name, m.ContainerPath)
		if ok && (rest == "" || rest[0] == '/') && len(m.ContainerPath) > len(best) {
			best, path = m.ContainerPath, m.HostPath+rest
		}
	}
	return path
}

// A logWriter writes lines as CRI lays down.
type logWriter struct {
	w      io.Writer
	stream string
}

func (l *logWriter) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		_, err := fmt.Fprintf(l.w, "%s %s F %s\n", time.Now().UTC().Format(time.RFC3339Nano), l.stream, bytes.TrimSuffix(line, []byte("\n")))
		if err != nil {
			return 0, err
		}
	}
	return len(p), nil
}
