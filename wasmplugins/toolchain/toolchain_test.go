package toolchain_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/proa-project/proa/wasmplugins/toolchain"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

func TestDetect(t *testing.T) {
	for file, want := range map[string]toolchain.Language{"go.mod": toolchain.Go, "Cargo.toml": toolchain.Rust, "index.ts": toolchain.AssemblyScript, "plugin.c": toolchain.C, "other": ""} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := toolchain.Detect(dir); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v; want %q", file, got, err, want)
		}
	}
}

// TestMissingCompiler: who lacks a compiler learns what to install.
func TestMissingCompiler(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for file, want := range map[string]string{"index.ts": "npm install assemblyscript", "plugin.c": "clang", "go.mod": `"go"`} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		err := toolchain.Build(t.Context(), toolchain.Config{Dir: dir, Output: filepath.Join(dir, "p.wasm")})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
}

func TestWithManifest(t *testing.T) {
	wasm := Fixed(`{"allowed":true}`)
	first, err := toolchain.WithManifest(wasm, []byte(`{"name": "a"}`))
	if err != nil || !bytes.Contains(first, []byte(`proa.manifest{"name":"a"}`)) {
		t.Fatalf("%v", err)
	}
	second, err := toolchain.WithManifest(first, []byte(`{"name": "b"}`))
	if err != nil || bytes.Contains(second, []byte(`"a"`)) || !bytes.Contains(second, []byte(`proa.manifest{"name":"b"}`)) || len(second) != len(first) {
		t.Errorf("the manifest is not replaced: %v", err)
	}
	for _, bad := range []string{`{`, `{"abi":"other"}`} {
		if _, err := toolchain.WithManifest(wasm, []byte(bad)); err == nil {
			t.Errorf("the manifest %s is taken", bad)
		}
	}
	if _, err := toolchain.WithManifest([]byte("text"), []byte(`{}`)); err == nil {
		t.Error("a text is taken for a module")
	}
}

func FuzzWithManifest(f *testing.F) {
	f.Add(Fixed("{}"))
	f.Add([]byte("\x00asm\x01\x00\x00\x00\x00\xff"))
	f.Fuzz(func(t *testing.T, wasm []byte) {
		out, err := toolchain.WithManifest(wasm, []byte(`{}`))
		if err != nil {
			return
		}
		again, err := toolchain.WithManifest(out, []byte(`{}`))
		if err != nil || !bytes.Equal(again, out) {
			t.Errorf("the second time gives other bytes: %v", err)
		}
	})
}
