package schedule

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/proa-project/proa/scheduling/framework"
	"github.com/proa-project/proa/wasmplugins/abi"
)

// errFull says that the nodes need a larger table.
var errFull = errors.New("the node table is full")

// A table is the state of a snapshot's nodes as package abi describes it: the
// records, and behind them a heap of texts and lists. It is written in place.
type table struct {
	b       []byte
	records int // room for so many
	used    uint32
	stale   bool // something was replaced since clear: parts of the heap may be of no use
	texts   map[string]abi.List
	zones   map[string]uint32
	rows    []row
	of      *framework.Snapshot // which the rows are of
	gen     int32
	keys    []string // scratch
}

// A row is what stands in a record.
type row struct {
	node       *corev1.Node
	generation int64
	record     abi.NodeRecord
	// How many entries there is room for where the lists are.
	labels, taints, scalars uint32
}

// newTable makes a table of b, of which the first part is for records.
func newTable(b []byte, records int) *table {
	t := &table{b: b, records: records, gen: 1}
	t.clear()
	return t
}

func (t *table) clear() {
	t.used, t.stale = uint32(t.records*abi.NodeStride), false //nolint:gosec // the memory of a guest
	t.texts, t.zones = make(map[string]abi.List), make(map[string]uint32)
	t.rows = make([]row, t.records)
	t.of = nil
	clear(t.b[:t.records*abi.NodeStride])
}

// crowded reports whether the heap is so full of what is needed that it would
// be made again too often.
func (t *table) crowded() bool {
	heap := uint32(t.records * abi.NodeStride)       //nolint:gosec // the memory of a guest
	return t.used-heap > (uint32(len(t.b))-heap)/4*3 //nolint:gosec // the memory of a guest
}

// sync brings the table to the state of the snapshot. It returns errFull if the
// nodes do not fit; the table is then of no use.
func (t *table) sync(s *framework.Snapshot) error {
	if s.Size() > t.records {
		return errFull
	}
	if t.of != s {
		t.of, t.stale = s, true
		for i := range t.rows {
			t.rows[i].generation = 0
		}
	}
	err := t.update(s)
	if errors.Is(err, errFull) && t.stale { // without what is of no use it may fit
		t.clear()
		t.of = s
		if err = t.update(s); err == nil && t.crowded() {
			err = errFull
		}
	}
	return err
}

func (t *table) update(s *framework.Snapshot) error {
	changed := false
	for i, generation := range s.Generation {
		r := &t.rows[i]
		if generation == r.generation && generation != 0 {
			continue
		}
		info := s.Node(int32(i))
		if info.Node == nil && r.node == nil && generation == 0 {
			continue
		}
		changed = true
		if err := t.set(r, i, info, s.Flags[i]); err != nil {
			return err
		}
		r.generation = generation
	}
	for i := len(s.Generation); i < t.records; i++ { // of a snapshot before
		if t.rows[i].node != nil {
			changed = true
			if err := t.set(&t.rows[i], i, &framework.NodeInfo{}, 0); err != nil {
				return err
			}
		}
	}
	if changed {
		t.gen++
	}
	return nil
}

// set writes the record of a node, or of none.
func (t *table) set(r *row, i int, info *framework.NodeInfo, flags framework.Flag) error {
	to := t.b[i*abi.NodeStride:][:abi.NodeStride]
	rec := &r.record
	if info.Node == nil {
		*r, t.stale = row{}, true
		clear(to)
		return nil
	}
	if r.node != info.Node {
		if err := t.describe(r, info.Node); err != nil {
			return err
		}
	}
	if len(info.Allocatable.Scalar) > 0 || rec.Scalars.N > 0 {
		if err := t.putScalars(r, info); err != nil {
			return err
		}
	}
	rec.Flags = abi.FlagPresent | rec.Flags&abi.FlagReady
	for _, f := range flagBits {
		if flags&f.from != 0 {
			rec.Flags |= f.to
		}
	}
	rec.Alloc = amounts(&info.Allocatable, info.Allocatable.Pods)
	rec.Requested = amounts(&info.Requested, int64(len(info.Pods)))
	rec.NonZero = [2]int64{info.NonZero.MilliCPU, info.NonZero.Memory}
	rec.Put(to)
	return nil
}

// flagBits are the flags of a snapshot and their bits in a record.
var flagBits = [...]struct { //nolint:gochecknoglobals // a constant in all but name
	from framework.Flag
	to   abi.NodeFlag
}{
	{framework.FlagUnschedulable, abi.FlagUnschedulable},
	{framework.FlagHardTaint, abi.FlagHardTaint},
	{framework.FlagSoftTaint, abi.FlagSoftTaint},
	{framework.FlagPorts, abi.FlagHostPorts},
}

func amounts(r *framework.Resource, pods int64) [4]int64 {
	return [4]int64{r.MilliCPU, r.Memory, r.EphemeralStorage, pods}
}

// describe writes what depends on the node alone, not on its pods.
func (t *table) describe(r *row, node *corev1.Node) error {
	rec := &r.record
	t.stale = t.stale || r.node != nil
	var err error
	if rec.Name, err = t.text(node.Name); err != nil {
		return err
	}
	zone := node.Labels[corev1.LabelTopologyZone]
	if rec.Zone = 0; zone != "" {
		if rec.Zone = t.zones[zone]; rec.Zone == 0 {
			rec.Zone = uint32(len(t.zones) + 1) //nolint:gosec // zones are fewer
			t.zones[zone] = rec.Zone
		}
	}
	if rec.ZoneLabel, err = t.text(zone); err != nil {
		return err
	}
	rec.Flags = 0
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			rec.Flags |= abi.FlagReady
		}
	}
	if r.node == nil || !maps.Equal(r.node.Labels, node.Labels) {
		if err := t.putLabels(r, node.Labels); err != nil {
			return err
		}
	}
	if err := t.putTaints(r, node.Spec.Taints); err != nil {
		return err
	}
	r.node = node
	return nil
}

func (t *table) putLabels(r *row, set map[string]string) error {
	t.keys = slices.AppendSeq(t.keys[:0], maps.Keys(set))
	slices.Sort(t.keys)
	b, err := t.list(&r.record.Labels, &r.labels, len(t.keys), abi.LabelSize)
	for k := 0; err == nil && k < len(t.keys); k++ {
		err = t.texts2(b[k*abi.LabelSize:], t.keys[k], set[t.keys[k]])
	}
	return err
}

func (t *table) putTaints(r *row, taints []corev1.Taint) error {
	b, err := t.list(&r.record.Taints, &r.taints, len(taints), abi.TaintSize)
	for k := 0; err == nil && k < len(taints); k++ {
		e := b[k*abi.TaintSize:]
		effect := uint32(0)
		switch taints[k].Effect {
		case corev1.TaintEffectNoSchedule:
			effect = 1
		case corev1.TaintEffectPreferNoSchedule:
			effect = 2
		case corev1.TaintEffectNoExecute:
			effect = 3
		}
		binary.LittleEndian.PutUint32(e[16:], effect)
		binary.LittleEndian.PutUint32(e[20:], 0)
		err = t.texts2(e, taints[k].Key, taints[k].Value)
	}
	return err
}

func (t *table) putScalars(r *row, info *framework.NodeInfo) error {
	t.keys = t.keys[:0]
	for name := range info.Allocatable.Scalar {
		t.keys = append(t.keys, string(name))
	}
	slices.Sort(t.keys)
	b, err := t.list(&r.record.Scalars, &r.scalars, len(t.keys), abi.ScalarSize)
	for k := 0; err == nil && k < len(t.keys); k++ {
		var name abi.List
		name, err = t.text(t.keys[k])
		e, resource := b[k*abi.ScalarSize:], corev1.ResourceName(t.keys[k])
		putList(e, name)
		binary.LittleEndian.PutUint64(e[8:], uint64(info.Allocatable.Scalar[resource])) //nolint:gosec // the bits of an int64
		binary.LittleEndian.PutUint64(e[16:], uint64(info.Requested.Scalar[resource]))  //nolint:gosec // the bits of an int64
	}
	return err
}

// list finds room for n entries: where the old ones are, if they fit.
func (t *table) list(l *abi.List, room *uint32, n int, size uint32) ([]byte, error) {
	if uint32(n) > *room { //nolint:gosec // a list of a node
		at, err := t.take(uint32(n) * size) //nolint:gosec // a list of a node
		if err != nil {
			return nil, err
		}
		l.At, *room = at, uint32(n) //nolint:gosec // a list of a node
	}
	if l.N = uint32(n); n == 0 { //nolint:gosec // a list of a node
		return nil, nil
	}
	return t.b[l.At:][:l.N*size], nil
}

// texts2 writes the places of two texts.
func (t *table) texts2(to []byte, a, b string) error {
	la, err := t.text(a)
	if err != nil {
		return err
	}
	lb, err := t.text(b)
	putList(to, la)
	putList(to[8:], lb)
	return err
}

func putList(to []byte, l abi.List) {
	binary.LittleEndian.PutUint32(to, l.At)
	binary.LittleEndian.PutUint32(to[4:], l.N)
}

// text returns where a text stands.
func (t *table) text(s string) (abi.List, error) {
	if s == "" {
		return abi.List{}, nil
	}
	if l, ok := t.texts[s]; ok {
		return l, nil
	}
	at, err := t.take(uint32(len(s))) //nolint:gosec // a label
	if err != nil {
		return abi.List{}, err
	}
	copy(t.b[at:], s)
	l := abi.List{At: at, N: uint32(len(s))} //nolint:gosec // a label
	t.texts[s] = l
	return l, nil
}

// take returns the place of n free bytes of the heap, aligned to 8.
func (t *table) take(n uint32) (uint32, error) {
	n = (n + 7) &^ 7
	if uint64(t.used)+uint64(n) > uint64(len(t.b)) {
		return 0, errFull
	}
	at := t.used
	t.used += n
	return at, nil
}
