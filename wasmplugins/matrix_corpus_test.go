package wasmplugins_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/proa-project/proa/wasmplugins/engine"
)

// specification are the modules of wazero's copy of the specification's tests.
func specification(t *testing.T) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/tetratelabs/wazero").Output()
	if err != nil {
		t.Fatalf("find wazero's sources: %v", err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "internal", "integration_test", "spectest", "v*", "testdata", "*.wasm"))
	if err != nil || len(files) < 1000 {
		t.Fatalf("the corpus has %d modules, %v", len(files), err)
	}
	return files
}

// TestSpecificationLoads: of the specification's modules the engine refuses
// those that are invalid, and loads the others with the exports that they have,
// or says that it does not support them.
func TestSpecificationLoads(t *testing.T) {
	const every = 4 // of the valid ones, which are compiled
	e, err := engine.New(engine.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	var invalid, loaded, refused int
	for n, file := range specification(t) {
		wasm, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		exports, ok := exportsOf(wasm)
		if ok && n%every != 0 || !ok && testing.Short() && n%every != 0 {
			continue
		}
		code, err := e.Load(t.Context(), wasm)
		switch {
		case err != nil && !errors.Is(err, engine.ErrInvalid):
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		case !ok && err == nil:
			t.Errorf("%s is invalid, and was loaded", name)
		case !ok:
			invalid++
		case err != nil && !strings.Contains(err.Error(), "unsupported"):
			t.Errorf("%s is valid: %v", name, err)
		case err != nil:
			refused++
		default:
			loaded++
			for _, f := range exports {
				if _, ok := code.Exports[f]; !ok {
					t.Errorf("%s: the function %q is no longer exported", name, f)
				}
			}
		}
		if err == nil {
			code.Close()
		}
	}
	t.Logf("%d invalid modules were refused; of the valid ones %d were loaded, %d not supported", invalid, loaded, refused)
}

// exportsOf returns the functions that a valid module exports.
func exportsOf(wasm []byte) (names []string, valid bool) {
	ctx := context.Background()
	rt := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(api.CoreFeaturesV2))
	defer func() { _ = rt.Close(ctx) }() // has no instance
	m, err := rt.CompileModule(ctx, wasm)
	if err != nil {
		return nil, false
	}
	for name := range m.ExportedFunctions() {
		names = append(names, name)
	}
	return names, true
}
