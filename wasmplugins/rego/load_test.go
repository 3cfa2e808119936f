package rego

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

// TestNothingLeaks makes thousands of calls that go well, trap, ask and lie, on
// several goroutines, and expects the process to be as it was.
func TestNothingLeaks(t *testing.T) {
	hex := [][]byte{Const32(7), Const32(0), Const32(textAt), Call(opaBuiltin)}
	guests := map[string]struct {
		wasm  []byte
		calls int
		good  bool
	}{
		"gatekeeper": {compile(t, labels, "k8srequiredlabels/violation"), 1000, true},
		"webhook":    {compile(t, webhook, "kubernetes/admission/main"), 1000, true},
		"asks":       {fake{eval: append(hex, Drop, Const32(resultAt))}.bytes(), 3000, true},
		"traps":      {fake{eval: [][]byte{Unreachable}}.bytes(), 2000, false},
		"nests":      {fake{eval: hex, valueDump: hex}.bytes(), 2000, false},
		"lies":       {fake{eval: [][]byte{Const32(-16)}}.bytes(), 2000, false},
		"grows":      {fake{eval: [][]byte{Const32(1), Grow, Drop, Const32(resultAt)}}.bytes(), 500, true},
	}
	plugins := map[string]*Plugin{}
	for name, g := range guests {
		plugins[name] = start(t, g.wasm, Config{Name: name, Settings: []byte(`{"labels":["team"],"registry":"r"}`)})
	}
	round := func(part int) {
		var wg sync.WaitGroup
		for name, p := range plugins {
			for range 2 {
				wg.Go(func() {
					for n := range guests[name].calls / part {
						if _, _, err := admit(p, abi.PhaseValidate, pod); (err == nil) != guests[name].good {
							t.Errorf("%s: call %d: %v", name, n, err)
							return
						}
					}
				})
			}
		}
		wg.Wait()
	}
	round(20) // the pools are full afterwards
	goroutines, files, heap := measure(t)
	part := 1
	if testing.Short() {
		part = 10
	}
	round(part)
	goroutines2, files2, heap2 := measure(t)
	t.Logf("goroutines %d, %d; files %d, %d; heap %d, %d", goroutines, goroutines2, files, files2, heap, heap2)
	if goroutines2 > goroutines || files2 > files || heap2 > heap+4<<20 {
		t.Error("something leaks")
	}
}

func measure(t *testing.T) (goroutines, files int, heap int64) {
	t.Helper()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if d, err := os.ReadDir("/proc/self/fd"); err == nil {
		files = len(d)
	}
	return runtime.NumGoroutine(), files, int64(m.HeapAlloc)
}

func BenchmarkAdmit(b *testing.B) {
	for _, bc := range []struct {
		name string
		wasm func() []byte
	}{
		{"fake", func() []byte { return fake{}.bytes() }},
		{"gatekeeper", func() []byte { return compile(b, labels, "k8srequiredlabels/violation") }},
		{"webhook", func() []byte { return compile(b, webhook, "kubernetes/admission/main") }},
	} {
		p := start(b, bc.wasm(), Config{Settings: []byte(`{"labels":["team"],"registry":"r"}`), Limits: engine.Limits{Timeout: time.Second}})
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			var usage engine.Usage
			for b.Loop() {
				_, u, err := admit(p, abi.PhaseValidate, pod)
				if err != nil {
					b.Fatal(err)
				}
				usage = u
			}
			b.ReportMetric(float64(usage.Fuel), "fuel/op")
			b.ReportMetric(float64(usage.Memory), "memory")
		})
	}
}

// BenchmarkBuiltin is what a function of the host costs.
func BenchmarkBuiltin(b *testing.B) {
	p := start(b, compile(b, "package p\n\nimport rego.v1\n\nmain := {\"allowed\": true} if {\n\tsprintf(\"%v\", [{1, 2}]) != input.x\n\ttrue\n}\n", "p/main"), Config{})
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := admit(p, abi.PhaseValidate, pod); engine.ReasonOf(err) != engine.BadReply && err != nil {
			b.Fatal(err)
		}
	}
}
