package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/proa-project/proa/wasmplugins/abi"
)

func inspectCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "inspect FILE",
		Short:   "Show what a module is and wants",
		Long:    "Compile a module and show its digest, ABI, size, manifest, and what it imports and exports.",
		Example: "  proa plugin inspect my-policy.wasm",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			e, code, err := load(c.Context(), args[0])
			if err != nil {
				return err
			}
			defer e.Close() //nolint:errcheck // frees memory only
			defer code.Close()
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 8, 2, ' ', 0)
			row := func(name string, value any) { fmt.Fprintf(w, "%s\t%v\n", name, value) }
			row("digest", code.Digest)
			row("size", fmt.Sprintf("%d bytes", code.Size))
			row("abi", cmp.Or(abi.Detect(code.Exports, code.Imports, code.Sections), "unknown"))
			row("memory at first", fmt.Sprintf("%d KiB", code.MemoryMin>>10))
			row("reset between calls", map[bool]string{false: "by restoring its memory", true: "by a new instance: it changes tables or segments"}[code.HiddenState])
			row("compiled in", code.CompileTime)
			m, err := abi.ParseManifest(code.Sections[abi.ManifestSection])
			if err != nil {
				return err
			}
			row("name", strings.TrimSpace(cmp.Or(m.Name, "none in a manifest")+" "+m.Version))
			row("points", cmp.Or(strings.Join(m.Kinds, ", "), "not in a manifest"))
			row("capabilities wanted", cmp.Or(strings.Join(m.Capabilities, ", "), "none"))
			if len(m.Rules) > 0 {
				row("rules", string(m.Rules))
			}
			var exports []string
			for name, sig := range code.Exports {
				exports = append(exports, name+sig)
			}
			slices.Sort(exports)
			row("exports", strings.Join(exports, "\n\t"))
			row("imports", strings.Join(code.Imports, "\n\t"))
			return w.Flush()
		},
	}
}
