package podworker

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// showError is how long a failed pull shows as such before it shows as a
// back-off.
const showError = 3 * time.Second

// Status returns the pod's status. What others wrote into the one that pod
// has (conditions, nominated node, QoS class) is kept.
func Status(pod *corev1.Pod, o Observed, now time.Time) corev1.PodStatus {
	v := view{pod: pod, o: &o, now: now}
	end := v.finished()
	over := end != notFinished || (pod.DeletionTimestamp != nil || o.Gone) && !v.anyLive() && len(o.Containers) > 0

	s := *pod.Status.DeepCopy()
	s.ObservedGeneration = pod.Generation
	if s.QOSClass == "" {
		s.QOSClass = QOS(pod)
	}
	if s.StartTime == nil {
		start := seconds(now)
		s.StartTime = &start
	}
	s.InitContainerStatuses, s.ContainerStatuses = nil, nil
	initialized := v.initialized()
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		s.InitContainerStatuses = append(s.InitContainerStatuses, v.containerStatus(c, over, initialized))
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		s.ContainerStatuses = append(s.ContainerStatuses, v.containerStatus(c, over, initialized))
	}
	s.Phase = v.phase(over, initialized, &s)
	if end == byDeadline && s.Phase == corev1.PodFailed && s.Reason == "" {
		s.Reason = "DeadlineExceeded"
		s.Message = "Pod was active on the node longer than the specified deadline"
	}
	v.addresses(&s)
	v.conditions(&s, initialized)
	return s
}

func (v *view) anyLive() bool {
	return slices.ContainsFunc(v.o.Containers, func(c Container) bool { return live(c.State) })
}

// initialized tells whether the init containers are through.
func (v *view) initialized() bool {
	current := v.o.newestSandbox()
	if current == nil {
		return len(v.pod.Spec.InitContainers) == 0
	}
	if v.begun(current) {
		return true
	}
	for i := range v.pod.Spec.InitContainers {
		c := &v.pod.Spec.InitContainers[i]
		last := v.latestIn(c.Name, current)
		switch {
		case last == nil:
			return false
		case sidecar(c):
			if !v.started(c, current) {
				return false
			}
		case last.State != Exited || last.ExitCode != 0:
			return false
		}
	}
	return true
}

// phase returns the pod's phase; over means that no container starts again.
func (v *view) phase(over, initialized bool, s *corev1.PodStatus) corev1.PodPhase {
	switch v.pod.Status.Phase {
	case corev1.PodFailed, corev1.PodSucceeded:
		return v.pod.Status.Phase // an end is the end
	default:
	}
	waiting, failed := 0, 0
	for _, c := range s.ContainerStatuses {
		switch {
		case c.State.Terminated != nil && c.State.Terminated.ExitCode != 0:
			failed++
		case c.State.Waiting != nil && c.LastTerminationState.Terminated == nil:
			waiting++
		}
	}
	switch {
	case over && v.anyLive():
		// still ending: what it will have been is not known yet
		if waiting == len(s.ContainerStatuses) {
			return corev1.PodPending
		}
		return corev1.PodRunning
	case over && failed == 0 && waiting == 0:
		return corev1.PodSucceeded
	case over:
		return corev1.PodFailed
	case !initialized || waiting > 0:
		return corev1.PodPending
	default:
		return corev1.PodRunning
	}
}

// containerStatus returns the status of one container; over means that it does
// not start again.
func (v *view) containerStatus(c *corev1.Container, over, initialized bool) corev1.ContainerStatus {
	s := corev1.ContainerStatus{Name: c.Name, Image: c.Image}
	init := isInit(v.pod, c.Name)
	all := v.o.instances(c.Name)
	if len(all) == 0 {
		v.unseen(c, &s, over, init, initialized)
		started := false
		s.Started = &started
		return s
	}
	last := &all[0]
	s.RestartCount = int32(last.Attempt) //nolint:gosec // far below 2^31
	s.ImageID = last.ImageID
	s.ContainerID = v.o.Runtime + "://" + last.ID
	if len(all) > 1 {
		if t := v.terminated(&all[1]); t != nil {
			s.LastTerminationState.Terminated = t
		}
	}
	started := false
	switch last.State {
	case Running:
		s.State.Running = &corev1.ContainerStateRunning{StartedAt: seconds(last.StartedAt)}
		p := v.o.Probes[last.ID]
		started = c.StartupProbe == nil || p.Started
		s.Ready = started && (c.ReadinessProbe == nil || p.Ready)
		if init && !sidecar(c) {
			s.Ready = false
		}
	case Exited, Unknown:
		t := v.terminated(last)
		s.State.Terminated = t
		if w := v.backingOff(c, last, over); w != nil {
			s.State = corev1.ContainerState{Waiting: w}
			s.LastTerminationState.Terminated = t
		}
		s.Ready = init && !sidecar(c) && last.State == Exited && last.ExitCode == 0
	case Created:
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: v.waitingReason(init, initialized)}
		if f := v.o.Attempts[c.Name]; f.NotStarted == last.ID {
			s.State.Waiting.Reason, s.State.Waiting.Message = f.Failure.Reason, f.Failure.Message
		}
	}
	s.Started = &started
	return s
}

// unseen fills the status of a container of which the runtime has nothing.
func (v *view) unseen(c *corev1.Container, s *corev1.ContainerStatus, over, init, initialized bool) {
	old := statusOf(v.pod, c.Name)
	if old != nil && old.State.Terminated != nil && (over || init && initialized) {
		*s = *old.DeepCopy()
		return
	}
	s.State.Waiting = &corev1.ContainerStateWaiting{Reason: v.waitingReason(init, initialized)}
	if old != nil && old.ContainerID != "" {
		// it was there once: the runtime lost it
		lost := old.State.Terminated
		if lost == nil {
			lost = &corev1.ContainerStateTerminated{
				ExitCode: 137, Reason: "ContainerStatusUnknown", ContainerID: old.ContainerID,
				Message: "The container could not be located when the pod was terminated",
			}
		}
		s.RestartCount, s.ImageID, s.ContainerID = old.RestartCount, old.ImageID, old.ContainerID
		if over {
			s.State = corev1.ContainerState{Terminated: lost}
			return
		}
		s.LastTerminationState.Terminated = lost
	}
	if w := v.attemptFailed(c); w != nil {
		s.State.Waiting = w
	}
}

func (v *view) waitingReason(init, initialized bool) string {
	if len(v.pod.Spec.InitContainers) > 0 && !initialized && v.o.newestSandbox() != nil || init && v.o.newestSandbox() != nil {
		return "PodInitializing"
	}
	if len(v.pod.Spec.InitContainers) > 0 && !initialized {
		return "PodInitializing"
	}
	return "ContainerCreating"
}

// backingOff returns the waiting state of a container that ended and starts
// again later, nil if it does not or is about to.
func (v *view) backingOff(c *corev1.Container, last *Container, over bool) *corev1.ContainerStateWaiting {
	if over || v.pod.DeletionTimestamp != nil || last.State != Exited || !v.restarts(c, last) {
		return nil
	}
	if w := v.attemptFailed(c); w != nil {
		return w
	}
	d := crashDelay(last)
	if d == 0 || !last.FinishedAt.Add(d).After(v.now) {
		return nil
	}
	return &corev1.ContainerStateWaiting{
		Reason: "CrashLoopBackOff",
		Message: fmt.Sprintf("back-off %s restarting failed container=%s pod=%s_%s(%s)",
			d, c.Name, v.pod.Name, v.pod.Namespace, v.pod.UID),
	}
}

// attemptFailed returns the waiting state of a container whose next instance
// could not be made.
func (v *view) attemptFailed(c *corev1.Container) *corev1.ContainerStateWaiting {
	a := v.o.Attempts[c.Name]
	if a.Failure.Count == 0 || a.Image != c.Image {
		return nil
	}
	w := &corev1.ContainerStateWaiting{Reason: a.Failure.Reason, Message: a.Failure.Message}
	if w.Reason == ErrImagePull && v.now.Sub(a.Failure.At) >= showError {
		w.Reason = ImagePullBackOff
		w.Message = fmt.Sprintf("Back-off pulling image %q: %s: %s", c.Image, ErrImagePull, a.Failure.Message)
	}
	return w
}

// Reasons of a waiting container, as Failure.Reason and in the status.
const (
	ErrImagePull               = "ErrImagePull"
	ImagePullBackOff           = "ImagePullBackOff"
	ErrImageNeverPull          = "ErrImageNeverPull"
	InvalidImageName           = "InvalidImageName"
	ImageInspectError          = "ImageInspectError"
	CreateContainerConfigError = "CreateContainerConfigError"
	CreateContainerError       = "CreateContainerError"
	RunContainerError          = "RunContainerError"
	CrashLoopBackOff           = "CrashLoopBackOff"
)

// terminated returns how an instance ended, nil if it did not.
func (v *view) terminated(c *Container) *corev1.ContainerStateTerminated {
	t := &corev1.ContainerStateTerminated{
		ExitCode: c.ExitCode, Reason: c.Reason, Message: c.Message,
		StartedAt: seconds(c.StartedAt), FinishedAt: seconds(c.FinishedAt),
		ContainerID: v.o.Runtime + "://" + c.ID,
	}
	switch {
	case c.State == Unknown:
		t.ExitCode, t.Reason = 137, "ContainerStatusUnknown"
		t.Message = "The container could not be located when the pod was terminated"
	case c.State != Exited:
		return nil
	case t.Reason == "" && c.ExitCode == 0:
		t.Reason = "Completed"
	case t.Reason == "":
		t.Reason = "Error"
	}
	if c.FinishedAt.Before(c.StartedAt) { // clocks of shim and daemon differ by a little
		t.FinishedAt = t.StartedAt
	}
	return t
}

// seconds returns a time as the API keeps it.
func seconds(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }

func (v *view) addresses(s *corev1.PodStatus) {
	if len(v.o.HostIPs) > 0 {
		s.HostIP, s.HostIPs = v.o.HostIPs[0], nil
		for _, ip := range v.o.HostIPs {
			s.HostIPs = append(s.HostIPs, corev1.HostIP{IP: ip})
		}
	}
	var ips []string
	current := v.o.newestSandbox()
	switch {
	case v.pod.Spec.HostNetwork:
		if current != nil {
			ips = v.o.HostIPs
		}
	case current != nil && current.Ready:
		ips = current.IPs
	case s.Phase == corev1.PodRunning || s.Phase == corev1.PodFailed || s.Phase == corev1.PodSucceeded:
		return // it keeps the last one it had
	}
	s.PodIP, s.PodIPs = "", nil
	for _, ip := range ips {
		s.PodIPs = append(s.PodIPs, corev1.PodIP{IP: ip})
	}
	if len(ips) > 0 {
		s.PodIP = ips[0]
	}
}

// names joins container names as condition messages do.
func names(list []string) string { return "[" + strings.Join(list, " ") + "]" }
