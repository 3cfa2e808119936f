// Package containers_test runs the scripts in testdata with hosts and real
// containers: a server, agents as processes of their own on two hosts, each
// with its containerd, all in namespaces of the test's own.
package containers_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/proa-project/proa/test/cluster"
	"github.com/proa-project/proa/test/hosts"
	"github.com/proa-project/proa/test/script"
)

// inFabric runs tests inside a fabric of hosts.
type inFabric struct{ *testing.M }

func (m inFabric) Run() int { return hosts.Run(m.M.Run) }

// TestMain lets the test binary stand for proa, so that agents run with the
// race detector too.
func TestMain(m *testing.M) {
	if _, err := hosts.BuildRuntime(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "build the container runtime:", err)
		os.Exit(1)
	}
	script.Main(inFabric{m})
}

func TestWeb(t *testing.T)  { run(t, "testdata/web.txtar") }
func TestPods(t *testing.T) { run(t, "testdata/pods.txtar") }
func TestUp(t *testing.T)   { run(t, "testdata/up.txtar") }

// run runs one script, with hosts of its own.
func run(t *testing.T, file string) {
	t.Helper()
	fabric := hosts.New(t)
	m := &machines{hosts: map[int]*hosts.Host{1: fabric.Start(t, 1), 2: fabric.Start(t, 2)}, agents: map[int]*exec.Cmd{}}
	script.Run(t, []string{file}, cluster.Config{Listen: fabric.IP() + ":0"}, map[string]script.Command{
		"agent":           m.agent,
		"up":              m.up,
		"kill-agent":      m.killAgent,
		"kill-containerd": m.killContainerd,
		"curl":            curl,
		"forward":         forward,
	})
}

// machines are the hosts of a script.
type machines struct {
	hosts  map[int]*hosts.Host
	agents map[int]*exec.Cmd
}

func (m *machines) host(ts *testscript.TestScript, args []string) (int, *hosts.Host) {
	if len(args) != 1 {
		ts.Fatalf("usage: COMMAND HOST")
	}
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	if m.hosts[n] == nil {
		ts.Fatalf("no host %d", n)
	}
	return n, m.hosts[n]
}

// agent N starts the agent of host N, which joins with a token the first time.
func (m *machines) agent(ts *testscript.TestScript, _ bool, args []string) {
	n, host := m.host(ts, args)
	ts.Check(ts.Exec("proa", "token", "create", "--kubeconfig", ts.Getenv("KUBECONFIG"), "--ttl", "10m"))
	line := strings.Fields(ts.ReadFile("stdout"))[1:]
	line = append(line,
		"--node-name", host.Name,
		"--node-ip", host.IP,
		"--runtime-endpoint", host.Endpoint,
		"--cgroup-parent", host.CgroupParent,
		"--data-dir", ts.MkAbs(host.Name))
	m.start(ts, n, line)
}

// up N runs "proa up" on host N.
func (m *machines) up(ts *testscript.TestScript, _ bool, args []string) {
	n, host := m.host(ts, args)
	m.start(ts, n, []string{
		"up", "--data-dir", ts.MkAbs("up"), "--listen", host.IP + ":6443",
		"--node-name", host.Name, "--runtime-endpoint", host.Endpoint, "--cgroup-parent", host.CgroupParent,
	})
	ts.Setenv("KUBECONFIG", ts.MkAbs("up/admin.kubeconfig"))
}

// start runs proa on a host until the script ends or kills it.
func (m *machines) start(ts *testscript.TestScript, n int, args []string) {
	host := m.hosts[n]
	proa, err := exec.LookPath("proa")
	ts.Check(err)
	// The shell leaves a file with the process id on the host.
	pid := ts.MkAbs(host.Name + ".pid")
	cmd := host.Command(context.Background(), "sh", append([]string{"-c", `echo $$ > "$0" && exec "$@"`, pid, proa}, args...)...)
	log, err := os.Create(ts.MkAbs(host.Name + ".log"))
	ts.Check(err)
	cmd.Stdout, cmd.Stderr = log, log
	ts.Check(cmd.Start())
	ts.Check(log.Close())
	m.agents[n] = cmd
	ts.Defer(func() {
		if m.agents[n] == cmd {
			m.kill(ts, n)
		}
		if b, err := os.ReadFile(ts.MkAbs(host.Name + ".log")); err == nil {
			ts.Logf("%s agent: %s", host.Name, b[max(0, len(b)-3000):])
		}
	})
}

// kill kills an agent where it runs and waits for the command that started it.
func (m *machines) kill(ts *testscript.TestScript, n int) {
	host, cmd := m.hosts[n], m.agents[n]
	delete(m.agents, n)
	pid := strings.TrimSpace(ts.ReadFile(ts.MkAbs(host.Name + ".pid")))
	if out, err := host.Command(context.Background(), "kill", "-9", pid).CombinedOutput(); err != nil {
		ts.Logf("kill agent of %s: %v: %s", host.Name, err, out)
	}
	cmd.Wait() // it was killed
}

func (m *machines) killAgent(ts *testscript.TestScript, _ bool, args []string) {
	n, _ := m.host(ts, args)
	m.kill(ts, n)
}

// killContainerd N kills the daemon of host N and starts it anew.
func (m *machines) killContainerd(ts *testscript.TestScript, _ bool, args []string) {
	_, host := m.host(ts, args)
	ts.Check(host.KillContainerd())
	ts.Check(host.StartContainerd(context.Background()))
}

// curl URL prints the answer.
func curl(ts *testscript.TestScript, neg bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, args[0], nil)
	ts.Check(err)
	resp, err := http.DefaultClient.Do(req)
	if (err != nil) != neg {
		ts.Fatalf("GET %s: %v", args[0], err)
	}
	if err != nil {
		return
	}
	defer resp.Body.Close()
	_, err = io.Copy(ts.Stdout(), resp.Body)
	ts.Check(err)
}

// forward TARGET PORT runs kubectl port-forward, GETs / through it and prints
// the answer.
func forward(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	ts.Check(err)
	ts.Check(l.Close())
	cmd := exec.Command("kubectl", "port-forward", args[0], port+":"+args[1])
	cmd.Env = append(os.Environ(), "KUBECONFIG="+ts.Getenv("KUBECONFIG"), "HOME="+filepath.Dir(ts.Getenv("KUBECONFIG")))
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	ts.Check(cmd.Start())
	defer func() {
		cmd.Process.Kill() // it may be gone
		cmd.Wait()         // it was killed
		ts.Logf("%s", out.String())
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+port+"/", nil)
		ts.Check(err)
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			_, err = io.Copy(ts.Stdout(), resp.Body)
			resp.Body.Close()
			ts.Check(err)
			return
		}
		select {
		case <-ctx.Done():
			ts.Fatalf("no answer through port-forward: %v", err)
		case <-tick.C:
		}
	}
}
