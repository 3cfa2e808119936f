package cli

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
)

//go:embed template
var templates embed.FS

// guestModule is the Go module of the kit.
const guestModule = "github.com/proa-project/proa/wasmplugins/guest"

func newCommand() *cobra.Command {
	var dir, guest string
	c := &cobra.Command{
		Use:   "new NAME",
		Short: "Make the sources of a plugin, ready to build",
		Long: `Make a folder with a plugin in Go that demands a label, a test of it, cases for
"proa plugin test", and the objects that put it to work.`,
		Example: "  proa plugin new require-team-label",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			name := args[0]
			if errs := validation.IsDNS1123Subdomain(name); len(errs) > 0 {
				return fmt.Errorf("name %q: %s", name, strings.Join(errs, "; "))
			}
			if dir == "" {
				dir = name
			}
			if guest != "" {
				abs, err := filepath.Abs(guest)
				if err != nil {
					return err
				}
				guest = abs
			}
			if err := scaffold(dir, map[string]string{"Name": name, "Guest": guest, "GuestModule": guestModule}); err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%s is ready. Next:\n", dir)
			if guest == "" {
				fmt.Fprintf(c.OutOrStdout(), "  (cd %s && go get %s)\n", dir, guestModule)
			}
			fmt.Fprintf(c.OutOrStdout(), "  proa plugin build %s -o %s.wasm\n  proa plugin test %s.wasm %s\n", dir, name, name, filepath.Join(dir, "cases.yaml"))
			return nil
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "folder to make (default: the name)")
	c.Flags().StringVar(&guest, "guest", "", "use the kit from this folder, such as a checkout's wasmplugins/guest, instead of a released one")
	return c
}

// scaffold writes the templates to a folder that must not be there.
func scaffold(dir string, values map[string]string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is there already", dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // sources
		return err
	}
	root, err := fs.Sub(templates, "template")
	if err != nil {
		return err
	}
	all, err := template.ParseFS(root, "*.tmpl")
	if err != nil {
		return err
	}
	for _, t := range all.Templates() {
		f, err := os.Create(filepath.Join(dir, strings.TrimSuffix(t.Name(), ".tmpl"))) // names of our own
		if err != nil {
			return err
		}
		if err := errors.Join(t.Execute(f, values), f.Close()); err != nil {
			return err
		}
	}
	return nil
}
