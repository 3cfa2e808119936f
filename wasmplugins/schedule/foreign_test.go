package schedule

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/scheduling/framework"
	"github.com/proa-project/proa/wasmplugins/engine"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

// perNode is a small guest of kube-scheduler-wasm-extension: for each node, in
// filter and in score, it fetches the name and the node.
func perNode() []byte {
	m := &Module{}
	current := m.Import("k8s.io/scheduler", "currentNodeName", two, one)
	node := m.Import("k8s.io/api", "node", []byte{I32, I32, I32, I32}, one)
	m.Memory(2, 0)
	m.Func("_start", nil, nil, nil)
	fetch := Op()
	for _, code := range [][]byte{Const32(1024), Const32(1024), Call(current), Set(0), Const32(1024), Get(0), Const32(4096), Const32(60000), Call(node), Drop} {
		fetch = append(fetch, code...)
	}
	m.Func("filter", nil, one, one, fetch, Const32(0))
	m.Func("score", nil, []byte{I64}, one, fetch, Const64(10<<32))
	return m.Bytes()
}

func (f *fixture) foreign(name string, wasm []byte, change ...func(*pluginsv1.SchedulerPlugin, *GuestConfig)) *running {
	f.Helper()
	// Under the race detector, and on a busy machine, a Go guest is slow.
	return f.plugin(name, wasm, append(change, func(_ *pluginsv1.SchedulerPlugin, c *GuestConfig) {
		c.Limits.Timeout = max(c.Limits.Timeout, time.Minute)
	})...)
}

func named(name string, words ...string) *framework.PodInfo {
	return newPod(name, func(p *corev1.Pod) {
		p.Labels = map[string]string{"name-is-" + name: ""}
		for _, w := range words {
			p.Labels[w] = ""
		}
	})
}

func TestForeign(t *testing.T) {
	f := newFixture(t)
	var log said
	var events []string
	f.host.c.Event = func(about, _ corev1.ObjectReference, typ, reason, action, note string) {
		events = append(events, fmt.Sprintf("%s/%s %s %s %s %s", about.Kind, about.Name, typ, reason, action, note))
	}
	r := f.foreign("stateful", BuildGo(t, "../schedwasm/testdata/stateful"), func(p *pluginsv1.SchedulerPlugin, c *GuestConfig) {
		c.Log, c.Settings = log.log, []byte(`{"k":"v"}`)
		p.Spec.Points = []pluginsv1.SchedulerPoint{
			pluginsv1.PointPreFilter, pluginsv1.PointFilter, pluginsv1.PointPostFilter, pluginsv1.PointPreScore, pluginsv1.PointScore,
			pluginsv1.PointReserve, pluginsv1.PointPermit, pluginsv1.PointPreBind, pluginsv1.PointBind, pluginsv1.PointPostBind,
		}
	})
	p := f.profile()
	if got := p.Interest(); got != framework.NodeAdded|framework.PodRemoved|framework.PodOwn {
		t.Errorf("the guest's events are %b", got)
	}
	var c cluster
	c.set("a", func(n *corev1.Node) {
		n.Status.Images = []corev1.ContainerImage{{Names: []string{"img:1"}, SizeBytes: 5}}
	})
	c.set("b", label("keep-away", ""))
	c.set("c")
	for _, tc := range []struct {
		words []string
		want  string
	}{
		{nil, "c"},
		{[]string{"do-reject"}, `0/3 nodes are available: rejected, config is {"k":"v"}.`},
		{[]string{"do-fail"}, `error: plugin "stateful": prefilter: BadReply: prefilter failed: cannot`},
		{[]string{"do-restrict"}, "0/3 nodes are available: 1 node is kept away, 2 node(s) didn't satisfy plugin(s) [stateful]."},
		{[]string{"do-skip"}, "c"},
		{[]string{"do-list"}, "c"},
		{[]string{"do-panic"}, `error: plugin "stateful": filter: Trapped: filter: unreachable: panic: at filter`},
	} {
		got, message := f.schedule(&c, named("p", tc.words...))
		if message == "scheduled" {
			message = got.Node
		}
		if !strings.HasPrefix(message, tc.want) {
			t.Errorf("%v: got %s, want %s", tc.words, message, tc.want)
		}
	}
	if got := log.take(); !strings.HasPrefix(got, `["a","c"]; 1; {"img:1":{"Size":5,"NumNodes":1}}; pairs k=v; panic: at filter; `) {
		t.Errorf("said %s", got)
	}
	if len(events) != 1 || events[0] != "Pod/p Normal Seen Look note" {
		t.Errorf("events %v", events)
	}
	e, err := framework.Explain(&c.Snapshot, named("p"), p)
	if err != nil || e.Nodes[2].Scores[0].Raw != 3 || e.Nodes[2].Scores[0].Score != 30 || e.Nodes[1].Vetoes[0].Reasons[0] != "node is kept away" {
		t.Errorf("explained as %+v, %v", e, err)
	}
	if e, err = framework.Explain(&c.Snapshot, named("p", "do-noscore"), p); err != nil || len(e.Nodes[0].Scores) != 0 {
		t.Errorf("explained as %+v, %v", e, err)
	}
	_, d, err := framework.Schedule(&c.Snapshot, named("p", "do-restrict"), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	for word, want := range map[string]string{"do-nominate": "b", "x": ""} {
		if node, err := framework.PostFilter(&c.Snapshot, named("p", word), p, d); err != nil || node != want {
			t.Errorf("%s: got %q, %v", word, node, err)
		}
	}
	testForeignBinding(t, f, r, p, &c, &log)
}

// testForeignBinding takes pods through the points behind Score.
func testForeignBinding(t *testing.T, f *fixture, r *running, p *framework.Profile, c *cluster, log *said) {
	t.Helper()
	ctx := context.Background()
	bind := func(pod *framework.PodInfo) (done bool, err error) {
		if err := p.Reserve[0].Reserve(ctx, pod, "c"); err != nil {
			return false, err
		}
		if err := p.Permit[0].Permit(ctx, pod, "c"); err != nil {
			return false, err
		}
		if err := p.PreBind[0].PreBind(ctx, pod, "c"); err != nil {
			return false, err
		}
		return p.Bind[0].Bind(ctx, pod, "c")
	}
	held := func() int { g, _ := r.Running(); return g.foreign.Held() }
	log.take()
	pod := named("p")
	if got, said := f.schedule(c, pod); got.Node != "c" || held() != 1 {
		t.Fatalf("got %+v, %s, %d instances are held", got, said, held())
	}
	uses := r.uses.Load()
	done := make(chan struct{})
	go func() { // the binding is another goroutine's
		defer close(done)
		if done, err := bind(pod); done || err != nil {
			t.Errorf("bind: %v, %v", done, err)
		}
		p.PostBind[0].PostBind(ctx, pod, "c")
	}()
	<-done
	if got := log.take(); got != "reserve c; permit c; prebind c; postbind c" || held() != 0 || r.uses.Load() != uses+5 {
		t.Errorf("said %s; %d instances are held", got, held())
	}
	// An instance that was given up is made up for.
	if done, err := bind(named("p", "do-bind")); !done || err != nil || held() != 1 {
		t.Errorf("bind: %v, %v", done, err)
	}
	p.Reserve[0].Unreserve(ctx, pod, "c")
	if got := log.take(); got != "reserve c; permit c; prebind c; bind c; unreserve c" || held() != 0 {
		t.Errorf("said %s; %d instances are held", got, held())
	}
	for _, point := range []string{"reserve", "permit", "prebind"} {
		if _, err := bind(named("p", "refuse-"+point)); err == nil || err.Error() != point+" refuses" || engine.ReasonOf(err) != "" {
			t.Errorf("%s: %v", point, err)
		}
		p.Reserve[0].Unreserve(ctx, pod, "c")
	}
	// One pod waits, and another rejects it.
	log.take()
	first, waited := named("1", "do-wait"), make(chan error)
	first.Pod.UID = types.UID("uid-01")
	go func() { _, err := bind(first); waited <- err }()
	for ended := false; !ended; {
		second := named("2", "reject-uid-01")
		if _, err := bind(second); err != nil {
			t.Fatal(err)
		}
		p.Reserve[0].Unreserve(ctx, second, "c")
		select {
		case err := <-waited:
			if err == nil || !strings.Contains(err.Error(), "was rejected") {
				t.Errorf("got %v", err)
			}
			ended = true
		default:
		}
	}
	if got := log.take(); !strings.Contains(got, "waits: uid-01") || !strings.Contains(got, "rejected: 1") {
		t.Errorf("said %s", got)
	}
	p.Reserve[0].Unreserve(ctx, first, "c")
	// More pods than instances, and a guest that is closed meanwhile.
	for i := range 100 {
		if _, said := f.schedule(c, named(fmt.Sprint("many", i))); said != "scheduled" {
			t.Fatal(said)
		}
	}
	if held() != 64 {
		t.Errorf("%d instances are held", held())
	}
	g, _ := r.Running()
	g.Close()
	if g.foreign.Held() != 0 {
		t.Errorf("%d instances are held after Close", g.foreign.Held())
	}
}

// TestForeign_evil has guests of the other ABI misbehave.
func TestForeign_evil(t *testing.T) {
	module := func(build func(m *Module)) []byte {
		m := &Module{}
		build(m)
		return m.Bytes()
	}
	name := func(m *Module) uint32 { return m.Import("k8s.io/scheduler", "currentNodeName", two, one) }
	for _, tc := range []struct {
		name   string
		wasm   []byte
		limits engine.Limits
		reason engine.Reason
		detail string
	}{
		{"traps", module(func(m *Module) { m.Memory(1, 0); m.Func("filter", nil, one, nil, Unreachable) }), engine.Limits{}, engine.Trapped, "filter: unreachable"},
		{"loops", module(func(m *Module) { m.Memory(1, 0); m.Func("filter", nil, one, nil, Loop(Br(0)), Const32(0)) }), engine.Limits{Fuel: 1 << 60, Timeout: 30 * time.Millisecond}, engine.DeadlineExceeded, "ran longer than 30ms"},
		{"unknown status", module(func(m *Module) { m.Memory(1, 0); m.Func("filter", nil, one, nil, Const32(77)) }), engine.Limits{}, engine.BadReply, "filter returned the status 77"},
		{"waits in filter", module(func(m *Module) { m.Memory(1, 0); m.Func("filter", nil, one, nil, Const32(4)) }), engine.Limits{}, engine.BadReply, "status 4"},
		{"score above the range", module(func(m *Module) { m.Memory(1, 0); m.Func("score", nil, []byte{I64}, nil, Const64(101<<32)) }), engine.Limits{}, engine.BadReply, `gave node "a" the score 101`},
		{"score fails", module(func(m *Module) { m.Memory(1, 0); m.Func("score", nil, []byte{I64}, nil, Const64(2)) }), engine.Limits{}, engine.BadReply, "score failed"},
		{"buffer outside the memory", module(func(m *Module) {
			f := name(m)
			m.Memory(1, 0)
			m.Func("filter", nil, one, nil, Const32(-4), Const32(1024), Call(f))
		}), engine.Limits{}, engine.Trapped, "outside its memory"},
		{"reason outside the memory", module(func(m *Module) {
			f := m.Import("k8s.io/scheduler", "result.status_reason", two, nil)
			m.Memory(1, 0)
			m.Func("filter", nil, one, nil, Const32(65000), Const32(1<<20), Call(f), Const32(2))
		}), engine.Limits{}, engine.Trapped, "outside its memory"},
		{"normalizes to nonsense", module(func(m *Module) {
			f := m.Import("k8s.io/scheduler", "result.normalized_score_list", two, nil)
			m.Memory(1, 0)
			m.Data(64, []byte("nonsense"))
			m.Func("score", nil, []byte{I64}, nil, Const64(0))
			m.Func("normalizescore", nil, one, nil, Const32(64), Const32(8), Call(f), Const32(0))
		}), engine.Limits{}, engine.BadReply, "result.normalized_score_list"},
		{"normalizes above the range", module(func(m *Module) {
			f := m.Import("k8s.io/scheduler", "result.normalized_score_list", two, nil)
			m.Memory(1, 0)
			m.Data(64, []byte(`{"a":500,"b":1}`))
			m.Func("score", nil, []byte{I64}, nil, Const64(0))
			m.Func("normalizescore", nil, one, nil, Const32(64), Const32(15), Call(f), Const32(0))
		}), engine.Limits{}, engine.BadReply, `gave node "a" the score 500`},
		{"event that is none", module(func(m *Module) {
			f := m.Import("k8s.io/scheduler", "handle.eventrecorder.eventf", two, nil)
			m.Memory(1, 0)
			m.Func("filter", nil, one, nil, Const32(64), Const32(8), Call(f), Const32(0))
		}), engine.Limits{}, engine.BadReply, "handle.eventrecorder.eventf"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			r := f.plugin("evil", tc.wasm, func(_ *pluginsv1.SchedulerPlugin, c *GuestConfig) { c.Limits = tc.limits })
			var c cluster
			c.set("a")
			c.set("b")
			for range 2 {
				if _, said := f.schedule(&c, newPod("p")); !strings.HasPrefix(said, `error: plugin "evil": `) || !strings.Contains(said, string(tc.reason)+": ") || !strings.Contains(said, tc.detail) {
					t.Errorf("%s; want %s and %q", said, tc.reason, tc.detail)
				}
			}
			ignoring := r.Object().DeepCopy()
			ignoring.Spec.FailurePolicy = ignore
			r.obj.Store(ignoring)
			if got, said := f.schedule(&c, newPod("p")); got.Feasible != 2 {
				t.Errorf("ignoring: got %+v, %s", got, said)
			}
			if r.fails.Load() != 3 {
				t.Errorf("%d failures were counted", r.fails.Load())
			}
		})
	}
	f := newFixture(t)
	for what, wasm := range map[string][]byte{
		"filter is (i32)i32": module(func(m *Module) { m.Memory(1, 0); m.Func("filter", one, one, nil, Const32(0)) }),
		"serves no point":    module(func(m *Module) { m.Memory(1, 0); m.Func("other", one, one, nil, Const32(0)) }),
		"called the host before": module(func(m *Module) {
			n := name(m)
			m.Memory(1, 0)
			m.Func("filter", nil, one, nil, Const32(0))
			m.Func("_start", nil, nil, nil, Const32(0), Const32(0), Call(n), Drop)
		}),
		"imports k8s.io/scheduler.": module(func(m *Module) {
			m.Import("k8s.io/scheduler", "x", nil, nil)
			m.Memory(1, 0)
			m.Func("filter", nil, one, nil, Const32(0))
		}),
	} {
		if _, err := f.start(f.load(wasm), GuestConfig{Name: "p"}); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("got %v, want %s", err, what)
		}
	}
}
