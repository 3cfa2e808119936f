// Package nodeunschedulable keeps pods off cordoned nodes.
package nodeunschedulable

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/proa-project/proa/scheduling/framework"
)

// Name is the plugin's name in profiles.
const Name = "NodeUnschedulable"

// Reason is what users read.
const Reason = "node(s) were unschedulable"

// Plugin vetoes nodes with spec.unschedulable, unless the pod tolerates the
// taint that goes with it.
type Plugin struct{}

// Name returns the plugin's name.
func (*Plugin) Name() string { return Name }

// PreFilter skips Filter if no node is cordoned.
func (*Plugin) PreFilter(c *framework.Cycle) (framework.Decision, error) {
	return framework.Decision{Skip: !c.Snapshot.Any(framework.FlagUnschedulable) || tolerated(c.Pod.Pod)}, nil
}

// Filter vetoes the cordoned nodes.
func (*Plugin) Filter(c *framework.Cycle, nodes []int32, v *framework.Verdicts) error {
	var code framework.Code
	for _, i := range nodes {
		if c.Snapshot.Flags[i]&framework.FlagUnschedulable == 0 {
			continue
		}
		if code == 0 {
			code = v.Code(framework.Rejection{Reasons: []string{Reason}, Unresolvable: true})
		}
		v.Codes[i] = code
	}
	return nil
}

func tolerated(pod *corev1.Pod) bool {
	return framework.Tolerated(pod.Spec.Tolerations, &corev1.Taint{
		Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule,
	})
}

// Events are the changes that may help.
func (*Plugin) Events() framework.Event {
	return framework.NodeAdded | framework.NodeTaints | framework.PodOwn
}

// Helps reports whether the node takes pods now.
func (*Plugin) Helps(pod *framework.PodInfo, c framework.Change) bool {
	return c.Node == nil || !c.Node.Spec.Unschedulable || tolerated(pod.Pod)
}

// Sign tells pods apart that tolerate cordoned nodes from others.
func (*Plugin) Sign(c *framework.Cycle, key []byte) ([]byte, bool) {
	if tolerated(c.Pod.Pod) {
		return append(key, 1), true
	}
	return append(key, 0), true
}
