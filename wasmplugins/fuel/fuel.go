// Package fuel rewrites a WebAssembly module so that it meters itself.
//
// wazero compiles modules to machine code that Go cannot pre-empt: a guest
// that spins holds up the garbage collector of the whole process, and the
// engine's own deadline check costs more than most guests and misses plain
// recursion. So the module is changed before it is compiled:
//
//   - Every function entry and loop header takes its static cost from a global
//     that the rewriter adds. Bulk operations and memory.grow take a charge by
//     size. When the global falls below zero the guest calls the imported
//     function Refill, which is Go: it can yield, check a deadline and a
//     budget, put fuel back, or panic to end the call.
//   - Every function that calls another counts the depth of calls in a second
//     global and calls the imported function Overflow when it is used up.
//   - Tables get a maximum.
//   - An imported memory becomes one of the module's own, with the same limits,
//     so that all guests are bounded and reset in one way.
//   - Mutable globals are exported, so that the host can take a snapshot of a
//     warm instance and restore it.
//
// The rewriter reads every count and length in a module and believes none: an
// engine that allocates by them first can be made to take all memory by a
// module of a hundred bytes. So Rewrite comes before anything else that reads
// the module. But it is no validator: the caller validates the original next
// (see Result.Original). A valid module stays valid and computes the same; a
// module that uses a feature the rewriter does not know is refused.
package fuel

import (
	"errors"
	"fmt"
)

// Version changes when the output for the same input may change. It belongs
// into the key of anything that caches rewritten modules.
const Version = 3

// What the rewritten module imports and exports beside its own.
const (
	// Module is the import module of the functions below. A guest that names
	// it itself is refused.
	Module = "proa:meter"
	// Refill is called as func() when the fuel is used up.
	Refill = "refill"
	// Overflow is called as func() when calls are nested too deeply. It must
	// not return.
	Overflow = "overflow"

	// Fuel is the exported i64 global with the fuel that is left; it starts
	// at 0, so that a start function calls Refill at once.
	Fuel = "proa:fuel"
	// Depth is the exported i32 global with the calls that may still nest. The
	// host sets it before each call, since a trap leaves it where it was.
	Depth = "proa:depth"

	// reserved begins the export names that a guest may not use.
	reserved     = "proa:"
	globalPrefix = "proa:global:"
)

// ErrUnsupported is wrapped by the errors of Rewrite that are not about the
// module's being malformed: it uses a feature that cannot be metered, or
// exceeds a limit.
var ErrUnsupported = errors.New("unsupported module")

// ErrMalformed is wrapped by the errors of Rewrite about bytes that are not a
// module.
var ErrMalformed = errors.New("malformed module")

// Options are the charges and the bounds. The zero value means the defaults.
type Options struct {
	// CostShift makes a header cost 1 + instructions>>CostShift. Default 6.
	CostShift uint
	// BulkShift makes a bulk operation on n bytes or elements cost
	// n>>BulkShift. Default 6.
	BulkShift uint
	// PageCost is charged for each page of memory.grow. Default 1,024.
	PageCost int64
	// MaxDepth is how deeply calls may nest at first; the host may set Depth
	// to another value for a call. Default 32,768.
	MaxDepth int32

	// MaxModule is the largest module, in bytes. Default 16 MiB.
	MaxModule int
	// MaxBody is the largest function body, in bytes: what the compiler takes
	// for a function grows faster than its size. Default 128 KiB.
	MaxBody int
	// MaxItems is the most functions, types, imports, exports, globals and
	// segments a module may have of each. Default 100,000.
	MaxItems int
	// MaxLocals is the most locals a function may have. Default 10,000. All
	// functions together may have 400 times as many.
	MaxLocals int
	// MaxValues bounds, in each function, locals times blocks, where a loop
	// counts for ten: the compiler's time grows with it, by some 4
	// microseconds each, and cannot be cut short within a function. Default
	// 4,000,000.
	MaxValues int
	// MaxTable is how many elements a table may grow to: the engine would let
	// it take all memory of the host. Default 131,072.
	MaxTable int
	// MaxTables is the most tables. Default 8.
	MaxTables int
}

func (o Options) withDefaults() Options {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	if o.CostShift == 0 {
		o.CostShift = 6
	}
	if o.BulkShift == 0 {
		o.BulkShift = 6
	}
	if o.PageCost == 0 {
		o.PageCost = 1024
	}
	if o.MaxDepth == 0 {
		o.MaxDepth = 32768
	}
	def(&o.MaxModule, 16<<20)
	def(&o.MaxBody, 128<<10)
	def(&o.MaxItems, 100_000)
	def(&o.MaxValues, 4_000_000)
	def(&o.MaxLocals, 10_000)
	def(&o.MaxTable, 128<<10)
	def(&o.MaxTables, 8)
	return o
}

// A Result is a rewritten module and what the host must know of it.
type Result struct {
	Module []byte
	// Original is the module without its custom sections, for validation: its
	// counts and lengths are true, and within the limits.
	Original []byte
	// Sections are the custom sections, but for debug information and names.
	Sections map[string][]byte
	// Globals are the export names of the mutable globals, which together
	// with the memory are the state of an instance.
	Globals []string
	// MemoryPages is how many pages of 64 KiB the memory has at first; 0 may
	// also mean that there is no memory.
	MemoryPages uint32
	// HiddenState says that memory and Globals are not the whole state: the
	// module changes tables, drops segments, or has a mutable global that the
	// host cannot read. Such an instance cannot be restored, only replaced.
	HiddenState bool
}

// Rewrite returns the metered module. It never changes or keeps wasm.
func Rewrite(wasm []byte, o Options) (*Result, error) {
	o = o.withDefaults()
	if len(wasm) > o.MaxModule {
		return nil, fmt.Errorf("%w: module has %d bytes, the limit is %d", ErrUnsupported, len(wasm), o.MaxModule)
	}
	m := &module{o: o}
	out, err := m.rewrite(wasm)
	if err != nil {
		return nil, err
	}
	res := &Result{Module: out, HiddenState: m.hidden, MemoryPages: m.pages, Original: m.original, Sections: m.sections}
	for _, g := range m.mutable {
		res.Globals = append(res.Globals, globalName(g))
	}
	return res, nil
}

func globalName(index uint32) string { return fmt.Sprintf("%s%d", globalPrefix, index) }

// A failure travels as a panic from the readers to rewrite, which alone
// recovers it: the code between would otherwise be mostly error checks.
type failure struct{ err error }

func malformed(format string, args ...any) {
	panic(failure{fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))})
}

func unsupported(format string, args ...any) {
	panic(failure{fmt.Errorf("%w: %s", ErrUnsupported, fmt.Sprintf(format, args...))})
}
