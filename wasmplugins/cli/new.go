package cli

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/proa-project/proa/wasmplugins/toolchain"
)

//go:generate ./kits.sh

//go:embed template kits
var templates embed.FS

// guestModule is the Go module of the kit.
const guestModule = "github.com/proa-project/proa/wasmplugins/guest"

// points are the extension points that there are templates for, and what a
// manifest calls them.
func points() map[string][]string {
	return map[string][]string{
		"admission":      {"admit"},
		"scheduler":      {"filter", "score"},
		"authorization":  {"authorize"},
		"authentication": {"authenticate"},
		"conversion":     {"convert"},
		"virtual-api":    {"serve"},
		"reconciler":     {"reconcile"},
	}
}

// A newPlugin is what "new" is asked for; it is what the templates get, too.
type newPlugin struct {
	Name, Lang, Point, Dir string
	Guest                  string // the folder of the Go kit, or ""
}

// GuestModule and Exports are for the templates.
func (newPlugin) GuestModule() string { return guestModule }

// Exports are the points of a manifest, as JSON strings.
func (p newPlugin) Exports() string { return `"` + strings.Join(points()[p.Point], `", "`) + `"` }

func newCommand() *cobra.Command {
	var p newPlugin
	c := &cobra.Command{
		Use:   "new NAME",
		Short: "Make the sources of a plugin, ready to build",
		Long: `Make a folder with a plugin, cases for "proa plugin test", and the objects that
put it to work. It has all that it needs: for Rust, AssemblyScript and C the kit
is copied into it.`,
		Example: `  proa plugin new require-team-label
  proa plugin new spread-by-zone --lang rust --point scheduler`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			p.Name = args[0]
			if err := p.check(); err != nil {
				return err
			}
			if err := p.scaffold(); err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%s is ready. Next:\n", p.Dir)
			switch {
			case p.Lang == string(toolchain.Go) && p.Guest == "":
				fmt.Fprintf(c.OutOrStdout(), "  (cd %s && go get %s)\n", p.Dir, guestModule)
			case p.Lang == string(toolchain.AssemblyScript):
				fmt.Fprintf(c.OutOrStdout(), "  (cd %s && npm install assemblyscript)\n", p.Dir)
			}
			fmt.Fprintf(c.OutOrStdout(), "  proa plugin build %s -o %s.wasm\n  proa plugin test %s.wasm %s\n", p.Dir, p.Name, p.Name, filepath.Join(p.Dir, "cases.yaml"))
			return nil
		},
	}
	names := slices.Sorted(maps.Keys(points()))
	c.Flags().StringVar(&p.Lang, "lang", "go", "language: go, rust, assemblyscript or c")
	c.Flags().StringVar(&p.Point, "point", "admission", "extension point: "+strings.Join(names, ", "))
	c.Flags().StringVar(&p.Dir, "dir", "", "folder to make (default: the name)")
	c.Flags().StringVar(&p.Guest, "guest", "", "Go: use the kit from this folder, such as a checkout's wasmplugins/guest, instead of a released one")
	return c
}

func (p *newPlugin) check() error {
	if errs := validation.IsDNS1123Subdomain(p.Name); len(errs) > 0 {
		return fmt.Errorf("name %q: %s", p.Name, strings.Join(errs, "; "))
	}
	if !slices.Contains(toolchain.Languages(), toolchain.Language(p.Lang)) {
		return fmt.Errorf("language %q: it must be one of %v", p.Lang, toolchain.Languages())
	}
	if _, ok := points()[p.Point]; !ok {
		return fmt.Errorf("point %q: it must be one of %v", p.Point, slices.Sorted(maps.Keys(points())))
	}
	if _, err := fs.Stat(templates, path.Join("template", p.Lang, p.Point)); err != nil {
		return fmt.Errorf("there is no template for the point %s in %s, only in go; the kit's proa.h, on_call! or onCall has what it takes", p.Point, p.Lang)
	}
	if p.Dir == "" {
		p.Dir = p.Name
	}
	if p.Guest == "" {
		return nil
	}
	abs, err := filepath.Abs(p.Guest)
	p.Guest = abs
	return err
}

// scaffold writes the templates to a folder that must not be there.
func (p *newPlugin) scaffold() error {
	if _, err := os.Stat(p.Dir); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is there already", p.Dir)
	}
	for _, from := range []string{"template/common", "template/points/" + p.Point, "template/" + p.Lang + "/all", "template/" + p.Lang + "/" + p.Point, "kits/" + p.Lang} {
		root, err := fs.Sub(templates, from)
		if err != nil {
			return err
		}
		err = fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				if name == "." && errors.Is(err, fs.ErrNotExist) {
					return nil // not every language has all of these
				}
				return err
			}
			return p.write(root, name)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// write writes a file, or what its template makes.
func (p *newPlugin) write(root fs.FS, name string) error {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return err
	}
	to := filepath.Join(p.Dir, filepath.FromSlash(strings.TrimSuffix(name, ".tmpl")))
	if err = os.MkdirAll(filepath.Dir(to), 0o755); err != nil { //nolint:gosec // sources
		return err
	}
	if !strings.HasSuffix(name, ".tmpl") {
		return os.WriteFile(to, text, 0o644) //nolint:gosec // sources
	}
	t, err := template.New(name).Parse(string(text))
	if err != nil {
		return err
	}
	f, err := os.Create(to) // names of our own
	if err != nil {
		return err
	}
	return errors.Join(t.Execute(f, p), f.Close())
}
