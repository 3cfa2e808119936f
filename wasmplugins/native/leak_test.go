package native_test

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/native"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

// TestNothingLeaks makes thousands of calls that go well, trap, recurse, hoard
// memory and lie, on several goroutines, and expects the process to be as it
// was: goroutines, files, memory.
func TestNothingLeaks(t *testing.T) {
	e := newEngine(t)
	run := func(code ...[]byte) []byte { return lie(func(m *Module) { admitFunc(m, code...) }) }
	guests := map[string]struct {
		wasm  []byte
		calls int
	}{
		"good":     {Fixed(`{"allowed":true}`), 10000},
		"patches":  {Fixed(`{"allowed":true,"patch":[{"op":"add","path":"/a","value":1}]}`), 2000},
		"traps":    {run(Unreachable), 3000},
		"lies":     {run(Reply(0xfffffff0, 100)), 3000},
		"recurses": {lie(func(m *Module) { admitFunc(m, Get(0), Get(1), Call(2)) }), 100},
		"hoards":   {run(Loop(Const32(16), Grow, Const32(0), Op(0x4e), BrIf(0)), Unreachable), 500},
		"grows":    {run(Const32(1), Grow, Drop, Const64(0)), 1000},
	}
	if testing.Short() {
		t.Log("a tenth of the calls")
	}
	plugins := map[string]*native.Plugin{}
	for name, g := range guests {
		plugins[name] = start(t, e, g.wasm, native.Config{Name: name})
	}
	object := pod(1, limited)
	round := func(part int) {
		var wg sync.WaitGroup
		for name, p := range plugins {
			for range 2 {
				wg.Go(func() {
					for n := range guests[name].calls / part {
						_, err := admit(p, abi.PhaseMutate, object)
						if good := name == "good" || name == "patches" || name == "grows"; good != (err == nil) {
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
	before := measure(t)
	part := 1
	if testing.Short() {
		part = 10
	}
	round(part)
	after := measure(t)
	t.Logf("before %+v, after %+v", before, after)
	if after.goroutines > before.goroutines || after.files > before.files {
		t.Error("goroutines or files leak")
	}
	if after.heap > before.heap+4<<20 || after.mapped > before.mapped+64<<20 {
		t.Error("memory leaks")
	}
}

type figures struct {
	goroutines, files int
	heap, mapped      int64
}

func measure(t *testing.T) (f figures) {
	t.Helper()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	f.heap, f.goroutines = int64(m.HeapAlloc), runtime.NumGoroutine()
	if d, err := os.ReadDir("/proc/self/fd"); err == nil {
		f.files = len(d)
	}
	if b, err := os.ReadFile("/proc/self/statm"); err == nil {
		if pages, err := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64); err == nil {
			f.mapped = pages * int64(os.Getpagesize())
		}
	}
	return f
}

// BenchmarkStart is what it takes to start a plugin whose code is loaded, and
// what it occupies.
func BenchmarkStart(b *testing.B) {
	e := newEngine(b)
	for _, bc := range []struct {
		name string
		wasm func() []byte
	}{
		{"small", func() []byte { return Search(`"zzzzzz"`) }},
		{"go", func() []byte { return BuildGo(b, "../../examples/plugins/require-limits") }},
	} {
		code := load(b, e, bc.wasm())
		b.Run(bc.name, func(b *testing.B) {
			for b.Loop() {
				p, err := native.Start(context.Background(), e, code, native.Config{Name: bc.name})
				if err != nil {
					b.Fatal(err)
				}
				p.Close()
			}
		})
	}
}

// BenchmarkStopped is what a call costs that is stopped, with the instance
// made good again.
func BenchmarkStopped(b *testing.B) {
	e := newEngine(b)
	for name, wasm := range map[string][]byte{
		"trap":    lie(func(m *Module) { admitFunc(m, Unreachable) }),
		"recurse": lie(func(m *Module) { admitFunc(m, Get(0), Get(1), Call(2)) }),
	} {
		p := start(b, e, wasm, native.Config{Name: name, Limits: engine.Limits{Timeout: time.Second}})
		req := request(pod(1, limited))
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, _, err := p.Admit(context.Background(), engine.Call{}, abi.PhaseValidate, req); err == nil {
					b.Fatal("no error")
				}
			}
		})
	}
}
