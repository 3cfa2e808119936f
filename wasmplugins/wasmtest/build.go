package wasmtest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/proa-project/proa/wasmplugins/toolchain"
)

// BuildGo builds the plugin in a folder with the Go toolchain, as its author
// would, and returns the module.
func BuildGo(t testing.TB, dir string) []byte {
	t.Helper()
	return build(t, dir, toolchain.Go, "GOFLAGS=-buildvcs=false", "GOWORK=off", "GOROOT=")
}

// BuildC builds the plugin in a folder, whose file is plugin.c, with clang.
func BuildC(t testing.TB, dir string) []byte {
	t.Helper()
	return build(t, dir, toolchain.C)
}

// BuildRust builds the plugin in a folder, a crate that needs only the kit.
func BuildRust(t testing.TB, dir string) []byte {
	t.Helper()
	return build(t, dir, toolchain.Rust)
}

// BuildAssemblyScript builds the plugin in a folder, whose file is index.ts.
func BuildAssemblyScript(t testing.TB, dir string) []byte {
	t.Helper()
	return build(t, dir, toolchain.AssemblyScript)
}

// build fails the test if the compiler is missing: "make setup" installs all.
func build(t testing.TB, dir string, want toolchain.Language, env ...string) []byte {
	t.Helper()
	if lang, err := toolchain.Detect(dir); err != nil || lang != want {
		t.Fatalf("%s: %q, %v; want a plugin in %s", dir, lang, err, want)
	}
	var log bytes.Buffer
	out := filepath.Join(t.TempDir(), "plugin.wasm")
	if err := toolchain.Build(t.Context(), toolchain.Config{Dir: dir, Output: out, Tools: []string{Tools(t)}, Env: env, Log: &log}); err != nil {
		t.Fatalf("build %s: %v (\"make setup\" installs the compilers)\n%s", dir, err, &log)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Tools is where "make setup" puts what it builds: $PROA_CACHE/bin, or
// .cache/bin of the checkout.
func Tools(t testing.TB) string {
	t.Helper()
	if cache := os.Getenv("PROA_CACHE"); cache != "" {
		return filepath.Join(cache, "bin")
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "arch_test.go")); err == nil {
			break
		}
	}
	return filepath.Join(dir, ".cache", "bin")
}
