package kubewarden

import (
	"context"

	"github.com/tetratelabs/wazero/api"

	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
)

// startWASI starts a policy that is a command. Its settings are validated by a
// run of their own.
func (p *Plugin) startWASI(ctx context.Context, e *engine.Engine, code *engine.Code, pc engine.ProgramConfig) error {
	pc.Command = true
	pc.Exports = []string{"_start"}
	pc.Imports = []engine.Import{p.hostImport("host"), p.hostImport("kubewarden:javy/host")}
	prog, err := e.Start(ctx, code, pc)
	if err != nil {
		return err
	}
	p.prog = prog
	p.invoke = func(ctx context.Context, c engine.Call, operation string, payload []byte, take func(i *engine.Instance, reply []byte) error) (engine.Usage, error) {
		c.Args, c.Stdin, c.Stdout = []string{"policy.wasm", operation}, payload, abi.MaxCarry
		return prog.Do(ctx, c, func(i *engine.Instance) error {
			if _, err := i.Call(0); err != nil {
				return err
			}
			return take(i, i.Output())
		})
	}
	if _, err := p.invoke(ctx, engine.Call{}, "validate-settings", p.settings, checkSettings); err != nil {
		prog.Close()
		return err
	}
	return nil
}

// hostImport is how a command calls the host. The reply, or the error's text,
// comes behind what is left of the standard input.
func (p *Plugin) hostImport(module string) engine.Import {
	i32 := api.ValueTypeI32
	return engine.Import{
		Module: module, Name: "call", Params: []api.ValueType{i32, i32, i32, i32, i32, i32, i32, i32}, Results: []api.ValueType{i32},
		Call: func(i *engine.Instance, s []uint64) {
			b, err := p.hostCall(i, s)
			s[0] = 0
			if err != nil {
				b, s[0] = []byte(err.Error()), 1
			}
			i.Feed(b)
		},
	}
}
