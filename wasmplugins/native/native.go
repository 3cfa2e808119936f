// Package native runs guests of Proa's own ABI: it is the adapter between the
// engine and package abi.
package native

import (
	"context"
	"errors"
	"sync"

	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
)

// The exports, by their place in exports.
const (
	fnVersion = iota
	fnAlloc
	fnEntry
	fnConfigure
)

// Config says how a guest is run.
type Config struct {
	Name string // of the plugin
	// Export is the function that is asked; default abi.ExportAdmit.
	Export string
	Limits engine.Limits
	// Settings are JSON, handed to the guest before its first request; nil is
	// an empty object.
	Settings []byte
	// Instances is how many requests run at once; default GOMAXPROCS.
	Instances int
	// Capability answers the guest's host calls; nil grants none.
	Capability func(ctx context.Context, operation string, request []byte) ([]byte, error)
	Log        func(level engine.Level, line []byte)
}

// A Plugin is a guest that answers one sort of questions. It is safe for
// concurrent use.
type Plugin struct {
	prog     *engine.Program
	settings []byte
}

// Start starts a guest. An error that wraps abi.ErrSettings says that the
// guest refuses its settings; the others are *engine.Error.
func Start(ctx context.Context, e *engine.Engine, code *engine.Code, c Config) (*Plugin, error) {
	if len(c.Settings) == 0 {
		c.Settings = []byte("{}")
	}
	if c.Export == "" {
		c.Export = abi.ExportAdmit
	}
	p := &Plugin{settings: c.Settings}
	var err error
	p.prog, err = e.Start(ctx, code, engine.ProgramConfig{
		Name: c.Name, Limits: c.Limits, Instances: c.Instances, Log: c.Log, Warm: p.warm, Capability: c.Capability,
		Exports: []string{abi.ExportVersion, abi.ExportAlloc, c.Export, "?" + abi.ExportConfigure},
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// warm brings an instance into the state in which every request finds it.
func (p *Plugin) warm(i *engine.Instance) error {
	v, err := i.Call(fnVersion)
	if err != nil {
		return err
	}
	if err := abi.CheckVersion(uint32(v)); err != nil {
		return i.Errorf(engine.BadReply, "%v", err)
	}
	if i.Has(fnConfigure) {
		reply, err := exchange(i, fnConfigure, p.settings, abi.MaxReply)
		if err != nil {
			return err
		}
		if err := abi.ParseConfigureReply(reply); err != nil {
			if errors.Is(err, abi.ErrSettings) {
				return err
			}
			return i.Errorf(engine.BadReply, "%v", err)
		}
	}
	// Room for usual requests, so that most calls need not allocate.
	if _, err := i.Call(fnAlloc, 16<<10); err != nil {
		return err
	}
	return nil
}

// requests hold what is on its way to guests.
var requests = sync.Pool{New: func() any { b := make([]byte, 0, 8<<10); return &b }} //nolint:gochecknoglobals // a pool

// Admit asks the guest for its judgement on a write. The errors are those of
// engine.Program.Do.
func (p *Plugin) Admit(ctx context.Context, c engine.Call, phase string, r *abi.AdmissionRequest) (*abi.AdmissionReply, engine.Usage, error) {
	buffer := requests.Get().(*[]byte) //nolint:errcheck,forcetypeassert // the pool's type
	defer func() {
		if cap(*buffer) < 1<<20 {
			requests.Put(buffer)
		}
	}()
	*buffer = r.Append((*buffer)[:0], phase, p.settings)
	var reply *abi.AdmissionReply
	usage, err := p.Ask(ctx, c, *buffer, func(b []byte) error {
		var err error
		reply, err = abi.ParseAdmissionReply(b, phase)
		return err
	})
	if err != nil {
		return nil, usage, err
	}
	return reply, usage, nil
}

// Ask hands input to the guest and its reply to take, which must not keep it;
// an error of take is a bad reply. The errors are those of engine.Program.Do.
func (p *Plugin) Ask(ctx context.Context, c engine.Call, input []byte, take func(reply []byte) error) (engine.Usage, error) {
	return p.prog.Do(ctx, c, func(i *engine.Instance) error {
		b, err := exchange(i, fnEntry, input, abi.MaxCarry)
		if err != nil {
			return err
		}
		if err := take(b); err != nil {
			return i.Errorf(engine.BadReply, "%v", err)
		}
		return nil
	})
}

// Settings are those that the plugin was started with.
func (p *Plugin) Settings() []byte { return p.settings }

// Limits are the limits in force.
func (p *Plugin) Limits() engine.Limits { return p.prog.Limits() }

// Close waits for running requests and frees the plugin.
func (p *Plugin) Close() { p.prog.Close() }

// exchange hands bytes to an export and returns its reply, which is valid until
// the next call of the guest.
func exchange(i *engine.Instance, export int, in []byte, most uint32) ([]byte, error) {
	ptr, err := i.Call(fnAlloc, uint64(len(in)))
	if err != nil {
		return nil, err
	}
	if uint32(ptr) == 0 {
		return nil, i.Errorf(engine.OutOfMemory, "%s gave no memory for %d bytes", abi.ExportAlloc, len(in))
	}
	if !i.Write(uint32(ptr), in) {
		return nil, i.Errorf(engine.BadReply, "%s returned %#x, where %d bytes do not fit into memory", abi.ExportAlloc, uint32(ptr), len(in))
	}
	r, err := i.Call(export, uint64(uint32(ptr)), uint64(len(in)))
	if err != nil {
		return nil, err
	}
	at, n := uint32(r>>32), uint32(r)
	if n == 0 {
		return nil, nil
	}
	if n > most {
		return nil, i.Errorf(engine.BadReply, "the reply has %d bytes, the limit is %d", n, most)
	}
	b, ok := i.Read(at, n)
	if !ok {
		return nil, i.Errorf(engine.BadReply, "the reply is said to be %d bytes at %#x, which is outside the memory", n, at)
	}
	return b, nil
}
