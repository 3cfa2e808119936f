// Package script runs end-to-end scripts (txtar): a whole Proa and the real
// kubectl. Beside the commands of testscript they have:
//
//	cluster [--simulate-nodes N]    start a control plane; KUBECONFIG and SERVER are set
//	kubectl ARGS                    the real one
//	eventually TIME kubectl ARGS    until it succeeds and prints something, with ! until it fails
//	eventually TIME no-objects ARGS until "kubectl get ARGS" prints nothing
//	cmp-lines FILE N                FILE (or stdout) has N lines
//	env-from VAR FILE               set a variable to a file's content
//	first-node VAR                  set a variable to some node's name
//	raw PATH, anonymous PATH        GET as administrator, as nobody
package script

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/proa-project/proa/cmd/proa/app"
	"github.com/proa-project/proa/test/cluster"
)

// Main runs the tests of a package whose scripts use the program proa: the test
// binary stands for it, so that it runs with the race detector too.
func Main(m testscript.TestingM) {
	testscript.Main(m, map[string]func(){"proa": func() {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		if err := app.New(app.Streams{Out: os.Stdout, Err: os.Stderr}, "test").ExecuteContext(ctx); err != nil {
			os.Exit(1)
		}
	}})
}

// A Command is a command of a script.
type Command = func(ts *testscript.TestScript, neg bool, args []string)

// Run runs the scripts in files, side by side, with the commands of this
// package and those given. They run after the calling test returns and before
// its clean-up.
func Run(t *testing.T, files []string, config cluster.Config, commands map[string]Command) {
	t.Helper()
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Fatal("kubectl is needed: run make setup")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]Command{
		"cluster":    func(ts *testscript.TestScript, _ bool, args []string) { startCluster(ts, config, args) },
		"kubectl":    kubectl,
		"eventually": eventually,
		"cmp-lines":  cmpLines,
		"env-from":   envFrom,
		"first-node": firstNode,
		"raw":        func(ts *testscript.TestScript, neg bool, args []string) { get(ts, neg, args, true) },
		"anonymous":  func(ts *testscript.TestScript, neg bool, args []string) { get(ts, neg, args, false) },
	}
	maps.Copy(all, commands)
	testscript.Run(t, testscript.Params{
		Files: files,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("PATH", os.Getenv("PATH"))
			env.Setenv("ROOT", root)
			env.Setenv("GOCACHE", goEnv("GOCACHE"))
			env.Setenv("GOMODCACHE", goEnv("GOMODCACHE"))
			return nil
		},
		Cmds: all,
	})
}

// goEnv returns a setting of the go command, which has another HOME in a
// script.
func goEnv(name string) string {
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// startCluster runs a control plane for the script: cluster [--simulate-nodes N].
func startCluster(ts *testscript.TestScript, config cluster.Config, args []string) {
	config.DataDir = ts.MkAbs("data")
	for i := 0; i+1 < len(args); i += 2 {
		if args[i] != "--simulate-nodes" {
			ts.Fatalf("unknown flag %s", args[i])
		}
		n, err := strconv.Atoi(args[i+1])
		ts.Check(err)
		config.SimulateNodes = n
	}
	c := cluster.Start(scriptTB{ts: ts}, config)
	ts.Setenv("KUBECONFIG", c.Kubeconfig)
	ts.Setenv("SERVER", c.URL)
}

// kubectl runs the real one.
func kubectl(ts *testscript.TestScript, neg bool, args []string) {
	err := ts.Exec("kubectl", args...)
	switch {
	case neg && err == nil:
		ts.Fatalf("kubectl %s: succeeded, and should not", strings.Join(args, " "))
	case !neg && err != nil:
		ts.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
	}
}

// eventually DURATION kubectl ARGS waits until the command succeeds and prints
// something; eventually DURATION no-objects ARGS until "kubectl get ARGS"
// prints nothing. With ! before it, the former waits until the command fails.
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: eventually DURATION kubectl|no-objects ARGS")
	}
	within, err := time.ParseDuration(args[0])
	ts.Check(err)
	wantNone := args[1] == "no-objects"
	cmdArgs := args[2:]
	if wantNone {
		cmdArgs = append([]string{"get", "-o", "name"}, cmdArgs...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ts.Exec("kubectl", cmdArgs...)
		if out := ts.ReadFile("stdout"); neg && err != nil || !neg && err == nil && (out == "") == wantNone {
			return
		}
		select {
		case <-ctx.Done():
			ts.Fatalf("not within %v: kubectl %s", within, strings.Join(cmdArgs, " "))
		case <-tick.C:
		}
	}
}

// cmpLines FILE N checks how many lines a file or stdout has.
func cmpLines(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	text := strings.TrimSpace(ts.ReadFile(args[0]))
	got := 0
	if text != "" {
		got = strings.Count(text, "\n") + 1
	}
	if got != want {
		ts.Fatalf("%d lines, want %d", got, want)
	}
}

// envFrom VAR FILE sets a variable to a file's content.
func envFrom(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile(args[1])))
}

// firstNode VAR sets a variable to the name of some node.
func firstNode(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(ts.Exec("kubectl", "get", "nodes", "-o", "jsonpath={.items[0].metadata.name}"))
	ts.Setenv(args[0], ts.ReadFile("stdout"))
}

// get sends a GET and puts the body on stdout, or on stderr if the status is
// not 2xx.
func get(ts *testscript.TestScript, neg bool, args []string, admin bool) {
	config, err := clientcmd.BuildConfigFromFlags("", ts.Getenv("KUBECONFIG"))
	ts.Check(err)
	hc := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	if admin {
		hc, err = rest.HTTPClientFor(config)
		ts.Check(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+args[0], nil)
	ts.Check(err)
	resp, err := hc.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	var body bytes.Buffer
	_, err = io.Copy(&body, resp.Body)
	ts.Check(err)
	ok := resp.StatusCode < 300
	fmt.Fprint(ts.Stdout(), body.String())
	if !ok {
		fmt.Fprint(ts.Stderr(), body.String())
	}
	if ok == neg {
		ts.Fatalf("GET %s: status %d: %s", args[0], resp.StatusCode, body.String())
	}
}

// A scriptTB lets a script stand where a test is wanted.
type scriptTB struct {
	testing.TB
	ts *testscript.TestScript
}

func (s scriptTB) Helper()                           {}
func (s scriptTB) Name() string                      { return s.ts.Name() }
func (s scriptTB) Log(args ...any)                   { s.ts.Logf("%s", fmt.Sprint(args...)) }
func (s scriptTB) Logf(format string, args ...any)   { s.ts.Logf(format, args...) }
func (s scriptTB) Errorf(format string, args ...any) { s.ts.Logf("error: "+format, args...) }
func (s scriptTB) Fatal(args ...any)                 { s.ts.Fatalf("%s", fmt.Sprint(args...)) }
func (s scriptTB) Fatalf(format string, args ...any) { s.ts.Fatalf(format, args...) }
func (s scriptTB) Cleanup(f func())                  { s.ts.Defer(f) }
