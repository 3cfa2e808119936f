package wasmplugins_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/wasmplugins"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

// A hand asks one plugin.
type hand struct {
	plugin string
	ask    func(ctx context.Context) error
	rare   bool // what it asks takes long
}

// quick are the behaviors that take microseconds.
func quick() []Behavior { return []Behavior{Good, Denies, Mutates, Traps, LiesPointer} }

// lasting are all but those that take their whole time: they are stopped in the
// same way as those that take all fuel.
func lasting() []Behavior {
	return slices.DeleteFunc(Behaviors(), func(b Behavior) bool { return b == Loops || b == Reenters })
}

// hands makes plugins of all ABIs at a choice of points, that behave in each
// way.
func (m *matrix) hands() []*hand {
	chosen := map[string]bool{"validate": true, "authorize": true, "authenticate": true, "convert": true, "filter": true, "reserve": true}
	var out []*hand
	n := 0
	for _, g := range guests {
		for _, p := range places() {
			if !chosen[p.name] || !g.places(p) {
				continue
			}
			n++
			for _, b := range lasting() {
				plugin := fmt.Sprintf("p%d-%s", n, b)
				matrixKinds()[p.kind].create(m.f, plugin, moduleName(g.abi, b), p.settings(), limits(g.abi, b))
				said, reason := expect(g.abi, p, b)
				out = append(out, &hand{plugin: plugin, rare: !slices.Contains(quick(), b), ask: func(ctx context.Context) error {
					got, err := p.ask(ctx, m, plugin)
					if reasonOf(err) != reason || reason == "" && got != said {
						return fmt.Errorf("%s: got %q, %w; want %q %s", plugin, got, orNil(err), said, reason)
					}
					return nil
				}})
			}
			for _, b := range lasting() {
				matrixKinds()[p.kind].await(m.f, fmt.Sprintf("p%d-%s", n, b), metav1.ConditionTrue)
			}
		}
	}
	return out
}

// TestMatrixLeaks makes 100,000 calls that end in all ways there are, and
// expects the process to be as it was: goroutines, files, mappings, memory.
func TestMatrixLeaks(t *testing.T) {
	m := newMatrix(t, func(c *wasmplugins.Config) {
		c.StatusInterval = time.Hour // what is written to the API is kept there
	})
	hands := m.hands()
	round := func(often, seldom int) {
		const workers = 4
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				for k := w; k < len(hands); k += workers {
					n := often
					if hands[k].rare {
						n = seldom
					}
					for range n {
						if err := hands[k].ask(t.Context()); err != nil {
							t.Error(err)
							return
						}
						m.calls.Add(1)
					}
				}
			})
		}
		wg.Wait()
	}
	often := 50_000 / (len(hands) * len(quick()) / len(lasting()))
	if testing.Short() {
		often /= 10
	}
	// The first half fills pools and caches; what grows with calls grows in the
	// second, too.
	start := usageNow(t)
	round(often, 10)
	before := usageNow(t)
	round(often, 10)
	after := usageNow(t)
	t.Logf("%d plugins, %d calls:\nbefore  %+v\nhalfway %+v\nafter   %+v", len(hands), m.calls.Load(), start, before, after)
	if after.goroutines > before.goroutines+5 || after.files > before.files || after.mappings > before.mappings+50 {
		t.Error("goroutines, files or instances leak")
	}
	const detectors = 256 << 20 // of the race detector's memory comes and goes; instances show in mappings
	if after.heap > before.heap+4<<20 || after.resident > before.resident+detectors {
		t.Error("memory leaks")
	}
}

// A footprint is what the process has.
type footprint struct {
	goroutines, files, mappings int
	heap, resident              int64 // bytes
}

func usageNow(t testing.TB) (f footprint) {
	t.Helper()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	f.heap, f.goroutines = int64(m.HeapAlloc), runtime.NumGoroutine()
	if d, err := os.ReadDir("/proc/self/fd"); err == nil {
		f.files = len(d)
	}
	if b, err := os.ReadFile("/proc/self/maps"); err == nil {
		f.mappings = bytes.Count(b, []byte{'\n'})
	}
	if b, err := os.ReadFile("/proc/self/statm"); err == nil {
		if pages, err := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64); err == nil {
			f.resident = pages * int64(os.Getpagesize())
		}
	}
	return f
}
