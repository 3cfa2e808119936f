package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/proa-project/proa/wasmplugins/toolchain"
)

func manifestCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "manifest FILE MANIFEST",
		Short: "Put a manifest into a module",
		Long: `Put a manifest into a module, in place of the one that it may have. "proa plugin
build" does it with manifest.json; this is for modules that something else has
built. The manifest is JSON:

  {"name": "require-team", "version": "0.1.0", "abi": "proa/v1",
   "kinds": ["admit"], "capabilities": ["kube.get"]}

Capabilities are the host calls that the module wants; the binding grants them.`,
		Example: "  proa plugin manifest my-policy.wasm manifest.json",
		Args:    cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			wasm, err := os.ReadFile(args[0])
			if err != nil {
				return err
			}
			manifest, err := os.ReadFile(args[1])
			if err != nil {
				return err
			}
			if wasm, err = toolchain.WithManifest(wasm, manifest); err != nil {
				return fmt.Errorf("%s: %w", args[1], err)
			}
			if err := os.WriteFile(args[0], wasm, 0o644); err != nil { //nolint:gosec // like a compiler's output
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%s: %d bytes\n", args[0], len(wasm))
			return nil
		},
	}
}
