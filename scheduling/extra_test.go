package scheduling

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/scheduling/framework"
	"github.com/proa-project/proa/scheduling/queue"
)

// extras is an Extra whose plugins a test sets.
type extras struct {
	mu      sync.Mutex
	list    []framework.Extra
	changed map[int]func()
	next    int
}

func (x *extras) WaitSynced(context.Context) error { return nil }

func (x *extras) Plugins() []framework.Extra {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.list
}

func (x *extras) Subscribe(f func()) func() {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := x.next
	x.next++
	if x.changed == nil {
		x.changed = map[int]func(){}
	}
	x.changed[n] = f
	return func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.changed, n)
	}
}

func (x *extras) set(list ...framework.Extra) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.list = list
	for _, f := range x.changed {
		f()
	}
}

// only is a filter that lets one node pass, and can be made to serve no point.
type only struct {
	name, node string
	serves     bool
}

func (o *only) Name() string                  { return o.name }
func (o *only) Serves(p framework.Point) bool { return o.serves && p == framework.PointFilter }
func (o *only) Filter(c *framework.Cycle, nodes []int32, v *framework.Verdicts) error {
	for _, i := range nodes {
		if c.Snapshot.Name(i) != o.node {
			v.Codes[i] = v.Code(framework.Rejection{Reasons: []string{"node(s) were not " + o.node}})
		}
	}
	return nil
}

func extra(p framework.Plugin, schedulers ...string) framework.Extra {
	return framework.Extra{Enabled: framework.Enabled{Plugin: p}, Schedulers: schedulers}
}

func TestMakeProfiles(t *testing.T) {
	s := &Scheduler{cfg: Config{Profiles: []*framework.Profile{DefaultProfile()}}}
	none := s.makeProfiles(nil, nil)
	if len(none.byName) != 1 || none.byName[DefaultName] != s.cfg.Profiles[0] {
		t.Errorf("got %v", none.byName)
	}
	if none.interest == ^framework.Event(0) {
		t.Error("the default profile wants to see everything")
	}
	a, b := &only{"a", "n", true}, &only{"b", "n", true}
	with := s.makeProfiles([]framework.Extra{extra(a, DefaultName, "mine"), extra(b, "mine")}, none)
	if len(with.byName) != 2 || with.byName["mine"] == nil || with.byName["mine"].Name != "mine" || with.byName[DefaultName] == s.cfg.Profiles[0] {
		t.Errorf("got %v", with.byName)
	}
	if with.interest != ^framework.Event(0) {
		t.Error("a plugin that does not say what may help must see everything")
	}
	again := s.makeProfiles([]framework.Extra{extra(a, DefaultName, "mine")}, with)
	if again.byName[DefaultName] != with.byName[DefaultName] || again.byName["mine"] == with.byName["mine"] {
		t.Error("a profile with the same plugins was made again, or another was not")
	}
	// One that cannot be added leaves the others.
	twice := s.makeProfiles([]framework.Extra{extra(a, DefaultName), extra(&only{"a", "x", true}, DefaultName), extra(b, DefaultName)}, nil)
	if p := s.makeProfiles([]framework.Extra{extra(a, DefaultName), extra(b, DefaultName)}, nil).byName[DefaultName]; !p.Same(twice.byName[DefaultName]) {
		t.Error("the others are not there")
	}
}

// world is an API server with nodes and a scheduler with extra plugins.
type world struct {
	testing.TB
	rest  *client.REST
	sched *process
	extra *extras
}

func newWorld(t testing.TB, nodes ...string) *world {
	t.Helper()
	transport := startAPI(t)
	w := &world{TB: t, rest: newREST(t, transport), extra: &extras{}}
	for _, n := range nodes {
		create(t, w.rest, testNode(n, "1000", "1000"))
	}
	w.sched = startScheduler(t, transport, Config{Extra: w.extra, Queue: queue.Config{InitialBackoff: 10 * time.Millisecond}})
	return w
}

func (w *world) pod(name, scheduler string) {
	w.Helper()
	p := testPod(name, "1m")
	p.Spec.SchedulerName = scheduler
	create(w.TB, w.rest, p)
}

// bound waits until the pod is, and returns its node.
func (w *world) bound(name string) string {
	w.Helper()
	eventually(w.TB, "pod "+name+" is bound", 20*time.Second, func() bool { return getPod(w.TB, w.rest, name).Spec.NodeName != "" })
	return getPod(w.TB, w.rest, name).Spec.NodeName
}

func (w *world) profile(name string) *framework.Profile { return w.sched.profiles.Load().byName[name] }

// replace sets the plugins and waits until the profile is another.
func (w *world) replace(profile string, list ...framework.Extra) {
	w.Helper()
	before := w.profile(profile)
	w.extra.set(list...)
	eventually(w.TB, "profile "+profile+" changes", 10*time.Second, func() bool { return w.profile(profile) != before })
}

// TestExtra_comesAndGoes adds plugins while the scheduler runs, and takes them
// away again.
func TestExtra_comesAndGoes(t *testing.T) {
	w := newWorld(t, "a", "b")
	w.pod("plain", DefaultName)
	w.bound("plain")

	w.replace(DefaultName, extra(&only{"only-b", "b", true}, DefaultName))
	for i := range 4 {
		name := fmt.Sprintf("b%d", i)
		w.pod(name, DefaultName)
		if got := w.bound(name); got != "b" {
			t.Errorf("pod %s is on %q", name, got)
		}
	}
	// What one plugin refuses is tried again when it is replaced.
	w.replace(DefaultName, extra(&only{"only-x", "x", true}, DefaultName))
	w.pod("waits", DefaultName)
	eventually(t, "pod waits is unschedulable", 10*time.Second, func() bool {
		return strings.Contains(scheduledCondition(getPod(t, w.rest, "waits")), "0/2 nodes are available: 2 node(s) were not x.")
	})
	e, _, err := w.sched.Explain("default", "waits")
	if err != nil || len(e.Nodes) != 2 || len(e.Nodes[0].Vetoes) != 1 || e.Nodes[0].Vetoes[0].Plugin != "only-x" {
		t.Errorf("explained as %+v, %v", e, err)
	}
	w.replace(DefaultName, extra(&only{"only-x", "x", false}, DefaultName)) // serves nothing
	w.bound("waits")

	// A name that there is no profile for makes one, and takes up its pods.
	w.pod("early", "mine")
	w.replace("mine", extra(&only{"only-a", "a", true}, "mine"))
	if got := w.bound("early"); got != "a" {
		t.Errorf("pod early is on %q", got)
	}
	w.replace("mine")
	w.pod("late", "mine")
	w.pod("after", DefaultName)
	w.bound("after")
	if pod := getPod(t, w.rest, "late"); pod.Spec.NodeName != "" || scheduledCondition(pod) != "" {
		t.Errorf("pod of a profile that is gone was looked at: %+v", pod.Status)
	}
}

// TestExtra_hammer replaces plugins while pods are scheduled: each pod is bound,
// by one state of the profiles or another.
func TestExtra_hammer(t *testing.T) {
	w := newWorld(t, "a", "b", "c")
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			var list []framework.Extra
			for k := range i % 3 {
				list = append(list, extra(&only{fmt.Sprintf("p%d", k), string(rune('a' + i%3)), k > 0}, DefaultName, "other"))
			}
			slices.Reverse(list)
			w.extra.set(list...)
		}
	}()
	for i := range 200 {
		w.pod(fmt.Sprintf("p%d", i), []string{DefaultName, "other"}[i%2])
	}
	for i := range 200 {
		w.bound(fmt.Sprintf("p%d", i))
	}
	close(stop)
	<-done
}
