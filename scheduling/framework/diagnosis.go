package framework

import (
	"fmt"
	"slices"
	"strings"
)

// Diagnosis says why a pod fits no node.
type Diagnosis struct {
	// Nodes is the number of nodes there were.
	Nodes int
	// PreFilter is the message of the plugin that refused the pod before any
	// node was looked at.
	PreFilter string
	// Reasons are the vetoes by reason, sorted as the message has them. A node
	// that was vetoed for two reasons is counted in both.
	Reasons []ReasonCount
	// Plugins are the names of those that vetoed a node or refused the pod,
	// sorted.
	Plugins []string
	// Unresolvable is the number of nodes that would not help however many
	// pods were taken off them.
	Unresolvable int

	by         []uint8
	codes      []Code
	rejections [][]Rejection
	names      []string // of the filters
	postFilter []string
}

// ReasonCount is a reason and the number of nodes vetoed for it.
type ReasonCount struct {
	Reason string
	Nodes  int
}

// Veto is the refusal of one node by one plugin.
type Veto struct {
	Plugin string
	Rejection
}

// Message is what the user reads, in Kubernetes' words.
func (d *Diagnosis) Message() string {
	if d.Nodes == 0 {
		return "no nodes available to schedule pods"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "0/%d nodes are available:", d.Nodes)
	if d.PreFilter != "" {
		fmt.Fprintf(&b, " %s.", d.PreFilter)
	} else if len(d.Reasons) > 0 {
		parts := make([]string, len(d.Reasons))
		for i, r := range d.Reasons {
			parts[i] = fmt.Sprintf("%d %s", r.Nodes, r.Reason)
		}
		slices.Sort(parts)
		fmt.Fprintf(&b, " %s.", strings.Join(parts, ", "))
	}
	for _, m := range d.postFilter {
		b.WriteString(" " + m)
	}
	return b.String()
}

// Veto returns which filter vetoed the node at the index of the snapshot that
// the diagnosis is of. It returns false if none looked at it.
func (d *Diagnosis) Veto(index int32) (Veto, bool) {
	if int(index) >= len(d.by) || d.by[index] == 0 {
		return Veto{}, false
	}
	k := d.by[index] - 1
	return Veto{d.names[k], d.rejections[k][d.codes[index]-1]}, true
}

// Resolvable returns the indices of the nodes on which the pod might fit if
// other pods were gone.
func (d *Diagnosis) Resolvable() []int32 {
	var list []int32
	for i := range d.by {
		if v, ok := d.Veto(int32(i)); ok && !v.Unresolvable {
			list = append(list, int32(i))
		}
	}
	return list
}

func (d *Diagnosis) addPostFilter(message string) {
	if message != "" {
		d.postFilter = append(d.postFilter, message)
	}
}

// rejectedByPreFilter is the diagnosis of a pod that no node can help.
func rejectedByPreFilter(nodes int, plugin string, r Rejection) *Diagnosis {
	d := &Diagnosis{Nodes: nodes, PreFilter: strings.Join(r.Reasons, ", "), Plugins: []string{plugin}}
	if r.Unresolvable {
		d.Unresolvable = nodes
	}
	return d
}

// rejectedByRestriction is the diagnosis of a pod whose PreFilter plugins agree
// on no node.
func rejectedByRestriction(nodes int, plugins []string) *Diagnosis {
	slices.Sort(plugins)
	message := fmt.Sprintf("node(s) didn't satisfy plugin(s) %v simultaneously", plugins)
	return &Diagnosis{Nodes: nodes, PreFilter: message, Plugins: plugins, Unresolvable: nodes}
}

// diagnose sums up the vetoes. absent nodes were taken out of the running by
// the restricting plugins.
func (w *Workspace) diagnose(p *Profile, v *vetoes, absent int, restricting []string) *Diagnosis {
	d := &Diagnosis{
		Nodes:      w.cycle.Snapshot.Len(),
		by:         make([]uint8, len(v.by)),
		codes:      slices.Clone(v.codes),
		rejections: slices.Clone(v.rejections),
	}
	counts := make([][]int, len(p.filters))
	for k, f := range p.filters {
		d.names = append(d.names, f.plugin.Name())
		counts[k] = make([]int, len(v.rejections[k]))
	}
	for _, i := range w.cycle.Snapshot.Indices() {
		if by := v.by[i]; by != 0 {
			d.by[i] = by
			counts[by-1][d.codes[i]-1]++
		}
	}
	reasons := make(map[string]int)
	for k, perCode := range counts {
		vetoed := false
		for code, n := range perCode {
			r := &v.rejections[k][code]
			for _, reason := range r.Reasons {
				reasons[reason] += n
			}
			if r.Unresolvable {
				d.Unresolvable += n
			}
			vetoed = vetoed || n > 0
		}
		if vetoed {
			d.Plugins = append(d.Plugins, d.names[k])
		}
	}
	if absent > 0 {
		slices.Sort(restricting)
		reasons[fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", restricting)] += absent
		d.Unresolvable += absent
		d.Plugins = append(d.Plugins, restricting...)
	}
	slices.Sort(d.Plugins)
	d.Plugins = slices.Compact(d.Plugins)
	d.Reasons = sortedReasons(reasons)
	return d
}

func sortedReasons(reasons map[string]int) []ReasonCount {
	var list []ReasonCount
	for reason, n := range reasons {
		if n > 0 {
			list = append(list, ReasonCount{reason, n})
		}
	}
	slices.SortFunc(list, func(a, b ReasonCount) int { return strings.Compare(a.Reason, b.Reason) })
	return list
}
