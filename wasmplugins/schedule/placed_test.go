package schedule

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/scheduling/framework"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/wasmtest"
)

func annotated(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{key: value} }
}

// said collects a guest's log.
type said struct {
	mu    sync.Mutex
	lines []string
}

func (s *said) log(_ engine.Level, line []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, string(line))
}

func (s *said) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.lines = nil }()
	return strings.Join(s.lines, "; ")
}

// TestEveryPoint has a Go guest serve all of them.
func TestEveryPoint(t *testing.T) {
	f := newFixture(t)
	var log said
	all := []pluginsv1.SchedulerPoint{
		pluginsv1.PointPreFilter, pluginsv1.PointFilter, pluginsv1.PointPostFilter, pluginsv1.PointPreScore, pluginsv1.PointScore,
		pluginsv1.PointReserve, pluginsv1.PointPermit, pluginsv1.PointPreBind, pluginsv1.PointBind, pluginsv1.PointPostBind,
	}
	r := f.plugin("placed", wasmtest.BuildGo(t, "testdata/placed"), func(p *pluginsv1.SchedulerPlugin, c *GuestConfig) {
		p.Spec.Points = all
		c.Log = log.log
	})
	status := r.Object().DeepCopy()
	g, _ := r.Running()
	Amend(status, g)
	if len(status.Status.Points) != len(all) {
		t.Errorf("status has the points %v", status.Status.Points)
	}
	status.Spec.Points = nil
	Amend(status, g)
	if len(status.Status.Points) != len(all)-1 { // without Bind
		t.Errorf("status has the points %v", status.Status.Points)
	}

	var c cluster
	yes := label("example.test/yes", "")
	gpus := func(n string) func(*corev1.Node) {
		return func(node *corev1.Node) { node.Status.Allocatable["example.test/gpu"] = resource.MustParse(n) }
	}
	c.set("a", yes, gpus("1"))
	c.set("b", yes, gpus("4"))
	c.set("c")
	c.set("d", yes, func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "good", Effect: corev1.TaintEffectNoExecute}, {Key: "bad", Effect: corev1.TaintEffectNoExecute}}
	})
	for _, tc := range []struct {
		change func(*corev1.Pod)
		want   string // node, or message
	}{
		{annotated("x", "y"), "b"},
		{annotated("prepare", "reverse"), "a"},
		{annotated("prepare", "scale"), "b"},
		{annotated("prepare", "nodes:a,c,nowhere"), "a"},
		{annotated("prepare", "nodes:c"), "0/4 nodes are available: 1 node(s) had no example.test/yes, 3 node(s) didn't satisfy plugin(s) [placed]."},
		{annotated("prepare", "reject"), "0/4 nodes are available: rejected by default-scheduler."},
	} {
		pod := newPod("p", tc.change)
		got, message := f.schedule(&c, pod)
		if message == "scheduled" {
			message = got.Node
		}
		if message != tc.want {
			t.Errorf("%v: got %s, want %s", pod.Pod.Annotations, message, tc.want)
		}
	}
	e, err := framework.Explain(&c.Snapshot, newPod("p", annotated("prepare", "scale")), f.profile())
	if err != nil || e.Nodes[0].Scores[0].Raw != 1 || e.Nodes[0].Scores[0].Score != 25 {
		t.Errorf("explained as %+v, %v", e, err)
	}
	// A filter that is skipped, and a score that PreScore leaves out.
	if r, said := f.schedule(&c, newPod("p", annotated("prepare", "skip"))); r.Feasible != 4 {
		t.Errorf("got %+v, %s", r, said)
	}
	c.set("no-score", yes)
	if e, err = framework.Explain(&c.Snapshot, newPod("p"), f.profile()); err != nil || len(e.Nodes[0].Scores) != 0 {
		t.Errorf("explained as %+v, %v", e, err)
	}
	c.remove("no-score")

	t.Run("PostFilter", func(t *testing.T) {
		c.set("a")
		c.set("b")
		p := f.profile()
		for annotation, want := range map[string]string{
			"":       "a 0/4 nodes are available: 1 node(s) were tainted, 3 node(s) had no example.test/yes. help is on its way.",
			"reject": " 0/4 nodes are available: rejected by default-scheduler. no help for p.",
		} {
			pod := newPod("p", annotated("prepare", annotation))
			_, d, err := framework.Schedule(&c.Snapshot, pod, p, nil)
			if err != nil {
				t.Fatal(err)
			}
			node, err := framework.PostFilter(&c.Snapshot, pod, p, d)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, node+" "+d.Message()); diff != "" {
				t.Error(diff)
			}
		}
	})

	p := f.profile()
	ctx := context.Background()
	log.take()
	calls := map[string]func(pod *framework.PodInfo) error{
		"reserve": func(pod *framework.PodInfo) error { return p.Reserve[0].Reserve(ctx, pod, "n") },
		"permit":  func(pod *framework.PodInfo) error { return p.Permit[0].Permit(ctx, pod, "n") },
		"prebind": func(pod *framework.PodInfo) error { return p.PreBind[0].PreBind(ctx, pod, "n") },
		"bind":    func(pod *framework.PodInfo) error { _, err := p.Bind[0].Bind(ctx, pod, "n"); return err },
	}
	for point, call := range calls {
		if err := call(newPod("p")); err != nil || log.take() != point+" n" {
			t.Errorf("%s: %v", point, err)
		}
		if err := call(newPod("p", annotated(point, "refuse"))); err == nil || !strings.HasSuffix(err.Error(), point+" refuses n") {
			t.Errorf("%s refuses: %v", point, err)
		}
		if err := call(newPod("p", annotated(point, "trap"))); engine.ReasonOf(err) != engine.Trapped || !strings.Contains(err.Error(), "panic: "+point) {
			t.Errorf("%s traps: %v", point, err)
		}
		log.take()
	}
	if done, err := p.Bind[0].Bind(ctx, newPod("p", annotated("bind", "done")), "n"); !done || err != nil {
		t.Errorf("bind: %v, %v", done, err)
	}
	if done, err := p.Bind[0].Bind(ctx, newPod("p"), "n"); done || err != nil {
		t.Errorf("bind: %v, %v", done, err)
	}
	log.take()
	p.Reserve[0].Unreserve(ctx, newPod("p"), "n")
	p.PostBind[0].PostBind(ctx, newPod("p"), "n")
	p.PostBind[0].PostBind(ctx, newPod("p", annotated("postbind", "trap")), "n") // is only counted
	if got := log.take(); !strings.HasPrefix(got, "unreserve n; postbind n") {
		t.Errorf("said %s", got)
	}
	// A pod that waits is asked about again, for as long as the guest wants.
	if err := p.Permit[0].Permit(ctx, newPod("p", annotated("permit", "wait")), "n"); err == nil || err.Error() != "not permitted in time: permit waits" {
		t.Errorf("permit: %v", err)
	}
	stop, cancel := context.WithCancel(ctx)
	cancel()
	if err := p.Permit[0].Permit(stop, newPod("p", annotated("permit", "wait")), "n"); err == nil {
		t.Error("a wait goes on after the end")
	}
}

// TestFailurePolicy_placed leaves a guest out that fails.
func TestFailurePolicy_placed(t *testing.T) {
	f := newFixture(t)
	m := &wasmtest.Module{}
	guestModule(m, 1, "")
	m.Func("proa_reserve", two, []byte{wasmtest.I64}, nil, wasmtest.Unreachable)
	m.Func("proa_postfilter", two, []byte{wasmtest.I64}, nil, wasmtest.Unreachable)
	r := f.plugin("p", m.Bytes())
	p := f.profile()
	ctx := context.Background()
	if err := p.Reserve[0].Reserve(ctx, newPod("p"), "n"); err == nil || err.Error() != "Trapped: proa_reserve: unreachable" {
		t.Errorf("got %v", err)
	}
	r.obj.Store(func() *pluginsv1.SchedulerPlugin {
		o := r.Object().DeepCopy()
		o.Spec.FailurePolicy = ignore
		return o
	}())
	if err := p.Reserve[0].Reserve(ctx, newPod("p"), "n"); err != nil {
		t.Errorf("got %v", err)
	}
	var c cluster
	c.set("a")
	if node, err := framework.PostFilter(&c.Snapshot, newPod("p"), p, &framework.Diagnosis{}); err != nil || node != "" {
		t.Errorf("got %q, %v", node, err)
	}
	if r.fails.Load() != 3 {
		t.Errorf("%d failures were counted", r.fails.Load())
	}
}
