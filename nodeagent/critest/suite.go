package critest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/nodeagent/cri"
	"github.com/proa-project/proa/nodeagent/podworker"
)

// A Target is a runtime that the suite runs on. It has the images Helper and
// NonRoot, and no pods.
type Target struct {
	Runtime *cri.Runtime
	// CgroupParent is where sandboxes may be put.
	CgroupParent string
}

// Suite proves that a runtime, and this project's client of it, do what the
// node agent counts on.
func Suite(t *testing.T, target Target) {
	t.Helper()
	s := suite{target}
	t.Run("version", s.version)
	t.Run("images", s.images)
	t.Run("sandbox", s.sandbox)
	t.Run("container", s.container)
	t.Run("exit code", s.exitCode)
	t.Run("stop", s.stop)
	t.Run("exec", s.exec)
	t.Run("no such command", s.noCommand)
	t.Run("environment and mounts", s.environment)
	t.Run("events", s.events)
	t.Run("states", s.states)
	t.Run("gone", s.gone)
}

type suite struct{ Target }

// A box is a pod with its sandbox.
type box struct {
	suite
	pod     *corev1.Pod
	id      string
	options cri.SandboxOptions
}

func (s suite) box(t *testing.T) *box {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "-", " ", "-", "_", "-").Replace(t.Name()))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "default", UID: types.UID("uid-" + name), Labels: map[string]string{"app": "suite"},
	}}
	b := &box{suite: s, pod: pod, options: cri.SandboxOptions{
		Hostname: "suite", LogDir: t.TempDir(), CgroupParent: s.CgroupParent,
	}}
	var err error
	if b.id, err = s.Runtime.RunSandbox(t.Context(), pod, b.options); err != nil {
		t.Fatalf("run a sandbox: %v", err)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		if err := s.Runtime.StopSandbox(ctx, b.id); err != nil {
			t.Error(err)
		}
		if err := s.Runtime.RemoveSandbox(ctx, b.id); err != nil {
			t.Error(err)
		}
	})
	return b
}

// create makes a container of the helper image and returns its ID.
func (b *box) create(t *testing.T, name string, change func(*cri.ContainerOptions), args ...string) string {
	t.Helper()
	image, err := b.Runtime.Image(t.Context(), Helper)
	if err != nil {
		t.Fatal(err)
	}
	if err = os.MkdirAll(filepath.Join(b.options.LogDir, name), 0o755); err != nil { //nolint:gosec // a test's folder
		t.Fatal(err)
	}
	o := cri.ContainerOptions{
		Attempt: 2, Streak: 1, ImageRef: image.ID, Args: args, LogPath: name + "/2.log", Sandbox: b.options, OOMScoreAdj: 1000,
	}
	if change != nil {
		change(&o)
	}
	c := &corev1.Container{Name: name, Image: Helper}
	id, err := b.Runtime.CreateContainer(t.Context(), b.id, b.pod, c, o)
	if err != nil {
		t.Fatalf("create container %q: %v", name, err)
	}
	return id
}

func (b *box) start(t *testing.T, name string, args ...string) string {
	t.Helper()
	id := b.create(t, name, nil, args...)
	if err := b.Runtime.StartContainer(t.Context(), id); err != nil {
		t.Fatalf("start container %q: %v", name, err)
	}
	return id
}

// get returns a container as the runtime has it.
func (b *box) get(t *testing.T, id string) podworker.Container {
	t.Helper()
	p, err := b.Runtime.Pod(t.Context(), b.pod.UID)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range p.Containers {
		if c.ID == id {
			return c
		}
	}
	t.Fatalf("container %q is not in %+v", id, p)
	return podworker.Container{}
}

// await waits until a container is in a state.
func (b *box) await(t *testing.T, id string, state podworker.ContainerState) podworker.Container {
	t.Helper()
	var c podworker.Container
	poll(t, func() bool { c = b.get(t, id); return c.State == state })
	return c
}

// poll asks until the answer is yes, for half a minute.
func poll(t *testing.T, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatal("it did not come to pass in half a minute")
		case <-tick.C:
		}
	}
}

func (s suite) version(t *testing.T) {
	v, err := s.Runtime.Version(t.Context())
	if err != nil || v.Name == "" || v.Version == "" || v.APIVersion != "v1" {
		t.Errorf("version: %+v, %v", v, err)
	}
	status, err := s.Runtime.Status(t.Context())
	if err != nil || !status.RuntimeReady || !status.NetworkReady {
		t.Errorf("status: %+v, %v", status, err)
	}
}

func (s suite) images(t *testing.T) {
	i, err := s.Runtime.Image(t.Context(), Helper)
	if err != nil || i.ID == "" || i.Size == 0 || i.UID != nil {
		t.Errorf("image: %+v, %v", i, err)
	}
	i, err = s.Runtime.Image(t.Context(), NonRoot)
	if err != nil || i.UID == nil || *i.UID != 65532 {
		t.Errorf("image with a user: %+v, %v", i, err)
	}
	if _, err = s.Runtime.Image(t.Context(), "local.test/nothing:1"); !errors.Is(err, cri.ErrNotFound) {
		t.Errorf("missing image: %v, want ErrNotFound", err)
	}
	list, err := s.Runtime.Images(t.Context())
	if err != nil || len(list) < 2 {
		t.Errorf("images: %v, %v", list, err)
	}
	if _, err := s.Runtime.Pull(t.Context(), "127.0.0.1:1/nothing:1", nil); err == nil {
		t.Error("an image was pulled that nobody has")
	}
}

func (s suite) sandbox(t *testing.T) {
	b := s.box(t)
	p, err := s.Runtime.Pod(t.Context(), b.pod.UID)
	if err != nil || len(p.Sandboxes) != 1 || p.Name != b.pod.Name || p.Namespace != "default" {
		t.Fatalf("pod: %+v, %v", p, err)
	}
	if x := p.Sandboxes[0]; x.ID != b.id || !x.Ready || len(x.IPs) == 0 || x.CreatedAt.IsZero() {
		t.Errorf("sandbox: %+v", x)
	}
	all, err := s.Runtime.Pods(t.Context())
	if err != nil || len(all) != 1 || all[0].UID != b.pod.UID {
		t.Errorf("pods: %+v, %v", all, err)
	}
	for range 2 { // the second time it changes nothing
		if err = s.Runtime.StopSandbox(t.Context(), b.id); err != nil {
			t.Errorf("stop: %v", err)
		}
	}
	p, err = s.Runtime.Pod(t.Context(), b.pod.UID)
	if err != nil || len(p.Sandboxes) != 1 || p.Sandboxes[0].Ready {
		t.Errorf("stopped: %+v, %v", p, err)
	}
	for range 2 {
		if err = s.Runtime.RemoveSandbox(t.Context(), b.id); err != nil {
			t.Errorf("remove: %v", err)
		}
	}
	if p, err = s.Runtime.Pod(t.Context(), b.pod.UID); err != nil || len(p.Sandboxes) != 0 {
		t.Errorf("removed: %+v, %v", p, err)
	}
}

func (s suite) container(t *testing.T) {
	b := s.box(t)
	id := b.create(t, "main", nil, "print", "hello", "there", ",", "error", "oops", ",", "sleep", "ever")
	c := b.get(t, id)
	want := podworker.Hash(&corev1.Container{Name: "main", Image: Helper})
	if c.State != podworker.Created || c.Name != "main" || c.SandboxID != b.id || c.Attempt != 2 || c.Streak != 1 || c.Hash != want || c.Image != Helper || c.ImageID == "" {
		t.Errorf("created: %+v", c)
	}
	if err := s.Runtime.StartContainer(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	c = b.get(t, id)
	if c.State != podworker.Running || c.StartedAt.IsZero() || !c.FinishedAt.IsZero() {
		t.Errorf("started: %+v", c)
	}
	log := filepath.Join(b.options.LogDir, "main", "2.log")
	var text string
	poll(t, func() bool {
		content, err := os.ReadFile(log) // in the test's folder
		text = string(content)
		return err == nil && strings.Count(text, "\n") == 2
	})
	if !strings.Contains(text, " stdout F hello there\n") || !strings.Contains(text, " stderr F oops\n") {
		t.Errorf("log:\n%s", text)
	}
}

func (s suite) exitCode(t *testing.T) {
	b := s.box(t)
	for args, want := range map[string]podworker.Container{
		"exit 0": {ExitCode: 0, Reason: "Completed"}, "exit 3": {ExitCode: 3, Reason: "Error"},
	} {
		name := strings.ReplaceAll(args, " ", "")
		id := b.start(t, name, strings.Fields(args)...)
		c := b.await(t, id, podworker.Exited)
		if c.ExitCode != want.ExitCode || c.Reason != want.Reason || c.FinishedAt.IsZero() || c.StartedAt.IsZero() {
			t.Errorf("%s: %+v", args, c)
		}
		if err := s.Runtime.RemoveContainer(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
}

func (s suite) stop(t *testing.T) {
	b := s.box(t)
	obeys, deaf := b.start(t, "obeys", "print", "up", ",", "sleep", "ever"), b.start(t, "deaf", "print", "up", ",", "deaf", "ever")
	for _, name := range []string{"obeys", "deaf"} { // it must have come so far as to hear the signal
		poll(t, func() bool {
			out, _ := os.ReadFile(filepath.Join(b.options.LogDir, name, "2.log")) // it may not be there yet
			return strings.Contains(string(out), "up")
		})
	}
	if err := s.Runtime.StopContainer(t.Context(), obeys, 10*time.Second); err != nil {
		t.Error(err)
	}
	if c := b.get(t, obeys); c.State != podworker.Exited || c.ExitCode != 143 {
		t.Errorf("after TERM: %+v", c)
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Runtime.StopContainer(short, deaf, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a stop that is broken off: %v, want DeadlineExceeded", err)
	}
	begun := time.Now()
	if err := s.Runtime.StopContainer(t.Context(), deaf, time.Second); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took < 900*time.Millisecond {
		t.Errorf("it was killed after %v, before its second was over", took)
	}
	if c := b.get(t, deaf); c.State != podworker.Exited || c.ExitCode != 137 {
		t.Errorf("after KILL: %+v", c)
	}
	if err := s.Runtime.StopContainer(t.Context(), deaf, time.Second); err != nil {
		t.Errorf("stop what has stopped: %v", err)
	}
}

func (s suite) exec(t *testing.T) {
	b := s.box(t)
	id := b.start(t, "main", "sleep", "ever")
	out, code, err := s.Runtime.Exec(t.Context(), id, []string{"/helper", "print", "hi", ",", "error", "ho", ",", "exit", "7"}, 5*time.Second)
	if string(out) != "hi\nho\n" || code != 7 || err != nil {
		t.Errorf("exec: %q, %d, %v", out, code, err)
	}
	if _, _, err := s.Runtime.Exec(t.Context(), id, []string{"/no/such"}, 5*time.Second); err == nil {
		t.Error("a command ran that is not there")
	}
	if _, _, err := s.Runtime.Exec(t.Context(), "no-such-container", []string{"/helper"}, 0); !errors.Is(err, cri.ErrNotFound) {
		t.Errorf("exec in nothing: %v, want ErrNotFound", err)
	}
}

func (s suite) noCommand(t *testing.T) {
	b := s.box(t)
	id := b.create(t, "main", func(o *cri.ContainerOptions) { o.Command = []string{"/no/such"} })
	err := s.Runtime.StartContainer(t.Context(), id)
	if err == nil || !strings.Contains(err.Error(), "/no/such") || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("start: %v", err)
	}
	if c := b.await(t, id, podworker.Exited); c.ExitCode != 128 || c.Reason != "StartError" {
		t.Errorf("container: %+v", c)
	}
}

func (s suite) environment(t *testing.T) {
	b := s.box(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("content\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	id := b.create(t, "main", func(o *cri.ContainerOptions) {
		o.Env = []cri.EnvVar{{Name: "B", Value: "2"}, {Name: "A", Value: "1 and\ttab"}}
		o.Mounts = []cri.Mount{{HostPath: file, ContainerPath: "/mnt/file", ReadOnly: true}}
		o.Command = []string{"/helper"}
	}, "sleep", "ever")
	if err := s.Runtime.StartContainer(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	out, _, err := s.Runtime.Exec(t.Context(), id, []string{"/helper", "env", ",", "cat", "/mnt/file"}, 5*time.Second)
	if err != nil || !strings.Contains(string(out), "A=1 and\ttab\n") || !strings.Contains(string(out), "B=2\n") || !strings.HasSuffix(string(out), "content\n") {
		t.Errorf("environment: %q, %v", out, err)
	}
}

func (s suite) events(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	changed := make(chan types.UID, 1000)
	go func() {
		ended <- s.Runtime.Events(ctx, func() { close(ready) }, func(uid types.UID, at time.Time) {
			if time.Since(at).Abs() > time.Minute {
				t.Errorf("an event of %v", at)
			}
			changed <- uid
		})
	}()
	<-ready
	b := s.box(t)
	// next returns whether an event of the pod came within a time
	next := func(within time.Duration) bool {
		limit := time.NewTimer(within)
		defer limit.Stop()
		for {
			select {
			case uid := <-changed:
				if uid == b.pod.UID {
					return true
				}
			case <-limit.C:
				return false
			}
		}
	}
	// the stream may come to stand a little after it was asked for
	came := next(time.Second)
	for i := 0; !came && i < 20; i++ {
		b.start(t, fmt.Sprint("first-", i), "exit", "0")
		came = next(time.Second)
	}
	if !came {
		t.Fatal("no event when containers start")
	}
	id := b.start(t, "main", "sleep", "300ms")
	if !next(30 * time.Second) {
		t.Fatal("no event when a container is created")
	}
	for b.get(t, id).State != podworker.Exited {
		if !next(30 * time.Second) {
			t.Fatal("no event when a container stops")
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("events ended with %v, want Canceled", err)
	}
}

func (s suite) states(t *testing.T) {
	b := s.box(t)
	seen := map[string]string{}
	look := func(when string) {
		t.Helper()
		marks, err := s.Runtime.States(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		mark := marks[b.pod.UID]
		if was, ok := seen[mark]; ok || mark == "" {
			t.Errorf("mark %q is the same %s as %s", mark, when, was)
		}
		seen[mark] = when
	}
	look("with a sandbox")
	id := b.create(t, "main", nil, "sleep", "ever")
	look("with a container created")
	if err := s.Runtime.StartContainer(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	look("with a container running")
	if err := s.Runtime.StopContainer(t.Context(), id, 0); err != nil {
		t.Fatal(err)
	}
	look("with a container exited")
}

func (s suite) gone(t *testing.T) {
	ctx := t.Context()
	for what, err := range map[string]error{
		"stop a container":   s.Runtime.StopContainer(ctx, "no-such", time.Second),
		"remove a container": s.Runtime.RemoveContainer(ctx, "no-such"),
		"stop a sandbox":     s.Runtime.StopSandbox(ctx, "no-such"),
		"remove a sandbox":   s.Runtime.RemoveSandbox(ctx, "no-such"),
	} {
		if err != nil {
			t.Errorf("%s that is gone: %v", what, err)
		}
	}
	if err := s.Runtime.StartContainer(ctx, "no-such"); !errors.Is(err, cri.ErrNotFound) {
		t.Errorf("start what is gone: %v, want ErrNotFound", err)
	}
	if p, err := s.Runtime.Pod(ctx, "no-such"); err != nil || len(p.Sandboxes)+len(p.Containers) > 0 {
		t.Errorf("pod that is gone: %+v, %v", p, err)
	}
}
