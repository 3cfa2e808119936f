package schedule

import (
	"os"
	"runtime"
	"testing"

	"github.com/proa-project/proa/scheduling/framework"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

// TestNoLeak has guests of both ABIs, one of which traps, schedule many pods:
// memory, files and goroutines stay as they are.
func TestNoLeak(t *testing.T) {
	f := newFixture(t)
	f.plugin("native", noCordoned())
	f.plugin("per-node", perNode())
	m := &Module{}
	guestModule(m, 1, "")
	m.Func("proa_filter", two, one, nil, Unreachable)
	trapping := f.plugin("traps", m.Bytes())
	ignoring := trapping.Object().DeepCopy()
	ignoring.Spec.FailurePolicy = ignore
	trapping.obj.Store(ignoring)
	var c cluster
	for _, name := range []string{"a", "b", "c"} {
		c.set(name)
	}
	var w framework.Workspace
	profile := f.profile()
	round := func(n int) (heap uint64, goroutines, files int) {
		for range n {
			if _, d, err := framework.Schedule(&c.Snapshot, newPod("p"), profile, &w); err != nil || d != nil {
				t.Fatal(d, err)
			}
		}
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		open, _ := os.ReadDir("/proc/self/fd") // elsewhere there are none
		return s.HeapAlloc, runtime.NumGoroutine(), len(open)
	}
	n := 20_000
	if testing.Short() {
		n = 1000
	}
	heap, goroutines, files := round(500)
	heap2, goroutines2, files2 := round(n)
	if heap2 > heap+2<<20 || goroutines2 > goroutines || files2 > files {
		t.Errorf("after %d cycles: heap %d and %d, goroutines %d and %d, files %d and %d", n, heap, heap2, goroutines, goroutines2, files, files2)
	}
	if got := trapping.fails.Load(); got != int64(n)+500 {
		t.Errorf("%d failures were counted", got)
	}
}
