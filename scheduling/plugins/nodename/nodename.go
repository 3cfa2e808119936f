// Package nodename keeps a pod that names its node off all others.
package nodename

import "github.com/proa-project/proa/scheduling/framework"

// Name is the plugin's name in profiles.
const Name = "NodeName"

// Reason is what users read.
const Reason = "node(s) didn't match the requested node name"

// Plugin vetoes all nodes but the one in the pod's spec.nodeName.
type Plugin struct{}

// Name returns the plugin's name.
func (*Plugin) Name() string { return Name }

// PreFilter skips Filter for pods that name no node.
func (*Plugin) PreFilter(c *framework.Cycle) (framework.Decision, error) {
	return framework.Decision{Skip: c.Pod.Pod.Spec.NodeName == ""}, nil
}

// Filter vetoes the nodes with another name.
func (*Plugin) Filter(c *framework.Cycle, nodes []int32, v *framework.Verdicts) error {
	want, found := c.Snapshot.Index(c.Pod.Pod.Spec.NodeName)
	var code framework.Code
	for _, i := range nodes {
		if found && i == want {
			continue
		}
		if code == 0 {
			code = v.Code(framework.Rejection{Reasons: []string{Reason}, Unresolvable: true})
		}
		v.Codes[i] = code
	}
	return nil
}

// Events are the changes that may help.
func (*Plugin) Events() framework.Event { return framework.NodeAdded }

// Helps reports whether the node is the one that the pod names.
func (*Plugin) Helps(pod *framework.PodInfo, c framework.Change) bool {
	return c.Node == nil || c.Node.Name == pod.Pod.Spec.NodeName
}

// Sign tells pods apart by the node that they name.
func (*Plugin) Sign(c *framework.Cycle, key []byte) ([]byte, bool) {
	return framework.AppendString(key, c.Pod.Pod.Spec.NodeName), true
}
