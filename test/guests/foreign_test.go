package guests_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

// TestForeign: "proa plugin" runs the policies of others, too.
func TestForeign(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := t.TempDir()
	wasm, cases := filepath.Join(dir, "p.wasm"), filepath.Join(dir, "cases.yaml")
	if err := os.WriteFile(wasm, BuildC(t, "../../wasmplugins/kubewarden/testdata/c"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cases, []byte(`
name: privileged
request: {operation: CREATE, object: {spec: {privileged: true}}}
want: {allowed: false, message: privileged containers are not wanted}
---
name: not privileged
request: {operation: CREATE, object: {}}
want: {allowed: true}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := proa(t, "test", wasm, cases); err != nil || strings.Count(out, "ok ") != 2 {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := proa(t, "inspect", wasm); err != nil || !strings.Contains(out, "kubewarden-wapc") {
		t.Errorf("%v\n%s", err, out)
	}
}
