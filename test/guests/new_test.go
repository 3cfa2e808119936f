package guests_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

// TestNew goes the way of docs/writing-a-plugin.md, up to the server, for every
// template that there is.
func TestNew(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	templates, err := filepath.Glob("../../wasmplugins/cli/template/*/*")
	if err != nil || len(templates) < 8 {
		t.Fatalf("%q, %v", templates, err)
	}
	for _, template := range templates {
		lang, point := filepath.Base(filepath.Dir(template)), filepath.Base(template)
		if point == "all" || strings.Contains(point, ".") || lang == "points" || lang == "common" {
			continue
		}
		t.Run(point+"/"+lang, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "my-plugin")
			wasm := filepath.Join(t.TempDir(), "p.wasm")
			args := []string{"new", "my-plugin", "--dir", dir, "--lang", lang, "--point", point}
			if lang == "go" {
				args = append(args, "--guest", "../../wasmplugins/guest")
			}
			for _, args := range [][]string{args, {"build", dir, "-o", wasm, "--tools", Tools(t)}, {"test", wasm, filepath.Join(dir, "cases.yaml")}, {"inspect", wasm}} {
				out, err := proa(t, args...)
				if err != nil {
					t.Fatalf("%v: %v\n%s", args, err, out)
				}
				if args[0] == "inspect" && !strings.Contains(out, "my-plugin 0.1.0") {
					t.Errorf("no manifest\n%s", out)
				}
			}
			for _, file := range []string{"module.yaml", "plugin.yaml"} {
				b, err := os.ReadFile(filepath.Join(dir, file))
				if err != nil || !strings.Contains(string(b), "my-plugin") {
					t.Errorf("%s: %v\n%s", file, err, b)
				}
			}
		})
	}
}
