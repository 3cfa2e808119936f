// Package nodeports keeps pods apart that need the same port of a node.
package nodeports

import (
	"slices"

	"github.com/proa-project/proa/scheduling/framework"
)

// Name is the plugin's name in profiles.
const Name = "NodePorts"

// Reason is what users read.
const Reason = "node(s) didn't have free ports for the requested pod ports"

// Plugin vetoes nodes where a host port of the pod is taken.
type Plugin struct{}

// Name returns the plugin's name.
func (*Plugin) Name() string { return Name }

// PreFilter skips Filter if the pod needs no port, or no node has one in use.
func (*Plugin) PreFilter(c *framework.Cycle) (framework.Decision, error) {
	return framework.Decision{Skip: len(c.Pod.HostPorts) == 0 || !c.Snapshot.Any(framework.FlagPorts)}, nil
}

// Filter vetoes the nodes with a conflict.
func (*Plugin) Filter(c *framework.Cycle, nodes []int32, v *framework.Verdicts) error {
	var code framework.Code
	for _, i := range nodes {
		if c.Snapshot.Flags[i]&framework.FlagPorts == 0 || !conflict(c.Pod.HostPorts, c.Snapshot.Node(i).Ports) {
			continue
		}
		if code == 0 {
			code = v.Code(framework.Rejection{Reasons: []string{Reason}})
		}
		v.Codes[i] = code
	}
	return nil
}

func conflict(want, used []framework.HostPort) bool {
	return slices.ContainsFunc(want, func(w framework.HostPort) bool {
		return slices.ContainsFunc(used, w.Conflicts)
	})
}

// Events are the changes that may help.
func (*Plugin) Events() framework.Event { return framework.NodeAdded | framework.PodRemoved }

// Helps reports whether a port that the pod needs has become free, or a node
// has come.
func (*Plugin) Helps(pod *framework.PodInfo, c framework.Change) bool {
	return c.OldPod == nil || conflict(pod.HostPorts, c.OldPod.HostPorts)
}

// Sign tells pods apart by their host ports.
func (*Plugin) Sign(c *framework.Cycle, key []byte) ([]byte, bool) {
	key = framework.AppendInt(key, int64(len(c.Pod.HostPorts)))
	for _, h := range c.Pod.HostPorts {
		key = framework.AppendInt(framework.AppendString(framework.AppendString(key, h.Address), string(h.Protocol)), int64(h.Port))
	}
	return key, true
}
