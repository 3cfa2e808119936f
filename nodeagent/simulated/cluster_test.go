package simulated

import (
	"context"
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/httpapi/client"
)

func TestNodes(t *testing.T) {
	rest := startAPI(t)
	c, _ := start(t, Config{REST: rest, Count: 7, RenewInterval: 100 * time.Millisecond, Labels: map[string]string{"team": "a"}})
	nodes := client.For[*corev1.Node](rest)
	eventually(t, "all nodes are there", func() bool {
		list, err := nodes.List(t.Context(), "", metav1.ListOptions{LabelSelector: "type=simulated"})
		return err == nil && len(list.Items) == 7
	})
	n := get[*corev1.Node](t, rest, "", "sim-4")
	if !healthy(n) || n.Labels[corev1.LabelTopologyZone] != "zone-2" || n.Labels[corev1.LabelHostname] != "sim-4" || n.Labels["team"] != "a" {
		t.Errorf("got labels %v, conditions %v", n.Labels, n.Status.Conditions)
	}
	if cpu := n.Status.Allocatable[corev1.ResourceCPU]; cpu.Value() != 8 || n.Status.Allocatable.Pods().Value() != 110 {
		t.Errorf("got allocatable %v", n.Status.Allocatable)
	}
	if n.Spec.ProviderID != "simulated://sim-4" || n.Status.DaemonEndpoints.KubeletEndpoint.Port != 0 || n.Status.Addresses[0].Address != "100.64.0.5" {
		t.Errorf("got %q, %v, %v", n.Spec.ProviderID, n.Status.DaemonEndpoints, n.Status.Addresses)
	}

	// Each lease is renewed again and again, and belongs to its node.
	renewed := func(name string) time.Time {
		l, err := client.For[*coordinationv1.Lease](rest).Get(t.Context(), corev1.NamespaceNodeLease, name)
		if err != nil {
			return time.Time{}
		}
		if l.OwnerReferences[0].UID != get[*corev1.Node](t, rest, "", name).UID || *l.Spec.HolderIdentity != name {
			t.Errorf("lease %+v", l)
		}
		return l.Spec.RenewTime.Time
	}
	for i := range 7 {
		name := fmt.Sprintf("sim-%d", i)
		eventually(t, "the lease is there", func() bool { return !renewed(name).IsZero() })
		first := renewed(name)
		eventually(t, "it is renewed", func() bool { return renewed(name).After(first) })
	}

	// A lease that somebody deletes is made again.
	if err := client.For[*coordinationv1.Lease](rest).Delete(t.Context(), corev1.NamespaceNodeLease, "sim-3", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the lease is there again", func() bool { return !renewed("sim-3").IsZero() })

	// A node that was taken for dead says that it is not.
	dead := n.DeepCopy()
	for i := range dead.Status.Conditions {
		dead.Status.Conditions[i].Status = corev1.ConditionUnknown
	}
	if _, err := nodes.UpdateStatus(t.Context(), dead); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the node is ready again", func() bool { return healthy(get[*corev1.Node](t, rest, "", "sim-4")) })

	// A node that is deleted stays away, and its lease runs out.
	if err := nodes.Delete(t.Context(), "", "sim-4", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the node knows that it is gone", func() bool {
		c.nodes[4].mu.Lock()
		defer c.nodes[4].mu.Unlock()
		return c.nodes[4].gone
	})
	last := renewed5(t, rest)
	eventually(t, "the others go on", func() bool { return renewed("sim-5").After(last.Add(200 * time.Millisecond)) })
	if _, err := nodes.Get(t.Context(), "", "sim-4"); !apierrors.IsNotFound(err) {
		t.Errorf("the node has come back: %v", err)
	}
}

func renewed5(t *testing.T, rest *client.REST) time.Time {
	t.Helper()
	return get[*coordinationv1.Lease](t, rest, corev1.NamespaceNodeLease, "sim-5").Spec.RenewTime.Time
}

func TestPods(t *testing.T) {
	rest := startAPI(t)
	_, stop := start(t, Config{REST: rest, Count: 2, StartLatency: 10 * time.Millisecond, Capacity: corev1.ResourceList{
		"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi"), "pods": resource.MustParse("5"),
	}})
	phase := func(name string) corev1.PodPhase { return get[*corev1.Pod](t, rest, "default", name).Status.Phase }

	web := named("web")
	web.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "img"}}
	bound(t, rest, web, "sim-0")
	eventually(t, "web runs", func() bool { return phase("web") == corev1.PodRunning })
	w := get[*corev1.Pod](t, rest, "default", "web")
	if w.Status.PodIP == "" || w.Status.HostIP != "100.64.0.1" || !w.Status.ContainerStatuses[0].Ready || w.Status.InitContainerStatuses[0].State.Terminated == nil {
		t.Errorf("got %+v", w.Status)
	}

	job := named("job")
	job.Annotations = map[string]string{AnnotationRunSeconds: "0.05"}
	job.Spec.RestartPolicy = corev1.RestartPolicyNever
	bound(t, rest, job, "sim-1")
	eventually(t, "the job succeeds", func() bool { return phase("job") == corev1.PodSucceeded })

	fails := named("fails")
	fails.Annotations = map[string]string{AnnotationRunSeconds: "0", AnnotationExitCode: "4"}
	bound(t, rest, fails, "sim-1")
	eventually(t, "it restarts", func() bool {
		s := get[*corev1.Pod](t, rest, "default", "fails").Status.ContainerStatuses
		return len(s) > 0 && s[0].RestartCount == 1 && s[0].State.Waiting != nil && s[0].State.Waiting.Reason == "CrashLoopBackOff"
	})

	big := named("big")
	big.Spec.Containers = []corev1.Container{{Name: "c", Image: "img", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"cpu": resource.MustParse("2")},
	}}}
	bound(t, rest, big, "sim-0")
	eventually(t, "big is refused", func() bool { return phase("big") == corev1.PodFailed })
	if s := get[*corev1.Pod](t, rest, "default", "big").Status; s.Reason != "OutOfcpu" || s.PodIP != "" {
		t.Errorf("got %+v", s)
	}

	// Another process takes the pods over: what runs goes on as it is.
	stop()
	start(t, Config{REST: rest, Count: 2, StartLatency: 10 * time.Millisecond})
	late := named("late")
	bound(t, rest, late, "sim-0")
	eventually(t, "late runs", func() bool { return phase("late") == corev1.PodRunning })
	now := get[*corev1.Pod](t, rest, "default", "web")
	if now.ResourceVersion != w.ResourceVersion {
		t.Errorf("the pod was written again: %+v", now.Status)
	}

	// A deleted pod is shown as terminated, then goes.
	pods := client.For[*corev1.Pod](rest)
	watch, err := pods.Watch(t.Context(), "default", metav1.ListOptions{FieldSelector: "metadata.name=web", ResourceVersion: now.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	if err := pods.Delete(t.Context(), "default", "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	var seen []string
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		ev, err := watch.Next(ctx)
		cancel()
		if err != nil {
			t.Fatalf("after %q: %v", seen, err)
		}
		seen = append(seen, fmt.Sprint(ev.Type, " ", ev.Object.Status.Phase, " deleting ", ev.Object.DeletionTimestamp != nil))
		if ev.Type == "DELETED" {
			break
		}
	}
	want := []string{"MODIFIED Running deleting true", "MODIFIED Succeeded deleting true", "DELETED Succeeded deleting true"}
	if fmt.Sprint(seen) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", seen, want)
	}
	// Its room can be taken again, also by a pod of the same name.
	again := bound(t, rest, named("web"), "sim-0")
	eventually(t, "the new one runs", func() bool { return phase("web") == corev1.PodRunning })
	if again.UID == w.UID {
		t.Error("it is the old one")
	}
}

// A status that somebody else writes in between is not lost, and a pod that is
// deleted by force is forgotten.
func TestPods_others(t *testing.T) {
	rest := startAPI(t)
	c, _ := start(t, Config{REST: rest, Count: 1, StartLatency: 100 * time.Millisecond})
	bound(t, rest, named("p"), "sim-0")
	pods := client.For[*corev1.Pod](rest)
	eventually(t, "it is accepted", func() bool { return get[*corev1.Pod](t, rest, "default", "p").Status.StartTime != nil })
	patch := `{"status":{"conditions":[{"type":"example.com/own","status":"True"}]}}`
	if _, err := pods.Patch(t.Context(), "default", "p", types.StrategicMergePatchType, []byte(patch), "status"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it runs", func() bool { return get[*corev1.Pod](t, rest, "default", "p").Status.Phase == corev1.PodRunning })
	if c := conditionsOf(get[*corev1.Pod](t, rest, "default", "p").Status); c["example.com/own"] != "True" || c[corev1.PodReady] != "True" {
		t.Errorf("got %v", c)
	}
	now := int64(0)
	if err := pods.Delete(t.Context(), "default", "p", metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is forgotten", func() bool {
		c.nodes[0].mu.Lock()
		defer c.nodes[0].mu.Unlock()
		return c.entry(types.NamespacedName{Namespace: "default", Name: "p"}) == nil && c.nodes[0].used == amounts{} && len(c.nodes[0].free.freed) == 1
	})
}

func TestConfig(t *testing.T) {
	rest := startAPI(t)
	for name, cfg := range map[string]Config{
		"no client":      {},
		"negative count": {REST: rest, Count: -1},
		"bad prefix":     {REST: rest, NamePrefix: "Sim_"},
		"too many nodes": {REST: rest, Count: 1 << 23},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// BenchmarkNodes tells what simulated nodes cost by themselves: the time to
// register them, their memory with the API server's copy, and the CPU that
// their heartbeats take, of this process with its API server.
func BenchmarkNodes(b *testing.B) {
	for _, count := range []int{1000, 5000} {
		b.Run(fmt.Sprintf("nodes=%d", count), func(b *testing.B) {
			for b.Loop() {
				rest := startAPI(b)
				before, begin := heap(), time.Now()
				c, stop := start(b, Config{REST: rest, Count: count})
				eventually(b, "all are registered", func() bool {
					for _, n := range c.nodes {
						n.mu.Lock()
						ok := n.lease != ""
						n.mu.Unlock()
						if !ok {
							return false
						}
					}
					return c.nodeInfos.Len() == count
				})
				b.ReportMetric(time.Since(begin).Seconds(), "s-to-register")
				b.ReportMetric(float64(heap()-before)/float64(count), "heap-B/node")
				cpu := cpuTime()
				timer := time.NewTimer(c.cfg.RenewInterval)
				<-timer.C
				b.ReportMetric(float64(cpuTime()-cpu)/float64(c.cfg.RenewInterval)*100, "%cpu-idle")
				stop()
			}
		})
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
