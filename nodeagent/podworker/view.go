package podworker

import (
	"iter"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// live tells whether something may still run in a container of the state.
func live(s ContainerState) bool { return s == Running || s == Unknown }

// sidecar tells whether an init container stays for the life of the pod.
func sidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

func isInit(pod *corev1.Pod, name string) bool {
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == name {
			return true
		}
	}
	return false
}

func (v *view) isSidecar(name string) bool {
	for i := range v.pod.Spec.InitContainers {
		if c := &v.pod.Spec.InitContainers[i]; c.Name == name {
			return sidecar(c)
		}
	}
	return false
}

// containers goes over the init containers and the containers.
func (v *view) containers() iter.Seq[*corev1.Container] {
	return func(yield func(*corev1.Container) bool) {
		for i := range v.pod.Spec.InitContainers {
			if !yield(&v.pod.Spec.InitContainers[i]) {
				return
			}
		}
		for i := range v.pod.Spec.Containers {
			if !yield(&v.pod.Spec.Containers[i]) {
				return
			}
		}
	}
}

// latest returns the newest instance of a container, nil if there is none.
func (v *view) latest(name string) *Container {
	if all := v.o.instances(name); len(all) > 0 {
		return &all[0]
	}
	return nil
}

// latestIn returns the newest instance in a sandbox.
func (v *view) latestIn(name string, s *Sandbox) *Container {
	for _, c := range v.o.instances(name) {
		if s != nil && c.SandboxID == s.ID {
			return &c
		}
	}
	return nil
}

// started tells whether a container runs in the sandbox and is through its
// startup probe.
func (v *view) started(c *corev1.Container, current *Sandbox) bool {
	last := v.latestIn(c.Name, current)
	if last == nil || last.State != Running {
		return false
	}
	return c.StartupProbe == nil || v.o.Probes[last.ID].Started
}

// restarts tells whether a container that ended as last did starts again.
func (v *view) restarts(c *corev1.Container, last *Container) bool {
	failed := last.ExitCode != 0 || last.Hash != "" && last.Hash != Hash(c)
	if c.RestartPolicy != nil {
		switch *c.RestartPolicy {
		case corev1.ContainerRestartPolicyAlways:
			return true
		case corev1.ContainerRestartPolicyNever:
			return false
		case corev1.ContainerRestartPolicyOnFailure:
			return failed
		}
	}
	switch v.pod.Spec.RestartPolicy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return failed
	default:
		return failed || !isInit(v.pod, c.Name)
	}
}

// An ending is why a pod is over though nobody deleted it.
type ending int

const (
	notFinished   ending = iota
	byPhase              // the API says so: Failed or Succeeded
	byDeadline           // activeDeadlineSeconds
	byInit               // an init container failed for good
	bySandbox            // the sandbox went, and the pod must not restart
	byTermination        // all containers ended for good
)

// finished tells whether, and why, the pod's containers must not run any more.
func (v *view) finished() ending {
	switch v.pod.Status.Phase {
	case corev1.PodFailed, corev1.PodSucceeded:
		return byPhase
	default:
	}
	if d := v.deadline(); !d.IsZero() && !d.After(v.now) {
		return byDeadline
	}
	current := v.o.newestSandbox()
	for i := range v.pod.Spec.InitContainers {
		c := &v.pod.Spec.InitContainers[i]
		if last := v.latestIn(c.Name, current); last != nil && !sidecar(c) &&
			last.State == Exited && last.ExitCode != 0 && !v.restarts(c, last) && !v.begun(current) {
			return byInit
		}
	}
	ended := 0
	for i := range v.pod.Spec.Containers {
		c := &v.pod.Spec.Containers[i]
		if last := v.latest(c.Name); last != nil && last.State == Exited && !v.restarts(c, last) {
			ended++
		}
	}
	if ended == len(v.pod.Spec.Containers) && ended > 0 {
		return byTermination
	}
	if v.pod.Spec.RestartPolicy == corev1.RestartPolicyNever &&
		current != nil && !current.Ready && len(v.o.Containers) > 0 {
		return bySandbox
	}
	return notFinished
}

// deadline returns when the pod's time is up, zero if it has no limit.
func (v *view) deadline() time.Time {
	if s := v.pod.Spec.ActiveDeadlineSeconds; s != nil && v.pod.Status.StartTime != nil {
		return v.pod.Status.StartTime.Add(time.Duration(*s) * time.Second)
	}
	return time.Time{}
}

// statusOf returns the status that the API has of a container.
func statusOf(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}
