package cri

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ContainerOptions is what a container needs beside the pod's specification.
type ContainerOptions struct {
	Attempt, Streak int
	ImageRef        string
	Command, Args   []string // with variables expanded
	Env             []EnvVar // in order
	Mounts          []Mount
	LogPath         string // below the sandbox's LogDir
	OOMScoreAdj     int64
	Sandbox         SandboxOptions // as the sandbox was made with
}

// An EnvVar is a variable of a container's environment.
type EnvVar struct{ Name, Value string }

// A Mount puts a file or folder of the host into a container.
type Mount struct {
	HostPath, ContainerPath string
	ReadOnly                bool
	Propagation             corev1.MountPropagationMode // "" is None
}

// CreateContainer makes a container in a sandbox and returns its ID.
func (r *Runtime) CreateContainer(ctx context.Context, sandboxID string, pod *corev1.Pod, c *corev1.Container, o ContainerOptions) (string, error) {
	ctx, cancel := r.timeout(ctx)
	defer cancel()
	resp, err := r.rt.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId:  sandboxID,
		Config:        r.containerConfig(pod, c, &o),
		SandboxConfig: sandboxConfig(pod, &o.Sandbox),
	})
	if err != nil {
		return "", wrap("create the container", err)
	}
	return resp.ContainerId, nil
}

// StartContainer starts a container that was created.
func (r *Runtime) StartContainer(ctx context.Context, id string) error {
	ctx, cancel := r.timeout(ctx)
	defer cancel()
	_, err := r.rt.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: id})
	return wrap("start the container", err)
}

// StopContainer sends the container its stop signal, and after the grace
// period KILL. It returns when the container has ended; it is no error if it
// had already, or is gone.
func (r *Runtime) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, grace+r.config.Timeout)
	defer cancel()
	_, err := r.rt.StopContainer(ctx, &runtimeapi.StopContainerRequest{
		ContainerId: id, Timeout: int64(grace / time.Second),
	})
	if err = wrap("stop the container", err); errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// RemoveContainer removes a container. It is no error if it is gone.
func (r *Runtime) RemoveContainer(ctx context.Context, id string) error {
	ctx, cancel := r.timeout(ctx)
	defer cancel()
	_, err := r.rt.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: id})
	return wrap("remove the container", err)
}

// Exec runs a command in a container to its end and returns what it wrote and
// its exit code. The time-out, which 0 leaves to ctx, ends in an error that is
// context.DeadlineExceeded.
func (r *Runtime) Exec(ctx context.Context, id string, command []string, timeout time.Duration) (output []byte, code int, err error) {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout+5*time.Second)
		defer cancel()
	}
	resp, err := r.rt.ExecSync(ctx, &runtimeapi.ExecSyncRequest{
		ContainerId: id, Cmd: command, Timeout: int64(timeout / time.Second),
	})
	if err != nil {
		return nil, 0, wrap("run a command in the container", err)
	}
	return append(resp.Stdout, resp.Stderr...), int(resp.ExitCode), nil
}

// ReopenLog makes the runtime open the container's log file anew, after it
// was moved away.
func (r *Runtime) ReopenLog(ctx context.Context, id string) error {
	ctx, cancel := r.timeout(ctx)
	defer cancel()
	_, err := r.rt.ReopenContainerLog(ctx, &runtimeapi.ReopenContainerLogRequest{ContainerId: id})
	return wrap("reopen the log", err)
}

func (r *Runtime) containerConfig(pod *corev1.Pod, c *corev1.Container, o *ContainerOptions) *runtimeapi.ContainerConfig {
	config := &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{
			Name: c.Name, Attempt: uint32(o.Attempt), //nolint:gosec // a small count
		},
		Image:       &runtimeapi.ImageSpec{Image: o.ImageRef, UserSpecifiedImage: c.Image},
		Command:     o.Command,
		Args:        o.Args,
		WorkingDir:  c.WorkingDir,
		Labels:      containerLabels(pod, c.Name),
		Annotations: containerAnnotations(pod, c, o),
		LogPath:     o.LogPath,
		Stdin:       c.Stdin,
		StdinOnce:   c.StdinOnce,
		Tty:         c.TTY,
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources:       resources(c, o.OOMScoreAdj),
			SecurityContext: r.containerSecurity(pod, c),
		},
	}
	for _, e := range o.Env {
		config.Envs = append(config.Envs, &runtimeapi.KeyValue{Key: e.Name, Value: []byte(e.Value)})
	}
	for _, m := range o.Mounts {
		cm := &runtimeapi.Mount{HostPath: m.HostPath, ContainerPath: m.ContainerPath, Readonly: m.ReadOnly}
		switch m.Propagation {
		case corev1.MountPropagationBidirectional:
			cm.Propagation = runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL
		case corev1.MountPropagationHostToContainer:
			cm.Propagation = runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER
		default:
			cm.Propagation = runtimeapi.MountPropagation_PROPAGATION_PRIVATE
		}
		config.Mounts = append(config.Mounts, cm)
	}
	if c.Lifecycle != nil && c.Lifecycle.StopSignal != nil {
		if n, ok := runtimeapi.Signal_value[string(*c.Lifecycle.StopSignal)]; ok {
			config.StopSignal = runtimeapi.Signal(n)
		}
	}
	return config
}

// resources translates requests and limits into what cgroups know.
func resources(c *corev1.Container, oomScoreAdj int64) *runtimeapi.LinuxContainerResources {
	r := &runtimeapi.LinuxContainerResources{OomScoreAdj: oomScoreAdj}
	request, asked := c.Resources.Requests[corev1.ResourceCPU]
	limit, limited := c.Resources.Limits[corev1.ResourceCPU]
	if !asked && limited {
		request = limit
	}
	r.CpuShares = CPUShares(request.MilliValue())
	if limited {
		r.CpuPeriod = CPUPeriod
		r.CpuQuota = CPUQuota(limit.MilliValue())
	}
	if memory, ok := c.Resources.Limits[corev1.ResourceMemory]; ok {
		r.MemoryLimitInBytes = memory.Value()
	}
	return r
}

// CPUPeriod is the period of CPU limits, in microseconds.
const CPUPeriod = 100_000

// CPUShares returns the cgroup v1 weight of a CPU request in thousandths.
func CPUShares(milli int64) int64 { return max(2, milli*1024/1000) }

// CPUQuota returns the time per CPUPeriod, in microseconds, of a CPU limit in
// thousandths; 0 is no limit.
func CPUQuota(milli int64) int64 {
	if milli == 0 {
		return 0
	}
	return max(1000, milli*CPUPeriod/1000)
}
