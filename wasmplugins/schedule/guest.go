package schedule

import (
	"context"
	"errors"
	"slices"
	"sync"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/scheduling/framework"
	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/schedwasm"
)

// A GuestConfig says how a guest is run.
type GuestConfig struct {
	Name     string
	Settings []byte // JSON
	Limits   engine.Limits
	// Capability answers host calls; nil grants none.
	Capability func(ctx context.Context, operation string, request []byte) ([]byte, error)
	Log        func(engine.Level, []byte)
	// Points are those of the object, empty for all that the module has.
	Points []pluginsv1.SchedulerPoint
}

// A Guest is a module that runs.
type Guest struct {
	has     []framework.Point
	events  framework.Event
	native  *native          // one of the two
	foreign *schedwasm.Guest // is not nil
}

// at returns the points at which the guest is called for an object.
func (g *Guest) at(o *pluginsv1.SchedulerPlugin) []framework.Point {
	points, err := choose(o.Name, g.has, o.Spec.Points)
	if err == nil {
		return points
	}
	// The object has changed since the guest was started.
	return slices.DeleteFunc(slices.Clone(g.has), func(p framework.Point) bool {
		return !slices.Contains(o.Spec.Points, pluginsv1.SchedulerPoint(p))
	})
}

// Close waits for running calls and frees the guest.
func (g *Guest) Close() {
	if g.foreign != nil {
		g.foreign.Close()
		return
	}
	g.native.close()
}

// native is a guest of the native ABI.
type native struct {
	e     *engine.Engine
	code  *engine.Code
	c     GuestConfig
	nodes *nodes
	all   bool     // it needs the node table
	has   []string // what proa_points said; nil if nothing

	closing sync.WaitGroup // of programs that were replaced

	mu     sync.Mutex // guards the fields below
	prog   *program
	closed bool
}

// A program is a native guest with the window of one node table.
type program struct {
	*engine.Program
	window *engine.Window
	table  uint32 // where the window is in the guest
	out    uint32 // where the guest answers, for as many records as the table has
}

// startNative starts a guest. An error that wraps abi.ErrSettings says that the
// guest refuses its settings; the others are *engine.Error.
func startNative(ctx context.Context, e *engine.Engine, n *nodes, code *engine.Code, m abi.Manifest, c GuestConfig) (*Guest, error) {
	has, err := available(c.Name, code)
	if err != nil {
		return nil, err
	}
	if len(c.Settings) == 0 {
		c.Settings = []byte("{}")
	}
	g := &native{e: e, code: code, c: c, nodes: n}
	g.all = slices.ContainsFunc(has, func(p framework.Point) bool {
		return p == framework.PointFilter || p == framework.PointPreScore || p == framework.PointScore
	})
	if _, err = g.with(ctx, nil); err != nil { // finds out what there is to find out
		return nil, err
	}
	if g.has != nil {
		has = narrow(has, g.has)
	} else if kinds := narrow(has, m.Kinds); len(kinds) > 0 {
		has = kinds
	}
	guest := &Guest{native: g, has: has}
	if _, err = choose(c.Name, has, c.Points); err == nil {
		var schedule abi.ScheduleManifest
		if schedule, err = abi.ParseScheduleManifest(code.Sections[abi.ManifestSection]); err == nil {
			guest.events, err = parseEvents(schedule.Events)
		}
		if err != nil {
			err = &engine.Error{Plugin: c.Name, Reason: engine.BadReply, Detail: err.Error()}
		}
	}
	if err != nil {
		g.close()
		return nil, err
	}
	return guest, nil
}

// with returns the guest with a window, which is another one when nodes no
// longer fit into the one before; nil is any.
func (g *native) with(ctx context.Context, w *engine.Window) (*program, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.all {
		w = nil
	}
	switch {
	case g.closed:
		return nil, engine.ErrClosed
	case g.prog != nil && (w == nil || g.prog.window == w):
		return g.prog, nil
	}
	next, err := g.start(ctx, w)
	if err != nil {
		return nil, err
	}
	if old := g.prog; old != nil {
		g.closing.Go(old.Close) // what it does with a pod on a node goes on
	}
	g.prog = next
	return next, nil
}

func (g *native) start(ctx context.Context, w *engine.Window) (*program, error) {
	p := &program{window: w}
	limits := g.c.Limits
	room := 0
	if w != nil && g.all {
		room = engine.WindowAlign + len(w.Bytes()) + 4*len(w.Bytes())/abi.NodeStride
		if limits.Memory == 0 {
			limits.Memory = 32 << 20
		}
		limits.Memory += int64(room) // the table is not the guest's fault
	}
	first := true
	pc := engine.ProgramConfig{
		Name: g.c.Name, Limits: limits, Exports: exports(), Capability: g.c.Capability, Log: g.c.Log,
		Warm: func(i *engine.Instance) error {
			table, out, err := g.warm(i, w, room)
			if first {
				first, p.table, p.out = false, table, out
			}
			return err
		},
	}
	if room > 0 {
		pc.Window = w
	}
	var err error
	p.Program, err = g.e.Start(ctx, g.code, pc)
	return p, err
}

// warm brings an instance into the state in which each cycle finds it.
func (g *native) warm(i *engine.Instance, w *engine.Window, room int) (table, out uint32, err error) {
	v, err := i.Call(int(fnVersion))
	if err != nil {
		return 0, 0, err
	}
	if err = abi.CheckVersion(low(v)); err != nil {
		return 0, 0, i.Errorf(engine.BadReply, "%v", err)
	}
	if err = g.configure(i); err != nil {
		return 0, 0, err
	}
	if g.has == nil && i.Has(int(fnPoints)) {
		if err = g.listPoints(i); err != nil {
			return 0, 0, err
		}
	}
	if _, err = i.Call(int(fnAlloc), 16<<10); err != nil { // room for usual pods
		return 0, 0, err
	}
	if room == 0 {
		return 0, 0, nil
	}
	r, err := i.Call(int(fnTable), uint64(room)) //nolint:gosec // is not negative
	if err != nil {
		return 0, 0, err
	}
	at := low(r)
	if at == 0 {
		return 0, 0, i.Errorf(engine.OutOfMemory, "%s gave no memory for %d bytes", abi.ExportTable, room)
	}
	if _, ok := i.View(at, uint32(room)); !ok { //nolint:gosec // the size of a table
		return 0, 0, i.Errorf(engine.BadReply, "%s returned %#x, where %d bytes do not fit into memory", abi.ExportTable, at, room)
	}
	table = (at + engine.WindowAlign - 1) &^ (engine.WindowAlign - 1)
	return table, table + uint32(len(w.Bytes())), i.PlaceWindow(table) //nolint:gosec // the size of a table
}

// listPoints asks the guest which points it serves.
func (g *native) listPoints(i *engine.Instance) error {
	r, err := i.Call(int(fnPoints))
	if err != nil {
		return err
	}
	b, err := reply(i, r)
	g.has = append([]string{}, abi.ParsePoints(b)...)
	return err
}

func (g *native) configure(i *engine.Instance) error {
	if !i.Has(int(fnConfigure)) {
		return nil
	}
	b, err := exchange(i, fnConfigure, g.c.Settings)
	if err != nil {
		return err
	}
	if err := abi.ParseConfigureReply(b); err != nil {
		if errors.Is(err, abi.ErrSettings) {
			return err
		}
		return i.Errorf(engine.BadReply, "%v", err)
	}
	return nil
}

func (g *native) close() {
	g.mu.Lock()
	p := g.prog
	g.prog, g.closed = nil, true
	g.mu.Unlock()
	if p != nil {
		p.Close()
	}
	g.closing.Wait()
}

// exchange hands bytes to a function and returns its reply, which is valid
// until the next call of the guest.
func exchange(i *engine.Instance, f function, in []byte) ([]byte, error) {
	ptr, err := i.Call(int(fnAlloc), uint64(len(in)))
	if err != nil {
		return nil, err
	}
	if low(ptr) == 0 {
		return nil, i.Errorf(engine.OutOfMemory, "%s gave no memory for %d bytes", abi.ExportAlloc, len(in))
	}
	if !i.Write(low(ptr), in) {
		return nil, i.Errorf(engine.BadReply, "%s returned %#x, where %d bytes do not fit into memory", abi.ExportAlloc, low(ptr), len(in))
	}
	r, err := i.Call(int(f), uint64(low(ptr)), uint64(len(in)))
	if err != nil {
		return nil, err
	}
	return reply(i, r)
}

// low is the low half of a result, which is all of an i32.
func low(r uint64) uint32 { return uint32(r) } //nolint:gosec // the half

// reply reads what an i64 result stands for.
func reply(i *engine.Instance, r uint64) ([]byte, error) {
	at, n := uint32(r>>32), low(r)
	if n == 0 {
		return nil, nil
	}
	if n > abi.MaxReply {
		return nil, i.Errorf(engine.BadReply, "the reply has %d bytes, the limit is %d", n, abi.MaxReply)
	}
	b, ok := i.Read(at, n)
	if !ok {
		return nil, i.Errorf(engine.BadReply, "the reply is said to be %d bytes at %#x, which is outside the memory", n, at)
	}
	return b, nil
}

// call calls a function whose answer is 0 when all is well.
func call(i *engine.Instance, f function, args ...uint64) error {
	r, err := i.Call(int(f), args...)
	if err == nil && low(r) != 0 {
		err = i.Errorf(engine.BadReply, "%s returned %d", functions[f].name, int32(low(r))) //nolint:gosec // as the guest means it
	}
	return err
}
