// Package noderesources places pods by what they ask for and what nodes have
// left.
package noderesources

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/proa-project/proa/scheduling/framework"
)

// FitName is the name of Fit in profiles.
const FitName = "NodeResourcesFit"

// ReasonPods is the reason of a node that takes no more pods. The others are
// "Insufficient " and the name of the resource.
const ReasonPods = "Too many pods"

// Fit vetoes nodes that have too little left of a resource that the pod asks
// for, and scores the others by how much they have left (least allocated).
type Fit struct{}

// Name returns the plugin's name.
func (*Fit) Name() string { return FitName }

// shortage is a set of resources of which a node has too little, and the set of
// those of which even an empty node would. Its bits are the resources in the
// order of reasons.
type shortage struct{ short, never uint64 }

const (
	bitPods = 1 << iota
	bitCPU
	bitMemory
	bitEphemeral
	bitScalar // the first of the extended resources
)

// maxScalars is how many extended resources have a bit of their own; a pod with
// more shares the last.
const maxScalars = 60

// Filter vetoes the nodes without enough left.
func (f *Fit) Filter(c *framework.Cycle, nodes []int32, v *framework.Verdicts) error {
	r := c.Pod.Request
	t := &codeTable{v: v, pod: c.Pod}
	if r.IsZero() {
		used, alloc := c.Snapshot.UsedPods, c.Snapshot.AllocPods
		for _, i := range nodes {
			if used[i] >= alloc[i] {
				v.Codes[i] = t.code(shortage{short: bitPods})
			}
		}
		return nil
	}
	scalars := scalarNames(r)
	s := c.Snapshot
	for _, i := range nodes {
		// One test for the many that fit.
		if s.UsedPods[i] < s.AllocPods[i] &&
			r.MilliCPU <= s.AllocCPU[i]-s.UsedCPU[i] &&
			r.Memory <= s.AllocMemory[i]-s.UsedMemory[i] &&
			r.EphemeralStorage <= s.AllocEphemeral[i]-s.UsedEphemeral[i] && scalars == nil {
			continue
		}
		if short := lacking(s, i, r, scalars); short.short != 0 {
			v.Codes[i] = t.code(short)
		}
	}
	return nil
}

// lacking says which resources are short on node i. What the pod does not ask
// for is never short, even on a node that is overcommitted.
func lacking(s *framework.Snapshot, i int32, r framework.Resource, scalars []corev1.ResourceName) shortage {
	var out shortage
	check := func(bit uint64, want, used, alloc int64) {
		if want > 0 && want > alloc-used {
			out.short |= bit
			if want > alloc {
				out.never |= bit
			}
		}
	}
	if s.UsedPods[i] >= s.AllocPods[i] {
		out.short |= bitPods
	}
	check(bitCPU, r.MilliCPU, s.UsedCPU[i], s.AllocCPU[i])
	check(bitMemory, r.Memory, s.UsedMemory[i], s.AllocMemory[i])
	check(bitEphemeral, r.EphemeralStorage, s.UsedEphemeral[i], s.AllocEphemeral[i])
	n := s.Node(i)
	for k, name := range scalars {
		check(bitScalar<<min(k, maxScalars-1), r.Scalar[name], n.Requested.Scalar[name], n.Allocatable.Scalar[name])
	}
	return out
}

// scalarNames returns the extended resources that are asked for, sorted.
func scalarNames(r framework.Resource) []corev1.ResourceName {
	var names []corev1.ResourceName
	for name, n := range r.Scalar {
		if n > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// codeTable gives each shortage that occurs one code.
type codeTable struct {
	v     *framework.Verdicts
	pod   *framework.PodInfo
	known []shortage
	codes []framework.Code
}

func (t *codeTable) code(s shortage) framework.Code {
	if i := slices.Index(t.known, s); i >= 0 {
		return t.codes[i]
	}
	c := t.v.Code(framework.Rejection{Reasons: t.reasons(s.short), Unresolvable: s.never != 0})
	t.known = append(t.known, s)
	t.codes = append(t.codes, c)
	return c
}

func (t *codeTable) reasons(bits uint64) []string {
	var list []string
	if bits&bitPods != 0 {
		list = append(list, ReasonPods)
	}
	for bit, name := range map[uint64]corev1.ResourceName{
		bitCPU: corev1.ResourceCPU, bitMemory: corev1.ResourceMemory, bitEphemeral: corev1.ResourceEphemeralStorage,
	} {
		if bits&bit != 0 {
			list = append(list, "Insufficient "+string(name))
		}
	}
	for k, name := range scalarNames(t.pod.Request) {
		if bits&(bitScalar<<min(k, maxScalars-1)) != 0 {
			list = append(list, "Insufficient "+string(name))
		}
	}
	slices.SortFunc(list, strings.Compare)
	return list
}

// Score prefers the nodes with the greatest part of CPU and memory left once
// the pod is there. Containers without requests count with the defaults.
func (*Fit) Score(c *framework.Cycle, nodes []int32, scores []int64) error {
	s, want := c.Snapshot, c.Pod.NonZero
	for k, i := range nodes {
		cpu, memory := s.AllocCPU[i], s.AllocMemory[i]
		switch {
		case cpu > 0 && memory > 0:
			scores[k] = (left(s.NonZeroCPU[i]+want.MilliCPU, cpu) + left(s.NonZeroMemory[i]+want.Memory, memory)) / 2
		case cpu > 0:
			scores[k] = left(s.NonZeroCPU[i]+want.MilliCPU, cpu)
		case memory > 0:
			scores[k] = left(s.NonZeroMemory[i]+want.Memory, memory)
		}
	}
	return nil
}

func left(used, alloc int64) int64 {
	if used > alloc {
		return 0
	}
	return (alloc - used) * framework.MaxScore / alloc
}

// Events are the changes that may help.
func (*Fit) Events() framework.Event {
	return framework.NodeAdded | framework.NodeAllocatable | framework.PodRemoved | framework.PodShrunk | framework.PodOwn
}

// Helps reports whether the pod would fit the node if it were empty, or the pod
// that went held something that this one wants.
func (*Fit) Helps(pod *framework.PodInfo, c framework.Change) bool {
	if c.Node != nil {
		return fitsEmpty(pod.Request, framework.NewResource(c.Node.Status.Allocatable))
	}
	// A pod that goes always leaves its place behind.
	return true
}

func fitsEmpty(r, alloc framework.Resource) bool {
	if alloc.Pods < 1 || r.MilliCPU > alloc.MilliCPU || r.Memory > alloc.Memory || r.EphemeralStorage > alloc.EphemeralStorage {
		return false
	}
	for name, n := range r.Scalar {
		if n > alloc.Scalar[name] {
			return false
		}
	}
	return true
}

// Sign tells pods apart by what they ask for.
func (*Fit) Sign(c *framework.Cycle, key []byte) ([]byte, bool) {
	return framework.AppendResource(framework.AppendResource(key, c.Pod.Request), c.Pod.NonZero), true
}
