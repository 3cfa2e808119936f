package fuel

import (
	"bytes"
	"slices"
	"strings"
)

// The ids of the sections.
const (
	secCustom = iota
	secType
	secImport
	secFunction
	secTable
	secMemory
	secGlobal
	secExport
	secStart
	secElement
	secCode
	secData
	secDataCount
)

// order is the place of each section in a module; custom ones stand anywhere.
var order = [...]int{secType: 1, secImport: 2, secFunction: 3, secTable: 4, secMemory: 5, secGlobal: 6, secExport: 7, secStart: 8, secElement: 9, secDataCount: 10, secCode: 11, secData: 12} //nolint:gochecknoglobals // a constant in all but name

var header = []byte{0, 'a', 's', 'm', 1, 0, 0, 0} //nolint:gochecknoglobals // a constant in all but name

// A signature is what the rewriter needs of a function type.
type signature struct {
	params int
	block  []byte // the block type of a block with the same results
}

type section struct {
	id   byte
	body []byte
}

// A module is the state of one rewrite. Indexes are of the original unless
// said otherwise.
type module struct {
	o Options

	types     []signature
	multi     [][]byte // result lists that need a type of their own
	imported  uint32   // functions
	functions uint32   // imported and defined
	defined   []uint32 // type index of each defined function
	importedG uint32   // globals
	globals   uint32   // imported and defined

	void   uint32 // type index of func()
	refill uint32 // index of Refill in the output; Overflow is the next
	fuel   uint32 // global index
	depth  uint32 // global index

	mutable []uint32
	hidden  bool
	pages   uint32 // of memory at first
	memory  []byte // limits of an imported memory
	locals  int    // of all functions

	original []byte
	sections map[string][]byte
}

// count reads how many items follow, each of which has at least one byte.
func (m *module) count(r *reader, what string) uint32 {
	n := r.u32()
	if uint64(n) > uint64(len(r.b)-r.i) {
		malformed("%d %s in %d bytes", n, what, len(r.b)-r.i)
	}
	if uint64(n) > uint64(m.o.MaxItems) {
		unsupported("module has %d %s, the limit is %d", n, what, m.o.MaxItems)
	}
	return n
}

// function maps a function index to the output's.
func (m *module) function(i uint32) uint32 {
	switch {
	case i >= m.functions:
		malformed("function index %d out of range", i)
	case i >= m.imported:
		return i + 2
	}
	return i
}

func (m *module) checkType(i uint32) {
	if uint64(i) >= uint64(len(m.types)) {
		malformed("type index %d out of range", i)
	}
}

func (m *module) checkBlockType(t int64) {
	switch {
	case t >= int64(len(m.types)):
		malformed("type index %d out of range", t)
	case t < 0 && t != -0x40: // not empty: a value type
		checkValueType(byte(t & 0x7f))
	}
}

// checkGlobal keeps a guest away from the globals that the rewriter adds.
func (m *module) checkGlobal(i uint32) {
	if i >= m.globals {
		malformed("global index %d out of range", i)
	}
}

func (m *module) rewrite(wasm []byte) (out []byte, err error) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case failure:
			err = e.err
		default:
			panic(e)
		}
	}()
	secs := split(wasm)
	m.survey(secs)
	m.sections = map[string][]byte{}
	m.original = append(make([]byte, 0, len(wasm)), header...)

	out = append(make([]byte, 0, len(wasm)+len(wasm)/3), header...)
	emit := func(id byte, b []byte) {
		out = append(out, id)
		out = putUint(out, uint64(len(b)))
		out = append(out, b...)
	}
	// The sections that must be there even if the original has none.
	added := []byte{secType, secImport, secGlobal, secExport}
	if m.memory != nil {
		added = slices.Insert(added, 2, byte(secMemory))
	}
	flush := func(before int) {
		for len(added) > 0 && order[added[0]] < before {
			emit(added[0], m.section(added[0], []byte{0}))
			added = added[1:]
		}
	}
	for _, s := range secs {
		if s.id != secCustom {
			m.original = putUint(append(m.original, s.id), uint64(len(s.body)))
			m.original = append(m.original, s.body...)
		}
		if s.id == secCustom {
			if b := m.custom(s.body); b != nil {
				emit(secCustom, b)
			}
			continue
		}
		flush(order[s.id])
		if len(added) > 0 && added[0] == s.id {
			added = added[1:]
		}
		emit(s.id, m.section(s.id, s.body))
	}
	flush(len(order))
	return out, nil
}

// split cuts a module into its sections and checks their order.
func split(wasm []byte) []section {
	if !bytes.HasPrefix(wasm, header) {
		malformed("not a core WebAssembly module of version 1")
	}
	var secs []section
	last := 0
	r := &reader{b: wasm, i: len(header)}
	for !r.done() {
		s := section{id: r.byte()}
		s.body = r.take(r.u32())
		if int(s.id) >= len(order) {
			unsupported("section %d", s.id)
		}
		if s.id != secCustom {
			if order[s.id] <= last {
				malformed("section %d out of order", s.id)
			}
			last = order[s.id]
		}
		secs = append(secs, s)
	}
	return secs
}

// survey reads what must be known before anything is written.
func (m *module) survey(secs []section) {
	find := func(id byte) *reader {
		for _, s := range secs {
			if s.id == id {
				return &reader{b: s.body}
			}
		}
		return &reader{b: []byte{0}}
	}
	m.surveyTypes(find(secType))
	m.surveyImports(find(secImport))
	r := find(secFunction)
	n := m.count(r, "functions")
	for range n {
		t := r.u32()
		m.checkType(t)
		m.defined = append(m.defined, t)
	}
	m.functions = m.imported + n
	mem := find(secMemory)
	for n := mem.u32(); n > 0; n-- {
		if n > 1 || m.memory != nil {
			unsupported("several memories")
		}
		at := mem.i
		mem.skipLimits()
		mem.i = at + 1
		m.pages = mem.u32()
	}
	m.refill = m.imported
	m.globals = m.importedG + m.count(find(secGlobal), "globals")
	m.fuel, m.depth = m.globals, m.globals+1
}

func (m *module) surveyTypes(r *reader) {
	n := m.count(r, "types")
	seen := map[string]int{}
	type multi struct{ at, index int }
	var pending []multi
	for range n {
		if form := r.byte(); form != typeFunc {
			unsupported("type form %#x", form)
		}
		np := r.u32()
		for _, t := range r.take(np) {
			checkValueType(t)
		}
		results := r.take(r.u32())
		for _, t := range results {
			checkValueType(t)
		}
		sig := signature{params: int(np)}
		switch len(results) {
		case 0:
			sig.block = []byte{typeVoid}
		case 1:
			sig.block = results
		default:
			i, ok := seen[string(results)]
			if !ok {
				i = len(m.multi)
				seen[string(results)] = i
				m.multi = append(m.multi, results)
			}
			pending = append(pending, multi{at: len(m.types), index: i})
		}
		m.types = append(m.types, sig)
	}
	end(r)
	m.void = n
	for _, p := range pending {
		m.types[p.at].block = putInt(nil, int64(n)+1+int64(p.index))
	}
}

func checkValueType(t byte) {
	if (t < typeV128 || t > typeI32) && t != typeFref && t != typeExref {
		unsupported("value type %#x", t)
	}
}

func checkReference(t byte) {
	if t != typeFref && t != typeExref {
		unsupported("reference type %#x", t)
	}
}

func (m *module) surveyImports(r *reader) {
	for range m.count(r, "imports") {
		mod := r.name()
		r.name()
		if mod == Module {
			unsupported("a guest may not import from %q", Module)
		}
		switch kind := r.byte(); kind {
		case 0:
			m.checkType(r.u32())
			m.imported++
		case 1:
			checkReference(r.byte())
			r.skipLimits()
		case 2:
			if m.memory != nil {
				unsupported("several memories")
			}
			at := r.i
			r.skipLimits()
			m.memory = r.b[at:r.i]
			m.pages = (&reader{b: m.memory, i: 1}).u32()
		case 3:
			checkValueType(r.byte())
			if r.byte() != 0 {
				m.hidden = true
			}
			m.importedG++
		default:
			unsupported("import of kind %d", kind)
		}
	}
	end(r)
}

// custom returns the custom section to write, nil for none: debug information
// is dropped, it is not true any more.
func (m *module) custom(b []byte) []byte {
	r := &reader{b: b}
	name := r.text() // Result.Original shows nothing of it
	switch {
	case name == "name":
		return m.names(b, r.i)
	case strings.HasPrefix(name, ".debug_"), name == "sourceMappingURL":
		return nil
	}
	m.sections[name] = bytes.Clone(b[r.i:])
	return b
}
