package framework

import (
	"hash/fnv"
	"slices"
)

const (
	// maxClasses is how many kinds of pods a Workspace remembers.
	maxClasses = 8
	// maxOnce is how many kinds it knows by name, to see that one comes again.
	maxOnce = 64
)

// classes are the kinds of pods that were scheduled last. Pods are of one kind
// if their profile's plugins sign them alike.
type classes struct {
	of    *Snapshot
	known []*class // the last used first
	once  [maxOnce]uint64
	next  int // in once
}

// again reports whether a kind was seen before, not long ago: one that comes
// only once is not worth the memory.
func (c *classes) again(key []byte) bool {
	h := fnv.New64a()
	h.Write(key) // it never fails
	sum := h.Sum64()
	if slices.Contains(c.once[:], sum) {
		return true
	}
	c.once[c.next] = sum
	c.next = (c.next + 1) % maxOnce
	return false
}

// class is what the signing plugins of a profile have said about each node for
// one kind of pod, and when. It holds for a node as long as its generation does.
type class struct {
	profile *Profile
	key     string
	seen    []int64 // by node index: the generation that the rest is of
	vetoes  vetoes
	totals  []int64 // of the nodes without a veto
	// scored is false until all of totals is as the vetoes are.
	scored bool
}

// class returns what is known of the pod's kind, nil if it has none.
func (w *Workspace) class(p *Profile) *class {
	if p.signers == nil {
		return nil
	}
	key := w.key[:0]
	for k, signer := range p.signers {
		var ok bool
		if key, ok = signer.Sign(&w.cycle, append(key, byte(k))); !ok {
			return nil
		}
	}
	w.key = key
	c := &w.classes
	if c.of != w.cycle.Snapshot {
		c.of, c.known = w.cycle.Snapshot, nil
	}
	at := slices.IndexFunc(c.known, func(k *class) bool { return k.profile == p && k.key == string(key) })
	var found *class
	switch {
	case at >= 0:
		found = c.known[at]
	case !c.again(key):
		return nil
	case len(c.known) < maxClasses:
		found, at = &class{profile: p, key: string(key)}, len(c.known)
		c.known = append(c.known, found)
	default: // in place of the one that was not used for the longest time
		at = len(c.known) - 1
		found = &class{profile: p, key: string(key)}
	}
	copy(c.known[1:at+1], c.known[:at])
	c.known[0] = found
	return found
}

// scheduleClass is Schedule after PreFilter for a pod whose kind is known: only
// the nodes that have changed are looked at.
func (w *Workspace) scheduleClass(p *Profile, c *class) (Result, *Diagnosis, error) {
	s := w.cycle.Snapshot
	c.fit(s.Size(), len(p.filters))
	changed := c.changed(s, w.nodes[:0])
	w.nodes = changed
	feasible, err := w.filter(p, changed, &c.vetoes, signed)
	if err == nil {
		err = w.scoreClass(p, c, feasible)
	}
	if err != nil {
		clear(c.seen) // what was written is not complete
		c.scored = false
		return Result{}, nil, err
	}
	if p.unsigned {
		return w.scheduleRest(p, c)
	}
	best, count := c.pick(s.Indices(), w.Tie)
	if count == 0 {
		return Result{}, w.diagnose(p, &c.vetoes, 0, nil), nil
	}
	return Result{Node: s.Name(best), Index: best, Evaluated: s.Len(), Feasible: count}, nil, nil
}

// scheduleRest has the plugins that do not sign look at the nodes that the
// others let pass.
func (w *Workspace) scheduleRest(p *Profile, c *class) (Result, *Diagnosis, error) {
	s := w.cycle.Snapshot
	v := &w.vetoes
	v.by, v.codes = append(v.by[:0], c.vetoes.by...), append(v.codes[:0], c.vetoes.codes...)
	v.rejections = append(v.rejections[:0], c.vetoes.rejections...)
	nodes := w.nodes[:0]
	for _, i := range s.Indices() {
		if v.by[i] == 0 {
			nodes = append(nodes, i)
		}
	}
	nodes, err := w.filter(p, nodes, v, unsigned)
	if err != nil {
		return Result{}, nil, err
	}
	if len(nodes) == 0 {
		return Result{}, w.diagnose(p, v, 0, nil), nil
	}
	best := 0
	if len(nodes) > 1 {
		w.totals = slices.Grow(w.totals[:0], len(nodes))[:len(nodes)]
		for k, i := range nodes {
			w.totals[k] = c.totals[i]
		}
		if err := w.score(p, nodes, unsigned); err != nil {
			return Result{}, nil, err
		}
		best = pick(w.totals, w.Tie)
	}
	i := nodes[best]
	return Result{Node: s.Name(i), Index: i, Evaluated: s.Len(), Feasible: len(nodes)}, nil, nil
}

// fit makes room for new nodes.
func (c *class) fit(size, filters int) {
	if n := size - len(c.seen); n > 0 {
		c.seen = append(c.seen, make([]int64, n)...)
		c.totals = append(c.totals, make([]int64, n)...)
		c.vetoes.by = append(c.vetoes.by, make([]uint8, n)...)
		c.vetoes.codes = append(c.vetoes.codes, make([]Code, n)...)
	}
	for _, r := range c.vetoes.rejections {
		if len(r) >= maxCodes-maxCodes/4 { // too many for new ones to find room
			clear(c.seen)
			c.scored, c.vetoes.rejections = false, nil
			break
		}
	}
	if c.vetoes.rejections == nil {
		c.vetoes.rejections = make([][]Rejection, filters)
	}
}

// changed appends the nodes that are not as they were, and forgets what is
// known of them.
func (c *class) changed(s *Snapshot, list []int32) []int32 {
	generation, seen := s.Generation, c.seen
	for _, i := range s.Indices() {
		if g := generation[i]; g == 0 || g != seen[i] {
			seen[i] = g
			c.vetoes.by[i], c.vetoes.codes[i] = 0, 0
			list = append(list, i)
		}
	}
	return list
}

// scoreClass brings the totals up to date: of the changed nodes that passed, or
// of all that are feasible if the totals are not complete.
func (w *Workspace) scoreClass(p *Profile, c *class, feasible []int32) error {
	if !c.scored {
		feasible = feasible[:0]
		for _, i := range w.cycle.Snapshot.Indices() {
			if c.vetoes.by[i] == 0 {
				feasible = append(feasible, i)
			}
		}
		w.nodes = feasible
	}
	if len(feasible) == 0 {
		c.scored = true
		return nil
	}
	w.totals = zeroed(w.totals, len(feasible))
	if err := w.score(p, feasible, signed); err != nil {
		return err
	}
	for k, i := range feasible {
		c.totals[i] = w.totals[k]
	}
	c.scored = true
	return nil
}

// pick returns the feasible node with the highest total, and of several the one
// that tie selects; and how many nodes are feasible.
func (c *class) pick(nodes []int32, tie uint64) (best int32, feasible int) {
	by, totals := c.vetoes.by, c.totals
	most, count := int64(-1), uint64(0)
	for _, i := range nodes {
		if by[i] != 0 {
			continue
		}
		feasible++
		if t := totals[i]; t > most {
			most, count = t, 1
		} else if t == most {
			count++
		}
	}
	if feasible == 0 {
		return 0, 0
	}
	nth := tie % count
	for _, i := range nodes {
		if by[i] == 0 && totals[i] == most {
			if nth == 0 {
				return i, feasible
			}
			nth--
		}
	}
	return 0, feasible
}
