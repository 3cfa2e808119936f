package podworker

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// conditions sets the conditions that a node is responsible for.
func (v *view) conditions(s *corev1.PodStatus, initialized bool) {
	current := v.o.newestSandbox()
	ready := current != nil && current.Ready
	v.set(s, corev1.PodReadyToStartContainers, ready, "", "")

	var reason, message string
	switch {
	case s.Phase == corev1.PodSucceeded:
		initialized, reason = true, "PodCompleted"
	case !initialized:
		reason = "ContainersNotInitialized"
		message = "containers with incomplete status: " + names(v.unfinishedInit(s))
	}
	v.set(s, corev1.PodInitialized, initialized, reason, message)

	var unready []string
	for i, c := range s.InitContainerStatuses {
		if sidecar(&v.pod.Spec.InitContainers[i]) && !c.Ready {
			unready = append(unready, c.Name)
		}
	}
	for _, c := range s.ContainerStatuses {
		if !c.Ready {
			unready = append(unready, c.Name)
		}
	}
	reason, message = "", ""
	switch {
	case s.Phase == corev1.PodSucceeded:
		reason = "PodCompleted"
	case s.Phase == corev1.PodFailed:
		reason = "PodFailed"
	case len(unready) > 0:
		reason = "ContainersNotReady"
		message = "containers with unready status: " + names(unready)
	}
	v.set(s, corev1.ContainersReady, reason == "", reason, message)

	if reason == "" {
		if gates := v.missingGates(s); len(gates) > 0 {
			reason = "ReadinessGatesNotReady"
			message = fmt.Sprintf("the status of pod readiness gate %q is not %q, but %v", gates[0].gate, "True", gates[0].status)
		}
	}
	v.set(s, corev1.PodReady, reason == "", reason, message)
	if condition(s, corev1.PodScheduled) == nil {
		v.set(s, corev1.PodScheduled, true, "", "")
	}
}

func (v *view) unfinishedInit(s *corev1.PodStatus) []string {
	var list []string
	for i, c := range s.InitContainerStatuses {
		if sidecar(&v.pod.Spec.InitContainers[i]) {
			if c.Started == nil || !*c.Started {
				list = append(list, c.Name)
			}
		} else if !c.Ready {
			list = append(list, c.Name)
		}
	}
	return list
}

type missingGate struct {
	gate   corev1.PodConditionType
	status corev1.ConditionStatus
}

func (v *view) missingGates(s *corev1.PodStatus) []missingGate {
	var list []missingGate
	for _, g := range v.pod.Spec.ReadinessGates {
		c := condition(s, g.ConditionType)
		switch {
		case c == nil:
			list = append(list, missingGate{g.ConditionType, corev1.ConditionFalse})
		case c.Status != corev1.ConditionTrue:
			list = append(list, missingGate{g.ConditionType, c.Status})
		}
	}
	return list
}

func condition(s *corev1.PodStatus, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == t {
			return &s.Conditions[i]
		}
	}
	return nil
}

// set sets a condition, and its transition time if the status changes.
func (v *view) set(s *corev1.PodStatus, t corev1.PodConditionType, is bool, reason, message string) {
	status := corev1.ConditionFalse
	if is {
		status = corev1.ConditionTrue
	}
	c := condition(s, t)
	if c == nil {
		s.Conditions = append(s.Conditions, corev1.PodCondition{Type: t})
		c = &s.Conditions[len(s.Conditions)-1]
	}
	if c.Status != status {
		c.Status = status
		c.LastTransitionTime = seconds(v.now)
	}
	c.Reason, c.Message, c.ObservedGeneration = reason, message, v.pod.Generation
}
