package framework

import (
	"fmt"
	"slices"
)

// Result is the choice of a node.
type Result struct {
	Node  string
	Index int32
	// Evaluated is how many nodes were looked at, Feasible how many passed all
	// filters.
	Evaluated, Feasible int
}

// Workspace is memory that Schedule uses again from call to call. The zero
// value is ready; one Workspace serves one call at a time.
type Workspace struct {
	// Tie picks one of the nodes with equal scores: a caller that wants them
	// spread gives another number each time.
	Tie uint64

	cycle      Cycle
	verdicts   Verdicts
	by         []uint8 // which filter vetoed the node, plus one
	rejections [][]Rejection
	skip       []bool
	nodes      []int32
	scores     []int64
	totals     []int64
}

// Schedule chooses a node for the pod. Without one it returns a Diagnosis; an
// error is the failure of a plugin, and says nothing about the pod. It is
// deterministic in its arguments. The workspace may be nil.
func Schedule(s *Snapshot, pod *PodInfo, p *Profile, w *Workspace) (Result, *Diagnosis, error) {
	if w == nil {
		w = new(Workspace)
	}
	w.cycle = Cycle{Snapshot: s, Pod: pod, state: w.cycle.state[:0]}
	defer w.release()
	if s.Len() == 0 {
		return Result{}, &Diagnosis{}, nil
	}
	nodes, diagnosis, err := w.feasible(p)
	if err != nil || diagnosis != nil {
		return Result{}, diagnosis, err
	}
	best := 0
	if len(nodes) > 1 {
		if best, err = w.best(p, nodes); err != nil {
			return Result{}, nil, err
		}
	}
	i := nodes[best]
	return Result{Node: s.Name(i), Index: i, Evaluated: s.Len(), Feasible: len(nodes)}, nil, nil
}

// PostFilter asks the profile's PostFilter plugins, after Schedule returned the
// diagnosis, for a node that will become free. It completes the diagnosis.
func PostFilter(s *Snapshot, pod *PodInfo, p *Profile, d *Diagnosis) (node string, err error) {
	c := &Cycle{Snapshot: s, Pod: pod}
	for _, plugin := range p.PostFilter {
		name, message, err := plugin.PostFilter(c, d)
		if err != nil {
			return "", fmt.Errorf("plugin %q: post filter: %w", plugin.Name(), err)
		}
		d.addPostFilter(message)
		if name != "" {
			return name, nil
		}
	}
	return "", nil
}

// release lets go of what the attempt held.
func (w *Workspace) release() {
	clear(w.cycle.state)
	w.cycle = Cycle{state: w.cycle.state[:0]}
	clear(w.rejections)
}

// feasible runs PreFilter and Filter. It returns the nodes that are left, or
// the diagnosis if there are none.
func (w *Workspace) feasible(p *Profile) ([]int32, *Diagnosis, error) {
	s := w.cycle.Snapshot
	w.prepare(s.Size(), len(p.filters))
	nodes := append(w.nodes[:0], s.Indices()...)
	w.nodes = nodes
	var restricting []string
	for k, f := range p.filters {
		if f.pre == nil {
			continue
		}
		d, err := f.pre.PreFilter(&w.cycle)
		if err != nil {
			return nil, nil, fmt.Errorf("plugin %q: prefilter: %w", f.plugin.Name(), err)
		}
		if d.Rejection != nil {
			return nil, rejectedByPreFilter(s.Len(), f.plugin.Name(), *d.Rejection), nil
		}
		w.skip[k] = d.Skip
		if d.Restrict {
			restricting = append(restricting, f.plugin.Name())
			nodes = intersect(nodes, d.Nodes)
		}
	}
	absent := s.Len() - len(nodes)
	if len(restricting) > 0 && len(nodes) == 0 {
		if len(restricting) > 1 {
			return nil, rejectedByRestriction(s.Len(), restricting), nil
		}
		return nil, w.diagnose(p, absent, restricting), nil
	}
	for k, f := range p.filters {
		if f.filter == nil || w.skip[k] {
			continue
		}
		w.verdicts.rejections = nil
		if err := f.filter.Filter(&w.cycle, nodes, &w.verdicts); err != nil {
			return nil, nil, fmt.Errorf("plugin %q: filter: %w", f.plugin.Name(), err)
		}
		if w.verdicts.rejections == nil {
			continue
		}
		w.rejections[k] = w.verdicts.rejections
		if nodes = w.compact(nodes, uint8(k+1)); len(nodes) == 0 {
			return nil, w.diagnose(p, absent, restricting), nil
		}
	}
	return nodes, nil, nil
}

// prepare makes the buffers fit and clean.
func (w *Workspace) prepare(size, filters int) {
	w.verdicts.Codes = zeroed(w.verdicts.Codes, size)
	w.by = zeroed(w.by, size)
	w.skip = zeroed(w.skip, filters)
	w.rejections = zeroed(w.rejections, filters)
}

func zeroed[T any](s []T, n int) []T {
	s = slices.Grow(s[:0], n)[:n]
	clear(s)
	return s
}

// compact keeps the nodes without a code and notes who vetoed the others.
func (w *Workspace) compact(nodes []int32, by uint8) []int32 {
	kept := nodes[:0]
	for _, i := range nodes {
		if w.verdicts.Codes[i] == 0 {
			kept = append(kept, i)
		} else {
			w.by[i] = by
		}
	}
	return kept
}

// intersect keeps those of a that are in b; a is ascending.
func intersect(a, b []int32) []int32 {
	b = slices.Clone(b)
	slices.Sort(b)
	kept := a[:0]
	for _, i := range a {
		if _, ok := slices.BinarySearch(b, i); ok {
			kept = append(kept, i)
		}
	}
	return kept
}

// best returns which of the feasible nodes has the highest total.
func (w *Workspace) best(p *Profile, nodes []int32) (int, error) {
	w.totals = zeroed(w.totals, len(nodes))
	w.scores = slices.Grow(w.scores[:0], len(nodes))[:len(nodes)]
	for i := range p.scores {
		used, err := p.scores[i].run(&w.cycle, nodes, w.scores, nil)
		if err != nil {
			return 0, err
		}
		if !used {
			continue
		}
		weight := p.scores[i].weight
		for k, score := range w.scores {
			w.totals[k] += score * weight
		}
	}
	return pick(w.totals, w.Tie), nil
}

// run scores the nodes. raw, if not nil, gets the scores before normalization.
func (s *scoreSlot) run(c *Cycle, nodes []int32, scores, raw []int64) (used bool, err error) {
	name := s.score.Name()
	if s.pre != nil {
		skip, err := s.pre.PreScore(c, nodes)
		if err != nil {
			return false, fmt.Errorf("plugin %q: prescore: %w", name, err)
		}
		if skip {
			return false, nil
		}
	}
	clear(scores)
	if err := s.score.Score(c, nodes, scores); err != nil {
		return false, fmt.Errorf("plugin %q: score: %w", name, err)
	}
	copy(raw, scores)
	if s.normalize != nil {
		if err := s.normalize.NormalizeScore(c, nodes, scores); err != nil {
			return false, fmt.Errorf("plugin %q: normalize score: %w", name, err)
		}
	}
	for k, score := range scores {
		if score < 0 || score > MaxScore {
			return false, fmt.Errorf("plugin %q: score %d of node %q is not in 0..%d", name, score, c.Snapshot.Name(nodes[k]), MaxScore)
		}
	}
	return true, nil
}

// pick returns the index of the highest total, and of several the one that tie
// selects.
func pick(totals []int64, tie uint64) int {
	most, count := totals[0], uint64(0)
	for _, t := range totals {
		if t > most {
			most, count = t, 1
		} else if t == most {
			count++
		}
	}
	nth := tie % count
	for k, t := range totals {
		if t == most {
			if nth == 0 {
				return k
			}
			nth--
		}
	}
	return 0
}

// Normalize brings scores to 0..MaxScore by the highest of them; with reverse
// the highest becomes 0.
func Normalize(scores []int64, reverse bool) {
	most := slices.Max(scores)
	for k, score := range scores {
		switch {
		case most == 0 && reverse:
			scores[k] = MaxScore
		case most == 0:
			scores[k] = 0
		case reverse:
			scores[k] = MaxScore - score*MaxScore/most
		default:
			scores[k] = score * MaxScore / most
		}
	}
}
