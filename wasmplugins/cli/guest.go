package cli

import (
	"bytes"
	"context"
	"fmt"

	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/kubewarden"
	"github.com/proa-project/proa/wasmplugins/native"
	"github.com/proa-project/proa/wasmplugins/rego"
)

// A judge is a guest of any ABI that judges writes.
type judge interface {
	Admit(ctx context.Context, c engine.Call, phase string, r *abi.AdmissionRequest) (*abi.AdmissionReply, engine.Usage, error)
	Close()
}

// exportOf is the function that is asked at a point.
func exportOf(point string) string {
	if point == "" {
		return abi.ExportAdmit
	}
	return "proa_" + point
}

// startJudge starts a guest for the point admit.
func startJudge(ctx context.Context, e *engine.Engine, code *engine.Code, c native.Config) (judge, error) {
	switch kind := abi.Detect(code.Exports, code.Imports, code.Sections); kind {
	case abi.KubewardenABI, abi.KubewardenWASI:
		return kubewarden.Start(ctx, e, code, kubewarden.Config{
			Name: c.Name, Settings: c.Settings, Limits: c.Limits, Capability: c.Capability, Log: c.Log, Instances: c.Instances,
		})
	case abi.RegoABI, abi.GatekeeperABI:
		return rego.Start(ctx, e, code, rego.Config{
			Name: c.Name, Settings: c.Settings, Limits: c.Limits, Capability: c.Capability, Log: c.Log, Instances: c.Instances,
		})
	case abi.Native:
		return native.Start(ctx, e, code, c)
	default:
		return nil, fmt.Errorf("the module's ABI (%q) has no admission that this command can run", kind)
	}
}

// config is how a case's guest is run.
func (c *testCase) config(out *bytes.Buffer) native.Config {
	nc := native.Config{Name: c.Name, Settings: c.Settings, Limits: c.limits, Instances: 1, Export: exportOf(c.Point), Capability: capability(c.Host)}
	if out != nil {
		nc.Log = func(_ engine.Level, line []byte) { out.Write(line) }
	}
	return nc
}

// An asked is a guest that was started for a case, and asks it that.
type asked struct {
	close func()
	// ask makes the call once.
	ask func(ctx context.Context) (engine.Usage, error)
	// The last answer: of the point admit, or of another.
	reply *abi.AdmissionReply
	other []byte
}

// callOf is the circumstances of a case's call.
func callOf(c *testCase) engine.Call { return engine.Call{Seed: c.Name} }

// start starts a guest for a case.
func (c *testCase) start(ctx context.Context, e *engine.Engine, code *engine.Code, log *bytes.Buffer) (*asked, error) {
	a := &asked{}
	call := callOf(c)
	if c.Point == "" || c.Point == "admit" {
		r, err := c.request()
		if err != nil {
			return nil, err
		}
		j, err := startJudge(ctx, e, code, c.config(log))
		if err != nil {
			return nil, err
		}
		a.close = j.Close
		a.ask = func(ctx context.Context) (u engine.Usage, err error) {
			a.reply, u, err = j.Admit(ctx, call, c.Phase, r)
			return u, err
		}
		return a, nil
	}
	if c.Point == pointSchedule {
		return c.startSchedule(ctx, e, code, c.config(log))
	}
	input, err := c.input()
	if err != nil {
		return nil, err
	}
	p, err := native.Start(ctx, e, code, c.config(log))
	if err != nil {
		return nil, err
	}
	a.close = p.Close
	a.ask = func(ctx context.Context) (engine.Usage, error) {
		return p.Ask(ctx, call, input, func(reply []byte) error {
			a.other = bytes.Clone(reply)
			return nil
		})
	}
	return a, nil
}
