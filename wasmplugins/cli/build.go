package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/proa-project/proa/wasmplugins/toolchain"
)

func buildCommand() *cobra.Command {
	c := toolchain.Config{Dir: "."}
	cmd := &cobra.Command{
		Use:   "build [DIR]",
		Short: "Build a plugin written in Go, Rust, AssemblyScript or C",
		Long: `Build the plugin in DIR (default: the current one), and put manifest.json into
the module, if it is there. The language is told by go.mod, Cargo.toml, index.ts
or plugin.c. It runs the compiler of the language:

  go build -buildmode=c-shared                        Go 1.24 or later
  cargo build --target wasm32-unknown-unknown         Rust; or rustc alone
  asc index.ts                                        AssemblyScript, of npm
  clang --target=wasm32 plugin.c                      C, with lld`,
		Example: "  proa plugin build my-policy -o my-policy.wasm",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				c.Dir = args[0]
			}
			c.Log = cmd.ErrOrStderr()
			if err := toolchain.Build(cmd.Context(), c); err != nil {
				return err
			}
			info, err := os.Stat(c.Output)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %d bytes\n", c.Output, info.Size())
			return nil
		},
	}
	cmd.Flags().StringVarP(&c.Output, "output", "o", "plugin.wasm", "file to write")
	cmd.Flags().StringSliceVar(&c.Tools, "tools", nil, "folders to search for compilers after PATH")
	return cmd
}
