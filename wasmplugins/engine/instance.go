package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/sys"

	"github.com/proa-project/proa/wasmplugins/fuel"
)

type instanceKey struct{}

// An Instance is a guest during one use of it. It belongs to one goroutine.
type Instance struct {
	p       *Program
	ctx     context.Context //nolint:containedctx // carries the instance to the host's functions, made once
	mod     api.Module
	memory  api.Memory // nil if the module has none
	linear  linearMemory
	fuel    api.MutableGlobal
	depth   api.MutableGlobal
	globals []api.MutableGlobal
	exports []api.Function
	stack   [8]uint64
	nested  []api.Function // for Nested, made when wanted
	nesting bool           // within Nested

	// State is for the adapter, during one use.
	State any

	meter   meter
	out     output
	random  randomness
	host    hostCalls
	streams streams
	wall    time.Time
	broken  bool // must be replaced
	loose   bool // see Session.Loosen
}

// newInstance makes an instance. Without a snapshot it is initialised and
// warmed, otherwise the caller makes it adopt the snapshot.
func (p *Program) newInstance(ctx context.Context) (*Instance, error) {
	i := &Instance{p: p}
	i.ctx = context.WithValue(context.Background(), instanceKey{}, i)
	actx := experimental.WithMemoryAllocator(i.ctx, experimental.MemoryAllocatorFunc(func(uint64, uint64) experimental.LinearMemory {
		i.linear = p.e.newMemory(uint64(p.c.Limits.Memory))
		return i.linear
	}))
	i.begin(ctx, Call{}, p.c.Limits.Start, 100*p.c.Limits.Fuel)
	mod, err := p.rt.InstantiateModule(actx, p.compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		err = i.classify("start", err)
		if i.linear != nil {
			i.linear.Free() // again is no harm
		}
		return nil, err
	}
	i.bind(mod)
	for _, name := range p.exports {
		i.exports = append(i.exports, mod.ExportedFunction(name))
	}
	if p.image == nil {
		if err := i.warm(); err != nil {
			i.free()
			return nil, err
		}
	}
	if p.code.HiddenState { // otherwise adopt does it
		if err := i.layWindow(); err != nil {
			i.free()
			return nil, p.fail(OutOfMemory, "cannot make an instance", err)
		}
	}
	i.end()
	return i, nil
}

// bind finds the parts of a module's instance. A start function calls the host
// before the instance is complete, so this may come from there.
func (i *Instance) bind(mod api.Module) {
	i.mod = mod
	global := func(name string) api.MutableGlobal {
		return mod.ExportedGlobal(name).(api.MutableGlobal) //nolint:errcheck,forcetypeassert // the rewriter made it
	}
	if i.fuel != nil {
		return
	}
	i.fuel, i.depth = global(fuel.Fuel), global(fuel.Depth)
	for _, name := range i.p.code.Globals {
		i.globals = append(i.globals, global(name))
	}
	if i.linear != nil { // Memory is never nil, even if there is none
		i.memory = mod.Memory()
	}
}

// warm initialises a module the way its kind wants, then as the adapter does.
func (i *Instance) warm() error {
	for _, name := range []string{"_initialize", "_start"} {
		if i.p.c.Command && name == "_start" {
			break // each call is a run of it
		}
		if f := i.mod.ExportedFunction(name); f != nil {
			if _, err := i.call(name, f); err != nil {
				return err
			}
			break
		}
	}
	if i.p.c.Warm == nil {
		return nil
	}
	return i.p.c.Warm(i)
}

// adopt brings a new instance into the state of the snapshot.
func (i *Instance) adopt() error {
	if i.memory != nil {
		size := i.p.image.size()
		if have := uint64(i.memory.Size()); have > size {
			return fmt.Errorf("instance has %d bytes of memory, the snapshot %d", have, size)
		} else if have < size {
			if _, ok := i.memory.Grow(uint32((size - have) >> 16)); !ok {
				return fmt.Errorf("cannot grow the memory to %d bytes", size)
			}
		}
		if err := i.linear.adopt(i.p.image); err != nil {
			return err
		}
		if err := i.layWindow(); err != nil {
			return err
		}
	}
	i.restoreGlobals()
	return nil
}

func (i *Instance) restoreGlobals() {
	for n, g := range i.globals {
		g.Set(i.p.globals[n])
	}
}

// begin prepares the instance for a use.
func (i *Instance) begin(ctx context.Context, c Call, timeout time.Duration, units int64) {
	now := time.Now()
	i.meter = meter{ctx: ctx, deadline: now.Add(timeout), timeout: timeout, budget: units, limit: units}
	if !c.Deadline.IsZero() && c.Deadline.Before(i.meter.deadline) {
		i.meter.deadline, i.meter.timeout = c.Deadline, 0
	}
	i.wall = c.Now
	if c.Now.IsZero() {
		i.wall = now
	}
	i.random = randomness{seed: c.Seed}
	i.host = hostCalls{}
	i.streams.begin(c)
	i.State = nil
	i.out.reset(i.p.c.Limits.Log)
	i.loose = false
	if i.linear != nil {
		i.linear.refused()
		i.linear.mark()
	}
}

// end hands the output over.
func (i *Instance) end() Usage {
	i.out.flush(i.p.c.Log)
	u := Usage{Fuel: i.meter.used(), HostCalls: i.host.calls}
	if i.memory != nil {
		u.Memory = int64(i.memory.Size())
	}
	return u
}

// reset brings the instance back to the snapshot and reports whether it can be
// used again.
func (i *Instance) reset() bool {
	if i.broken || i.p.image == nil {
		return false
	}
	if i.memory != nil {
		if uint64(i.memory.Size()) != i.p.image.size() {
			return false // memory never shrinks
		}
		if err := i.linear.restore(i.loose); err != nil {
			i.p.e.c.Log.Warn().Err(err).Str("plugin", i.p.c.Name).Msg("cannot restore an instance, it is replaced")
			return false
		}
	}
	i.restoreGlobals()
	return true
}

func (i *Instance) free() {
	if i.mod != nil {
		_ = i.mod.Close(i.ctx) // frees memory only
	}
}

// Call calls the export with the index in ProgramConfig.Exports and returns its
// first result. The time and fuel of all calls within one use add up.
func (i *Instance) Call(export int, args ...uint64) (uint64, error) {
	return i.call(i.p.exports[export], i.exports[export], args...)
}

// Has reports whether the guest has the export.
func (i *Instance) Has(export int) bool { return i.exports[export] != nil }

func (i *Instance) call(name string, f api.Function, args ...uint64) (uint64, error) {
	copy(i.stack[:], args)
	i.grant()
	i.depth.Set(uint64(uint32(i.p.c.Limits.Depth)))
	err := f.CallWithStack(i.ctx, i.stack[:])
	i.settle()
	if err != nil {
		return 0, i.classify(name, err)
	}
	return i.stack[0], nil
}

// classify makes an *Error of what ended a call.
func (i *Instance) classify(name string, err error) error {
	var exit *sys.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 0 && (name == "_start" || name == "_initialize") {
		return nil
	}
	if i.meter.stop != nil {
		if i.meter.stop.Reason == StackOverflow {
			i.broken = true // the machine stack has grown
		}
		return i.meter.stop
	}
	what := strings.TrimSuffix(strings.TrimPrefix(firstLine(err.Error()), "wasm error: "), " (recovered by wazero)")
	reason := Trapped
	switch {
	case i.linear != nil && i.linear.refused():
		i.broken = true
		return i.p.fail(OutOfMemory, fmt.Sprintf("%s needed more than %s of memory", name, mib(i.p.c.Limits.Memory)), err)
	case what == "stack overflow":
		i.broken = true
		reason = StackOverflow
	case exit != nil:
		what = fmt.Sprintf("exited with code %d", exit.ExitCode())
	}
	if said := i.out.reason(); said != "" {
		what += ": " + said
	}
	return i.p.fail(reason, name+": "+what, err)
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// Read returns n bytes of the guest's memory. They are valid until the next
// call of the guest, and must not be changed.
func (i *Instance) Read(ptr, n uint32) ([]byte, bool) {
	if i.memory == nil {
		return nil, false
	}
	return i.memory.Read(ptr, n)
}

// Write copies b into the guest's memory.
func (i *Instance) Write(ptr uint32, b []byte) bool {
	return i.memory != nil && i.memory.Write(ptr, b)
}

// Errorf returns an *Error of the instance's plugin.
func (i *Instance) Errorf(r Reason, format string, args ...any) error {
	return i.p.fail(r, fmt.Sprintf(format, args...), nil)
}

// Context is that of the request.
func (i *Instance) Context() context.Context { return i.meter.ctx }
