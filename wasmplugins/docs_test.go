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

// documented is a server with the real kubectl.
type documented struct {
	t            *testing.T
	server, home string
	binary       string
}

func newDocumented(t *testing.T) *documented {
	t.Helper()
	binary, err := exec.LookPath("kubectl")
	if err != nil {
		t.Skip("kubectl is not installed; make test installs it")
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	server := httptest.NewServer(newFixture(t).handler)
	t.Cleanup(server.Close)
	return &documented{t: t, server: server.URL, home: t.TempDir(), binary: binary}
}

func (d *documented) kubectl(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(d.t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, d.binary, append([]string{"--server", d.server}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+d.home, "KUBECONFIG="+filepath.Join(d.home, "none"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (d *documented) must(args ...string) {
	d.t.Helper()
	if out, err := d.kubectl(args...); err != nil {
		d.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func (d *documented) refused(text string, args ...string) {
	d.t.Helper()
	if out, err := d.kubectl(args...); err == nil || !strings.Contains(out, text) {
		d.t.Errorf("kubectl %s: %v, want %q\n%s", strings.Join(args, " "), err, text, out)
	}
}

func (d *documented) proa(args ...string) {
	d.t.Helper()
	c := cli.Command()
	var out bytes.Buffer
	c.SetOut(&out)
	c.SetErr(&out)
	c.SetArgs(args)
	if err := c.ExecuteContext(d.t.Context()); err != nil {
		d.t.Fatalf("proa plugin %s: %v\n%s", strings.Join(args, " "), err, &out)
	}
}

// TestDocumentedCommands does what docs/writing-a-plugin.md and the READMEs of
// the examples say, with the real kubectl.
func TestDocumentedCommands(t *testing.T) {
	d := newDocumented(t)
	kubectl, must, refused, proa, home := d.kubectl, d.must, d.refused, d.proa, d.home

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
	rest, err := client.New(client.Config{URL: d.server, Transport: &http.Transport{DisableKeepAlives: true}})
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

// TestEnforcedInEveryLanguage goes the way of docs/writing-a-plugin.md, from an
// empty folder to a refusal, in each language, and logs how long that took. The
// page promises two minutes, to an author whose machine is not busy with all
// tests at once under the race detector.
func TestEnforcedInEveryLanguage(t *testing.T) {
	d := newDocumented(t)
	kubeconfig := filepath.Join(d.home, "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"a","cluster":{"server":"`+d.server+
		`"}}],"contexts":[{"name":"a","context":{"cluster":"a","user":"a"}}],"users":[{"name":"a","user":{}}],"current-context":"a"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, lang := range []string{"go", "rust", "assemblyscript", "c"} {
		t.Run(lang, func(t *testing.T) {
			d := *d
			d.t = t
			begin := time.Now()
			name := "require-team-" + lang
			dir, wasm := filepath.Join(d.home, name), filepath.Join(d.home, name+".wasm")
			d.proa("new", name, "--lang", lang, "--dir", dir, "--guest", "guest")
			d.proa("build", dir, "-o", wasm, "--tools", Tools(t))
			d.proa("test", wasm, filepath.Join(dir, "cases.yaml"))
			d.proa("push", name, wasm, "--kubeconfig", kubeconfig)
			d.must("apply", "-f", filepath.Join(dir, "plugin.yaml"))
			d.must("wait", "--for=condition=Ready", "admissionplugin/"+name, "--timeout=2m")
			d.refused(`admission plugin "`+name+`" denied the request: the label team is missing`, "create", "deployment", "web", "--image=nginx")
			d.must("delete", "admissionplugin", name)
			t.Logf("from nothing to enforced in %v", time.Since(begin).Round(time.Millisecond))
		})
	}
}
