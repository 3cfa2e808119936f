package scheduling

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/informers"
	"github.com/proa-project/proa/nodeagent/simulated"
)

// A wholeCluster is an API server, a scheduler and simulated nodes that share
// informers, as one process has them.
type wholeCluster struct {
	rest    *client.REST
	factory *informers.Factory
	pods    *informers.Informer[*corev1.Pod]
}

func startCluster(tb testing.TB, nodes int) *wholeCluster {
	tb.Helper()
	rest := newREST(tb, startAPI(tb))
	log := zerolog.New(zerolog.NewTestWriter(tb)).Level(zerolog.ErrorLevel)
	c := &wholeCluster{rest: rest, factory: informers.NewFactory(informers.Config{REST: rest, Log: log})}
	c.pods = informers.For[*corev1.Pod](c.factory)
	s, err := New(Config{REST: rest, Factory: c.factory, Log: log})
	if err != nil {
		tb.Fatal(err)
	}
	sim, err := simulated.New(simulated.Config{REST: rest, Factory: c.factory, Log: log, Count: nodes})
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, run := range []func(context.Context) error{c.factory.Run, s.Run, sim.Run} {
		wg.Go(func() { run(ctx) })
	}
	tb.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	nodeInformer := informers.For[*corev1.Node](c.factory)
	eventually(tb, "all nodes are registered", time.Minute, func() bool { return nodeInformer.Len() == nodes })
	eventually(tb, "the scheduler knows them", time.Minute, func() bool { n, _, _ := s.cache.sizes(); return n == nodes })
	return c
}

// createPods creates pods with several workers.
func (c *wholeCluster) createPods(tb testing.TB, n, from int, cpu string) {
	tb.Helper()
	row := api.ByType(&corev1.Pod{})
	var wg sync.WaitGroup
	const workers = 8
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n; i += workers {
				body, err := api.Encode(testPod(fmt.Sprintf("p%d", from+i), cpu))
				if err == nil {
					err = c.rest.Create(context.Background(), row, "default", body, nil)
				}
				if err != nil {
					tb.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// count returns how many pods there are, have a node, and run.
func (c *wholeCluster) count() (all, bound, run int) {
	for _, p := range c.pods.List(nil) {
		all++
		if p.Spec.NodeName != "" {
			bound++
		}
		if p.Status.Phase == corev1.PodRunning {
			run++
		}
	}
	return all, bound, run
}

func TestWholeCluster(t *testing.T) {
	c := startCluster(t, 50)
	const n = 300
	c.createPods(t, n, 0, "1")
	eventually(t, "all pods run", time.Minute, func() bool { _, _, run := c.count(); return run == n })
	perNode, addresses := map[string]int{}, map[string]string{}
	for _, p := range c.pods.List(nil) {
		perNode[p.Spec.NodeName]++
		if other := addresses[p.Status.PodIP]; other != "" || p.Status.PodIP == "" {
			t.Errorf("pods %q and %q have address %q", p.Name, other, p.Status.PodIP)
		}
		addresses[p.Status.PodIP] = p.Name
	}
	// Equal pods spread evenly over equal nodes.
	for node, pods := range perNode {
		if pods != n/50 {
			t.Errorf("node %q has %d pods, want %d", node, pods, n/50)
		}
	}
	// Deleted pods stop and go.
	pods := client.For[*corev1.Pod](c.rest)
	for i := range n {
		if err := pods.Delete(t.Context(), "default", fmt.Sprintf("p%d", i), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all pods are gone", time.Minute, func() bool { all, _, _ := c.count(); return all == 0 })
}

// BenchmarkWholeCluster creates pods until all of them run on simulated nodes,
// API server and all in this process.
func BenchmarkWholeCluster(b *testing.B) {
	for _, nodes := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			c := startCluster(b, nodes)
			const batch = 2000
			total := 0
			cpu := cpuTime()
			var bindTime, runTime time.Duration
			for b.Loop() {
				start := time.Now()
				c.createPods(b, batch, total, "10m")
				total += batch
				eventually(b, "all are bound", 5*time.Minute, func() bool { _, bound, _ := c.count(); return bound == total })
				bindTime += time.Since(start)
				eventually(b, "all run", 5*time.Minute, func() bool { _, _, run := c.count(); return run == total })
				runTime += time.Since(start)
			}
			b.ReportMetric(float64(total)/bindTime.Seconds(), "bound/s")
			b.ReportMetric(float64(total)/runTime.Seconds(), "running/s")
			b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(total), "cpu-us/pod")
		})
	}
}

// cpuTime is what this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
