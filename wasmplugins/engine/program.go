package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// Limits bound one call. Zero fields mean the defaults.
type Limits struct {
	Timeout   time.Duration // wall clock; default 100 ms
	Memory    int64         // linear memory, in bytes, rounded up to 64 KiB; default 32 MiB
	Fuel      int64         // metered units; default 20,000,000
	Depth     int32         // nested calls; default 32,768
	Log       int           // bytes of output that are kept; default 8 KiB
	HostCalls int           // calls of capabilities; default 32
	HostBytes int           // bytes of the replies of capabilities; default 4 MiB
	// Start is the timeout of starting an instance; default 10 s. Its fuel is
	// a hundred times Fuel.
	Start time.Duration
}

func (l Limits) withDefaults() Limits {
	def(&l.Timeout, 100*time.Millisecond)
	def(&l.Memory, 32<<20)
	def(&l.Fuel, 20_000_000)
	def(&l.Depth, 32768)
	def(&l.Log, 8<<10)
	def(&l.HostCalls, 32)
	def(&l.HostBytes, 4<<20)
	def(&l.Start, 10*time.Second)
	l.Memory = (l.Memory + 65535) &^ 65535
	return l
}

func def[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// An Import is a function that an adapter offers to guests.
type Import struct {
	Module, Name    string
	Params, Results []api.ValueType
	// Call gets the parameters in stack and leaves the results there. It must
	// bound its work, and pay for it with Charge if it grows with what the
	// guest asks.
	Call func(i *Instance, stack []uint64)
}

// ProgramConfig says how a code is run.
type ProgramConfig struct {
	// Name is of the plugin, for errors.
	Name   string
	Limits Limits
	// Exports are the functions that Instance.Call calls by their index here.
	// Missing ones fail Start unless they begin with "?".
	Exports []string
	Imports []Import
	// Warm is called on each new instance before its snapshot is taken, with
	// the limits of starting; its error fails Start.
	Warm func(i *Instance) error
	// Capability answers the guest's proa.call; nil grants nothing.
	Capability func(ctx context.Context, operation string, request []byte) ([]byte, error)
	// Command says that the guest's _start is not for the start of an instance:
	// the adapter calls it, with what the guest reads in Call.
	Command bool
	// Log gets the guest's output, line by line, after a call. It must not
	// keep the line.
	Log func(level Level, line []byte)
	// Window is seen by all instances, where Warm places it; nil for none.
	Window *Window
	// Instances is how many calls run at once; default GOMAXPROCS.
	Instances int
}

// A Program is a code with limits and warm instances. It is safe for
// concurrent use.
type Program struct {
	e        *Engine
	c        ProgramConfig
	code     *Code
	exports  []string
	rt       wazero.Runtime
	compiled wazero.CompiledModule

	image   image    // of the memory; nil without snapshot
	globals []uint64 // values of the snapshot
	// windowAt is the place of the window, 0 for none.
	windowAt uint32

	slots  chan struct{} // one token for each running call
	closed chan struct{}

	mu      sync.Mutex // guards the fields below
	idle    []*Instance
	running int
	done    *sync.Cond // running has become 0
	once    sync.Once
}

// A Call is the circumstances of one use of an instance.
type Call struct {
	// Seed makes the guest's randomness, together with the code's digest.
	Seed string
	// Now is the guest's wall clock; zero is the time of the call.
	Now time.Time
	// Deadline, if set, ends the call even if its own timeout is later: a
	// request may have a budget for all its plugins.
	Deadline time.Time
	// Args are the guest's arguments and Stdin is its standard input.
	Args  []string
	Stdin []byte
	// Stdout, if above zero, keeps the standard output apart from the log, for
	// Instance.Output; a guest that writes more bytes than that is stopped.
	Stdout int
}

// A Usage is what a call took.
type Usage struct {
	Fuel   int64
	Memory int64 // bytes of linear memory at the end
	// HostCalls are the operations of capabilities that were asked for, in
	// order.
	HostCalls []string
}

// Start links a code and makes its first instance. The errors are *Error.
func (e *Engine) Start(ctx context.Context, code *Code, c ProgramConfig) (*Program, error) {
	c.Limits = c.Limits.withDefaults()
	def(&c.Instances, runtime.GOMAXPROCS(0))
	p := &Program{e: e, c: c, code: code, slots: make(chan struct{}, c.Instances), closed: make(chan struct{})}
	p.done = sync.NewCond(&p.mu)
	if c.Window != nil {
		c.Window.refs.Add(1)
	}
	if err := p.start(ctx); err != nil {
		p.free()
		return nil, err
	}
	return p, nil
}

func (p *Program) start(ctx context.Context) error {
	if p.code.MemoryMin > p.c.Limits.Memory {
		return p.fail(OutOfMemory, fmt.Sprintf("the module begins with %s of memory, the limit is %s", mib(p.code.MemoryMin), mib(p.c.Limits.Memory)), nil)
	}
	for _, name := range p.c.Exports {
		bare := strings.TrimPrefix(name, "?")
		if _, ok := p.code.Exports[bare]; !ok && bare == name {
			return p.fail(BadReply, fmt.Sprintf("the module does not export the function %s", name), nil)
		}
		p.exports = append(p.exports, bare)
	}
	p.rt = p.code.newRuntime(ctx)
	if err := p.link(ctx); err != nil {
		return err
	}
	i, err := p.newInstance(ctx)
	if err != nil {
		return err
	}
	if p.code.HiddenState {
		i.free()
		return nil
	}
	if err := p.snapshot(i); err != nil {
		i.free()
		return p.fail(Trapped, "cannot take a snapshot", err)
	}
	p.idle = append(p.idle, i)
	return nil
}

// link compiles the module against what the host offers.
func (p *Program) link(ctx context.Context) error {
	var err error
	if p.compiled, err = p.rt.CompileModule(ctx, p.code.metered); err != nil {
		return p.fail(Trapped, "cannot compile the module", err)
	}
	offered := append(meterImports(), proaImports()...)
	offered = append(offered, wasiImports(p.compiled.ImportedFunctions())...)
	offered = append(offered, p.c.Imports...)
	modules := map[string][]Import{}
	for _, i := range offered {
		modules[i.Module] = append(modules[i.Module], i)
	}
	for _, f := range p.compiled.ImportedFunctions() {
		mod, name, _ := f.Import()
		if !slices.ContainsFunc(modules[mod], func(i Import) bool { return i.Name == name }) {
			return p.fail(CapabilityDenied, fmt.Sprintf("the module imports %s.%s, which is not offered", mod, name), nil)
		}
	}
	for mod, imports := range modules {
		b := p.rt.NewHostModuleBuilder(mod)
		for _, i := range imports {
			b = b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, m api.Module, stack []uint64) {
				inst := ctx.Value(instanceKey{}).(*Instance) //nolint:errcheck,forcetypeassert // all calls carry it
				if inst.mod == nil {
					inst.bind(m)
				}
				i.Call(inst, stack)
			}), i.Params, i.Results).Export(i.Name)
		}
		if _, err := b.Instantiate(ctx); err != nil {
			return p.fail(CapabilityDenied, fmt.Sprintf("cannot offer %s", mod), err)
		}
	}
	return nil
}

// snapshot takes the state of the first instance for all.
func (p *Program) snapshot(i *Instance) error {
	var content []byte
	if i.memory != nil {
		content, _ = i.memory.Read(0, i.memory.Size())
	}
	img, err := p.e.newImage(content)
	if err != nil {
		return err
	}
	for _, g := range i.globals {
		p.globals = append(p.globals, g.Get())
	}
	p.image = img
	return i.adopt()
}

// Do calls f with an instance that is in the program's first state, within the
// limits of one call. The instance is f's until it returns. An error of f is
// returned as it is; those of Instance.Call are *Error.
//
// Do waits while all instances are busy, up to the end of ctx and c.Deadline.
func (p *Program) Do(ctx context.Context, c Call, f func(i *Instance) error) (Usage, error) {
	select {
	case p.slots <- struct{}{}:
	default:
		if err := p.wait(ctx, c.Deadline); err != nil {
			return Usage{}, err
		}
	}
	defer func() { <-p.slots }()
	i, err := p.take(ctx)
	if err != nil {
		return Usage{}, err
	}
	good := false
	defer func() { p.put(i, good) }() // also when f panics

	// Written pages are told by the faults of this thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	i.begin(ctx, c, p.c.Limits.Timeout, p.c.Limits.Fuel)
	err = f(i)
	u := i.end()
	good = i.reset()
	return u, err
}

// wait takes a slot when none is free.
func (p *Program) wait(ctx context.Context, deadline time.Time) error {
	if !deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	select {
	case p.slots <- struct{}{}:
		return nil
	case <-p.closed:
		return ErrClosed
	case <-ctx.Done():
		return p.fail(reasonOfContext(ctx), "the time of the request was used up while all instances were busy", ctx.Err())
	}
}

// take returns an idle instance or a new one.
func (p *Program) take(ctx context.Context) (*Instance, error) {
	p.mu.Lock()
	select {
	case <-p.closed:
		p.mu.Unlock()
		return nil, ErrClosed
	default:
	}
	p.running++
	if n := len(p.idle); n > 0 { // the last is the warmest
		i := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return i, nil
	}
	p.mu.Unlock()
	i, err := p.newInstance(ctx)
	if err == nil && p.image != nil {
		if err = i.adopt(); err != nil {
			i.free()
			err = p.fail(OutOfMemory, "cannot make an instance", err)
		}
	}
	if err != nil {
		p.put(nil, false)
		return nil, err
	}
	return i, nil
}

// put gives an instance back, or frees it.
func (p *Program) put(i *Instance, good bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i != nil {
		select {
		case <-p.closed:
			good = false
		default:
		}
		if good {
			p.idle = append(p.idle, i)
		} else {
			i.free()
		}
	}
	p.running--
	if p.running == 0 {
		p.done.Broadcast()
	}
}

// Close waits for running calls and frees the program. Do returns ErrClosed
// from now on.
func (p *Program) Close() {
	p.once.Do(func() {
		p.mu.Lock()
		close(p.closed)
		for p.running > 0 {
			p.done.Wait()
		}
		p.mu.Unlock()
		p.free()
	})
}

func (p *Program) free() {
	for _, i := range p.idle {
		i.free()
	}
	p.idle = nil
	ctx := context.Background()
	if p.compiled != nil {
		_ = p.compiled.Close(ctx) // frees memory only
	}
	if p.rt != nil {
		_ = p.rt.Close(ctx) // its instances are closed
	}
	if p.image != nil {
		if err := p.image.close(); err != nil {
			p.e.c.Log.Warn().Err(err).Str("plugin", p.c.Name).Msg("cannot free a memory image")
		}
	}
	if p.c.Window != nil {
		if err := p.c.Window.release(); err != nil {
			p.e.c.Log.Warn().Err(err).Str("plugin", p.c.Name).Msg("cannot free a window")
		}
	}
}

// Name returns the name of the plugin.
func (p *Program) Name() string { return p.c.Name }

// Limits returns the limits in force.
func (p *Program) Limits() Limits { return p.c.Limits }

func (p *Program) fail(r Reason, detail string, err error) *Error {
	return &Error{Plugin: p.c.Name, Reason: r, Detail: detail, Err: err}
}

func reasonOfContext(ctx context.Context) Reason {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return DeadlineExceeded
	}
	return Canceled
}

func mib(n int64) string { return fmt.Sprintf("%.4g MiB", float64(n)/(1<<20)) }
