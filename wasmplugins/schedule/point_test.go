package schedule

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/scheduling/framework"
	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

// TestHost_Set is about which plugins there are, and in which order.
func TestHost_Set(t *testing.T) {
	f := newFixture(t)
	told := 0
	cancel := f.host.Subscribe(func() { told++ })
	spec := func(change func(*pluginsv1.SchedulerPluginSpec)) func(*pluginsv1.SchedulerPlugin, *GuestConfig) {
		return func(p *pluginsv1.SchedulerPlugin, _ *GuestConfig) { change(&p.Spec) }
	}
	guest := noCordoned()
	c := f.plugin("c", guest, spec(func(s *pluginsv1.SchedulerPluginSpec) { s.Weight = 7 }))
	f.plugin("a", guest, spec(func(s *pluginsv1.SchedulerPluginSpec) { s.SchedulerNames = []string{"x", "y"} }))
	f.plugin("b", guest, spec(func(s *pluginsv1.SchedulerPluginSpec) { s.Order = -1 }))
	list := func() (names []string) {
		for _, e := range f.host.Plugins() {
			names = append(names, e.Plugin.Name())
		}
		return names
	}
	if diff := cmp.Diff([]string{"b", "a", "c"}, list()); diff != "" {
		t.Error(diff)
	}
	plugins := f.host.Plugins()
	if plugins[2].Weight != 7 || plugins[0].Weight != 1 || !slices.Equal(plugins[0].Schedulers, []string{"default-scheduler"}) || !slices.Equal(plugins[1].Schedulers, []string{"x", "y"}) {
		t.Errorf("got %+v", plugins)
	}
	before := told
	f.host.Set(f.list)
	if told != before || before != 3 {
		t.Errorf("told %d times, then %d", before, told)
	}
	// A guest that does not run refuses pods, or is left out.
	c.swap(nil)
	f.host.Set(f.list)
	if told != before || len(f.host.Plugins()) != 3 { // its points are known from before
		t.Errorf("told %d times of %v", told, list())
	}
	var nodes cluster
	nodes.set("n")
	if _, said := f.schedule(&nodes, newPod("p")); said != `error: plugin "c": filter: NotReady: the plugin is not loaded yet` && said != `error: plugin "c": prefilter: NotReady: the plugin is not loaded yet` {
		t.Error(said)
	}
	fresh := &running{name: "never"}
	fresh.obj.Store(&pluginsv1.SchedulerPlugin{})
	f.host.Set([]Running{fresh})
	if _, said := f.schedule(&nodes, newPod("p")); said != `error: plugin "never": prefilter: NotReady: the plugin is not loaded yet` {
		t.Error(said)
	}
	ignoring := &pluginsv1.SchedulerPlugin{}
	ignoring.Spec.FailurePolicy = ignore
	fresh.obj.Store(ignoring)
	f.host.Set([]Running{fresh})
	if len(list()) != 0 {
		t.Errorf("got %v", list())
	}
	cancel()
	before = told
	f.host.Set(nil)
	f.host.Set(f.list[1:])
	if told != before {
		t.Error("told after the end")
	}
}

// TestNarrow has a module's manifest and its own word say which points it
// serves, and which changes matter.
func TestNarrow(t *testing.T) {
	f := newFixture(t)
	build := func(manifest, points string) []byte {
		m := &Module{}
		guestModule(m, 1, "")
		m.Func("proa_filter", two, one, nil, Const32(0))
		m.Func("proa_score", two, one, nil, Const32(0))
		m.Func("proa_bind", two, []byte{I64}, nil, Const64(0))
		if points != "" {
			m.Data(5000, []byte(points))
			m.Func("proa_points", nil, []byte{I64}, nil, Reply(5000, uint32(len(points))))
		}
		if manifest != "" {
			m.Custom(abi.ManifestSection, []byte(manifest))
		}
		return m.Bytes()
	}
	all := []framework.Point{framework.PointPreFilter, framework.PointFilter, framework.PointScore, framework.PointBind}
	for _, tc := range []struct {
		manifest, points string
		want             []framework.Point
		events           framework.Event
	}{
		{"", "", all, ^framework.Event(0)},
		{`{"kinds":["filter","bind"]}`, "", []framework.Point{framework.PointFilter, framework.PointBind}, ^framework.Event(0)},
		{`{"kinds":["admit"]}`, "", all, ^framework.Event(0)},
		{`{"kinds":["filter"]}`, "score, prefilter,nothing", []framework.Point{framework.PointPreFilter, framework.PointScore}, ^framework.Event(0)},
		{`{"schedule":{"events":["NodeAdd","AssignedPodDelete"]}}`, "", all, framework.NodeAdded | framework.PodRemoved | framework.PodOwn},
	} {
		g, err := f.start(f.load(build(tc.manifest, tc.points)), GuestConfig{Name: "p"})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, g.has); diff != "" || g.events != tc.events {
			t.Errorf("%s %s: %s, events %b", tc.manifest, tc.points, diff, g.events)
		}
		if got := g.at(&pluginsv1.SchedulerPlugin{}); slices.Contains(got, framework.PointBind) {
			t.Errorf("%s: called at %v without being told to", tc.manifest, got)
		}
		o := &pluginsv1.SchedulerPlugin{}
		o.Spec.Points = []pluginsv1.SchedulerPoint{pluginsv1.PointFilter, pluginsv1.PointPermit}
		if got := g.at(o); slices.Contains(got, framework.PointPermit) || slices.Contains(got, framework.PointScore) {
			t.Errorf("%s: called at %v", tc.manifest, got)
		}
		g.Close()
	}
}

// TestOtherMemories runs guests where the kernel gives no help, and guests whose
// instances are made anew for each pod.
func TestOtherMemories(t *testing.T) {
	hidden := func(name string, code ...[]byte) []byte {
		m := &Module{}
		guestModule(m, 1, oneReason)
		m.Func(name, two, one, i32s, code...)
		m.Table(0)
		m.Func("changes the table", nil, nil, nil, Const32(0), Op(0xd2), U(nil, 0), Op(0x26, 0)) // table.set 0 = ref.func 0
		return m.Bytes()
	}
	veto := each(1, If2(append(append(Get(3), load8...), Eqz32...),
		Get(3), Get(2), load(12), Const32(2), Op(0x76), Const32(1), Op(0x71), store8()))
	tamper := [][]byte{GlobalGet(tableGlobal), Const32(7), Const32(2 * abi.NodeStride), Fill, Const32(0)}
	for _, plain := range []bool{false, true} {
		f := newFixtureWith(t, engine.Config{PlainMemory: plain})
		f.plugin("a-tampers", hidden("proa_filter", tamper...))
		f.plugin("b-hidden", hidden("proa_filter", veto...))
		f.plugin("c-plain", noCordoned())
		var c cluster
		c.set("a", cordoned(true))
		c.set("b")
		for i := range 4 {
			if got, said := f.schedule(&c, newPod("p")); got.Node != "b" {
				t.Fatalf("plain %v, round %d: got %+v, %s", plain, i, got, said)
			}
			c.book("b", newPod("other"))
			c.set("c", cordoned(true))
		}
	}
}
