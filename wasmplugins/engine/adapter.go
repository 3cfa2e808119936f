package engine

import (
	"bytes"
	"fmt"
	"time"

	"github.com/tetratelabs/wazero/api"
)

// What the adapters of foreign ABIs need of an instance, most of it within the
// functions that they offer with ProgramConfig.Imports.

// Stop ends the guest's call from within an Import. It does not return.
func (i *Instance) Stop(r Reason, format string, args ...any) {
	i.stop(r, fmt.Sprintf(format, args...))
}

// Argument returns a range of memory that a guest named as a parameter of an
// Import, and charges for it. It ends the call if the range is outside the
// memory. The bytes are valid until the next call of the guest.
func (i *Instance) Argument(ptr, n uint64) []byte { return i.argument(ptr, n) }

// CString returns the bytes from ptr up to a zero byte, of which there must be
// at most a given number. They are valid until the next call of the guest.
func (i *Instance) CString(ptr uint32, most int) ([]byte, bool) {
	if i.memory == nil || ptr >= i.memory.Size() {
		return nil, false
	}
	b, ok := i.memory.Read(ptr, min(i.memory.Size()-ptr, uint32(most)+1))
	if !ok {
		return nil, false
	}
	text, _, found := bytes.Cut(b, []byte{0})
	return text, found
}

// Print adds a line to the guest's output.
func (i *Instance) Print(l Level, line []byte) {
	i.out.write(l, line)
	if n := len(line); n == 0 || line[n-1] != '\n' {
		i.out.write(l, []byte{'\n'})
	}
}

// Ask answers a capability for the guest. It ends the call if capabilities are
// not granted, or their limits are reached; other errors are for the guest.
func (i *Instance) Ask(operation string, request []byte) ([]byte, error) {
	return i.ask(operation, request)
}

// Fetch is Ask for the adapter's own use, outside of a call of the guest: its
// error is an *Error where Ask would end the call.
func (i *Instance) Fetch(operation string, request []byte) (reply []byte, err error) {
	defer func() {
		switch e := recover(); e {
		case nil:
		case errStop:
			reply, err = nil, i.meter.stop
		default:
			panic(e)
		}
	}()
	return i.ask(operation, request)
}

// Nested calls the export with the index in ProgramConfig.Exports from within
// an Import, within the limits of the guest's call, and returns its first
// result. If the export fails, the guest's call ends. The functions of the host
// may not be nested further.
func (i *Instance) Nested(export int, args ...uint64) uint64 {
	if i.nesting {
		i.stop(Trapped, fmt.Sprintf("called the host from within %s, which the host had called", i.p.exports[export]))
	}
	i.nesting = true
	defer func() { i.nesting = false }()
	if i.nested == nil {
		i.nested = make([]api.Function, len(i.p.exports))
	}
	// A function of wazero's cannot be called while it runs, so those for
	// Nested are others than those for Call.
	f := i.nested[export]
	if f == nil {
		f = i.mod.ExportedFunction(i.p.exports[export])
		i.nested[export] = f
	}
	var stack [8]uint64
	copy(stack[:], args)
	if err := f.CallWithStack(i.ctx, stack[:]); err != nil {
		panic(err) // through the guest's code, to the one who called it
	}
	return stack[0]
}

// Global returns the value of a global that the guest exports.
func (i *Instance) Global(name string) (uint64, bool) {
	g := i.mod.ExportedGlobal(name)
	if g == nil {
		return 0, false
	}
	return g.Get(), true
}

// Now is the guest's wall clock.
func (i *Instance) Now() time.Time { return i.wall }

// Random fills b with the guest's randomness.
func (i *Instance) Random(b []byte) { i.fillRandom(b) }

// Feed adds to the guest's standard input.
func (i *Instance) Feed(b []byte) { i.streams.in = append(i.streams.in, b...) }

// Output is what the guest wrote to its standard output, if Call.Stdout keeps
// it. It is valid until the end of the use.
func (i *Instance) Output() []byte { return i.streams.kept }
