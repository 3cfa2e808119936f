package rego

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
)

// Config says how a policy is run.
type Config struct {
	Name   string // of the plugin
	Limits engine.Limits
	// Settings are a JSON object; nil is an empty one.
	Settings []byte
	// Capability answers kube.list for the kinds that the policy's metadata
	// names; nil grants nothing.
	Capability func(ctx context.Context, operation string, request []byte) ([]byte, error)
	Log        func(level engine.Level, line []byte)
	// Instances is how many requests run at once; default GOMAXPROCS.
	Instances int
}

// A Plugin is a policy that judges admission requests. It is safe for
// concurrent use.
type Plugin struct {
	prog     *engine.Program
	settings []byte
	metadata *abi.KubewardenMetadata // nil if the module has none
	mode     string
	memory   int64 // the limit, or less

	// What the first instance said of the policy; all are alike.
	started  bool
	data     uint32 // the settings as a value, 0 for none
	builtins map[int32]builtin
}

// Start starts a policy. An error that wraps abi.ErrSettings says that the
// settings are not an object; the others are *engine.Error.
func Start(ctx context.Context, e *engine.Engine, code *engine.Code, c Config) (*Plugin, error) {
	if len(c.Settings) == 0 {
		c.Settings = []byte("{}")
	}
	if !bytes.HasPrefix(bytes.TrimSpace(c.Settings), []byte("{")) {
		return nil, fmt.Errorf("%w: a Rego policy wants an object", abi.ErrSettings)
	}
	p := &Plugin{settings: c.Settings, memory: c.Limits.Memory}
	if p.memory == 0 {
		p.memory = 4 << 20 // little enough for the engine's default
	}
	if section, ok := code.Sections[abi.KubewardenSection]; ok {
		var err error
		if p.metadata, err = abi.ParseKubewardenMetadata(section); err != nil {
			return nil, &engine.Error{Plugin: c.Name, Reason: engine.BadReply, Detail: err.Error()}
		}
		p.mode = p.metadata.ExecutionMode
	}
	if mode := abi.Detect(code.Exports, code.Imports, code.Sections); mode != abi.RegoABI && mode != abi.GatekeeperABI {
		return nil, &engine.Error{Plugin: c.Name, Reason: engine.BadReply, Detail: fmt.Sprintf("the module's ABI is %q, not OPA's", mode)}
	}
	prog, err := e.Start(ctx, code, engine.ProgramConfig{
		Name: c.Name, Limits: c.Limits, Exports: exports(), Imports: p.imports(), Warm: p.warm,
		Capability: c.Capability, Log: c.Log, Instances: c.Instances,
	})
	if err != nil {
		return nil, err
	}
	p.prog, p.started = prog, true
	return p, nil
}

// inputs hold what is on its way to guests.
var inputs = sync.Pool{New: func() any { b := make([]byte, 0, 8<<10); return &b }} //nolint:gochecknoglobals // a pool

// Admit asks the policy for its judgement on a write. The errors are those of
// engine.Program.Do.
func (p *Plugin) Admit(ctx context.Context, c engine.Call, phase string, r *abi.AdmissionRequest) (*abi.AdmissionReply, engine.Usage, error) {
	buffer := inputs.Get().(*[]byte) //nolint:errcheck,forcetypeassert // the pool's type
	defer func() {
		if cap(*buffer) < 1<<20 {
			inputs.Put(buffer)
		}
	}()
	*buffer = p.input((*buffer)[:0], r)
	var reply *abi.AdmissionReply
	usage, err := p.prog.Do(ctx, c, func(i *engine.Instance) error {
		data, err := p.dataFor(i)
		if err != nil {
			return err
		}
		b, err := eval(i, *buffer, data)
		if err != nil {
			return err
		}
		if p.mode == abi.ModeGatekeeper {
			reply, err = parseViolations(b)
		} else {
			reply, err = parseResponse(b, phase, p.metadata == nil || p.metadata.Mutating)
		}
		if err != nil {
			return i.Errorf(engine.BadReply, "%v", err)
		}
		return nil
	})
	if err != nil {
		return nil, usage, err
	}
	return reply, usage, nil
}

// input appends the policy's input.
func (p *Plugin) input(b []byte, r *abi.AdmissionRequest) []byte {
	if p.mode != abi.ModeGatekeeper {
		return append(r.AppendRequest(append(b, `{"request":`...)), '}')
	}
	b = append(append(b, `{"parameters":`...), p.settings...)
	return append(r.AppendRequest(append(b, `,"review":`...)), '}')
}

// Mode is abi.ModeOPA or abi.ModeGatekeeper.
func (p *Plugin) Mode() string { return p.mode }

// Metadata is what the policy says of itself, nil if it says nothing.
func (p *Plugin) Metadata() *abi.KubewardenMetadata { return p.metadata }

// Settings are those that the plugin was started with.
func (p *Plugin) Settings() []byte { return p.settings }

// Limits are the limits in force.
func (p *Plugin) Limits() engine.Limits { return p.prog.Limits() }

// Close waits for running requests and frees the plugin.
func (p *Plugin) Close() { p.prog.Close() }

var errUndefined = errors.New("the policy's entrypoint is undefined for this request")
