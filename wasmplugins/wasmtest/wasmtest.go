// Package wasmtest assembles small WebAssembly modules for tests, so that a
// guest that misbehaves in just one way is a few lines of Go and needs no
// toolchain.
package wasmtest

import (
	"encoding/binary"
	"math"
)

// Value types.
const (
	I32 byte = 0x7f
	I64 byte = 0x7e
	F32 byte = 0x7d
	F64 byte = 0x7c
)

// A Module is being assembled. The zero value is an empty module; imports come
// before functions.
type Module struct {
	types   [][]byte
	imports [][]byte
	funcs   []fn
	globals [][]byte
	exports [][]byte
	data    [][]byte
	custom  [][]byte
	memory  []byte
	table   []uint32
	start   []byte
	nImport uint32
}

type fn struct {
	typ  uint32
	body []byte
}

// Type adds a function type and returns its index.
func (m *Module) Type(params, results []byte) uint32 {
	t := []byte{0x60}
	t = append(U(t, uint64(len(params))), params...)
	t = append(U(t, uint64(len(results))), results...)
	m.types = append(m.types, t)
	return uint32(len(m.types) - 1)
}

// Import adds an imported function and returns its index.
func (m *Module) Import(module, name string, params, results []byte) uint32 {
	i := str(str(nil, module), name)
	m.imports = append(m.imports, U(append(i, 0), uint64(m.Type(params, results))))
	m.nImport++
	return m.nImport - 1
}

// ImportMemory makes the module import its memory, of which it exports nothing.
func (m *Module) ImportMemory(module, name string, minimum uint32) {
	i := str(str(nil, module), name)
	m.imports = append(m.imports, U(append(i, 2, 0), uint64(minimum)))
}

// Func adds a function and returns its index. Its body is the concatenation of
// code, to which the end is added. Export it under name unless that is "".
func (m *Module) Func(name string, params, results, locals []byte, code ...[]byte) uint32 {
	b := U(nil, uint64(len(locals)))
	for _, l := range locals {
		b = append(b, 1, l)
	}
	for _, c := range code {
		b = append(b, c...)
	}
	m.funcs = append(m.funcs, fn{m.Type(params, results), append(b, 0x0b)})
	i := m.nImport + uint32(len(m.funcs)) - 1
	if name != "" {
		m.Export(name, 0, i)
	}
	return i
}

// Export adds an export: kind 0 is a function, 2 a memory, 3 a global.
func (m *Module) Export(name string, kind byte, index uint32) {
	m.exports = append(m.exports, U(append(str(nil, name), kind), uint64(index)))
}

// Memory gives the module a memory with the name "memory"; maximum 0 is none.
func (m *Module) Memory(minimum, maximum uint32) {
	if maximum == 0 {
		m.memory = U([]byte{0}, uint64(minimum))
	} else {
		m.memory = U(U([]byte{1}, uint64(minimum)), uint64(maximum))
	}
	m.Export("memory", 2, 0)
}

// HiddenMemory gives the module a memory that it does not export.
func (m *Module) HiddenMemory(minimum uint32) { m.memory = U([]byte{0}, uint64(minimum)) }

// Global adds a mutable i32 or i64 global and returns its index.
func (m *Module) Global(typ byte, value int64) uint32 {
	op := byte(0x41)
	if typ == I64 {
		op = 0x42
	}
	m.globals = append(m.globals, append(S([]byte{typ, 1, op}, value), 0x0b))
	return uint32(len(m.globals) - 1)
}

// Data fills memory at an offset.
func (m *Module) Data(offset uint32, b []byte) {
	d := append(S([]byte{0, 0x41}, int64(int32(offset))), 0x0b)
	m.data = append(m.data, append(U(d, uint64(len(b))), b...))
}

// Table makes a table of the functions.
func (m *Module) Table(funcs ...uint32) { m.table = funcs }

// Start names the start function.
func (m *Module) Start(f uint32) { m.start = U(nil, uint64(f)) }

// Custom adds a custom section.
func (m *Module) Custom(name string, b []byte) {
	m.custom = append(m.custom, append(str(nil, name), b...))
}

// Bytes returns the module.
func (m *Module) Bytes() []byte {
	out := []byte{0, 'a', 's', 'm', 1, 0, 0, 0}
	sec := func(id byte, b []byte) { out = append(U(append(out, id), uint64(len(b))), b...) }
	list := func(id byte, items [][]byte) {
		if len(items) == 0 {
			return
		}
		b := U(nil, uint64(len(items)))
		for _, i := range items {
			b = append(b, i...)
		}
		sec(id, b)
	}
	list(1, m.types)
	list(2, m.imports)
	var types, codes [][]byte
	for _, f := range m.funcs {
		types = append(types, U(nil, uint64(f.typ)))
		codes = append(codes, append(U(nil, uint64(len(f.body))), f.body...))
	}
	list(3, types)
	if m.table != nil {
		sec(4, U([]byte{1, 0x70, 0}, uint64(len(m.table))))
	}
	if m.memory != nil {
		sec(5, append([]byte{1}, m.memory...))
	}
	list(6, m.globals)
	list(7, m.exports)
	if m.start != nil {
		sec(8, m.start)
	}
	if m.table != nil {
		b := U([]byte{1, 0, 0x41, 0, 0x0b}, uint64(len(m.table)))
		for _, f := range m.table {
			b = U(b, uint64(f))
		}
		sec(9, b)
	}
	list(10, codes)
	list(11, m.data)
	for _, c := range m.custom {
		sec(0, c)
	}
	return out
}

// U appends an unsigned LEB128 integer.
func U(b []byte, v uint64) []byte { return binary.AppendUvarint(b, v) }

// S appends a signed LEB128 integer.
func S(b []byte, v int64) []byte {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if (v == 0 && c&0x40 == 0) || (v == -1 && c&0x40 != 0) {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

func str(b []byte, s string) []byte { return append(U(b, uint64(len(s))), s...) }

// The instructions below return their bytes.

// Op is an instruction without immediates, or a sequence of raw bytes.
func Op(b ...byte) []byte { return b }

// Const32 is i32.const.
func Const32(v int32) []byte { return S([]byte{0x41}, int64(v)) }

// Const64 is i64.const.
func Const64(v int64) []byte { return S([]byte{0x42}, v) }

// ConstF64 is f64.const.
func ConstF64(v float64) []byte {
	return binary.LittleEndian.AppendUint64([]byte{0x44}, math.Float64bits(v))
}

// Call is call.
func Call(f uint32) []byte { return U([]byte{0x10}, uint64(f)) }

// Get is local.get.
func Get(i uint32) []byte { return U([]byte{0x20}, uint64(i)) }

// Set is local.set.
func Set(i uint32) []byte { return U([]byte{0x21}, uint64(i)) }

// GlobalGet is global.get.
func GlobalGet(i uint32) []byte { return U([]byte{0x23}, uint64(i)) }

// GlobalSet is global.set.
func GlobalSet(i uint32) []byte { return U([]byte{0x24}, uint64(i)) }

// Loop is loop without results around the code.
func Loop(code ...[]byte) []byte { return nest(0x03, code) }

// Block is block without results around the code.
func Block(code ...[]byte) []byte { return nest(0x02, code) }

// If is if without results around the code.
func If(code ...[]byte) []byte { return nest(0x04, code) }

func nest(op byte, code [][]byte) []byte {
	b := []byte{op, 0x40}
	for _, c := range code {
		b = append(b, c...)
	}
	return append(b, 0x0b)
}

// Br is br, BrIf br_if.
func Br(label uint32) []byte { return U([]byte{0x0c}, uint64(label)) }

// BrIf is br_if.
func BrIf(label uint32) []byte { return U([]byte{0x0d}, uint64(label)) }

// Common instructions without immediates.
var (
	Unreachable = []byte{0x00}        // a constant in all but name
	Return      = []byte{0x0f}        // a constant in all but name
	Drop        = []byte{0x1a}        // a constant in all but name
	Add32       = []byte{0x6a}        // a constant in all but name
	Sub32       = []byte{0x6b}        // a constant in all but name
	Eqz32       = []byte{0x45}        // a constant in all but name
	Grow        = []byte{0x40, 0}     // a constant in all but name
	Fill        = []byte{0xfc, 11, 0} // a constant in all but name
	Store32     = []byte{0x36, 2, 0}  // a constant in all but name
	Load32      = []byte{0x28, 2, 0}  // a constant in all but name
)
