// Package native runs guests of Proa's own ABI: it is the adapter between the
// engine and package abi.
package native

import (
	"context"
	"errors"

	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
)

// The exports, by their place in exports.
const (
	fnVersion = iota
	fnAlloc
	fnAdmit
	fnConfigure
)

// exports are the functions of the ABI; the last is optional.
func exports() []string {
	return []string{abi.ExportVersion, abi.ExportAlloc, abi.ExportAdmit, "?" + abi.ExportConfigure}
}

// Config says how a guest is run.
type Config struct {
	Name   string // of the plugin
	Limits engine.Limits
	// Settings are JSON, handed to the guest before its first request; nil is
	// an empty object.
	Settings []byte
	// Instances is how many requests run at once; default GOMAXPROCS.
	Instances int
	Log       func(level engine.Level, line []byte)
}

// A Plugin is a guest that judges admission requests. It is safe for
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
	p := &Plugin{settings: c.Settings}
	var err error
	p.prog, err = e.Start(ctx, code, engine.ProgramConfig{
		Name: c.Name, Limits: c.Limits, Exports: exports(), Instances: c.Instances, Log: c.Log, Warm: p.warm,
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

// Admit asks the guest for its judgement. The request is the output of
// AdmissionRequest.Append; the errors are those of engine.Program.Do.
func (p *Plugin) Admit(ctx context.Context, c engine.Call, phase string, request []byte) (*abi.AdmissionReply, engine.Usage, error) {
	var reply *abi.AdmissionReply
	usage, err := p.prog.Do(ctx, c, func(i *engine.Instance) error {
		b, err := exchange(i, fnAdmit, request, abi.MaxCarry)
		if err != nil {
			return err
		}
		if reply, err = abi.ParseAdmissionReply(b, phase); err != nil {
			return i.Errorf(engine.BadReply, "%v", err)
		}
		return nil
	})
	if err != nil {
		return nil, usage, err
	}
	return reply, usage, nil
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
