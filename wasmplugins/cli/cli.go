// Package cli is the command "proa plugin": it makes, builds, tests, measures
// and uploads plugins, with the engine that the server has.
package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/proa-project/proa/wasmplugins/engine"
)

// Command returns the command with all its subcommands.
func Command() *cobra.Command {
	c := &cobra.Command{
		Use:   "plugin",
		Short: "Make, test and upload WebAssembly plugins",
		Long: `Make, build, test, measure and upload WebAssembly plugins.

Everything but push and replay --server works offline, with the engine and the
limits of the server: what a plugin does here it does there.`,
		Example: `  proa plugin new my-policy
  proa plugin build my-policy -o my-policy.wasm
  proa plugin test my-policy.wasm my-policy/cases.yaml
  proa plugin bench my-policy.wasm my-policy/cases.yaml
  proa plugin push my-policy my-policy.wasm --kubeconfig admin.kubeconfig`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(
		newCommand(),
		buildCommand(),
		manifestCommand(),
		inspectCommand(),
		testCommand(),
		benchCommand(),
		replayCommand(),
		compareCommand(),
		signCommand(),
		verifyCommand(),
		pushCommand(),
	)
	return c
}

// load reads a module from a file and compiles it.
func load(ctx context.Context, file string) (*engine.Engine, *engine.Code, error) {
	wasm, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, err
	}
	cache, err := os.UserCacheDir()
	if err == nil {
		cache = filepath.Join(cache, "proa", "plugins")
	}
	e, err := engine.New(engine.Config{CacheDir: cache, Log: zerolog.Nop(), CompileTimeout: 5 * time.Minute})
	if err != nil {
		return nil, nil, err
	}
	code, err := e.Load(ctx, wasm)
	if err != nil {
		_ = e.Close() // frees memory only
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	return e, code, nil
}
