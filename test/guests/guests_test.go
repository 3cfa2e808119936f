// Package guests_test builds the examples in every language that there is a kit
// for, and holds each against the same cases.
package guests_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/proa-project/proa/wasmplugins/cli"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

const examples = "../../examples/plugins"

// languages are the folders of an example and how each is built.
var languages = []struct {
	dir   string
	build func(testing.TB, string) []byte
}{{".", BuildGo}, {"rust", BuildRust}, {"assemblyscript", BuildAssemblyScript}, {"c", BuildC}}

func TestExamples(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for _, name := range []string{"require-limits", "inject-sidecar"} {
		for _, lang := range languages {
			t.Run(name+"/"+lang.dir, func(t *testing.T) {
				wasm := lang.build(t, filepath.Join(examples, name, lang.dir))
				file := filepath.Join(t.TempDir(), "plugin.wasm")
				if err := os.WriteFile(file, wasm, 0o600); err != nil {
					t.Fatal(err)
				}
				cases := filepath.Join(examples, name, "cases.yaml")
				out, err := proa(t, "test", file, cases)
				if err != nil {
					t.Errorf("%v\n%s", err, out)
				}
				if testing.Verbose() && err == nil {
					out, err = proa(t, "bench", file, cases, "--for", "50ms")
					t.Logf("%d bytes, %v\n%s", len(wasm), err, out)
				}
			})
		}
	}
}

// proa runs a subcommand of "proa plugin".
func proa(t *testing.T, args ...string) (string, error) {
	t.Helper()
	c := cli.Command()
	var out bytes.Buffer
	c.SetOut(&out)
	c.SetErr(&out)
	c.SetArgs(args)
	c.SilenceUsage = true
	err := c.ExecuteContext(t.Context())
	return out.String(), err
}

// TestKits holds a plugin that uses everything of its kit against the same
// cases in each language.
func TestKits(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for _, lang := range languages {
		dir := lang.dir
		if dir == "." {
			dir = "go"
		}
		t.Run(dir, func(t *testing.T) {
			wasm := lang.build(t, filepath.Join("testdata/everything", dir))
			file := filepath.Join(t.TempDir(), "plugin.wasm")
			if err := os.WriteFile(file, wasm, 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := proa(t, "test", file, "testdata/everything/cases.yaml"); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			readers(t, wasm)
		})
	}
}

// TestRustKit runs the kit's own tests; those of the Go kit are run by
// TestOtherModules of wasmplugins.
func TestRustKit(t *testing.T) {
	rustc := "/usr/bin/rustc" // Debian's, which "make setup" installs
	if _, err := os.Stat(rustc); err != nil {
		rustc = "rustc"
	}
	out := filepath.Join(t.TempDir(), "kit")
	for _, args := range [][]string{{rustc, "--edition", "2021", "-D", "warnings", "--test", "-o", out, "../../wasmplugins/guest/rust/src/lib.rs"}, {out}} {
		if text, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, text)
		}
	}
}
