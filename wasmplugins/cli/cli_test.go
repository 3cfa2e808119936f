package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/proa-project/proa/wasmplugins/cli"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func run(t *testing.T, args ...string) (string, error) {
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

// TestFromNothing is the way that docs/writing-a-plugin.md describes, up to the
// server. test/guests goes it in every language.
func TestFromNothing(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := filepath.Join(t.TempDir(), "require-team")
	if out, err := run(t, "new", "require-team", "--dir", dir, "--guest", "../guest"); err != nil || !strings.Contains(out, "is ready") {
		t.Fatalf("%s %v", out, err)
	}
	wasm := filepath.Join(t.TempDir(), "p.wasm")
	if out, err := run(t, "build", dir, "-o", wasm); err != nil || !strings.Contains(out, "bytes") {
		t.Fatalf("%s %v", out, err)
	}
	out, err := run(t, "test", wasm, filepath.Join(dir, "cases.yaml"))
	if err != nil || strings.Count(out, "ok ") != 3 {
		t.Errorf("%s %v", out, err)
	}
	out, err = run(t, "bench", wasm, filepath.Join(dir, "cases.yaml"), "--for", "20ms")
	if err != nil || !strings.Contains(out, "p50") || !strings.Contains(out, "with the label") {
		t.Errorf("%s %v", out, err)
	}
	out, err = run(t, "inspect", wasm)
	if err != nil || !strings.Contains(out, "proa/v1") || !strings.Contains(out, "proa_admit(i32,i32)i64") || !strings.Contains(out, "require-team 0.1.0") {
		t.Errorf("%s %v", out, err)
	}
}

func TestCasesThatFail(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	wasm := write("p.wasm", Fixed(`{"allowed":true,"patch":[{"op":"add","path":"/b","value":2}]}`))
	for _, tc := range []struct{ cases, want string }{
		{"name: x\nphase: mutate\nrequest: {object: {a: 1}}\nwant: {allowed: true, object: {a: 1, b: 2}}", ""},
		{"name: x\nphase: mutate\nrequest: {object: {a: 1}}\nwant: {object: {a: 1}}", `object: got {"a":1,"b":2}, want {"a":1}`},
		{"name: x\nphase: mutate\nrequest: {object: {}}\nwant: {allowed: false}", "allowed: got true, want false"},
		{"name: x\nrequest: {}\nwant: {}", "BadReply"},
		{"name: x\nrequest: {}\nwant: {failure: BadReply}", ""},
		{"name: x\nwant: {invalidSettings: no}", "the settings are taken"},
		{"name: x\nwnt: {}", `unknown field "wnt"`},
	} {
		out, err := run(t, "test", wasm, write("cases.yaml", []byte(tc.cases)))
		if (err == nil) != (tc.want == "") || !strings.Contains(out, tc.want) {
			t.Errorf("%s: %v\n%s", tc.cases, err, out)
		}
	}
	if _, err := run(t, "inspect", write("text.wasm", []byte("hello"))); err == nil {
		t.Error("a text is inspected")
	}
	if _, err := run(t, "push", "n", wasm, "--kubeconfig", filepath.Join(dir, "none")); err == nil {
		t.Error("push without a kubeconfig")
	}
}
