// Command demo is Proa's main job from beginning to end, in network namespaces
// of its own: a server, two hosts with containerd, a Deployment that becomes
// containers, and WebAssembly policies. "make demo" builds what it needs.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/proa-project/proa/test/hosts"
)

const hostCount = 2

func main() {
	if _, err := hosts.BuildRuntime(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
	os.Exit(hosts.Run(func() int {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		if err := run(ctx, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "\ndemo failed:", err)
			return 1
		}
		return 0
	}))
}

// A demo is the state of the run.
type demo struct {
	out    io.Writer
	begin  time.Time
	dir    string
	proa   string
	config string // kubeconfig
	procs  []*exec.Cmd
}

func run(ctx context.Context, out io.Writer) (err error) {
	d := &demo{out: out, begin: time.Now()}
	if d.proa, err = filepath.Abs("bin/proa"); err != nil {
		return err
	}
	d.step("two hosts, each with a containerd, on a bridge in namespaces of their own")
	fabric, err := hosts.Open(ctx)
	if err != nil {
		return err
	}
	d.dir = fabric.Dir
	defer func() {
		d.step("clean up")
		d.stop()
	}()
	if err := d.startServer(ctx, fabric); err != nil {
		return err
	}
	for n := 1; n <= hostCount; n++ {
		host, err := fabric.Add(ctx, n)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, host.Remove()) }()
		if err := d.join(ctx, host); err != nil {
			return err
		}
	}
	if err := d.until(ctx, 30*time.Second, func() bool {
		names, err := d.capture(ctx, "get", "nodes", "-o", "name")
		return err == nil && len(strings.Fields(names)) == hostCount
	}); err != nil {
		return fmt.Errorf("nodes did not register: %w\n%s", err, d.log("node1"))
	}
	if err := d.kubectl(ctx, "wait", "--for=condition=Ready", "node", "--all", "--timeout=60s"); err != nil {
		return err
	}
	for _, part := range []func(context.Context) error{d.deployment, d.policies, d.recovery} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// step says what comes next, and when.
func (d *demo) step(what string) {
	fmt.Fprintf(d.out, "\n\033[1m[%6.2fs] %s\033[0m\n", time.Since(d.begin).Seconds(), what)
}

// stop ends the processes of the demo, the newest first.
func (d *demo) stop() {
	for _, p := range slices.Backward(d.procs) {
		p.Process.Signal(os.Interrupt) // it may be gone
		done := make(chan struct{})
		go func() { p.Wait(); close(done) }() // the exit code does not matter
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			p.Process.Kill() // it may be gone
			<-done
		}
	}
}

// start runs a process until the end of the demo, with its log in a file.
func (d *demo) start(cmd *exec.Cmd, name string) error {
	log, err := os.Create(filepath.Join(d.dir, name+".log")) // our own folder
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	d.procs = append(d.procs, cmd)
	return log.Close()
}

func (d *demo) startServer(ctx context.Context, fabric *hosts.Fabric) error {
	d.step("proa server: API server, etcd, controllers, scheduler in one process")
	data := filepath.Join(d.dir, "server")
	began := time.Now()
	cmd := exec.Command(d.proa, "server", "--data-dir", data, "--listen", fabric.IP()+":6443") // stop ends it
	if err := d.start(cmd, "server"); err != nil {
		return err
	}
	d.config = filepath.Join(data, "admin.kubeconfig")
	err := d.until(ctx, 30*time.Second, func() bool {
		return d.quiet(ctx, "get", "--raw", "/readyz") == nil
	})
	if err != nil {
		return fmt.Errorf("server not ready: %w\n%s", err, d.log("server"))
	}
	fmt.Fprintf(d.out, "ready after %v\n", time.Since(began).Round(time.Millisecond))
	return nil
}

// join starts an agent on a host, with a token as an operator would.
func (d *demo) join(ctx context.Context, host *hosts.Host) error {
	d.step("join " + host.Name + " with a token")
	line, err := exec.CommandContext(ctx, d.proa, "token", "create", "--kubeconfig", d.config, "--ttl", "10m").CombinedOutput() // our own binary
	if err != nil {
		return fmt.Errorf("create token: %w: %s", err, line)
	}
	args := strings.Fields(string(line))[1:] // without "proa"
	args = append(args,
		"--node-name", host.Name,
		"--node-ip", host.IP,
		"--runtime-endpoint", host.Endpoint,
		"--data-dir", filepath.Join(host.Dir, "agent"),
		"--cgroup-parent", host.CgroupParent)
	fmt.Fprintf(d.out, "%s$ proa agent --server ... --join-token ... --ca-hash ... --runtime-endpoint unix:///.../containerd.sock\n", host.Name)
	return d.start(host.Command(context.WithoutCancel(ctx), d.proa, args...), host.Name)
}

func (d *demo) deployment(ctx context.Context) error {
	d.step("kubectl apply: a Deployment becomes three containers")
	times, err := follow(ctx, d.config, "app=web")
	if err != nil {
		return err
	}
	defer times.stop()
	if err := d.kubectl(ctx, "apply", "-f", "examples/web/"); err != nil {
		return err
	}
	if err := d.kubectl(ctx, "rollout", "status", "deployment/web", "--timeout=120s"); err != nil {
		return fmt.Errorf("%w\n%s\n%s", err, d.log("node1"), d.log("server"))
	}
	if err := d.kubectl(ctx, "get", "deploy,rs,pods,nodes", "-o", "wide"); err != nil {
		return err
	}
	d.step("from apply to Running, as a watch saw it (the first figure is kubectl's own work)")
	if err := times.print(d.out); err != nil {
		return err
	}

	d.step("logs and an answer from a pod")
	if err := d.kubectl(ctx, "logs", "deployment/web", "--tail=3"); err != nil {
		return err
	}
	ip, err := d.capture(ctx, "get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].status.podIP}")
	if err != nil {
		return err
	}
	return d.curl(ctx, "http://"+ip+":8080/")
}

// policies uploads the example plugins and shows them at work.
func (d *demo) policies(ctx context.Context) error {
	d.step("policies as WebAssembly, kept in the API")
	for _, name := range []string{"require-limits", "inject-sidecar"} {
		if err := d.upload(ctx, name); err != nil {
			return err
		}
	}
	if err := d.kubectl(ctx, "apply", "-f", "test/demo/policies.yaml"); err != nil {
		return err
	}
	if err := d.kubectl(ctx, "wait", "--for=condition=Ready", "admissionplugin", "--all", "--timeout=60s"); err != nil {
		return err
	}
	if err := d.kubectl(ctx, "get", "wasmmodules,admissionplugins"); err != nil {
		return err
	}
	d.step("a pod without limits is refused")
	if err := d.kubectl(ctx, "apply", "-f", "test/demo/unlimited.yaml"); err == nil {
		return errors.New("the pod without limits was admitted")
	}
	d.step("one with limits passes, and gets a sidecar")
	if err := d.kubectl(ctx, "apply", "-f", "test/demo/limited.yaml"); err != nil {
		return err
	}
	if err := d.kubectl(ctx, "wait", "--for=condition=Ready", "pod/limited", "-n", "guarded", "--timeout=60s"); err != nil {
		return err
	}
	names, err := d.capture(ctx, "get", "pod", "limited", "-n", "guarded", "-o", "jsonpath={.spec.containers[*].name}")
	if err != nil {
		return err
	}
	fmt.Fprintln(d.out, "containers:", names)
	if !strings.Contains(names, "sidecar") {
		return errors.New("the pod has no sidecar")
	}
	return d.explain(ctx)
}

// explain shows who did what to which request, and what a policy would say of
// what there is.
func (d *demo) explain(ctx context.Context) error {
	d.step("which policy did what to which request")
	traces, err := d.capture(ctx, "get", "admissiontraces")
	if err != nil {
		return err
	}
	fmt.Fprintln(d.out, traces)
	if !strings.Contains(traces, "Denied") {
		return errors.New("the denial has no trace")
	}
	d.step("what the policy would say of the pods that there are")
	for _, args := range [][]string{
		{"apply", "-f", "test/demo/scan.yaml"},
		{"wait", "--for=jsonpath={.status.phase}=Done", "policyscan/limits-of-what-there-is", "--timeout=60s"},
		{"get", "policyreports"},
	} {
		if err := d.kubectl(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// upload builds a plugin from its source and puts the code into the API.
func (d *demo) upload(ctx context.Context, name string) error {
	code := filepath.Join(d.dir, name+".wasm")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildmode=c-shared", "-ldflags=-s -w", "-o", code, ".") // our own folder
	build.Dir = filepath.Join("examples", "plugins", name)
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", name, err, out)
	}
	if err := d.kubectl(ctx, "apply", "-f", filepath.Join("examples", "plugins", name, "module.yaml")); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, d.proa, "plugin", "push", name, code, "--kubeconfig", d.config).CombinedOutput() // our own binary
	fmt.Fprintf(d.out, "$ proa plugin push %s %s.wasm\n%s", name, name, out)
	return err
}

// recovery deletes a pod and waits until the Deployment is whole again.
func (d *demo) recovery(ctx context.Context) error {
	d.step("kill a pod: it comes back")
	name, err := d.capture(ctx, "get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].metadata.name}")
	if err != nil {
		return err
	}
	began := time.Now()
	if err := d.kubectl(ctx, "delete", "pod", name, "--grace-period=1"); err != nil {
		return err
	}
	if err := d.kubectl(ctx, "rollout", "status", "deployment/web", "--timeout=60s"); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "whole again after %v\n", time.Since(began).Round(time.Millisecond))
	return d.kubectl(ctx, "get", "pods", "-l", "app=web", "-o", "wide")
}

// until calls f until it is true.
func (d *demo) until(ctx context.Context, within time.Duration, f func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

func (d *demo) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "kubectl", args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+d.config, "HOME="+d.dir)
	return cmd
}

// kubectl shows a command and what it prints.
func (d *demo) kubectl(ctx context.Context, args ...string) error {
	fmt.Fprintf(d.out, "$ kubectl %s\n", strings.Join(args, " "))
	cmd := d.command(ctx, args...)
	cmd.Stdout, cmd.Stderr = d.out, d.out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("kubectl %s: %w", args[0], err)
	}
	return nil
}

func (d *demo) quiet(ctx context.Context, args ...string) error {
	return d.command(ctx, args...).Run()
}

func (d *demo) capture(ctx context.Context, args ...string) (string, error) {
	out, err := d.command(ctx, args...).Output()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// curl shows what a URL answers.
func (d *demo) curl(ctx context.Context, url string) error {
	fmt.Fprintf(d.out, "$ curl %s\n", url)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() // read to the end
	_, err = io.Copy(d.out, resp.Body)
	fmt.Fprintln(d.out)
	return err
}

// log returns the end of a process's log.
func (d *demo) log(name string) string {
	b, err := os.ReadFile(filepath.Join(d.dir, name+".log"))
	if err != nil {
		return err.Error()
	}
	return name + " said:\n" + string(b[max(0, len(b)-4000):])
}
