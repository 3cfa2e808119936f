package api

import (
	"bytes"
	"errors"
	"slices"
	"strings"
)

// ErrNotObject is returned for values that are no JSON object.
var ErrNotObject = errors.New("not a JSON object")

// Extract returns the labels of a stored object and the fields that selectors
// may name, both sorted by key. Fields that are empty are left out. The row
// may be any that shares the stored form: the fields are named as in the
// stored row. The strings may share value's memory, so value must not change.
func (r *Resource) Extract(value []byte) (labels, fields [][2]string, err error) {
	return r.Stored().extract.run(value)
}

// An extractor reads some fields of a stored object.
type extractor struct {
	root     []step
	names    []string // of the fields, sorted
	defaults []string // by field
	// source and reporter are the fields of an event that names its source in
	// one of two ways; -1 in other kinds.
	source, reporter int
}

// A step is a key of interest in an object.
type step struct {
	key   string
	below []step // of interest in the value, if any
	// first says that the value is a list whose first element counts.
	first  bool
	labels bool // the value is the map of labels
	field  int  // the value is this field; -1 if it is none
}

// fieldPath returns where a field is; most labels are their path.
func fieldPath(label string) string {
	switch label {
	case "status.podIP":
		return "status.podIPs[].ip"
	case "status.podIPs":
		return "" // selectable, but always empty
	case "source":
		return "source.component"
	}
	return label
}

// fieldDefault returns the value of a field that is left out because it is zero.
func fieldDefault(label string) string {
	switch label {
	case "spec.hostNetwork", "spec.unschedulable":
		return "false"
	case "status.replicas":
		return "0"
	}
	return ""
}

func newExtractor(r *Resource) *extractor {
	x := &extractor{names: slices.Sorted(slices.Values(r.Fields))}
	x.source, x.reporter = slices.Index(x.names, "source"), slices.Index(x.names, "reportingComponent")
	x.defaults = make([]string, len(x.names))
	add(&x.root, "metadata.labels", step{labels: true, field: -1})
	for i, name := range x.names {
		x.defaults[i] = fieldDefault(name)
		if path := fieldPath(name); path != "" {
			add(&x.root, path, step{field: i})
		}
	}
	return x
}

// add puts leaf at the path below steps.
func add(steps *[]step, path string, leaf step) {
	key, rest, more := strings.Cut(path, ".")
	if !more {
		leaf.key = key
		*steps = append(*steps, leaf)
		return
	}
	key, first := strings.CutSuffix(key, "[]")
	i := slices.IndexFunc(*steps, func(s step) bool { return s.key == key })
	if i < 0 {
		i = len(*steps)
		*steps = append(*steps, step{key: key, first: first, field: -1})
	}
	add(&(*steps)[i].below, rest, leaf)
}

func (x *extractor) run(value []byte) (labels, fields [][2]string, err error) {
	var room [16]string
	found := append(room[:0], x.defaults...)
	s := scanner{data: value}
	if s.space() != '{' {
		return nil, nil, ErrNotObject
	}
	if !s.collect(x.root, found, &labels) {
		return nil, nil, ErrNotObject
	}
	if x.source >= 0 && x.reporter >= 0 && found[x.source] == "" {
		found[x.source] = found[x.reporter]
	}
	n := 0
	for _, v := range found {
		if v != "" {
			n++
		}
	}
	if n == 0 {
		return labels, nil, nil
	}
	fields = make([][2]string, 0, n)
	for i, v := range found {
		if v != "" {
			fields = append(fields, [2]string{x.names[i], v})
		}
	}
	return labels, fields, nil
}

// collect reads the object at s into found and labels and moves past it.
func (s *scanner) collect(steps []step, found []string, labels *[][2]string) bool {
	if s.space() != '{' {
		return s.skip()
	}
	s.pos++
	for {
		key, ok := s.key()
		if !ok {
			return s.pos > 0 && s.data[s.pos-1] == '}'
		}
		st := lookup(steps, key)
		switch {
		case st == nil:
			ok = s.skip()
		case st.labels:
			*labels, ok = s.pairs()
		case st.field >= 0:
			ok = s.scalar(&found[st.field])
		case st.first:
			ok = s.collectFirst(st.below, found, labels)
		default:
			ok = s.collect(st.below, found, labels)
		}
		if !ok {
			return false
		}
	}
}

// collectFirst reads the first element of the list at s and moves past the list.
func (s *scanner) collectFirst(steps []step, found []string, labels *[][2]string) bool {
	start := s.pos
	if s.space() == '[' {
		s.pos++
		if s.space() == '{' && !s.collect(steps, found, labels) {
			return false
		}
	}
	s.pos = start
	return s.skip()
}

// lookup returns the step with the raw key, or nil.
func lookup(steps []step, key []byte) *step {
	for i := range steps {
		if string(key) == steps[i].key {
			return &steps[i]
		}
	}
	if bytes.IndexByte(key, '\\') < 0 {
		return nil
	}
	name := unescape(key)
	for i := range steps {
		if name == steps[i].key {
			return &steps[i]
		}
	}
	return nil
}

// scalar reads a string, number or boolean into out and moves past the value.
// Other values leave out alone.
func (s *scanner) scalar(out *string) bool {
	switch c := s.space(); c {
	case '"':
		raw, ok := s.str()
		if ok {
			*out = unescape(raw)
		}
		return ok
	case '{', '[', 'n':
		return s.skip()
	default:
		start := s.pos
		ok := s.skip()
		if ok {
			*out = unescape(s.data[start:s.pos])
		}
		return ok
	}
}

// pairs reads a map of strings, sorted by key, and moves past it.
func (s *scanner) pairs() ([][2]string, bool) {
	if s.space() != '{' {
		return nil, s.skip()
	}
	s.pos++
	var room [16][2]string
	out := room[:0]
	for {
		key, ok := s.key()
		if !ok {
			break
		}
		pair := [2]string{unescape(key), ""}
		if !s.scalar(&pair[1]) {
			return nil, false
		}
		i, dup := slices.BinarySearchFunc(out, pair[0], func(p [2]string, k string) int { return strings.Compare(p[0], k) })
		if dup {
			out[i] = pair
			continue
		}
		out = slices.Insert(out, i, pair)
	}
	if len(out) == 0 {
		return nil, s.data[s.pos-1] == '}'
	}
	return slices.Clone(out), s.data[s.pos-1] == '}'
}
