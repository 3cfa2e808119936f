package simulated

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// place is where a pod is: the addresses of its node and its own.
type place struct{ host, ip string }

// status returns the status of a pod in a state: what p has, with the node's
// part replaced. Conditions of others stay.
func status(p *corev1.Pod, s pod, b behaviour, at place, now time.Time) corev1.PodStatus {
	out := *p.Status.DeepCopy()
	start := metav1.NewTime(s.accepted)
	out.StartTime = &start
	out.ObservedGeneration = p.Generation
	out.HostIP, out.HostIPs = at.host, []corev1.HostIP{{IP: at.host}}
	out.Phase = phase(s)
	out.Reason, out.Message = s.reason, s.message
	sandbox := s.stage != accepted && s.stage != refused && !s.begun.IsZero()
	if sandbox {
		out.PodIP, out.PodIPs = at.ip, []corev1.PodIP{{IP: at.ip}}
	}
	if s.stage == refused {
		out.ContainerStatuses, out.InitContainerStatuses = nil, nil
		setConditions(p, s, &out, false, now)
		return out
	}
	out.InitContainerStatuses = initStatuses(p, s, b)
	out.ContainerStatuses = containerStatuses(p, s)
	setConditions(p, s, &out, sandbox && s.stage != ended && s.stage != stopped, now)
	return out
}

func phase(s pod) corev1.PodPhase {
	switch s.stage {
	case running, waiting, stopping:
		return corev1.PodRunning
	case refused:
		return corev1.PodFailed
	case ended, stopped:
		if s.exit == 0 && !s.started.IsZero() {
			return corev1.PodSucceeded
		}
		return corev1.PodFailed
	default:
		return corev1.PodPending
	}
}

// containerStatuses are those of the containers proper, which all do the same.
func containerStatuses(p *corev1.Pod, s pod) []corev1.ContainerStatus {
	list := make([]corev1.ContainerStatus, len(p.Spec.Containers))
	for i := range p.Spec.Containers {
		c := newStatus(&p.Spec.Containers[i])
		c.RestartCount = s.restarts
		if !s.started.IsZero() {
			c.ContainerID = containerID(p, c.Name, s.restarts)
			c.ImageID = imageID(c.Image)
		}
		switch s.stage {
		case running, stopping:
			c.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(s.started)}
			ready := true
			c.Ready, c.Started = true, &ready
			if s.restarts > 0 {
				c.LastTerminationState.Terminated = terminated(p, c.Name, s.exit, s.previous, s.finished, s.restarts-1)
			}
		case waiting:
			c.State.Waiting = &corev1.ContainerStateWaiting{
				Reason: "CrashLoopBackOff", Message: "back-off " + backoff(s.restarts).String() + " restarting failed container=" + c.Name + " pod=" + p.Name + "_" + p.Namespace + "(" + string(p.UID) + ")",
			}
			c.LastTerminationState.Terminated = terminated(p, c.Name, s.exit, s.previous, s.finished, s.restarts)
		case ended, stopped:
			if s.started.IsZero() {
				c.State.Terminated = &corev1.ContainerStateTerminated{
					ExitCode: 137, Reason: "ContainerStatusUnknown",
					Message: "The container could not be located when the pod was terminated",
				}
				break
			}
			c.State.Terminated = terminated(p, c.Name, s.exit, s.started, s.finished, s.restarts)
		default:
			reason := "ContainerCreating"
			if len(p.Spec.InitContainers) > 0 {
				reason = "PodInitializing"
			}
			c.State.Waiting = &corev1.ContainerStateWaiting{Reason: reason}
		}
		list[i] = c
	}
	return list
}

// initStatuses are those of the init containers, each of which runs for the
// start latency, and of the sidecars among them, which go on running.
func initStatuses(p *corev1.Pod, s pod, b behaviour) []corev1.ContainerStatus {
	if len(p.Spec.InitContainers) == 0 {
		return nil
	}
	list := make([]corev1.ContainerStatus, len(p.Spec.InitContainers))
	before := 0 // init containers that run to completion and stand before
	over := s.stage == ended || s.stage == stopped
	for i := range p.Spec.InitContainers {
		spec := &p.Spec.InitContainers[i]
		c := newStatus(spec)
		begin := s.begun.Add(time.Duration(before) * b.start)
		reached := !s.begun.IsZero() && s.initDone >= before
		if reached {
			c.ContainerID, c.ImageID = containerID(p, c.Name, 0), imageID(c.Image)
		}
		sidecar := isSidecar(spec)
		up := true
		switch {
		case !reached:
			c.State.Waiting = &corev1.ContainerStateWaiting{Reason: "PodInitializing"}
		case over && (sidecar || s.initDone <= before):
			c.State.Terminated = terminated(p, c.Name, 0, begin, s.since, 0)
		case sidecar:
			c.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(begin)}
			c.Ready, c.Started = true, &up
		case s.initDone > before:
			c.State.Terminated = terminated(p, c.Name, 0, begin, begin.Add(b.start), 0)
			c.Ready = true
		default:
			c.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(begin)}
			c.Started = &up
		}
		if !sidecar {
			before++
		}
		list[i] = c
	}
	return list
}

func newStatus(c *corev1.Container) corev1.ContainerStatus {
	no := false
	return corev1.ContainerStatus{Name: c.Name, Image: c.Image, Started: &no}
}

func terminated(p *corev1.Pod, name string, exit int32, from, to time.Time, restarts int32) *corev1.ContainerStateTerminated {
	reason := "Completed"
	if exit != 0 {
		reason = "Error"
	}
	return &corev1.ContainerStateTerminated{
		ExitCode: exit, Reason: reason, StartedAt: metav1.NewTime(from), FinishedAt: metav1.NewTime(to),
		ContainerID: containerID(p, name, restarts),
	}
}

func containerID(p *corev1.Pod, name string, restarts int32) string {
	id := "simulated://" + string(p.UID) + "/" + name
	if restarts > 0 {
		id += "/" + itoa(restarts)
	}
	return id
}

func imageID(image string) string { return "simulated://" + image }

// setConditions sets the conditions that a node decides.
func setConditions(p *corev1.Pod, s pod, out *corev1.PodStatus, sandbox bool, now time.Time) {
	set := func(t corev1.PodConditionType, ok bool, reason, message string) {
		c := corev1.PodCondition{
			Type: t, Status: corev1.ConditionFalse, Reason: reason, Message: message,
			ObservedGeneration: p.Generation, LastTransitionTime: metav1.NewTime(now),
		}
		if ok {
			c.Status = corev1.ConditionTrue
		}
		out.Conditions = withCondition(out.Conditions, c)
	}
	set(corev1.PodReadyToStartContainers, sandbox, "", "")
	over := out.Phase == corev1.PodSucceeded || out.Phase == corev1.PodFailed
	switch incomplete := incompleteInits(out); {
	case out.Phase == corev1.PodSucceeded:
		set(corev1.PodInitialized, true, "PodCompleted", "")
	case len(incomplete) > 0 && s.stage != refused:
		set(corev1.PodInitialized, false, "ContainersNotInitialized", "containers with incomplete status: ["+strings.Join(incomplete, " ")+"]")
	default:
		set(corev1.PodInitialized, s.stage != refused, "", "")
	}
	var reason, message string
	ready := s.stage == running || s.stage == stopping
	switch {
	case out.Phase == corev1.PodSucceeded:
		reason = "PodCompleted"
	case out.Phase == corev1.PodFailed:
		reason = "PodFailed"
	case !ready:
		reason = "ContainersNotReady"
		names := make([]string, len(p.Spec.Containers))
		for i := range p.Spec.Containers {
			names[i] = p.Spec.Containers[i].Name
		}
		message = "containers with unready status: [" + strings.Join(names, " ") + "]"
	}
	set(corev1.ContainersReady, ready, reason, message)
	if !over && ready {
		if missing := openGates(p); missing != "" {
			ready, reason, message = false, "ReadinessGatesNotReady", missing
		}
	}
	set(corev1.PodReady, ready, reason, message)
	if !slices.ContainsFunc(out.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled }) {
		set(corev1.PodScheduled, true, "", "")
	}
}

// incompleteInits names the init containers that have neither completed nor,
// as sidecars, been started.
func incompleteInits(out *corev1.PodStatus) []string {
	var names []string
	for i := range out.InitContainerStatuses {
		c := &out.InitContainerStatuses[i]
		if !c.Ready && c.State.Terminated == nil {
			names = append(names, c.Name)
		}
	}
	return names
}

// openGates says which readiness gates are not open.
func openGates(p *corev1.Pod) string {
	var list []string
	for _, g := range p.Spec.ReadinessGates {
		i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == g.ConditionType })
		switch {
		case i < 0:
			list = append(list, `corresponding condition of pod readiness gate "`+string(g.ConditionType)+`" does not exist.`)
		case p.Status.Conditions[i].Status != corev1.ConditionTrue:
			list = append(list, `the status of pod readiness gate "`+string(g.ConditionType)+`" is not "True", but `+string(p.Status.Conditions[i].Status))
		}
	}
	return strings.Join(list, ", ")
}

// withCondition returns the conditions with one set; the time of its last
// transition stays if its status does.
func withCondition(have []corev1.PodCondition, c corev1.PodCondition) []corev1.PodCondition {
	for i := range have {
		if have[i].Type == c.Type {
			if have[i].Status == c.Status && !have[i].LastTransitionTime.IsZero() {
				c.LastTransitionTime = have[i].LastTransitionTime
			}
			have[i] = c
			return have
		}
	}
	return append(have, c)
}
