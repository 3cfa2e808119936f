// Package nodelifecycle notices nodes that have gone silent: it marks them,
// taints them, and moves their pods away.
package nodelifecycle

import (
	"cmp"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A heartbeat is when a node was last heard of, by this process's clock: the
// clocks of nodes are not trusted.
type heartbeat struct {
	// at is when the last sign of life came in.
	at time.Time
	// lease and status are that sign, to notice the next one.
	lease  time.Time
	status time.Time
}

// hear returns the heartbeat after a look at the node and its lease, which may
// be nil.
func hear(h heartbeat, n *corev1.Node, l *coordinationv1.Lease, now time.Time) heartbeat {
	var lease, status time.Time
	if l != nil && l.Spec.RenewTime != nil {
		lease = l.Spec.RenewTime.Time
	}
	if c := condition(n, corev1.NodeReady); c != nil {
		status = c.LastHeartbeatTime.Time
	}
	if h.at.IsZero() || lease.After(h.lease) || status.After(h.status) {
		h.at = now
	}
	h.lease, h.status = lease, status
	return h
}

func condition(n *corev1.Node, t corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == t {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}

// readiness is the status of the node's Ready condition.
func readiness(n *corev1.Node) corev1.ConditionStatus {
	if c := condition(n, corev1.NodeReady); c != nil {
		return c.Status
	}
	return corev1.ConditionUnknown
}

// silence returns the conditions of a node that has not been heard of: all
// that only the node could know is Unknown. They are nil if nothing changes.
func silence(n *corev1.Node, now time.Time) []corev1.NodeCondition {
	out := slices.Clone(n.Status.Conditions)
	changed := false
	for _, t := range []corev1.NodeConditionType{
		corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure,
	} {
		i := slices.IndexFunc(out, func(c corev1.NodeCondition) bool { return c.Type == t })
		if i < 0 {
			out = append(out, corev1.NodeCondition{
				Type: t, Status: corev1.ConditionUnknown, Reason: "NodeStatusNeverUpdated",
				Message: "Kubelet never posted node status.", LastHeartbeatTime: n.CreationTimestamp, LastTransitionTime: metav1.NewTime(now),
			})
			changed = true
			continue
		}
		if c := &out[i]; c.Status != corev1.ConditionUnknown {
			c.Status, c.Reason, c.Message = corev1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status."
			c.LastTransitionTime = metav1.NewTime(now)
			changed = true
		}
	}
	if !changed {
		return nil
	}
	return out
}

// conditionTaints are the taints that stand for a condition.
var conditionTaints = []struct { //nolint:gochecknoglobals // a constant table
	condition corev1.NodeConditionType
	status    corev1.ConditionStatus
	key       string
}{
	{corev1.NodeReady, corev1.ConditionFalse, corev1.TaintNodeNotReady},
	{corev1.NodeReady, corev1.ConditionUnknown, corev1.TaintNodeUnreachable},
	{corev1.NodeMemoryPressure, corev1.ConditionTrue, corev1.TaintNodeMemoryPressure},
	{corev1.NodeDiskPressure, corev1.ConditionTrue, corev1.TaintNodeDiskPressure},
	{corev1.NodePIDPressure, corev1.ConditionTrue, corev1.TaintNodePIDPressure},
	{corev1.NodeNetworkUnavailable, corev1.ConditionTrue, corev1.TaintNodeNetworkUnavailable},
}

// owned tells whether the loop alone decides about a taint.
func owned(t *corev1.Taint) bool {
	if t.Effect == corev1.TaintEffectNoExecute {
		return t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable
	}
	if t.Effect != corev1.TaintEffectNoSchedule {
		return false
	}
	for _, c := range conditionTaints {
		if c.key == t.Key {
			return true
		}
	}
	return t.Key == corev1.TaintNodeUnschedulable
}

// taints returns the taints that the node should have. Those of others stay as
// they are. Evict is whether a node that is not ready should lose its pods.
func taints(n *corev1.Node, evict bool, now time.Time) []corev1.Taint {
	var want []corev1.Taint
	add := func(key string, effect corev1.TaintEffect) {
		t := corev1.Taint{Key: key, Effect: effect}
		if effect == corev1.TaintEffectNoExecute {
			at := metav1.NewTime(now)
			t.TimeAdded = &at
		}
		want = append(want, t)
	}
	for _, c := range conditionTaints {
		have := condition(n, c.condition)
		if have == nil || have.Status != c.status {
			continue
		}
		add(c.key, corev1.TaintEffectNoSchedule)
		if c.condition == corev1.NodeReady && evict {
			add(c.key, corev1.TaintEffectNoExecute)
		}
	}
	if n.Spec.Unschedulable {
		add(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule)
	}
	var out []corev1.Taint
	for i := range n.Spec.Taints {
		t := &n.Spec.Taints[i]
		if !owned(t) {
			out = append(out, *t)
			continue
		}
		if j := slices.IndexFunc(want, func(w corev1.Taint) bool { return t.MatchTaint(&w) }); j >= 0 {
			out = append(out, *t) // with the time when it was added
			want = slices.Delete(want, j, j+1)
		}
	}
	return append(out, want...)
}

func sameTaints(a, b []corev1.Taint) bool {
	return len(a) == len(b) && apiequality.Semantic.DeepEqual(a, b)
}

// eviction returns when a pod has to leave a node with these taints; ok is
// false if it may stay. Of the tolerations of one taint the first counts.
func eviction(p *corev1.Pod, ts []corev1.Taint, now time.Time) (at time.Time, ok bool) {
	for i := range ts {
		t := &ts[i]
		if t.Effect != corev1.TaintEffectNoExecute {
			continue
		}
		leave := now
		if t.TimeAdded != nil {
			leave = t.TimeAdded.Time
		}
		j := slices.IndexFunc(p.Spec.Tolerations, func(tol corev1.Toleration) bool { return tolerates(&tol, t) })
		if j >= 0 {
			s := p.Spec.Tolerations[j].TolerationSeconds
			if s == nil {
				continue // tolerated for ever
			}
			leave = leave.Add(time.Duration(max(0, *s)) * time.Second)
		}
		if !ok || leave.Before(at) {
			at, ok = leave, true
		}
	}
	return at, ok
}

// tolerates tells whether a toleration matches a taint.
func tolerates(tol *corev1.Toleration, t *corev1.Taint) bool {
	if tol.Effect != "" && tol.Effect != t.Effect || tol.Key != "" && tol.Key != t.Key {
		return false
	}
	switch tol.Operator {
	case "", corev1.TolerationOpEqual:
		return tol.Value == t.Value
	case corev1.TolerationOpExists:
		return true
	default:
		return false
	}
}

// notReady returns the conditions of a pod whose node is silent, nil if
// nothing changes.
func notReady(p *corev1.Pod, now time.Time) []corev1.PodCondition {
	i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
	if i < 0 {
		return nil
	}
	out := slices.Clone(p.Status.Conditions)
	out[i].Status, out[i].Reason = corev1.ConditionFalse, "NodeNotReady"
	out[i].LastTransitionTime = metav1.NewTime(now)
	return out
}

// finishedSurplus returns the pods that have finished beyond a number, oldest
// first.
func finishedSurplus(pods []*corev1.Pod, keep int) []*corev1.Pod {
	var done []*corev1.Pod
	for _, p := range pods {
		if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			done = append(done, p)
		}
	}
	if len(done) <= keep {
		return nil
	}
	slices.SortFunc(done, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return done[:len(done)-keep]
}
