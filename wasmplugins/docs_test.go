package wasmplugins_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/wasmplugins/cli"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

// TestDocumentedCommands does what docs/writing-a-plugin.md and the READMEs of
// the examples say, with the real kubectl.
func TestDocumentedCommands(t *testing.T) {
	binary, err := exec.LookPath("kubectl")
	if err != nil {
		t.Skip("kubectl is not installed; make test installs it")
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	f := newFixture(t)
	server := httptest.NewServer(f.handler)
	defer server.Close()
	home := t.TempDir()
	kubectl := func(args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, binary, append([]string{"--server", server.URL}, args...)...)
		cmd.Env = append(os.Environ(), "HOME="+home, "KUBECONFIG="+filepath.Join(home, "none"))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	must := func(args ...string) {
		t.Helper()
		if out, err := kubectl(args...); err != nil {
			t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	refused := func(text string, args ...string) {
		t.Helper()
		if out, err := kubectl(args...); err == nil || !strings.Contains(out, text) {
			t.Errorf("kubectl %s: %v, want %q\n%s", strings.Join(args, " "), err, text, out)
		}
	}
	proa := func(args ...string) {
		t.Helper()
		c := cli.Command()
		var out bytes.Buffer
		c.SetOut(&out)
		c.SetErr(&out)
		c.SetArgs(args)
		if err := c.ExecuteContext(t.Context()); err != nil {
			t.Fatalf("proa plugin %s: %v\n%s", strings.Join(args, " "), err, &out)
		}
	}

	// The plugin that "proa plugin new" makes.
	dir := filepath.Join(home, "require-team")
	wasm := filepath.Join(home, "require-team.wasm")
	proa("new", "require-team", "--dir", dir, "--guest", "guest")
	proa("build", dir, "-o", wasm)
	must("apply", "-f", filepath.Join(dir, "module.yaml"))
	must("replace", "--raw", contentPath("require-team"), "-f", wasm)
	must("apply", "-f", filepath.Join(dir, "plugin.yaml"))
	must("wait", "--for=condition=Ready", "admissionplugin/require-team", "--timeout=2m")
	refused(`admission plugin "require-team" denied the request: the label team is missing`, "create", "deployment", "web", "--image=nginx")

	// Applying the module again leaves the content alone.
	must("apply", "-f", filepath.Join(dir, "module.yaml"))
	refused("the label team is missing", "create", "deployment", "web", "--image=nginx")

	// The examples, uploaded the other way.
	rest, err := client.New(client.Config{URL: server.URL, Transport: &http.Transport{DisableKeepAlives: true}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"require-limits", "inject-sidecar"} {
		example := filepath.Join("..", "examples", "plugins", name)
		must("apply", "-f", filepath.Join(example, "module.yaml"))
		if err := cli.Push(t.Context(), rest, name, BuildGo(t, example)); err != nil {
			t.Fatal(err)
		}
		must("apply", "-f", filepath.Join(example, "plugin.yaml"))
		must("wait", "--for=condition=Ready", "admissionplugin/"+name, "--timeout=2m")
	}
	refused("container bare has no memory limit", "run", "bare", "--image=nginx")
	must("create", "-f", "testdata/web.yaml")
	if out, err := kubectl("get", "pod", "web", "-o", "jsonpath={.spec.containers[*].name}"); err != nil || out != "web proxy" {
		t.Errorf("containers %q, %v", out, err)
	}
	must("get", "wasmmodules,admissionplugins", "-o", "wide")
	if out, err := kubectl("describe", "admissionplugin", "require-limits"); err != nil || !strings.Contains(out, "Serving") {
		t.Errorf("%v\n%s", err, out)
	}
}
