package table

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func podColumns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		nameColumn(),
		column("Ready", "string", "Containers that are ready, of all that are to run.", 0),
		column("Status", "string", "What the pod does, or what keeps it from running.", 0),
		column("Restarts", "string", "How often containers were restarted, and when last.", 0),
		ageColumn(),
		column("IP", "string", "Address of the pod.", 1),
		column("Node", "string", "Name of the node.", 1),
		column("Nominated Node", "string", "Node on which room is being made for the pod.", 1),
		column("Readiness Gates", "string", "Readiness gates that are open, of all.", 1),
	}
}

func pod(p *corev1.Pod, now time.Time) []any {
	s := summarize(p)
	restarts := strconv.Itoa(s.restarts)
	if s.restarts != 0 && !s.restarted.IsZero() {
		restarts = fmt.Sprintf("%d (%s ago)", s.restarts, age(s.restarted, now))
	}
	ip := ""
	if len(p.Status.PodIPs) > 0 {
		ip = p.Status.PodIPs[0].IP
	}
	gates := "<none>"
	if n := len(p.Spec.ReadinessGates); n > 0 {
		open := 0
		for _, g := range p.Spec.ReadinessGates {
			if isTrue(p, g.ConditionType) {
				open++
			}
		}
		gates = ratio(open, n)
	}
	return []any{
		p.Name, ratio(s.ready, s.total), s.status, restarts, age(p.CreationTimestamp, now),
		orNone(ip), orNone(p.Spec.NodeName), orNone(p.Status.NominatedNodeName), gates,
	}
}

// A podSummary is what a line says of all containers of a pod.
type podSummary struct {
	status       string
	ready, total int
	restarts     int
	restarted    metav1.Time // when the last of the restarts was
}

// reasonNodeLost is the reason of pods whose node does not answer.
const reasonNodeLost = "NodeLost"

func summarize(p *corev1.Pod) podSummary {
	s := podSummary{status: string(p.Status.Phase), total: len(p.Spec.Containers)}
	if p.Status.Reason != "" {
		s.status = p.Status.Reason
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonSchedulingGated {
			s.status = corev1.PodReasonSchedulingGated
		}
	}
	sidecars := map[string]bool{}
	for i := range p.Spec.InitContainers {
		if r := p.Spec.InitContainers[i].RestartPolicy; r != nil && *r == corev1.ContainerRestartPolicyAlways {
			sidecars[p.Spec.InitContainers[i].Name] = true
			s.total++
		}
	}
	// restarts of sidecars count as long as the pod lives, those of other init
	// containers until it is initialized
	side := podSummary{}
	if !s.initializing(p, sidecars, &side) || isTrue(p, corev1.PodInitialized) {
		s.restarts, s.restarted = side.restarts, side.restarted
		s.running(p)
	}
	switch {
	case p.DeletionTimestamp == nil:
	case p.Status.Reason == reasonNodeLost:
		s.status = "Unknown"
	case p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed:
		s.status = "Terminating"
	}
	return s
}

// initializing looks at the init containers up to the first that has not done
// its part, and says whether there is one.
func (s *podSummary) initializing(p *corev1.Pod, sidecars map[string]bool, side *podSummary) bool {
	for i := range p.Status.InitContainerStatuses {
		c := &p.Status.InitContainerStatuses[i]
		s.countRestarts(c)
		if sidecars[c.Name] {
			side.countRestarts(c)
		}
		ended, waits := c.State.Terminated, c.State.Waiting
		switch {
		case ended != nil && ended.ExitCode == 0:
			continue
		case sidecars[c.Name] && c.Started != nil && *c.Started:
			if c.Ready {
				s.ready++
			}
			continue
		case ended != nil:
			s.status = "Init:" + ending(ended)
		case waits != nil && waits.Reason != "" && waits.Reason != "PodInitializing":
			s.status = "Init:" + waits.Reason
		default:
			s.status = fmt.Sprintf("Init:%d/%d", i, len(p.Spec.InitContainers))
		}
		return true
	}
	return false
}

// running looks at the main containers; what the first of them does is what the
// pod does.
func (s *podSummary) running(p *corev1.Pod) {
	anyRuns := false
	for i := len(p.Status.ContainerStatuses) - 1; i >= 0; i-- {
		c := &p.Status.ContainerStatuses[i]
		s.countRestarts(c)
		switch {
		case c.State.Waiting != nil && c.State.Waiting.Reason != "":
			s.status = c.State.Waiting.Reason
		case c.State.Terminated != nil:
			s.status = ending(c.State.Terminated)
		case c.Ready && c.State.Running != nil:
			anyRuns = true
			s.ready++
		}
	}
	if s.status == "Completed" && anyRuns {
		s.status = "NotReady"
		if isTrue(p, corev1.PodReady) {
			s.status = "Running"
		}
	}
}

func (s *podSummary) countRestarts(c *corev1.ContainerStatus) {
	s.restarts += int(c.RestartCount)
	if t := c.LastTerminationState.Terminated; t != nil && s.restarted.Before(&t.FinishedAt) {
		s.restarted = t.FinishedAt
	}
}

// ending returns how a container ended.
func ending(t *corev1.ContainerStateTerminated) string {
	switch {
	case t.Reason != "":
		return t.Reason
	case t.Signal != 0:
		return fmt.Sprintf("Signal:%d", t.Signal)
	default:
		return fmt.Sprintf("ExitCode:%d", t.ExitCode)
	}
}

func isTrue(p *corev1.Pod, t corev1.PodConditionType) bool {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == t {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
