package containers_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/nodeagent"
	"github.com/proa-project/proa/nodeagent/cri"
	"github.com/proa-project/proa/test/cluster"
	"github.com/proa-project/proa/test/hosts"
)

// BenchmarkPodStart compares, pod by pod and one at a time, how long the
// runtime alone takes to start a pod with how long it is from POST to Running
// as a watch sees it. Run it with -benchtime=20x; overhead_ms is the
// difference of the medians.
func BenchmarkPodStart(b *testing.B) {
	fabric := hosts.New(b)
	host := fabric.Start(b, 1)
	runtime, err := cri.Dial(cri.Config{Endpoint: host.Endpoint})
	if err != nil {
		b.Fatal(err)
	}
	defer runtime.Close()
	c := cluster.Start(b, cluster.Config{Listen: fabric.IP() + ":0"})
	stop := startAgent(b, c, host, runtime)
	defer stop()
	cluster.Eventually(b, 30*time.Second, "the node is ready", func(ctx context.Context) bool {
		n, err := client.For[*corev1.Node](c.REST).Get(ctx, "", host.Name)
		return err == nil && slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
	})

	var floor, total []time.Duration
	for i := range b.N {
		floor = append(floor, startAlone(b, runtime, host, i))
		total = append(total, startThroughAPI(b, c, i))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(millis(median(floor)), "runtime_ms")
	b.ReportMetric(millis(median(total)), "running_ms")
	b.ReportMetric(millis(median(total)-median(floor)), "overhead_ms")
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// startAgent runs an agent in this process, as an administrator, and returns
// what stops it.
func startAgent(b *testing.B, c *cluster.Cluster, host *hosts.Host, runtime *cri.Runtime) func() {
	b.Helper()
	agent, err := nodeagent.New(nodeagent.Config{
		REST: c.REST, Runtime: runtime, NodeName: host.Name, NodeIPs: []string{host.IP},
		RootDir: filepath.Join(host.Dir, "agent"), CgroupParent: host.CgroupParent, Log: zerolog.Nop(),
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); agent.Run(ctx) }() // ends with its context
	return func() { cancel(); <-done }
}

func benchPod(name string) *corev1.Pod {
	grace := int64(0)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace,
			Containers:                    []corev1.Container{{Name: "c", Image: "local.test/helper:1", ImagePullPolicy: corev1.PullNever}},
		},
	}
}

// startAlone starts and removes a pod through the runtime and nothing else.
func startAlone(b *testing.B, runtime *cri.Runtime, host *hosts.Host, i int) time.Duration {
	b.Helper()
	ctx, pod := b.Context(), benchPod(fmt.Sprintf("alone-%d", i))
	logs := filepath.Join(host.Dir, "logs", pod.Name)
	options := cri.SandboxOptions{Hostname: pod.Name, LogDir: logs, CgroupParent: host.CgroupParent + "/" + pod.Name}
	image, err := runtime.Image(ctx, "local.test/helper:1")
	if err != nil {
		b.Fatal(err)
	}
	begin := time.Now()
	sandbox, err := runtime.RunSandbox(ctx, pod, options)
	if err != nil {
		b.Fatal(err)
	}
	id, err := runtime.CreateContainer(ctx, sandbox, pod, &pod.Spec.Containers[0],
		cri.ContainerOptions{ImageRef: image.ID, LogPath: "c.log", Sandbox: options})
	if err != nil {
		b.Fatal(err)
	}
	if err := runtime.StartContainer(ctx, id); err != nil {
		b.Fatal(err)
	}
	took := time.Since(begin)
	for _, err := range []error{runtime.StopContainer(ctx, id, 0), runtime.RemoveContainer(ctx, id), runtime.StopSandbox(ctx, sandbox), runtime.RemoveSandbox(ctx, sandbox)} {
		if err != nil {
			b.Fatal(err)
		}
	}
	return took
}

// startThroughAPI creates a pod, waits until a watch shows it Running, and
// deletes it.
func startThroughAPI(b *testing.B, c *cluster.Cluster, i int) time.Duration {
	b.Helper()
	ctx, pods := b.Context(), client.For[*corev1.Pod](c.REST)
	pod := benchPod(fmt.Sprintf("pod-%d", i))
	pod.UID = ""
	w, err := pods.Watch(ctx, "default", metav1.ListOptions{FieldSelector: "metadata.name=" + pod.Name})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	begin := time.Now()
	if _, err := pods.Create(ctx, pod); err != nil {
		b.Fatal(err)
	}
	await := func(f func(client.Event[*corev1.Pod]) bool) {
		for {
			e, err := w.Next(ctx)
			if err != nil {
				b.Fatal(err)
			}
			if f(e) {
				return
			}
		}
	}
	await(func(e client.Event[*corev1.Pod]) bool { return e.Object.Status.Phase == corev1.PodRunning })
	took := time.Since(begin)
	if err := pods.Delete(ctx, "default", pod.Name, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	await(func(e client.Event[*corev1.Pod]) bool { return e.Type == "DELETED" })
	return took
}
