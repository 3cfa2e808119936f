package access

import (
	"cmp"
	"context"
	"fmt"

	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/native"
	"github.com/proa-project/proa/wasmplugins/runner"
)

// start starts a native module that has the export.
func start(ctx context.Context, e *engine.Engine, export string, code runner.Code, c runner.GuestConfig) (*native.Plugin, error) {
	if code.ABI != abi.Native {
		return nil, fmt.Errorf("%w: a module with the ABI %s cannot answer %s", runner.ErrABI, cmp.Or(code.ABI, "unknown"), export)
	}
	return native.Start(ctx, e, code.Code, native.Config{
		Name: c.Name, Export: export, Limits: c.Limits, Settings: c.Settings, Capability: c.Capability, Log: c.Log,
	})
}
