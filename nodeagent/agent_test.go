package nodeagent_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/nodeagent"
)

const simplePod = `
metadata: {name: web}
spec:
  containers:
  - name: main
    image: local.test/helper:1
    args: [print, hello, ",", sleep, ever]
`

func TestRegistration(t *testing.T) {
	n, _ := fakeNode(t, func(c *nodeagent.Config) { c.Labels = map[string]string{"zone": "a"} })
	nodes := client.For[*corev1.Node](n.rest)
	var node *corev1.Node
	poll(t, "the node is ready", func() bool {
		var err error
		node, err = nodes.Get(t.Context(), "", n.name)
		return err == nil && len(node.Status.Conditions) == 4 && node.Status.Conditions[3].Status == corev1.ConditionTrue
	})
	if node.Labels["zone"] != "a" || node.Labels[corev1.LabelHostname] != n.name || node.Labels[corev1.LabelOSStable] != "linux" {
		t.Errorf("labels: %v", node.Labels)
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods, corev1.ResourceEphemeralStorage} {
		if c, a := node.Status.Capacity[name], node.Status.Allocatable[name]; c.IsZero() || a.IsZero() || a.Cmp(c) > 0 {
			t.Errorf("%s: %s of %s", name, a.String(), c.String())
		}
	}
	info := node.Status.NodeInfo
	if info.ContainerRuntimeVersion != "memory://1.0.0" || info.KubeletVersion == "" || info.KernelVersion == "" || info.OperatingSystem != "linux" {
		t.Errorf("node info: %+v", info)
	}
	if a := node.Status.Addresses; len(a) != 2 || a[0].Type != corev1.NodeInternalIP || a[0].Address != "127.0.0.1" || a[1].Address != n.name {
		t.Errorf("addresses: %v", a)
	}
	if len(node.Status.Images) != 3 {
		t.Errorf("images: %v", node.Status.Images)
	}
	poll(t, "the lease is held", func() bool {
		lease, err := client.For[*coordinationv1.Lease](n.rest).Get(t.Context(), "kube-node-lease", n.name)
		return err == nil && *lease.Spec.HolderIdentity == n.name && *lease.Spec.LeaseDurationSeconds == 40 && lease.Spec.RenewTime != nil
	})
}

func TestHeartbeat(t *testing.T) {
	n, s := fakeNode(t, func(c *nodeagent.Config) { c.Heartbeat = 20 * time.Millisecond })
	leases, nodes := client.For[*coordinationv1.Lease](n.rest), client.For[*corev1.Node](n.rest)
	var first metav1.MicroTime
	poll(t, "the lease is renewed", func() bool {
		lease, err := leases.Get(t.Context(), "kube-node-lease", n.name)
		if err != nil {
			return false
		}
		if first.IsZero() {
			first = *lease.Spec.RenewTime
		}
		return lease.Spec.RenewTime.After(first.Time)
	})
	status := func() (s corev1.ConditionStatus, message string) {
		node, err := nodes.Get(t.Context(), "", n.name)
		if err != nil {
			return corev1.ConditionUnknown, err.Error()
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady {
				return c.Status, c.Message
			}
		}
		return corev1.ConditionUnknown, ""
	}
	s.Kill()
	poll(t, "the node is not ready without a runtime", func() bool { is, _ := status(); return is == corev1.ConditionFalse })
	if err := s.Serve(); err != nil {
		t.Fatal(err)
	}
	poll(t, "the node is ready again", func() bool { is, _ := status(); return is == corev1.ConditionTrue })
	if err := nodes.Delete(t.Context(), "", n.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	poll(t, "the node registers again", func() bool { is, _ := status(); return is == corev1.ConditionTrue })
}

func TestPodRuns(t *testing.T) {
	n, s := fakeNode(t)
	n.create(t, simplePod)
	pod := n.await(t, "web", "the pod is ready", ready)
	st := &pod.Status
	c := st.ContainerStatuses[0]
	if st.Phase != corev1.PodRunning || st.PodIP == "" || st.HostIP != "127.0.0.1" || st.StartTime == nil || st.QOSClass != corev1.PodQOSBestEffort {
		t.Errorf("status: %s", show(pod))
	}
	if c.State.Running == nil || !strings.HasPrefix(c.ContainerID, "memory://container-") || c.ImageID == "" || c.RestartCount != 0 || !*c.Started {
		t.Errorf("container: %+v", c)
	}
	var events string
	poll(t, "the events are there", func() bool {
		events = n.events(t, "web")
		return strings.Count(events, "\n") >= 3
	})
	for _, want := range []string{
		`Normal spec.containers{main} Pulled: Container image "local.test/helper:1" already present on machine`,
		"Normal spec.containers{main} Created: Created container: main",
		"Normal spec.containers{main} Started: Started container main",
	} {
		if !strings.Contains(events, want+"\n") {
			t.Errorf("no event %q in\n%s", want, events)
		}
	}

	dirs, err := filepath.Glob(filepath.Join(n.config.RootDir, "pods", "*"))
	if err != nil || len(dirs) != 1 {
		t.Errorf("the pod's folder: %v, %v", dirs, err)
	}
	if err := n.pods.Delete(t.Context(), "default", "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	n.awaitGone(t, "web")
	poll(t, "nothing is left in the runtime", func() bool { return s.Sandboxes() == 0 })
	poll(t, "nothing is left on disk", func() bool {
		dirs, _ := filepath.Glob(filepath.Join(n.config.RootDir, "*", "*"))
		for _, d := range dirs {
			if list, _ := os.ReadDir(d); len(list) > 0 {
				return false
			}
		}
		return true
	})
	if events := n.events(t, "web"); !strings.Contains(events, "Killing: Stopping container main\n") {
		t.Errorf("no event of the end in\n%s", events)
	}
}

func TestPodEnds(t *testing.T) {
	n, _ := fakeNode(t)
	n.create(t, `
metadata: {name: ok}
spec:
  restartPolicy: Never
  containers:
  - {name: main, image: "local.test/helper:1", args: [exit, "0"]}
`)
	n.create(t, `
metadata: {name: bad}
spec:
  restartPolicy: Never
  initContainers:
  - {name: setup, image: "local.test/helper:1", args: [exit, "0"]}
  containers:
  - {name: main, image: "local.test/helper:1", args: [write, /dev/termination-log, last words, ",", exit, "3"], terminationMessagePath: /dev/termination-log}
  - {name: other, image: "local.test/helper:1", args: [error, "on my way", ",", exit, "4"], terminationMessagePolicy: FallbackToLogsOnError}
`)
	n.await(t, "ok", "the pod succeeds", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded })
	pod := n.await(t, "bad", "the pod fails", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	if x := pod.Status.ContainerStatuses[0].State.Terminated; x == nil || x.ExitCode != 3 || x.Reason != "Error" || x.Message != "last words" {
		t.Errorf("main: %+v", x)
	}
	if x := pod.Status.ContainerStatuses[1].State.Terminated; x == nil || x.ExitCode != 4 || x.Message != "on my way\n" {
		t.Errorf("other: %+v", x)
	}
	if x := pod.Status.InitContainerStatuses[0]; x.State.Terminated == nil || x.State.Terminated.Reason != "Completed" || !x.Ready {
		t.Errorf("setup: %+v", x)
	}
}

func TestPodRestarts(t *testing.T) {
	n, s := fakeNode(t)
	n.create(t, simplePod)
	n.await(t, "web", "the pod is ready", ready)
	if err := s.Exit("web", "main", 5); err != nil {
		t.Fatal(err)
	}
	pod := n.await(t, "web", "the container runs again", func(p *corev1.Pod) bool { return first(p).RestartCount == 1 && ready(p) })
	if x := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated; x == nil || x.ExitCode != 5 {
		t.Errorf("last state: %+v", pod.Status.ContainerStatuses[0])
	}
	if err := s.Exit("web", "main", 5); err != nil {
		t.Fatal(err)
	}
	n.await(t, "web", "the container backs off", func(p *corev1.Pod) bool {
		w := first(p).State.Waiting
		return w != nil && w.Reason == "CrashLoopBackOff" && strings.HasPrefix(w.Message, "back-off 10s restarting failed container=main pod=web_default(")
	})
	poll(t, "the back-off is an event", func() bool {
		return strings.Contains(n.events(t, "web"), "Warning spec.containers{main} BackOff: Back-off restarting failed container main in pod web_default(")
	})
}

func TestPodWithoutImage(t *testing.T) {
	n, s := fakeNode(t)
	pod := `
metadata: {name: %}
spec:
  containers:
  - {name: main, image: "local.test/%", imagePullPolicy: POLICY, args: [sleep, ever]}
`
	add := func(name, policy string) { n.create(t, strings.NewReplacer("%", name, "POLICY", policy).Replace(pod)) }
	waits := func(reason, message string) func(p *corev1.Pod) bool {
		return func(p *corev1.Pod) bool {
			w := first(p).State.Waiting
			return w != nil && w.Reason == reason && strings.Contains(w.Message, message)
		}
	}
	add("never", "Never")
	n.await(t, "never", "it is never pulled", waits("ErrImageNeverPull", `Container image "local.test/never" is not present with pull policy of Never`))
	add("missing", "IfNotPresent")
	n.await(t, "missing", "the pull fails", waits("ErrImagePull", "not found"))
	n.await(t, "missing", "the pull backs off", waits("ImagePullBackOff", `Back-off pulling image "local.test/missing"`))
	s.AddPullable("local.test/there")
	add("there", "IfNotPresent")
	n.await(t, "there", "it is pulled", ready)
	n.create(t, strings.NewReplacer("%", "wrong", "POLICY", "Always", "local.test/", "LOCAL.test/No:").Replace(pod))
	n.await(t, "wrong", "the name is no name", waits("InvalidImageName", "couldn't parse image name"))
	poll(t, "the events are there", func() bool {
		return strings.Contains(n.events(t, "missing"), `Warning spec.containers{main} Failed: Error: ImagePullBackOff`) &&
			strings.Contains(n.events(t, "there"), `Successfully pulled image "local.test/there" in `)
	})
}

func TestVolumesAndEnvironment(t *testing.T) {
	n, s := fakeNode(t, func(c *nodeagent.Config) { c.Refresh = 30 * time.Millisecond })
	maps, secrets := client.For[*corev1.ConfigMap](n.rest), client.For[*corev1.Secret](n.rest)
	cm, err := maps.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings"}, Data: map[string]string{"color": "red", "size": "5"},
	})
	if err != nil {
		t.Fatal(err)
	}
	n.create(t, `
metadata: {name: web, labels: {app: web}}
spec:
  volumes:
  - {name: settings, configMap: {name: settings, defaultMode: 0440}}
  - {name: keys, secret: {secretName: keys, items: [{key: a, path: deep/a, mode: 0400}]}}
  - {name: info, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}
  - {name: scratch, emptyDir: {}}
  - {name: all, projected: {sources: [{configMap: {name: settings}}, {secret: {name: keys}}, {configMap: {name: absent, optional: true}}]}}
  containers:
  - name: main
    image: local.test/helper:1
    args: [env, ",", cat, /s/color, ",", cat, /k/deep/a, ",", write, /scratch/x, hi, ",", sleep, ever]
    envFrom:
    - {prefix: S_, configMapRef: {name: settings}}
    env:
    - {name: SELF, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    - {name: A, valueFrom: {secretKeyRef: {name: keys, key: a}}}
    - {name: BOTH, value: "$(SELF)-$(S_color)-$$(SELF)-$(NOTHING)"}
    - {name: NONE, valueFrom: {configMapKeyRef: {name: absent, key: x, optional: true}}}
    - {name: CPUS, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1m}}}
    resources: {limits: {cpu: 250m}}
    volumeMounts:
    - {name: settings, mountPath: /s}
    - {name: keys, mountPath: /k}
    - {name: info, mountPath: /i}
    - {name: scratch, mountPath: /scratch}
    - {name: all, mountPath: /all}
`)
	poll(t, "the missing secret is an event", func() bool {
		return strings.Contains(n.events(t, "web"), `Warning  FailedMount: MountVolume.SetUp failed for volume "keys" : secret "keys" not found`)
	})
	if s.Sandboxes() != 0 {
		t.Error("a sandbox was made before the volumes")
	}
	if _, err = secrets.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "keys"}, Data: map[string][]byte{"a": []byte("one"), "b": []byte("two")},
	}); err != nil {
		t.Fatal(err)
	}
	pod := n.await(t, "web", "the pod is ready", ready)
	dir := filepath.Join(n.config.RootDir, "pods", string(pod.UID), "volumes")
	read := func(path string) string {
		b, failed := os.ReadFile(filepath.Join(dir, path))
		if failed != nil {
			return failed.Error()
		}
		return string(b)
	}
	for path, want := range map[string]string{
		"kubernetes.io~configmap/settings/color": "red", "kubernetes.io~secret/keys/deep/a": "one",
		"kubernetes.io~downward-api/info/labels": `app="web"`, "kubernetes.io~projected/all/b": "two", "kubernetes.io~projected/all/size": "5",
	} {
		if got := read(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	poll(t, "the container writes to its volume", func() bool { return read("kubernetes.io~empty-dir/scratch/x") == "hi" })
	for path, want := range map[string]os.FileMode{"kubernetes.io~configmap/settings/color": 0o440, "kubernetes.io~secret/keys/deep/a": 0o400} {
		if info, failed := os.Stat(filepath.Join(dir, path)); failed != nil || info.Mode().Perm() != want {
			t.Errorf("%s: mode %v, want %v, %v", path, info.Mode(), want, failed)
		}
	}
	log, err := os.ReadFile(filepath.Join(n.config.RootDir, "log", "pods", "default_web_"+string(pod.UID), "main", "0.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"SELF=web", "A=one", "BOTH=web-red-$(SELF)-$(NOTHING)", "CPUS=250", "S_size=5", "IP=" + pod.Status.PodIP} {
		if !strings.Contains(string(log), " F "+want+"\n") {
			t.Errorf("no %q in\n%s", want, log)
		}
	}
	if strings.Contains(string(log), "NONE=") {
		t.Error("an optional variable without a value is there")
	}

	cm.Data = map[string]string{"color": "blue", "shape": "round"}
	if _, err = maps.Update(t.Context(), cm); err != nil {
		t.Fatal(err)
	}
	poll(t, "the change reaches the volume", func() bool { return read("kubernetes.io~configmap/settings/color") == "blue" })
	if got := read("kubernetes.io~configmap/settings/shape"); got != "round" {
		t.Errorf("new key: %q", got)
	}
	if _, err := os.Lstat(filepath.Join(dir, "kubernetes.io~configmap/settings/size")); !os.IsNotExist(err) {
		t.Errorf("a key that is gone is still there: %v", err)
	}
}

func TestProbes(t *testing.T) {
	n, s := fakeNode(t)
	n.create(t, `
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: local.test/helper:1
    args: [sleep, ever]
    volumeMounts: [{name: d, mountPath: /d}]
    readinessProbe: {exec: {command: [helper, cat, /d/ready]}, periodSeconds: 1, failureThreshold: 1}
    livenessProbe: {exec: {command: [helper, cat, /d/alive]}, periodSeconds: 1, failureThreshold: 1, initialDelaySeconds: 1}
  volumes: [{name: d, emptyDir: {}}]
`)
	pod := n.await(t, "web", "it runs", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	if ready(pod) {
		t.Error("it is ready before its probe says so")
	}
	dir := filepath.Join(n.config.RootDir, "pods", string(pod.UID), "volumes", "kubernetes.io~empty-dir", "d")
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("alive")
	write("ready")
	n.await(t, "web", "it is ready", ready)
	if err := os.Remove(filepath.Join(dir, "ready")); err != nil {
		t.Fatal(err)
	}
	n.await(t, "web", "it is not ready", func(p *corev1.Pod) bool { return !ready(p) })
	if err := os.Remove(filepath.Join(dir, "alive")); err != nil {
		t.Fatal(err)
	}
	n.await(t, "web", "it is restarted", func(p *corev1.Pod) bool { return first(p).RestartCount == 1 })
	poll(t, "the events are there", func() bool {
		e := n.events(t, "web")
		return strings.Contains(e, "Unhealthy: Readiness probe failed: ") && strings.Contains(e, "Unhealthy: Liveness probe failed: ") &&
			strings.Contains(e, "Killing: Container main failed liveness probe, will be restarted")
	})
	_ = s
}

// TestAgentRestarts proves that an agent that starts anew adopts what runs and
// removes what is not to run.
func TestAgentRestarts(t *testing.T) {
	n, s := fakeNode(t)
	n.create(t, simplePod)
	n.create(t, strings.Replace(simplePod, "name: web", "name: doomed", 1))
	before := n.await(t, "web", "the pod is ready", ready)
	n.await(t, "doomed", "the other is ready", ready)
	running := s.Running()
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	if now := s.Running(); len(now) != 2 || now["web/main"] != running["web/main"] {
		t.Fatalf("running without an agent: %v, before %v", now, running)
	}
	zero := int64(0)
	if err := n.pods.Delete(t.Context(), "default", "doomed", metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
		t.Fatal(err)
	}
	starts := s.Calls("StartContainer")
	n.start(t)
	poll(t, "the orphan is removed", func() bool { return s.Sandboxes() == 1 })
	after := n.await(t, "web", "the pod is ready", ready)
	if id := first(after).ContainerID; id != first(before).ContainerID {
		t.Errorf("container %s became %s", first(before).ContainerID, id)
	}
	if n := s.Calls("StartContainer"); n != starts {
		t.Errorf("%d containers were started", n-starts)
	}
	if after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the status was written though nothing changed")
	}
}

// TestRuntimeRestarts proves that pods outlive the runtime's daemon.
func TestRuntimeRestarts(t *testing.T) {
	for name, events := range map[string]bool{"events": true, "no events": false} {
		t.Run(name, func(t *testing.T) {
			n, s := fakeNode(t)
			if !events {
				s.DisableEvents()
			}
			n.create(t, simplePod)
			n.await(t, "web", "the pod is ready", ready)
			running := s.Running()
			s.Kill()
			if err := s.Exit("web", "main", 1); err != nil {
				t.Fatal(err)
			}
			n.create(t, strings.Replace(simplePod, "name: web", "name: next", 1))
			if err := s.Serve(); err != nil {
				t.Fatal(err)
			}
			n.await(t, "web", "the lost end is found", func(p *corev1.Pod) bool { return first(p).RestartCount == 1 && ready(p) })
			n.await(t, "next", "the new pod is ready", ready)
			if s.Running()["web/main"] == running["web/main"] {
				t.Error("the container is the same")
			}
		})
	}
}

func TestSandboxLost(t *testing.T) {
	n, s := fakeNode(t)
	n.create(t, simplePod)
	n.await(t, "web", "the pod is ready", ready)
	s.LoseSandbox("web")
	n.await(t, "web", "it runs in a new sandbox", func(p *corev1.Pod) bool { return first(p).RestartCount == 1 && ready(p) })
	poll(t, "the event is there", func() bool {
		return strings.Contains(n.events(t, "web"), "SandboxChanged: Pod sandbox changed, it will be killed and re-created.")
	})
}

// TestDeletion proves that the grace period counts, and that it can be cut
// short.
func TestDeletion(t *testing.T) {
	n, s := fakeNode(t)
	n.create(t, strings.Replace(simplePod, "sleep, ever", "deaf, ever", 1))
	n.await(t, "web", "the pod is ready", ready)
	long, short := int64(600), int64(1)
	if err := n.pods.Delete(t.Context(), "default", "web", metav1.DeleteOptions{GracePeriodSeconds: &long}); err != nil {
		t.Fatal(err)
	}
	poll(t, "the container is told", func() bool { return s.Calls("StopContainer") == 1 })
	begun := time.Now()
	if err := n.pods.Delete(t.Context(), "default", "web", metav1.DeleteOptions{GracePeriodSeconds: &short}); err != nil {
		t.Fatal(err)
	}
	n.awaitGone(t, "web")
	if took := time.Since(begun); took < 500*time.Millisecond || took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
	poll(t, "nothing is left", func() bool { return s.Sandboxes() == 0 })
}

// TestFailures proves that an agent gets there though calls fail on the way.
func TestFailures(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"RunPodSandbox", "ImageStatus", "CreateContainer", "StartContainer", "ListContainers", "ContainerStatus", "PodSandboxStatus"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			n, s := fakeNode(t)
			s.FailNext(method, 2, "no luck")
			n.create(t, simplePod)
			n.await(t, "web", "the pod is ready", ready)
			if err := n.pods.Delete(t.Context(), "default", "web", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			for _, m := range []string{"StopContainer", "StopPodSandbox", "RemovePodSandbox"} {
				s.FailNext(m, 2, "no luck")
			}
			n.awaitGone(t, "web")
			poll(t, "nothing is left", func() bool { return s.Sandboxes() == 0 })
		})
	}
}

// TestHooks proves that hooks run, and that a failed one is not silent.
func TestHooks(t *testing.T) {
	n, _ := fakeNode(t)
	dir := t.TempDir()
	n.create(t, strings.Replace(`
metadata: {name: web}
spec:
  volumes: [{name: d, hostPath: {path: DIR}}]
  containers:
  - name: main
    image: local.test/helper:1
    args: [sleep, ever]
    volumeMounts: [{name: d, mountPath: /d}]
    lifecycle:
      postStart: {exec: {command: [helper, write, /d/started, "yes"]}}
      preStop: {exec: {command: [helper, write, /d/stopping, "yes"]}}
  - name: bad
    image: local.test/helper:1
    args: [sleep, ever]
    lifecycle: {postStart: {exec: {command: [helper, exit, "1"]}}}
`, "DIR", dir, 1))
	n.await(t, "web", "the container with the bad hook is restarted", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 2 && p.Status.ContainerStatuses[1].RestartCount > 0 && first(p).Ready
	})
	if _, err := os.Stat(filepath.Join(dir, "started")); err != nil {
		t.Errorf("the hook after the start did not run: %v", err)
	}
	if err := n.pods.Delete(t.Context(), "default", "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	n.awaitGone(t, "web")
	if _, err := os.Stat(filepath.Join(dir, "stopping")); err != nil {
		t.Errorf("the hook before the stop did not run: %v", err)
	}
	if e := n.events(t, "web"); !strings.Contains(e, "Warning spec.containers{bad} FailedPostStartHook: PostStartHook failed") {
		t.Errorf("no event of the failed hook in\n%s", e)
	}
}

// TestManyPods hammers one agent.
func TestManyPods_hammer(t *testing.T) {
	n, s := fakeNode(t)
	const count = 60
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i := range count {
		n.create(t, strings.Replace(simplePod, "name: web", "name: web-"+string(rune('a'+i/26))+string(rune('a'+i%26)), 1))
	}
	all := func(ok func(*corev1.Pod) bool) bool {
		list, err := n.pods.List(ctx, "default", metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		k := 0
		for _, p := range list.Items {
			if ok(p) {
				k++
			}
		}
		return k == len(list.Items)
	}
	poll(t, "all are ready", func() bool { return all(ready) })
	for i := range count {
		name := "web-" + string(rune('a'+i/26)) + string(rune('a'+i%26))
		if i%2 == 0 {
			if err := s.Exit(name, "main", 1); err != nil {
				t.Error(err)
			}
			continue
		}
		if err := n.pods.Delete(ctx, "default", name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
	poll(t, "half are gone, the others have restarted", func() bool {
		return all(func(p *corev1.Pod) bool { return ready(p) && first(p).RestartCount == 1 }) && s.Sandboxes() == count/2
	})
}

// first returns the status of a pod's first container.
func first(p *corev1.Pod) corev1.ContainerStatus {
	if len(p.Status.ContainerStatuses) == 0 {
		return corev1.ContainerStatus{}
	}
	return p.Status.ContainerStatuses[0]
}
