package kubewarden

import (
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
	// Settings are JSON; nil is an empty object.
	Settings []byte
	// Capability answers what the policy asks the cluster; nil grants nothing.
	// Beside a resource's plural name its requests say the kind, which is all
	// that the policy tells.
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
	invoke   func(ctx context.Context, c engine.Call, operation string, payload []byte, take func(i *engine.Instance, reply []byte) error) (engine.Usage, error)
}

// Start starts a policy. An error that wraps abi.ErrSettings says that it
// refuses its settings; the others are *engine.Error.
func Start(ctx context.Context, e *engine.Engine, code *engine.Code, c Config) (*Plugin, error) {
	if len(c.Settings) == 0 {
		c.Settings = []byte("{}")
	}
	p := &Plugin{settings: c.Settings}
	if section, ok := code.Sections[abi.KubewardenSection]; ok {
		var err error
		if p.metadata, err = abi.ParseKubewardenMetadata(section); err != nil {
			return nil, refuse(c.Name, "%v", err)
		}
	}
	if p.metadata != nil && p.metadata.PolicyType == "raw" {
		return nil, refuse(c.Name, "the policy judges raw requests, not those of admission")
	}
	pc := engine.ProgramConfig{Name: c.Name, Limits: c.Limits, Instances: c.Instances, Log: c.Log, Capability: c.Capability}
	var err error
	switch mode := abi.Detect(code.Exports, code.Imports, code.Sections); mode {
	case abi.KubewardenABI:
		err = p.startWaPC(ctx, e, code, pc)
	case abi.KubewardenWASI:
		err = p.startWASI(ctx, e, code, pc)
	default:
		return nil, refuse(c.Name, "the module's ABI is %q, not one of Kubewarden's", mode)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

func refuse(name, format string, args ...any) error {
	return &engine.Error{Plugin: name, Reason: engine.BadReply, Detail: fmt.Sprintf(format, args...)}
}

// payloads hold what is on its way to guests.
var payloads = sync.Pool{New: func() any { b := make([]byte, 0, 8<<10); return &b }} //nolint:gochecknoglobals // a pool

// Admit asks the policy for its judgement on a write. The errors are those of
// engine.Program.Do.
func (p *Plugin) Admit(ctx context.Context, c engine.Call, phase string, r *abi.AdmissionRequest) (*abi.AdmissionReply, engine.Usage, error) {
	buffer := payloads.Get().(*[]byte) //nolint:errcheck,forcetypeassert // the pool's type
	defer func() {
		if cap(*buffer) < 1<<20 {
			payloads.Put(buffer)
		}
	}()
	b := r.AppendRequest(append((*buffer)[:0], `{"request":`...))
	b = append(append(b, `,"settings":`...), p.settings...)
	*buffer = append(b, '}')
	var reply *abi.AdmissionReply
	usage, err := p.invoke(ctx, c, opValidate, *buffer, func(i *engine.Instance, b []byte) error {
		v, err := parseVerdict(b)
		if err == nil {
			reply, err = v.reply(phase, r, p.mayMutate())
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

// mayMutate reports whether the policy may change objects: if it does not say,
// it may.
func (p *Plugin) mayMutate() bool { return p.metadata == nil || p.metadata.Mutating }

// Metadata is what the policy says of itself, nil if it says nothing.
func (p *Plugin) Metadata() *abi.KubewardenMetadata { return p.metadata }

// Settings are those that the plugin was started with.
func (p *Plugin) Settings() []byte { return p.settings }

// Limits are the limits in force.
func (p *Plugin) Limits() engine.Limits { return p.prog.Limits() }

// Close waits for running requests and frees the plugin.
func (p *Plugin) Close() { p.prog.Close() }

// checkSettings judges the answer to validate_settings.
func checkSettings(i *engine.Instance, reply []byte) error {
	err := parseSettingsReply(reply)
	if err == nil || errors.Is(err, abi.ErrSettings) {
		return err
	}
	return i.Errorf(engine.BadReply, "%v", err)
}
