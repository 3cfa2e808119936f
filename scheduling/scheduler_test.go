package scheduling

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/scheduling/framework"
	"github.com/proa-project/proa/scheduling/queue"
)

// fast has short waits, for tests of what happens after a failure.
var fast = queue.Config{InitialBackoff: 10 * time.Millisecond, MaxBackoff: 50 * time.Millisecond}

func TestScheduler(t *testing.T) {
	transport := startAPI(t)
	rest := newREST(t, transport)
	create(t, rest, testNode("n1", "4", "10"))
	s := startScheduler(t, transport, Config{Queue: fast})
	create(t, rest, testPod("a", "1"))
	eventually(t, "a is bound", 10*time.Second, func() bool { return getPod(t, rest, "a").Spec.NodeName == "n1" })
	if got := scheduledCondition(getPod(t, rest, "a")); got != "True" {
		t.Errorf("condition: got %q", got)
	}
	eventually(t, "the event is there", 10*time.Second, func() bool {
		return slices.ContainsFunc(eventsOf(t, rest, "a"), func(e string) bool {
			return strings.HasPrefix(e, "Normal Scheduled default-scheduler") && strings.HasSuffix(e, ": Successfully assigned default/a to n1")
		})
	})

	// A pod that does not fit says why, and comes in when a pod goes.
	create(t, rest, testPod("big", "4"))
	want := "False Unschedulable 0/1 nodes are available: 1 Insufficient cpu."
	eventually(t, "big says why", 10*time.Second, func() bool { return scheduledCondition(getPod(t, rest, "big")) == want })
	eventually(t, "the event is there", 10*time.Second, func() bool {
		return slices.ContainsFunc(eventsOf(t, rest, "big"), func(e string) bool {
			return strings.HasPrefix(e, "Warning FailedScheduling") && strings.HasSuffix(e, ": 0/1 nodes are available: 1 Insufficient cpu.")
		})
	})
	if got := s.queue.Len(queue.Unschedulable); got != 1 {
		t.Errorf("unschedulable: got %d", got)
	}
	grace := int64(0)
	if err := client.For[*corev1.Pod](rest).Delete(t.Context(), "default", "a", metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "big is bound", 10*time.Second, func() bool { return getPod(t, rest, "big").Spec.NodeName == "n1" })
	if got := scheduledCondition(getPod(t, rest, "big")); got != "True" {
		t.Errorf("condition: got %q", got)
	}
	// Only the watch empties the cache of assumed pods.
	eventually(t, "all is confirmed", 10*time.Second, func() bool { _, _, assumed := s.cache.sizes(); return assumed == 0 })
}

func TestScheduler_waitsForChanges(t *testing.T) {
	transport := startAPI(t)
	rest := newREST(t, transport)
	s := startScheduler(t, transport, Config{Queue: fast})
	create(t, rest, testPod("a", "1"))
	eventually(t, "a says that there are no nodes", 10*time.Second, func() bool {
		return scheduledCondition(getPod(t, rest, "a")) == "False Unschedulable no nodes available to schedule pods"
	})
	node := testNode("n1", "4", "10")
	node.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
	node = create(t, rest, node)
	eventually(t, "a says that it does not tolerate", 10*time.Second, func() bool {
		return scheduledCondition(getPod(t, rest, "a")) == "False Unschedulable 0/1 nodes are available: 1 node(s) had untolerated taint(s)."
	})
	before := s.attempts(t, resultUnschedulable)

	// What cannot help does not lead to another attempt; what can does.
	node.Labels = map[string]string{"zone": "z"}
	node, err := client.For[*corev1.Node](rest).Update(t.Context(), node)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the scheduler has seen the label", 10*time.Second, func() bool {
		n, ok := s.nodes.Get("", "n1")
		return ok && n.Labels["zone"] == "z"
	})
	node.Spec.Taints = nil
	if _, err := client.For[*corev1.Node](rest).Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a is bound", 10*time.Second, func() bool { return getPod(t, rest, "a").Spec.NodeName == "n1" })
	if after := s.attempts(t, resultUnschedulable); after != before {
		t.Errorf("%v attempts failed, want %v: a label made the pod come again", after, before)
	}
}

// attempts returns how many attempts had a result.
func (p *process) attempts(t *testing.T, result string) float64 {
	t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(p.metrics.attempts)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			for _, l := range m.Label {
				if l.GetValue() == result {
					return m.Counter.GetValue()
				}
			}
		}
	}
	return 0
}

func TestScheduler_leavesAlone(t *testing.T) {
	transport := startAPI(t)
	rest := newREST(t, transport)
	create(t, rest, testNode("n1", "4", "10"))
	s := startScheduler(t, transport, Config{Queue: fast})
	foreign := testPod("foreign", "1")
	foreign.Spec.SchedulerName = "another"
	create(t, rest, foreign)
	held := testPod("held", "1")
	held.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
	create(t, rest, held)
	create(t, rest, testPod("last", "1"))
	eventually(t, "the last is bound", 10*time.Second, func() bool { return getPod(t, rest, "last").Spec.NodeName != "" })
	for _, name := range []string{"foreign", "held"} {
		if p := getPod(t, rest, name); p.Spec.NodeName != "" {
			t.Errorf("%s is bound to %q", name, p.Spec.NodeName)
		}
	}
	if got := s.queue.Len(queue.Gated); got != 1 {
		t.Errorf("gated: got %d, want 1", got)
	}
	_, err := client.For[*corev1.Pod](rest).Patch(t.Context(), "default", "held", types.MergePatchType, []byte(`{"spec":{"schedulingGates":[]}}`))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "held is bound", 10*time.Second, func() bool { return getPod(t, rest, "held").Spec.NodeName != "" })
}

// faulty lets a function answer requests for bindings in place of the API.
type faulty struct {
	http.RoundTripper
	bind func(next func() (*http.Response, error)) (*http.Response, error)
}

func (f *faulty) RoundTrip(r *http.Request) (*http.Response, error) {
	next := func() (*http.Response, error) { return f.RoundTripper.RoundTrip(r) }
	if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/binding") {
		return f.bind(next)
	}
	return next()
}

func TestScheduler_bindingFails(t *testing.T) {
	lost := errors.New("connection lost")
	tests := []struct {
		name string
		// bind is what happens to the n-th binding.
		bind func(n int32, next func() (*http.Response, error)) (*http.Response, error)
		want int32 // bindings until the pod is bound
	}{
		{"before the API", func(n int32, next func() (*http.Response, error)) (*http.Response, error) {
			if n <= 2 {
				return nil, lost
			}
			return next()
		}, 3},
		{"after the API has done it", func(_ int32, next func() (*http.Response, error)) (*http.Response, error) {
			resp, err := next()
			if err == nil {
				resp.Body.Close()
			}
			return nil, lost
		}, 1},
		{"the API is out of order", func(n int32, next func() (*http.Response, error)) (*http.Response, error) {
			if n == 1 {
				return &http.Response{StatusCode: http.StatusInternalServerError, Body: http.NoBody, Header: http.Header{}}, nil
			}
			return next()
		}, 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			transport := startAPI(t)
			rest := newREST(t, transport)
			create(t, rest, testNode("n1", "1", "10"))
			var count atomic.Int32
			f := &faulty{RoundTripper: transport}
			f.bind = func(next func() (*http.Response, error)) (*http.Response, error) {
				return test.bind(count.Add(1), next)
			}
			s := startScheduler(t, f, Config{Queue: fast})
			create(t, rest, testPod("a", "1"))
			eventually(t, "a is bound", 10*time.Second, func() bool { return getPod(t, rest, "a").Spec.NodeName == "n1" })
			eventually(t, "it is confirmed", 10*time.Second, func() bool { _, pods, assumed := s.cache.sizes(); return pods == 1 && assumed == 0 })
			if got := count.Load(); got != test.want {
				t.Errorf("got %d bindings, want %d", got, test.want)
			}
			if got := s.attempts(t, resultError); got != float64(test.want-1) {
				t.Errorf("%v attempts failed, want %d: a binding that was made is none", got, test.want-1)
			}
			eventually(t, "the queue is empty", 10*time.Second, func() bool { return s.queue.Place(getPod(t, rest, "a").UID) == queue.Gone })
		})
	}
}

// A pod that is deleted while it is being bound leaves nothing behind.
func TestScheduler_deletedWhileBinding(t *testing.T) {
	transport := startAPI(t)
	rest := newREST(t, transport)
	create(t, rest, testNode("n1", "1", "10"))
	f := &faulty{RoundTripper: transport}
	var once atomic.Bool
	f.bind = func(next func() (*http.Response, error)) (*http.Response, error) {
		if once.CompareAndSwap(false, true) {
			if err := client.For[*corev1.Pod](rest).Delete(context.Background(), "default", "a", metav1.DeleteOptions{}); err != nil {
				return nil, err
			}
		}
		return next()
	}
	s := startScheduler(t, f, Config{Queue: fast})
	create(t, rest, testPod("a", "1"))
	eventually(t, "the binding was tried", 10*time.Second, once.Load)
	create(t, rest, testPod("b", "1")) // needs a's place
	eventually(t, "b is bound", 10*time.Second, func() bool { return getPod(t, rest, "b").Spec.NodeName == "n1" })
	eventually(t, "only b is left", 10*time.Second, func() bool { _, pods, assumed := s.cache.sizes(); return pods == 1 && assumed == 0 })
}

// refusing is a plugin whose Reserve fails the first time, with a Permit and
// the points after it that write down what they see.
type refusing struct {
	calls    atomic.Int32
	released atomic.Int32
	bound    atomic.Int32
}

func (*refusing) Name() string { return "Refusing" }

func (r *refusing) Reserve(context.Context, *framework.PodInfo, string) error {
	if r.calls.Add(1) == 1 {
		return errors.New("not now")
	}
	return nil
}

func (r *refusing) Unreserve(context.Context, *framework.PodInfo, string) { r.released.Add(1) }

func (r *refusing) Permit(context.Context, *framework.PodInfo, string) error {
	if r.calls.Load() == 2 {
		return errors.New("not permitted")
	}
	return nil
}

func (*refusing) MaxWait() time.Duration { return time.Second }

func (r *refusing) PostBind(context.Context, *framework.PodInfo, string) { r.bound.Add(1) }

func TestScheduler_extensionPoints(t *testing.T) {
	transport := startAPI(t)
	rest := newREST(t, transport)
	create(t, rest, testNode("n1", "1", "10"))
	plugin := &refusing{}
	profile, err := framework.NewProfile(DefaultName, append(DefaultPlugins(), framework.Enabled{Plugin: plugin})...)
	if err != nil {
		t.Fatal(err)
	}
	startScheduler(t, transport, Config{Queue: fast, Profiles: []*framework.Profile{profile}})
	create(t, rest, testPod("a", "1"))
	eventually(t, "a is bound", 10*time.Second, func() bool { return getPod(t, rest, "a").Spec.NodeName == "n1" })
	eventually(t, "PostBind was called", 10*time.Second, func() bool { return plugin.bound.Load() == 1 })
	if calls, released := plugin.calls.Load(), plugin.released.Load(); calls != 3 || released != 2 {
		t.Errorf("got %d reservations, %d releases; want 3 and 2", calls, released)
	}
}

func TestScheduler_explain(t *testing.T) {
	transport := startAPI(t)
	rest := newREST(t, transport)
	create(t, rest, testNode("n1", "1", "10"))
	create(t, rest, testNode("n2", "4", "10"))
	s := startScheduler(t, transport, Config{Queue: fast})
	create(t, rest, testPod("a", "2"))
	eventually(t, "a is bound", 10*time.Second, func() bool { return getPod(t, rest, "a").Spec.NodeName == "n2" })
	e, ok, err := s.Explain("default", "a")
	if err != nil || !ok {
		t.Fatalf("got %v, %v", ok, err)
	}
	rows := map[string]framework.NodeExplanation{}
	for _, n := range e.Nodes {
		rows[n.Node] = n
	}
	if v := rows["n1"].Vetoes; len(v) != 1 || v[0].Plugin != "NodeResourcesFit" {
		t.Errorf("n1: got vetoes %v", v)
	}
	// The pod's own requests do not count against it.
	if n2 := rows["n2"]; len(n2.Vetoes) != 0 || n2.Scores[0].Plugin != "NodeResourcesFit" || n2.Scores[0].Raw != (50+99)/2 {
		t.Errorf("n2: got %+v", n2)
	}
	if _, ok, _ := s.Explain("default", "nobody"); ok {
		t.Error("a pod that is not there is explained")
	}
}

func TestStatusPatch(t *testing.T) {
	then, now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	pod := &corev1.Pod{}
	pod.UID = "u"
	patch := statusPatch(pod, "Unschedulable", "why", "", then)
	if err := json.Unmarshal(patch, pod); err != nil {
		t.Fatal(err)
	}
	if got := scheduledCondition(pod); got != "False Unschedulable why" {
		t.Errorf("got %q", got)
	}
	if patch := statusPatch(pod, "Unschedulable", "why", "", now); patch != nil {
		t.Errorf("nothing has changed, got %s", patch)
	}
	if err := json.Unmarshal(statusPatch(pod, "Unschedulable", "why else", "n1", now), pod); err != nil {
		t.Fatal(err)
	}
	if c := pod.Status.Conditions[0]; !c.LastTransitionTime.Time.Equal(then) || c.Message != "why else" || pod.Status.NominatedNodeName != "n1" {
		t.Errorf("got %+v, nominated %q", c, pod.Status.NominatedNodeName)
	}
}
