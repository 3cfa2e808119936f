package framework

import "fmt"

// Explanation is the whole matrix of nodes and plugins for one pod.
type Explanation struct {
	// PreFilter is the message of the plugin that refuses the pod on all nodes.
	PreFilter string
	Nodes     []NodeExplanation
}

// NodeExplanation is one row of the matrix.
type NodeExplanation struct {
	Node string
	// Vetoes are of all the filters that refuse the node, not only of the
	// first. A node without one is feasible and has Scores.
	Vetoes []Veto
	Scores []PluginScore
	// Total is the sum of the weighted scores.
	Total int64
}

// PluginScore is what one plugin says about one node.
type PluginScore struct {
	Plugin string
	// Raw is before and Score after normalization.
	Raw, Score, Weight int64
}

// Explain works out what Schedule does not keep: each filter's verdict on each
// node, and the scores of those that all let pass. Nodes are in the order of
// their indices.
func Explain(s *Snapshot, pod *PodInfo, p *Profile) (*Explanation, error) {
	c := &Cycle{Snapshot: s, Pod: pod}
	defer c.end(false)
	all := s.Indices()
	e := &Explanation{Nodes: make([]NodeExplanation, len(all))}
	row := make(map[int32]*NodeExplanation, len(all))
	for k, i := range all {
		e.Nodes[k].Node = s.Name(i)
		row[i] = &e.Nodes[k]
	}
	skip := make([]bool, len(p.filters))
	for k, f := range p.filters {
		if f.pre == nil {
			continue
		}
		d, err := f.pre.PreFilter(c)
		if err != nil {
			return nil, fmt.Errorf("plugin %q: prefilter: %w", f.plugin.Name(), err)
		}
		skip[k] = d.Skip
		if d.Rejection != nil && e.PreFilter == "" {
			e.PreFilter = rejectedByPreFilter(len(all), f.plugin.Name(), *d.Rejection).PreFilter
		}
		if d.Rejection != nil {
			skip[k] = true
			for _, r := range row {
				r.Vetoes = append(r.Vetoes, Veto{f.plugin.Name(), *d.Rejection})
			}
		}
	}
	if err := e.filter(c, p, skip, row); err != nil {
		return nil, err
	}
	return e, e.score(c, p, row)
}

func (e *Explanation) filter(c *Cycle, p *Profile, skip []bool, row map[int32]*NodeExplanation) error {
	for k, f := range p.filters {
		if f.filter == nil || skip[k] {
			continue
		}
		v := Verdicts{Codes: make([]Code, c.Snapshot.Size())}
		if err := f.filter.Filter(c, c.Snapshot.Indices(), &v); err != nil {
			return fmt.Errorf("plugin %q: filter: %w", f.plugin.Name(), err)
		}
		for i, code := range v.Codes {
			if code != 0 {
				r := row[int32(i)]
				r.Vetoes = append(r.Vetoes, Veto{f.plugin.Name(), v.rejections[code-1]})
			}
		}
	}
	return nil
}

func (e *Explanation) score(c *Cycle, p *Profile, row map[int32]*NodeExplanation) error {
	var nodes []int32
	for _, i := range c.Snapshot.Indices() {
		if len(row[i].Vetoes) == 0 {
			nodes = append(nodes, i)
		}
	}
	if len(nodes) == 0 {
		return nil
	}
	scores, raw := make([]int64, len(nodes)), make([]int64, len(nodes))
	for i := range p.scores {
		s := &p.scores[i]
		used, err := s.run(c, nodes, scores, raw)
		if err != nil {
			return err
		}
		if !used {
			continue
		}
		for k, n := range nodes {
			r := row[n]
			r.Scores = append(r.Scores, PluginScore{s.score.Name(), raw[k], scores[k], s.weight})
			r.Total += scores[k] * s.weight
		}
	}
	return nil
}
