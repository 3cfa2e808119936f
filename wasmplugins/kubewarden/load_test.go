package kubewarden_test

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/kubewarden"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

// TestNothingLeaks makes thousands of calls that go well, trap, ask and lie, on
// several goroutines, and expects the process to be as it was.
func TestNothingLeaks(t *testing.T) {
	say := func(ptr, n int32) []byte { return append(append(Const32(ptr), Const32(n)...), Call(response)...) }
	ask := [][]byte{Const32(64), Const32(10), Const32(74), Const32(10), Const32(84), Const32(5), Const32(128), Const32(46), Call(hostCall), Drop}
	echo := withSection(commandEcho(), `{"executionMode":"wasi"}`)
	guests := map[string]struct {
		wasm  []byte
		calls int
		good  bool
	}{
		"good":     {script("", nil, say(200, 17)), 5000, true},
		"asks":     {script("", nil, append(ask, say(200, 17))...), 3000, true},
		"traps":    {script("", nil, Unreachable), 2000, false},
		"lies":     {script("", nil, say(-16, 100)), 2000, false},
		"recurses": {script("", nil, Get(0), Get(1), Call(guestCall), Drop), 50, false},
		"grows":    {script("", nil, Const32(1), Grow, Drop, say(200, 17)), 500, true},
		"command":  {echo, 3000, true},
	}
	plugins := map[string]*kubewarden.Plugin{}
	for name, g := range guests {
		plugins[name] = start(t, g.wasm, kubewarden.Config{
			Name: name, Limits: engine.Limits{Timeout: time.Minute},
			Capability: func(context.Context, string, []byte) ([]byte, error) { return []byte(`{"allowed":true}`), nil },
		})
	}
	round := func(part int) {
		var wg sync.WaitGroup
		for name, p := range plugins {
			for range 2 {
				wg.Go(func() {
					for n := range guests[name].calls / part {
						if _, _, err := admit(p, abi.PhaseValidate, bare); (err == nil) != guests[name].good {
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

// commandEcho is a command that accepts everything without reading it.
func commandEcho() []byte {
	const reply = `{"valid":true,"accepted":true}`
	m := &Module{}
	write := m.Import("wasi_snapshot_preview1", "fd_write", []byte{I32, I32, I32, I32}, []byte{I32})
	m.Memory(1, 0)
	m.Data(0, []byte{16, 0, 0, 0, byte(len(reply)), 0, 0, 0})
	m.Data(16, []byte(reply))
	m.Func("_start", nil, nil, nil, Const32(1), Const32(0), Const32(1), Const32(8), Call(write), Drop)
	return m.Bytes()
}

func BenchmarkAdmit(b *testing.B) {
	for _, bc := range []struct {
		name     string
		wasm     func() []byte
		settings []byte
	}{
		{"script", func() []byte {
			return script("", nil, Const32(200), Const32(17), Call(response))
		}, nil},
		{"c", func() []byte { return BuildC(b, "testdata/c") }, nil},
		{"go", func() []byte { return waPC(b) }, settings(b, "require")},
		{"command", func() []byte { return withSection(commandEcho(), `{"executionMode":"wasi"}`) }, nil},
		{"go-command", func() []byte { return wasi(b) }, settings(b, "nothing")},
	} {
		p := start(b, bc.wasm(), kubewarden.Config{Settings: bc.settings, Limits: engine.Limits{Timeout: time.Second}})
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			var usage engine.Usage
			for b.Loop() {
				_, u, err := admit(p, abi.PhaseValidate, labeled)
				if err != nil {
					b.Fatal(err)
				}
				usage = u
			}
			b.ReportMetric(float64(usage.Fuel), "fuel/op")
		})
	}
}
