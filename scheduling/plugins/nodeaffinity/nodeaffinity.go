// Package nodeaffinity places pods by the labels of nodes: nodeSelector, and
// required and preferred node affinity.
package nodeaffinity

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/proa-project/proa/scheduling/framework"
)

// Name is the plugin's name in profiles.
const Name = "NodeAffinity"

// Reason is what users read; ReasonConflict is for terms that name no node in
// common.
const (
	Reason         = "node(s) didn't match Pod's node affinity/selector"
	ReasonConflict = "pod affinity terms conflict"
)

// Plugin vetoes nodes that the pod's nodeSelector or required node affinity
// does not match, and scores the others by the preferred terms.
type Plugin struct{}

// state is what PreFilter and PreScore keep for Filter and Score.
type state struct {
	required  nodeaffinity.RequiredNodeAffinity
	preferred *nodeaffinity.PreferredSchedulingTerms
}

// Name returns the plugin's name.
func (*Plugin) Name() string { return Name }

// PreFilter skips Filter for pods that any node suits, and restricts the nodes
// if every term names one.
func (p *Plugin) PreFilter(c *framework.Cycle) (framework.Decision, error) {
	spec := &c.Pod.Pod.Spec
	if len(spec.NodeSelector) == 0 && requiredTerms(spec) == nil {
		return framework.Decision{Skip: true}, nil
	}
	c.SetState(p, &state{required: nodeaffinity.GetRequiredNodeAffinity(c.Pod.Pod)})
	required := requiredTerms(spec)
	if required == nil {
		return framework.Decision{}, nil
	}
	names, all := namedNodes(required.NodeSelectorTerms)
	if all {
		return framework.Decision{}, nil
	}
	if len(names) == 0 {
		r := framework.Rejection{Reasons: []string{ReasonConflict}, Unresolvable: true}
		return framework.Decision{Rejection: &r}, nil
	}
	d := framework.Decision{Restrict: true}
	for _, name := range names {
		if i, ok := c.Snapshot.Index(name); ok {
			d.Nodes = append(d.Nodes, i)
		}
	}
	return d, nil
}

func requiredTerms(spec *corev1.PodSpec) *corev1.NodeSelector {
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil {
		return nil
	}
	return spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

// namedNodes returns the names of the nodes that the terms can match, or all
// if a term is not bound to names. Terms are alternatives; what is in one must
// all hold.
func namedNodes(terms []corev1.NodeSelectorTerm) (names []string, all bool) {
	if len(terms) == 0 {
		return nil, true
	}
	for _, term := range terms {
		var inTerm []string
		bound := false
		for _, r := range term.MatchFields {
			if r.Key != "metadata.name" || r.Operator != corev1.NodeSelectorOpIn {
				continue
			}
			if !bound {
				inTerm = slices.Clone(r.Values)
			} else {
				inTerm = slices.DeleteFunc(inTerm, func(n string) bool { return !slices.Contains(r.Values, n) })
			}
			bound = true
		}
		if !bound {
			return nil, true
		}
		names = append(names, inTerm...)
	}
	slices.Sort(names)
	return slices.Compact(names), false
}

// Filter vetoes the nodes that do not match.
func (p *Plugin) Filter(c *framework.Cycle, nodes []int32, v *framework.Verdicts) error {
	s, _ := c.State(p).(*state)
	if s == nil {
		s = &state{required: nodeaffinity.GetRequiredNodeAffinity(c.Pod.Pod)}
	}
	var code framework.Code
	for _, i := range nodes {
		// A term that cannot be parsed matches nothing.
		if ok, err := s.required.Match(c.Snapshot.Node(i).Node); ok && err == nil {
			continue
		}
		if code == 0 {
			code = v.Code(framework.Rejection{Reasons: []string{Reason}, Unresolvable: true})
		}
		v.Codes[i] = code
	}
	return nil
}

// PreScore skips Score for pods without preferences.
func (p *Plugin) PreScore(c *framework.Cycle, _ []int32) (bool, error) {
	a := c.Pod.Pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || len(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) == 0 {
		return true, nil
	}
	terms, err := nodeaffinity.NewPreferredSchedulingTerms(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	if err != nil {
		return false, fmt.Errorf("parse preferred node affinity: %w", err)
	}
	c.SetState(p, &state{preferred: terms})
	return false, nil
}

// Score adds up the weights of the preferred terms that the node matches.
func (p *Plugin) Score(c *framework.Cycle, nodes []int32, scores []int64) error {
	s, _ := c.State(p).(*state)
	if s == nil || s.preferred == nil {
		return nil
	}
	for k, i := range nodes {
		scores[k] = s.preferred.Score(c.Snapshot.Node(i).Node)
	}
	return nil
}

// NormalizeScore gives the node with the highest sum MaxScore.
func (*Plugin) NormalizeScore(_ *framework.Cycle, _ []int32, scores []int64) error {
	framework.Normalize(scores, false)
	return nil
}

// Events are the changes that may help.
func (*Plugin) Events() framework.Event {
	return framework.NodeAdded | framework.NodeLabels | framework.PodOwn
}

// Helps reports whether the node matches now and did not before.
func (*Plugin) Helps(pod *framework.PodInfo, c framework.Change) bool {
	if c.Node == nil {
		return true
	}
	required := nodeaffinity.GetRequiredNodeAffinity(pod.Pod)
	if ok, err := required.Match(c.Node); !ok || err != nil {
		return false
	}
	if c.OldNode == nil {
		return true
	}
	before, err := required.Match(c.OldNode)
	return !before || err != nil
}

// Sign tells pods apart by the labels that they need. Preferences are relative
// to other nodes.
func (*Plugin) Sign(c *framework.Cycle, key []byte) ([]byte, bool) {
	spec := &c.Pod.Pod.Spec
	if a := spec.Affinity; a != nil && a.NodeAffinity != nil && len(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 {
		return key, false
	}
	return framework.AppendSelector(framework.AppendMap(key, spec.NodeSelector), requiredTerms(spec)), true
}
