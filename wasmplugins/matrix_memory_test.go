package wasmplugins_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

// memoryPerPlugin loads plugins of a module, each with a digest and so a
// compilation of its own, has each judge some writes, and returns the memory
// that the process has for each of them since: what is resident, and what of
// that is in Go's heap.
func memoryPerPlugin(t testing.TB, wasm []byte, plugins int64) (resident, heap int64) {
	t.Helper()
	f := newFixture(t)
	load := func(name string) {
		own := &Module{}
		own.Custom("note", []byte(name))
		f.upload(name, append(append([]byte(nil), wasm...), own.Bytes()[8:]...)) // without the header
		f.plugin(name, metav1.ConditionTrue, func(p *pluginsv1.AdmissionPlugin) {
			p.Spec.Limits = &pluginsv1.Limits{TimeoutMillis: 1000}
			p.Spec.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"for": name}}
		})
		for range 10 {
			if _, err := f.create(map[string]string{"for": name}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for n := range 5 { // what all share
		load(fmt.Sprintf("warm-%d", n))
	}
	before := usageNow(t)
	for n := range plugins {
		load(fmt.Sprintf("p-%d", n))
	}
	after := usageNow(t)
	f.stop()
	return (after.resident - before.resident) / plugins, (after.heap - before.heap) / plugins
}

// smallGuests are what compilers make of small policies.
func smallGuests(t testing.TB) map[string][]byte {
	t.Helper()
	const dir = "../examples/plugins/require-limits/"
	return map[string][]byte{"c": BuildC(t, dir+"c"), "assemblyscript": BuildAssemblyScript(t, dir+"assemblyscript")}
}

// TestMemoryPerPlugin: a small plugin takes less than 5 MB.
func TestMemoryPerPlugin(t *testing.T) {
	for name, wasm := range smallGuests(t) {
		resident, heap := memoryPerPlugin(t, wasm, 20)
		t.Logf("%s, %d bytes of code: %d KiB resident for each plugin, %d KiB of that in the heap", name, len(wasm), resident>>10, heap>>10)
		if max(resident, heap) > 5_000_000 {
			t.Errorf("a plugin in %s takes %d bytes, of which %d in the heap", name, resident, heap)
		}
	}
}

// BenchmarkMemoryPerPlugin is what a loaded plugin occupies.
func BenchmarkMemoryPerPlugin(b *testing.B) {
	for name, wasm := range smallGuests(b) {
		b.Run(name, func(b *testing.B) {
			var resident, heap int64
			for b.Loop() {
				resident, heap = memoryPerPlugin(b, wasm, 50)
			}
			b.ReportMetric(float64(resident), "resident-B/plugin")
			b.ReportMetric(float64(heap), "heap-B/plugin")
			b.ReportMetric(float64(len(wasm)), "code-B")
		})
	}
}
