package framework

import (
	corev1 "k8s.io/api/core/v1"
)

// Event is a set of kinds of changes to the cluster.
type Event uint32

// The changes that can make an unschedulable pod schedulable.
const (
	NodeAdded Event = 1 << iota
	NodeAllocatable
	NodeLabels
	NodeTaints // or spec.unschedulable
	PodAdded   // a pod was bound
	PodRemoved // a bound pod has ended or is deleted
	PodLabels  // of a bound pod
	PodShrunk  // a bound pod asks for less
	PodOwn     // the unschedulable pod itself was updated
	// AnyEvent moves every pod; it is what time does.
	AnyEvent
)

// String names the first of the events, as a label of metrics.
func (e Event) String() string {
	switch {
	case e&NodeAdded != 0:
		return "NodeAdd"
	case e&NodeAllocatable != 0:
		return "NodeAllocatableChange"
	case e&NodeLabels != 0:
		return "NodeLabelChange"
	case e&NodeTaints != 0:
		return "NodeTaintChange"
	case e&PodAdded != 0:
		return "AssignedPodAdd"
	case e&PodRemoved != 0:
		return "AssignedPodDelete"
	case e&PodLabels != 0:
		return "AssignedPodLabelChange"
	case e&PodShrunk != 0:
		return "AssignedPodScaleDown"
	case e&PodOwn != 0:
		return "UnscheduledPodUpdate"
	case e&AnyEvent != 0:
		return "UnschedulableTimeout"
	}
	return "None"
}

// Change is something that happened in the cluster.
type Change struct {
	Event Event
	// OldNode and Node are the versions of the node before and after.
	OldNode, Node *corev1.Node
	// OldPod and Pod are those of the bound pod. Pod is nil if it has gone.
	OldPod, Pod *PodInfo
}

// An EnqueuePlugin knows which changes may undo its rejections. After a
// rejection by a plugin that is none, every change is worth another attempt.
type EnqueuePlugin interface {
	Plugin
	// Events are the changes that Helps wants to see.
	Events() Event
	// Helps reports whether the change may let the pod pass, which this plugin
	// has rejected. It errs on the side of true and must be quick.
	Helps(pod *PodInfo, c Change) bool
}

// Helps reports whether, by one of the plugins that rejected the pod, the
// change is worth another attempt.
func (p *Profile) Helps(pod *PodInfo, rejectedBy []string, c Change) bool {
	if c.Event&AnyEvent != 0 || len(rejectedBy) == 0 {
		return true
	}
	for _, name := range rejectedBy {
		known := false
		for _, plugin := range p.Enqueue {
			if plugin.Name() != name {
				continue
			}
			known = true
			if plugin.Events()&c.Event != 0 && plugin.Helps(pod, c) {
				return true
			}
		}
		if !known {
			return true
		}
	}
	return false
}

// NodeChange compares two versions of a node; the event is 0 if nothing that
// matters has changed.
func NodeChange(old, node *corev1.Node) Change {
	c := Change{OldNode: old, Node: node}
	if old.Spec.Unschedulable != node.Spec.Unschedulable || !sameTaints(old.Spec.Taints, node.Spec.Taints) {
		c.Event |= NodeTaints
	}
	if !sameLabels(old.Labels, node.Labels) {
		c.Event |= NodeLabels
	}
	if !sameResources(old.Status.Allocatable, node.Status.Allocatable) {
		c.Event |= NodeAllocatable
	}
	return c
}

func sameTaints(a, b []corev1.Taint) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Key != b[i].Key || a[i].Value != b[i].Value || a[i].Effect != b[i].Effect {
			return false
		}
	}
	return true
}

func sameLabels(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			return false
		}
	}
	return true
}

func sameResources(a, b corev1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, q := range a {
		o, ok := b[name]
		if !ok || q.Cmp(o) != 0 {
			return false
		}
	}
	return true
}

// PodChange compares two versions of a bound pod.
func PodChange(old, pod *PodInfo) Change {
	c := Change{OldPod: old, Pod: pod}
	if !sameLabels(old.Pod.Labels, pod.Pod.Labels) {
		c.Event |= PodLabels
	}
	if pod.Request.MilliCPU < old.Request.MilliCPU || pod.Request.Memory < old.Request.Memory {
		c.Event |= PodShrunk
	}
	return c
}

// Interest returns the changes that any of the plugins wants to see: all, if
// one that may reject pods does not say.
func (p *Profile) Interest() Event {
	known := make(map[string]bool)
	var events Event
	for _, plugin := range p.Enqueue {
		known[plugin.Name()] = true
		events |= plugin.Events()
	}
	for _, f := range p.filters {
		if !known[f.plugin.Name()] {
			return ^Event(0)
		}
	}
	return events
}
