// Package tainttoleration keeps pods off nodes with taints that they do not
// tolerate.
package tainttoleration

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/proa-project/proa/scheduling/framework"
)

// Name is the plugin's name in profiles.
const Name = "TaintToleration"

// Reason is what users read.
const Reason = "node(s) had untolerated taint(s)"

// Plugin vetoes nodes with a NoSchedule or NoExecute taint that the pod does
// not tolerate, and prefers nodes with few such PreferNoSchedule taints.
type Plugin struct{}

// Name returns the plugin's name.
func (*Plugin) Name() string { return Name }

// PreFilter skips Filter if no node has a taint that could veto.
func (*Plugin) PreFilter(c *framework.Cycle) (framework.Decision, error) {
	return framework.Decision{Skip: !c.Snapshot.Any(framework.FlagHardTaint)}, nil
}

// Filter vetoes the nodes with a taint that is not tolerated.
func (*Plugin) Filter(c *framework.Cycle, nodes []int32, v *framework.Verdicts) error {
	tolerations := c.Pod.Pod.Spec.Tolerations
	var code framework.Code
	for _, i := range nodes {
		if c.Snapshot.Flags[i]&framework.FlagHardTaint == 0 || !repelled(c.Snapshot.Node(i).Node, tolerations) {
			continue
		}
		if code == 0 {
			code = v.Code(framework.Rejection{Reasons: []string{Reason}, Unresolvable: true})
		}
		v.Codes[i] = code
	}
	return nil
}

func repelled(node *corev1.Node, tolerations []corev1.Toleration) bool {
	for i := range node.Spec.Taints {
		t := &node.Spec.Taints[i]
		hard := t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
		if hard && !framework.Tolerated(tolerations, t) {
			return true
		}
	}
	return false
}

// PreScore keeps the tolerations that can matter, and skips Score if no node
// has a PreferNoSchedule taint.
func (p *Plugin) PreScore(c *framework.Cycle, _ []int32) (bool, error) {
	if !c.Snapshot.Any(framework.FlagSoftTaint) {
		return true, nil
	}
	soft := slices.DeleteFunc(slices.Clone(c.Pod.Pod.Spec.Tolerations), func(t corev1.Toleration) bool {
		return t.Effect != "" && t.Effect != corev1.TaintEffectPreferNoSchedule
	})
	c.SetState(p, soft)
	return false, nil
}

// Score counts the taints that the pod would rather avoid.
func (p *Plugin) Score(c *framework.Cycle, nodes []int32, scores []int64) error {
	tolerations, _ := c.State(p).([]corev1.Toleration)
	for k, i := range nodes {
		if c.Snapshot.Flags[i]&framework.FlagSoftTaint == 0 {
			continue
		}
		node := c.Snapshot.Node(i).Node
		for j := range node.Spec.Taints {
			t := &node.Spec.Taints[j]
			if t.Effect == corev1.TaintEffectPreferNoSchedule && !framework.Tolerated(tolerations, t) {
				scores[k]++
			}
		}
	}
	return nil
}

// NormalizeScore gives the node with the most such taints 0.
func (*Plugin) NormalizeScore(_ *framework.Cycle, _ []int32, scores []int64) error {
	framework.Normalize(scores, true)
	return nil
}

// Events are the changes that may help.
func (*Plugin) Events() framework.Event {
	return framework.NodeAdded | framework.NodeTaints | framework.PodOwn
}

// Helps reports whether the node's taints let the pod in now.
func (*Plugin) Helps(pod *framework.PodInfo, c framework.Change) bool {
	return c.Node == nil || !repelled(c.Node, pod.Pod.Spec.Tolerations)
}

// Sign tells pods apart by their tolerations. Preferences are relative to other
// nodes.
func (*Plugin) Sign(c *framework.Cycle, key []byte) ([]byte, bool) {
	if c.Snapshot.Any(framework.FlagSoftTaint) {
		return key, false
	}
	return framework.AppendTolerations(key, c.Pod.Pod.Spec.Tolerations), true
}
