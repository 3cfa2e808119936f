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

// Workspace is memory that Schedule uses again from call to call, and what it
// remembers of pods that were alike. The zero value is ready; one Workspace
// serves one call at a time.
type Workspace struct {
	// Tie picks one of the nodes with equal scores: a caller that wants them
	// spread gives another number each time.
	Tie uint64

	cycle   Cycle
	skip    []bool // by filter
	vetoes  vetoes
	nodes   []int32
	scores  []int64
	totals  []int64
	key     []byte
	classes classes
}

// vetoes are what the filters have said about nodes.
type vetoes struct {
	by         []uint8       // by node index: which filter vetoed it, plus one
	codes      []Code        // by node index: its code for the reason
	rejections [][]Rejection // by filter and code, less one
}

// Schedule chooses a node for the pod. Without one it returns a Diagnosis; an
// error is the failure of a plugin, and says nothing about the pod. It is
// deterministic in its arguments. The workspace may be nil; what it remembers
// changes nothing but the time.
func Schedule(s *Snapshot, pod *PodInfo, p *Profile, w *Workspace) (Result, *Diagnosis, error) {
	if w == nil {
		w = new(Workspace)
	}
	w.cycle = Cycle{Snapshot: s, Pod: pod, state: w.cycle.state[:0], enders: w.cycle.enders[:0]}
	placed := false
	defer func() { w.release(placed) }()
	r, d, err := w.schedule(s, p)
	placed = err == nil && d == nil
	return r, d, err
}

func (w *Workspace) schedule(s *Snapshot, p *Profile) (Result, *Diagnosis, error) {
	if s.Len() == 0 {
		return Result{}, &Diagnosis{}, nil
	}
	pre, diagnosis, err := w.preFilter(p)
	if err != nil || diagnosis != nil {
		return Result{}, diagnosis, err
	}
	if pre.restricting == nil {
		if c := w.class(p); c != nil {
			return w.scheduleClass(p, c)
		}
	}
	v := &w.vetoes
	v.by, v.codes, v.rejections = zeroed(v.by, s.Size()), zeroed(v.codes, s.Size()), zeroed(v.rejections, len(p.filters))
	nodes, err := w.filter(p, pre.nodes, v, all)
	if err != nil {
		return Result{}, nil, err
	}
	if len(nodes) == 0 {
		return Result{}, w.diagnose(p, v, pre.absent, pre.restricting), nil
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
	defer func() { c.end(false) }()
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
func (w *Workspace) release(placed bool) {
	w.cycle.end(placed)
	clear(w.cycle.state)
	w.cycle = Cycle{state: w.cycle.state[:0], enders: w.cycle.enders}
	clear(w.vetoes.rejections)
}

// preFiltered is what the PreFilter plugins have left.
type preFiltered struct {
	nodes       []int32
	absent      int      // nodes that were taken out of the running
	restricting []string // by these
}

// preFilter runs PreFilter. It returns a diagnosis if that refuses the pod.
func (w *Workspace) preFilter(p *Profile) (preFiltered, *Diagnosis, error) {
	s := w.cycle.Snapshot
	w.skip = zeroed(w.skip, len(p.filters))
	out := preFiltered{nodes: s.Indices()}
	for k, f := range p.filters {
		if f.pre == nil {
			continue
		}
		d, err := f.pre.PreFilter(&w.cycle)
		if err != nil {
			return out, nil, fmt.Errorf("plugin %q: prefilter: %w", f.plugin.Name(), err)
		}
		if d.Rejection != nil {
			return out, rejectedByPreFilter(s.Len(), f.plugin.Name(), *d.Rejection), nil
		}
		w.skip[k] = d.Skip
		if d.Restrict {
			out.restricting = append(out.restricting, f.plugin.Name())
			out.nodes = intersect(out.nodes, d.Nodes)
		}
	}
	out.absent = s.Len() - len(out.nodes)
	if len(out.restricting) > 1 && len(out.nodes) == 0 {
		return out, rejectedByRestriction(s.Len(), out.restricting), nil
	}
	return out, nil, nil
}

// Which plugins are meant.
type which uint8

const (
	all which = iota
	signed
	unsigned
)

func (w which) has(isSigned bool) bool { return w == all || (w == signed) == isSigned }

// filter runs Filter on the nodes, writes down the vetoes and returns the nodes
// that are left, in memory of the workspace.
func (w *Workspace) filter(p *Profile, nodes []int32, v *vetoes, which which) ([]int32, error) {
	w.nodes = append(w.nodes[:0], nodes...)
	nodes = w.nodes
	for k, f := range p.filters {
		if f.filter == nil || w.skip[k] || len(nodes) == 0 || !which.has(f.signed) {
			continue
		}
		verdicts := Verdicts{Codes: v.codes, rejections: v.rejections[k]}
		if err := f.filter.Filter(&w.cycle, nodes, &verdicts); err != nil {
			return nil, fmt.Errorf("plugin %q: filter: %w", f.plugin.Name(), err)
		}
		if verdicts.rejections == nil {
			continue
		}
		v.rejections[k] = verdicts.rejections
		nodes = v.compact(nodes, uint8(k+1))
	}
	return nodes, nil
}

func zeroed[T any](s []T, n int) []T {
	s = slices.Grow(s[:0], n)[:n]
	clear(s)
	return s
}

// compact keeps the nodes without a code and notes who vetoed the others.
func (v *vetoes) compact(nodes []int32, by uint8) []int32 {
	kept := nodes[:0]
	for _, i := range nodes {
		if v.codes[i] == 0 {
			kept = append(kept, i)
		} else {
			v.by[i] = by
		}
	}
	return kept
}

// intersect returns those of a that are in b; a is ascending.
func intersect(a, b []int32) []int32 {
	b = slices.Clone(b)
	slices.Sort(b)
	var kept []int32
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
	if err := w.score(p, nodes, all); err != nil {
		return 0, err
	}
	return pick(w.totals, w.Tie), nil
}

// score adds the nodes' weighted sums to totals.
func (w *Workspace) score(p *Profile, nodes []int32, which which) error {
	w.scores = slices.Grow(w.scores[:0], len(nodes))[:len(nodes)]
	for i := range p.scores {
		if !which.has(p.scores[i].signed) {
			continue
		}
		used, err := p.scores[i].run(&w.cycle, nodes, w.scores, nil)
		if err != nil {
			return err
		}
		if !used {
			continue
		}
		weight := p.scores[i].weight
		for k, score := range w.scores {
			w.totals[k] += score * weight
		}
	}
	return nil
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
