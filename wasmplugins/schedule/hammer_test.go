package schedule

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/scheduling/framework"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

// TestHammer schedules while guests are replaced, by others of the same ABI and
// of the other one, while others explain, ask about placed pods, and nodes come
// and go. No attempt fails, and the veto that all versions share always holds.
func TestHammer(t *testing.T) {
	f := newFixture(t)
	native, foreign := noCordoned(), perNode()
	also := func() []byte {
		m := &Module{}
		guestModule(m, 1, "")
		m.Func("proa_filter", two, one, nil, Const32(0))
		m.Func("proa_reserve", two, []byte{I64}, nil, Const64(0))
		return m.Bytes()
	}()
	codes := map[string][]byte{"native": native, "foreign": foreign, "also": also}
	patient := func(_ *pluginsv1.SchedulerPlugin, c *GuestConfig) { c.Limits.Timeout = time.Minute }
	r := f.plugin("swapped", native, patient)
	f.plugin("zones", native, patient)
	f.plugin("slow", foreign, patient)
	started := map[string]func() *Guest{}
	for name, wasm := range codes {
		code := f.load(wasm)
		started[name] = func() *Guest {
			c := GuestConfig{Name: "swapped"}
			c.Limits.Timeout = time.Minute
			g, err := f.start(code, c)
			if err != nil {
				t.Error(err)
			}
			return g
		}
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	defer func() {
		close(stop)
		wg.Wait()
	}()
	loop := func(f func(i int)) {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					f(i)
				}
			}
		})
	}
	loop(func(i int) { // replaces
		r.swap(started[[]string{"native", "foreign", "also"}[i%3]]())
		f.host.Set(f.list)
	})
	loop(func(i int) { // explains with a snapshot of its own
		var c cluster
		for k := range 20 + i%100 {
			c.set(fmt.Sprintf("x%d", k), cordoned(k%2 == 0))
		}
		e, err := framework.Explain(&c.Snapshot, newPod("x"), f.profile())
		if err != nil {
			if !strings.Contains(err.Error(), "another ABI") {
				t.Error(err)
			}
			return
		}
		for k, n := range e.Nodes {
			if (len(n.Vetoes) > 0) != (k%2 == 0) {
				t.Errorf("node %s has the vetoes %v", n.Node, n.Vetoes)
			}
		}
	})
	loop(func(int) { // places
		for _, p := range f.profile().Reserve {
			if err := p.Reserve(t.Context(), newPod("y"), "n"); err != nil && !strings.Contains(err.Error(), "another ABI") {
				t.Error(err)
			}
		}
	})
	var c cluster
	c.set("good")
	var w framework.Workspace
	for i := range 300 {
		c.set(fmt.Sprint("n", i%150), cordoned(i%2 == 0))
		if i%7 == 0 {
			c.remove(fmt.Sprint("n", i%50))
		}
		got, d, err := framework.Schedule(&c.Snapshot, newPod(fmt.Sprint("p", i)), f.profile(), &w)
		switch {
		case err != nil && strings.Contains(err.Error(), "another ABI"):
		case err != nil || d != nil:
			t.Fatalf("pod %d: %v, %v", i, d, err)
		case c.infos[got.Node].Node.Spec.Unschedulable:
			t.Fatalf("pod %d is on %s", i, got.Node)
		}
	}
}

func cordoned(is bool) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.Unschedulable = is }
}

// noCordoned is a guest that vetoes cordoned nodes.
func noCordoned() []byte {
	m := &Module{}
	guestModule(m, 1, oneReason)
	m.Func("proa_filter", two, one, i32s, each(1,
		If2(append(append(Get(3), load8...), Eqz32...),
			Get(3), Get(2), load(12), Const32(2), Op(0x76), Const32(1), Op(0x71), store8()))...)
	return m.Bytes()
}
