package schedule

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/proa-project/proa/scheduling/framework"
	"github.com/proa-project/proa/wasmplugins/wasmtest"
)

// bigCluster has nodes as clusters do: a dozen labels each, in three zones.
func bigCluster(n int) *cluster {
	c := &cluster{}
	for i := range n {
		c.set(fmt.Sprintf("node-%04d", i), inZone(fmt.Sprintf("zone-%d", i%3)), label("beta.kubernetes.io/arch", "amd64"),
			label("kubernetes.io/arch", "amd64"), label("kubernetes.io/os", "linux"), label("node.kubernetes.io/instance-type", fmt.Sprintf("m%d.large", i%5)),
			label("topology.kubernetes.io/region", "r1"), label("example.com/pool", fmt.Sprintf("pool-%d", i%7)), label("example.test/rack", fmt.Sprintf("rack-%d", i%40)))
	}
	return c
}

// BenchmarkCycle is what plugins add to the scheduling of one pod on 5,000
// nodes: the guests have a filter and a score, and are alone in the profile. A
// pod is bound after each, so that a node has changed in the next.
func BenchmarkCycle(b *testing.B) {
	c := bigCluster(5000)
	pod := newPod("p", func(p *corev1.Pod) { p.Annotations = map[string]string{"example.com/pool": "pool-1"} })
	for _, bc := range []struct {
		name string
		wasm func(b *testing.B) []byte
	}{
		{"none", nil},
		{"small", func(*testing.B) []byte { return byZone(`{"reasons":[{"reason":"zone"}],"normalize":"scale"}`) }},
		{"go", func(b *testing.B) []byte {
			b.Helper()
			return wasmtest.BuildGo(b, "../../examples/plugins/zone-spread")
		}},
		{"per node", func(*testing.B) []byte { return perNode() }},
	} {
		b.Run(bc.name, func(b *testing.B) {
			f := newFixture(b)
			if bc.wasm != nil {
				f.plugin("p", bc.wasm(b))
			}
			profile := f.profile()
			var w framework.Workspace
			if _, _, err := framework.Schedule(&c.Snapshot, pod, profile, &w); err != nil { // the first makes the table
				b.Fatal(err)
			}
			var slowest time.Duration
			b.ReportAllocs()
			for b.Loop() {
				w.Tie++
				start := time.Now()
				r, d, err := framework.Schedule(&c.Snapshot, pod, profile, &w)
				if err != nil || d != nil {
					b.Fatal(err, d)
				}
				slowest = max(slowest, time.Since(start))
				info := c.infos[r.Node]
				if len(info.Pods) > 100 {
					info.Pods = nil
				}
				c.book(r.Node, pod)
			}
			b.ReportMetric(float64(slowest.Microseconds()), "max-us")
		})
	}
}
