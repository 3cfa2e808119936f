package fuel

import "strings"

// section returns what to write for a section of the original.
func (m *module) section(id byte, b []byte) []byte {
	r := &reader{b: b}
	switch id {
	case secType:
		return m.typeSection(r)
	case secImport:
		return m.importSection(r)
	case secTable:
		return m.tableSection(r)
	case secMemory:
		return m.memorySection(r)
	case secGlobal:
		return m.globalSection(r)
	case secExport:
		return m.exportSection(r)
	case secStart:
		return putUint(nil, uint64(m.function(r.u32())))
	case secElement:
		return m.elementSection(r)
	case secCode:
		return m.codeSection(r)
	case secData:
		m.checkData(r)
	case secFunction, secDataCount: // survey has read them
		m.checkEnd(id, r)
	}
	return b
}

// checkEnd reads a section of numbers to its end.
func (m *module) checkEnd(id byte, r *reader) {
	n := r.u32()
	if id == secFunction {
		for range n {
			r.u32()
		}
	}
	end(r)
}

// memorySection copies the memory, or makes one of that which was imported.
func (m *module) memorySection(r *reader) []byte {
	for range r.u32() {
		r.skipLimits()
	}
	end(r)
	if m.memory != nil {
		return append([]byte{1}, m.memory...)
	}
	return r.b
}

func end(r *reader) {
	if !r.done() {
		malformed("bytes behind the end of a section")
	}
}

func (m *module) checkData(r *reader) {
	for range m.count(r, "data segments") {
		switch flags := r.u32(); flags {
		case 0, 2:
			if flags == 2 {
				r.u32()
			}
			m.constant(nil, r)
		case 1:
		default:
			malformed("data segment of form %d", flags)
		}
		r.take(r.u32())
	}
	end(r)
}

func (m *module) typeSection(r *reader) []byte {
	n := r.u32()
	out := putUint(nil, uint64(n)+1+uint64(len(m.multi)))
	out = append(out, r.b[r.i:]...)
	out = append(out, typeFunc, 0, 0)
	for _, results := range m.multi {
		out = append(out, typeFunc, 0)
		out = putUint(out, uint64(len(results)))
		out = append(out, results...)
	}
	return out
}

func (m *module) importSection(r *reader) []byte {
	n := r.u32()
	if m.memory != nil {
		n--
	}
	out := putUint(nil, uint64(n)+2)
	for !r.done() {
		at := r.i
		r.name()
		r.name()
		kind := r.byte()
		switch kind {
		case 0:
			r.u32()
		case 1:
			r.byte()
			r.skipLimits()
		case 2: // becomes the module's own
			r.skipLimits()
			continue
		case 3:
			r.take(2)
		}
		out = append(out, r.b[at:r.i]...)
	}
	for _, name := range []string{Refill, Overflow} {
		out = putName(out, Module)
		out = putName(out, name)
		out = append(out, 0)
		out = putUint(out, uint64(m.void))
	}
	return out
}

// tableSection gives every table a maximum.
func (m *module) tableSection(r *reader) []byte {
	n := r.u32()
	if uint64(n) > uint64(m.o.MaxTables) {
		unsupported("module has %d tables, the limit is %d", n, m.o.MaxTables)
	}
	out := putUint(nil, uint64(n))
	for range n {
		t := r.byte()
		checkReference(t)
		out = append(out, t)
		at := r.i
		r.skipLimits()
		l := &reader{b: r.b, i: at}
		bounded, least, most := l.byte() == 1, l.u32(), uint32(m.o.MaxTable)
		if bounded {
			most = min(most, l.u32())
		}
		if uint64(least) > uint64(m.o.MaxTable) {
			unsupported("table has %d elements, the limit is %d", least, m.o.MaxTable)
		}
		if bounded && most < least {
			malformed("table with a maximum below its minimum")
		}
		out = putUint(append(out, 1), uint64(least))
		out = putUint(out, uint64(most))
	}
	end(r)
	return out
}

func (m *module) globalSection(r *reader) []byte {
	n := r.u32()
	out := putUint(nil, uint64(n)+2)
	for i := range n {
		t, mutable := r.byte(), r.byte()
		checkValueType(t)
		switch {
		case mutable == 0:
		case t > typeV128 && t <= typeI32:
			m.mutable = append(m.mutable, m.importedG+i)
		default:
			m.hidden = true
		}
		out = append(out, t, mutable)
		out = m.constant(out, r)
	}
	end(r)
	out = append(out, typeI64, 1, opI64Const, 0, opEnd)
	out = append(out, typeI32, 1, opI32Const)
	return append(putInt(out, int64(m.o.MaxDepth)), opEnd)
}

func (m *module) exportSection(r *reader) []byte {
	n := m.count(r, "exports")
	var own []byte
	for range n {
		name := r.name()
		if strings.HasPrefix(name, reserved) {
			unsupported("a guest may not export %q", name)
		}
		kind, index := r.byte(), r.u32()
		switch kind {
		case 0:
			index = m.function(index)
		case 3:
			m.checkGlobal(index)
		}
		own = putName(own, name)
		own = putUint(append(own, kind), uint64(index))
	}
	end(r)
	out := putUint(nil, uint64(n)+2+uint64(len(m.mutable)))
	out = append(out, own...)
	export := func(name string, index uint32) {
		out = putName(out, name)
		out = putUint(append(out, 3), uint64(index))
	}
	for _, g := range m.mutable {
		export(globalName(g), g)
	}
	export(Fuel, m.fuel)
	export(Depth, m.depth)
	return out
}

func (m *module) elementSection(r *reader) []byte {
	n := m.count(r, "element segments")
	out := putUint(nil, uint64(n))
	for range n {
		flags := r.u32()
		if flags > 7 {
			malformed("element segment of form %d", flags)
		}
		out = putUint(out, uint64(flags))
		if flags&1 == 0 { // active
			if flags&2 != 0 {
				out = putUint(out, uint64(r.u32()))
			}
			out = m.constant(out, r)
		}
		if flags&3 != 0 {
			t := r.byte()
			if flags&4 != 0 {
				checkReference(t)
			} else if t != 0 {
				unsupported("element kind %#x", t)
			}
			out = append(out, t)
		}
		count := r.u32()
		if uint64(count) > uint64(len(r.b)-r.i) {
			malformed("%d elements in %d bytes", count, len(r.b)-r.i)
		}
		out = putUint(out, uint64(count))
		for range count {
			if flags&4 != 0 {
				out = m.constant(out, r)
			} else {
				out = putUint(out, uint64(m.function(r.u32())))
			}
		}
	}
	end(r)
	return out
}

func (m *module) codeSection(r *reader) []byte {
	n := r.u32()
	if uint64(n) != uint64(len(m.defined)) {
		malformed("%d functions with %d bodies", len(m.defined), n)
	}
	out := putUint(make([]byte, 0, len(r.b)+len(r.b)/3), uint64(n))
	for _, t := range m.defined {
		code := r.take(r.u32())
		if len(code) > m.o.MaxBody {
			unsupported("function body has %d bytes, the limit is %d", len(code), m.o.MaxBody)
		}
		code = m.rewriteBody(code, t)
		out = putUint(out, uint64(len(code)))
		out = append(out, code...)
	}
	end(r)
	return out
}

// constant copies a constant expression up to and with its end.
func (m *module) constant(out []byte, r *reader) []byte {
	for {
		at := r.i
		op := r.byte()
		switch op {
		case opEnd:
			return append(out, op)
		case opI32Const, opI64Const:
			r.skipInteger()
		case 0x43:
			r.take(4)
		case 0x44:
			r.take(8)
		case opGlobalGet:
			m.checkGlobal(r.u32())
		case 0xd0:
			checkReference(r.byte())
		case opRefFunc:
			out = op1(out, op, uint64(m.function(r.u32())))
			continue
		case opVector:
			if s := r.u32(); s != 12 {
				unsupported("constant instruction %#x %d", op, s)
			}
			r.take(16)
		default:
			unsupported("constant instruction %#x", op)
		}
		out = append(out, r.b[at:r.i]...)
	}
}

// names returns the name section with the module's and the functions' names.
// A broken one is left out: it is only for people.
func (m *module) names(b []byte, at int) (out []byte) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case failure:
			out = nil
		default:
			panic(e)
		}
	}()
	out = append(out, b[:at]...)
	r := &reader{b: b, i: at}
	for !r.done() {
		id := r.byte()
		s := &reader{b: r.take(r.u32())}
		var sub []byte
		switch id {
		case 0:
			sub = putName(nil, s.text())
		case 1:
			n := s.u32()
			sub = putUint(nil, uint64(n))
			for range n {
				sub = putUint(sub, uint64(m.function(s.u32())))
				sub = putName(sub, s.text())
			}
		default:
			continue
		}
		out = append(out, id)
		out = putUint(out, uint64(len(sub)))
		out = append(out, sub...)
	}
	return out
}
