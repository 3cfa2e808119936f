package nodeagent_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"

	"github.com/proa-project/proa/nodeagent"
	"github.com/proa-project/proa/nodeagent/cri"
	"github.com/proa-project/proa/test/hosts"
)

// realNode returns a running agent for a host.
func realNode(tb testing.TB, p *plane, h *hosts.Host) *node {
	tb.Helper()
	l, err := h.Listen(0)
	if err != nil {
		tb.Fatal(err)
	}
	n := &node{plane: p, name: h.Name, endpoint: h.Endpoint}
	n.config = nodeagent.Config{
		REST: p.rest, NodeName: h.Name, NodeIPs: []string{h.IP}, RootDir: h.Dir + "/agent", Listener: l,
		TLS: p.nodeTLS(tb, h.Name, h.IP), CgroupParent: h.CgroupParent, Log: logger(tb),
	}
	n.start(tb)
	return n
}

// TestTwoHosts runs pods on two hosts that reach each other.
func TestTwoHosts(t *testing.T) {
	f := hosts.New(t)
	p := newPlane(t)
	a, b := realNode(t, p, f.Start(t, 1)), realNode(t, p, f.Start(t, 2))
	web := `
metadata: {name: NAME}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: local.test/web:1
    ports: [{name: http, containerPort: 8080}]
    readinessProbe: {httpGet: {path: /healthz, port: http}}
    securityContext: {runAsNonRoot: true, readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
    resources: {requests: {cpu: 10m, memory: 16Mi}, limits: {cpu: 500m, memory: 64Mi}}
`
	a.create(t, strings.Replace(web, "NAME", "web-a", 1))
	b.create(t, strings.Replace(web, "NAME", "web-b", 1))
	podA, podB := a.await(t, "web-a", "it is ready", ready), b.await(t, "web-b", "it is ready", ready)
	if !strings.HasPrefix(podA.Status.PodIP, "10.244.11.") || !strings.HasPrefix(podB.Status.PodIP, "10.244.12.") {
		t.Errorf("addresses: %s, %s", podA.Status.PodIP, podB.Status.PodIP)
	}
	if id := podA.Status.ContainerStatuses[0].ContainerID; !strings.HasPrefix(id, "containerd://") {
		t.Errorf("container ID: %s", id)
	}
	a.create(t, strings.ReplaceAll(`
metadata: {name: client}
spec:
  restartPolicy: Never
  containers:
  - {name: main, image: "local.test/helper:1", args: [get, "http://IP:8080/"]}
`, "IP", podB.Status.PodIP))
	a.await(t, "client", "a pod on one host reaches one on the other", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded })
	if log, err := a.logs(t, "client", ""); err != nil || log != "hello from web-b\n" {
		t.Errorf("log: %q, %v", log, err)
	}
	for _, name := range []string{"web-a", "web-b", "client"} {
		if err := p.pods.Delete(t.Context(), "default", name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		a.awaitGone(t, name)
	}
}

// TestContainerdIsKilled kills first the agent, then containerd, then the
// host: what may go on running does, the rest starts again.
func TestContainerdIsKilled(t *testing.T) {
	h := hosts.New(t).Start(t, 1)
	n := realNode(t, newPlane(t), h)
	n.create(t, simplePod)
	n.create(t, `
metadata: {name: job}
spec:
  restartPolicy: Never
  containers:
  - {name: main, image: "local.test/helper:1", args: [sleep, 1500ms, ",", exit, "3"]}
`)
	before := n.await(t, "web", "the pod is ready", ready)
	n.await(t, "job", "the job runs", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })

	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	if err := h.KillContainerd(); err != nil {
		t.Fatal(err)
	}
	if err := h.StartContainerd(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.restart(t, h)
	n.await(t, "job", "the end that nobody saw is found", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodFailed && first(p).State.Terminated.ExitCode == 3
	})
	after := n.await(t, "web", "the pod is ready", ready)
	if a, b := first(after), first(before); a.ContainerID != b.ContainerID || a.RestartCount != 0 {
		t.Errorf("container %s became %s", b.ContainerID, a.ContainerID)
	}

	// containerd alone, under the agent's feet
	if err := h.KillContainerd(); err != nil {
		t.Fatal(err)
	}
	n.create(t, strings.Replace(simplePod, "name: web", "name: next", 1))
	if err := h.StartContainerd(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.await(t, "next", "a pod made meanwhile is ready", ready)
	if a := first(n.await(t, "web", "the pod is ready", ready)); a.ContainerID != first(before).ContainerID {
		t.Errorf("container %s became %s", first(before).ContainerID, a.ContainerID)
	}

	// the whole host
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	if err := h.PowerOff(); err != nil {
		t.Fatal(err)
	}
	if err := h.PowerOn(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.restart(t, h)
	n.await(t, "web", "the pod runs again after the reboot", func(p *corev1.Pod) bool {
		return ready(p) && first(p).RestartCount == 1 && first(p).LastTerminationState.Terminated != nil
	})
}

// TestHostNetwork reaches pods by the node's own addresses.
func TestHostNetwork(t *testing.T) {
	n := realNode(t, newPlane(t), hosts.New(t).Start(t, 1))
	n.create(t, `
metadata: {name: port}
spec:
  terminationGracePeriodSeconds: 1
  dnsPolicy: None
  dnsConfig: {nameservers: [10.96.0.10], searches: [a.test], options: [{name: ndots, value: "3"}]}
  hostAliases: [{ip: 10.0.0.9, hostnames: [far.test]}]
  containers:
  - name: main
    image: local.test/helper:1
    args: [cat, /etc/resolv.conf, ",", cat, /etc/hosts, ",", serve, ":80"]
    ports: [{containerPort: 80, hostPort: 8088}]
    readinessProbe: {tcpSocket: {port: 80}}
`)
	n.create(t, `
metadata: {name: host}
spec:
  terminationGracePeriodSeconds: 1
  hostNetwork: true
  containers: [{name: main, image: "local.test/helper:1", args: [serve, ":8089"], readinessProbe: {tcpSocket: {port: 8089}}}]
`)
	n.await(t, "port", "it is ready", ready)
	if pod := n.await(t, "host", "it is ready", ready); pod.Status.PodIP != pod.Status.HostIP {
		t.Errorf("pod %s on host %s", pod.Status.PodIP, pod.Status.HostIP)
	}
	for url, want := range map[string]string{"http://172.30.0.11:8088/": "port\n", "http://172.30.0.11:8089/": "node1\n"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			continue
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(b) != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", url, b, err, want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	log, err := n.logs(t, "port", "")
	for _, want := range []string{"nameserver 10.96.0.10\n", "search a.test\n", "options ndots:3\n", "10.0.0.9\tfar.test\n", "\tport\n"} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in %s, %v", want, log, err)
		}
	}
}

// restart starts a stopped agent with a new listener.
func (n *node) restart(tb testing.TB, h *hosts.Host) {
	tb.Helper()
	l, err := h.Listen(0)
	if err != nil {
		tb.Fatal(err)
	}
	n.config.Listener = l
	n.start(tb)
}

// TestContainerLimits proves that what a pod asks for reaches the kernel.
func TestContainerLimits(t *testing.T) {
	n := realNode(t, newPlane(t), hosts.New(t).Start(t, 1))
	n.create(t, `
metadata: {name: hungry}
spec:
  restartPolicy: Never
  containers:
  - {name: main, image: "local.test/helper:1", args: [eat, "100000000"], resources: {limits: {memory: 32Mi}}}
`)
	n.create(t, `
metadata: {name: safe}
spec:
  restartPolicy: Never
  hostname: special
  securityContext: {runAsUser: 1000, runAsGroup: 1001, fsGroup: 1002, supplementalGroups: [1003]}
  volumes:
  - {name: ram, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
  containers:
  - name: main
    image: local.test/helper:1
    args: [id, ",", cat, /proc/self/status, ",", cat, /etc/hosts, ",", cat, /etc/hostname, ",", cat, /proc/self/mounts, ",", write, /ram/x, ok]
    volumeMounts: [{name: ram, mountPath: /ram}]
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}, readOnlyRootFilesystem: true}
`)
	n.create(t, `
metadata: {name: refused}
spec:
  containers:
  - {name: main, image: "local.test/helper:1", securityContext: {runAsNonRoot: true}}
`)
	n.create(t, `
metadata: {name: wrong}
spec:
  restartPolicy: Never
  containers:
  - {name: main, image: "local.test/helper:1", command: [/no/such]}
`)
	n.await(t, "hungry", "it is killed", func(p *corev1.Pod) bool {
		x := first(p).State.Terminated
		return p.Status.Phase == corev1.PodFailed && x.Reason == "OOMKilled" && x.ExitCode == 137
	})
	n.await(t, "safe", "it succeeds", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded })
	log, err := n.logs(t, "safe", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"uid=1000 gid=1001 groups=[1001 1002 1003]", "NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t0000000000000000", "special", " /ram tmpfs rw,"} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in\n%s", want, log)
		}
	}
	n.await(t, "refused", "root is refused", func(p *corev1.Pod) bool {
		w := first(p).State.Waiting
		return w != nil && w.Reason == "CreateContainerConfigError" && strings.Contains(w.Message, "container has runAsNonRoot and image will run as root")
	})
	n.await(t, "wrong", "it cannot start", func(p *corev1.Pod) bool {
		x := first(p).State.Terminated
		return x != nil && x.Reason == "StartError" && x.ExitCode == 128 && strings.Contains(x.Message, "no such file or directory")
	})
}

// TestStreams reads logs and opens connections as kubectl does.
func TestStreams(t *testing.T) {
	p := newPlane(t)
	n := realNode(t, p, hosts.New(t).Start(t, 1))
	n.create(t, `
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: "local.test/helper:1", args: [lines, "5", 10ms, ",", sleep, 300ms, ",", error, oops, ",", echo, ":7000"]}
  - {name: again, image: "local.test/helper:1", args: [print, once, ",", sleep, 300ms, ",", exit, "1"]}
`)
	n.await(t, "web", "one container has restarted", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 2 && p.Status.ContainerStatuses[1].RestartCount == 1 && p.Status.ContainerStatuses[1].State.Waiting != nil
	})
	poll(t, "the container has said all", func() bool {
		log, err := n.logs(t, "web", "container=main")
		return err == nil && strings.Contains(log, "oops")
	})
	for _, tt := range []struct{ query, want string }{
		{"container=main", "line 0\nline 1\nline 2\nline 3\nline 4\noops\n"},
		{"container=main&tailLines=2", "line 4\noops\n"},
		{"container=main&tailLines=0", ""},
		{"container=main&limitBytes=9", "line 0\nli"},
		{"container=main&stream=Stderr", "oops\n"},
		{"container=main&sinceSeconds=3600&tailLines=1", "oops\n"},
		{"container=again&previous=true", "once\n"},
	} {
		if got, err := n.logs(t, "web", tt.query); err != nil || got != tt.want {
			t.Errorf("log with %s: %q, %v, want %q", tt.query, got, err, tt.want)
		}
	}
	if got, err := n.logs(t, "web", "container=main&timestamps=true&tailLines=1"); err != nil || len(got) < 30 || !strings.HasSuffix(got, "Z oops\n") {
		t.Errorf("log with times: %q, %v", got, err)
	}
	if _, err := n.logs(t, "web", "container=main&previous=true"); err == nil || !strings.Contains(err.Error(), `previous terminated container "main" in pod "web" not found`) {
		t.Errorf("log of an instance that never was: %v", err)
	}

	config := p.serve(t)
	t.Run("follow", func(t *testing.T) {
		n.create(t, `
metadata: {name: short}
spec:
  restartPolicy: Never
  containers: [{name: main, image: "local.test/helper:1", args: [lines, "20", 50ms]}]
`)
		n.await(t, "short", "it runs", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
		got, err := n.logs(t, "short", "follow=true")
		if err != nil || strings.Count(got, "\n") != 20 {
			t.Errorf("%q, %v", got, err)
		}
	})
	t.Run("exec", func(t *testing.T) {
		url := config.Host + "/api/v1/namespaces/default/pods/web/exec?container=main&stdin=true&stdout=true&stderr=true&command=/helper&command=copy&command=,&command=error&command=bye&command=,&command=exit&command=7"
		u := mustParse(t, url)
		overSPDY, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, u)
		if err != nil {
			t.Fatal(err)
		}
		overWebSocket, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, url)
		if err != nil {
			t.Fatal(err)
		}
		for name, e := range map[string]remotecommand.Executor{"SPDY": overSPDY, "WebSocket": overWebSocket} {
			var out, errs bytes.Buffer
			err = e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader("typed\n"), Stdout: &out, Stderr: &errs})
			if err == nil || !strings.Contains(err.Error(), "exit code 7") || out.String() != "typed\n" || errs.String() != "bye\n" {
				t.Errorf("%s: %q, %q, %v", name, out.String(), errs.String(), err)
			}
		}
	})
	t.Run("broken off", func(t *testing.T) {
		e, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, config.Host+"/api/v1/namespaces/default/pods/web/exec?container=main&stdout=true&command=/helper&command=print&command=up&command=,&command=sleep&command=ever")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		err = e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: writerFunc(func([]byte) { cancel() })})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want Canceled", err)
		}
	})
	t.Run("port forward", func(t *testing.T) {
		rt, upgrader, err := spdy.RoundTripperFor(config)
		if err != nil {
			t.Fatal(err)
		}
		dialer := spdy.NewDialer(upgrader, &http.Client{Transport: rt}, http.MethodPost, mustParse(t, config.Host+"/api/v1/namespaces/default/pods/web/portforward"))
		ready, stop := make(chan struct{}), make(chan struct{})
		pf, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{"0:7000"}, stop, ready, io.Discard, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- pf.ForwardPorts() }()
		select {
		case <-ready:
		case err = <-ended:
			t.Fatal(err)
		}
		ports, err := pf.GetPorts()
		if err != nil {
			t.Fatal(err)
		}
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", "127.0.0.1:"+strconv.Itoa(int(ports[0].Local)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = c.Write([]byte("there and back")); err != nil {
			t.Error(err)
		}
		got := make([]byte, len("there and back"))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != "there and back" {
			t.Errorf("%q, %v", got, err)
		}
		c.Close()
		close(stop)
		<-ended
	})
	t.Run("strangers", func(t *testing.T) {
		node := n.config.Listener.Addr().String()
		for name, c := range map[string]*rest.Config{"nobody": {}, "a node": n.clientOf(t, "system:node:other", "system:nodes")} {
			c.Insecure = true
			rt, err := rest.TransportFor(c)
			if err != nil {
				t.Fatal(err)
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+node+"/containerLogs/default/web/main", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := rt.RoundTrip(req)
			if err == nil && resp.StatusCode != http.StatusForbidden && resp.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s reads logs: %s", name, resp.Status)
			}
			if err == nil {
				resp.Body.Close()
			}
			if x, ok := rt.(interface{ CloseIdleConnections() }); ok {
				x.CloseIdleConnections()
			}
		}
	})
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

// BenchmarkStart measures how long a pod takes from its binding to Running, and
// what of that is the runtime's own.
func BenchmarkStart(b *testing.B) {
	h := hosts.New(b).Start(b, 1)
	p := newPlane(b)
	n := realNode(b, p, h)
	r, err := cri.Dial(cri.Config{Endpoint: h.Endpoint})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	image, err := r.Image(b.Context(), "local.test/helper:1")
	if err != nil {
		b.Fatal(err)
	}
	var agent, floor time.Duration
	i := 0
	for b.Loop() {
		i++
		name := "web-" + strconv.Itoa(i)
		begun := time.Now()
		n.create(b, strings.Replace(simplePod, "name: web", "name: "+name, 1))
		n.await(b, name, "it runs", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
		agent += time.Since(begun)
		now := int64(0)
		if err := p.pods.Delete(b.Context(), "default", name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
			b.Fatal(err)
		}
		poll(b, "it is removed", func() bool { pods, err := r.Pods(b.Context()); return err == nil && len(pods) == 0 })

		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "floor", Namespace: "default", UID: "floor"}}
		o := cri.SandboxOptions{LogDir: b.TempDir(), CgroupParent: h.CgroupParent + "/besteffort/floor"}
		begun = time.Now()
		id, err := r.RunSandbox(b.Context(), pod, o)
		if err != nil {
			b.Fatal(err)
		}
		c, err := r.CreateContainer(b.Context(), id, pod, &corev1.Container{Name: "main", Image: "local.test/helper:1"}, cri.ContainerOptions{
			ImageRef: image.ID, LogPath: "0.log", Sandbox: o, OOMScoreAdj: 1000,
		})
		if err != nil {
			b.Fatal(err)
		}
		if err := r.StartContainer(b.Context(), c); err != nil {
			b.Fatal(err)
		}
		floor += time.Since(begun)
		if err := r.StopSandbox(context.Background(), id); err != nil {
			b.Fatal(err)
		}
		if err := r.RemoveSandbox(context.Background(), id); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(agent.Milliseconds())/float64(i), "ms/agent")
	b.ReportMetric(float64(floor.Milliseconds())/float64(i), "ms/runtime")
}
