package queue

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/scheduling/framework"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func pod(name string, priority int32) *framework.PodInfo {
	return framework.NewPodInfo(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Spec:       corev1.PodSpec{Priority: &priority},
	})
}

func labelled(name, value string) *framework.PodInfo {
	p := pod(name, 0)
	p.Pod.Labels = map[string]string{"v": value}
	return p
}

func gated(name string, gates ...string) *framework.PodInfo {
	p := pod(name, 0)
	for _, g := range gates {
		p.Pod.Spec.SchedulingGates = append(p.Pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: g})
	}
	return p
}

// config is a queue with gates, in which a change helps the pods that were
// rejected by the plugin that the change's node is named after.
func config() Config {
	return Config{
		Admit: func(p *corev1.Pod) (*framework.Rejection, string) {
			if len(p.Spec.SchedulingGates) > 0 {
				return &framework.Rejection{}, "Gates"
			}
			return nil, ""
		},
		Helps: func(_ *framework.PodInfo, by []string, c framework.Change) bool {
			return slices.Contains(by, c.Node.Name)
		},
	}
}

func change(plugin string) framework.Change {
	return framework.Change{Event: framework.NodeAdded, Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: plugin}}}
}

func next(t *testing.T, q *Queue) *Entry {
	t.Helper()
	e, wait := q.TryPop()
	if e == nil {
		t.Fatalf("nothing is due; wait %v", wait)
	}
	return e
}

func none(t *testing.T, q *Queue) {
	t.Helper()
	if e, _ := q.TryPop(); e != nil {
		t.Fatalf("pod %q is due", e.Pod.Pod.Name)
	}
}

// advance lets fake time go by.
func advance(d time.Duration) { <-time.After(d) }

func place(t *testing.T, q *Queue, name string, want Place) {
	t.Helper()
	if got := q.Place(types.UID(name)); got != want {
		t.Fatalf("pod %q is %v, want %v", name, got, want)
	}
}

func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(config())
		for i, p := range []*framework.PodInfo{pod("low", 0), pod("high", 10), pod("low2", 0), pod("high2", 10), pod("lowest", -1)} {
			if i == 2 {
				advance(time.Second)
			}
			q.Set(p)
		}
		var got []string
		for range 5 {
			e := next(t, q)
			got = append(got, e.Pod.Pod.Name)
			q.Done(e)
		}
		if diff := cmp.Diff([]string{"high", "high2", "low", "low2", "lowest"}, got); diff != "" {
			t.Error(diff)
		}
		// An update may change the order.
		q.Set(pod("a", 0))
		q.Set(pod("b", 0))
		q.Set(pod("b", 5))
		if e := next(t, q); e.Pod.Pod.Name != "b" {
			t.Errorf("got %q first, want b", e.Pod.Pod.Name)
		}
	})
}

// The waits after failures are 1, 2, 4, 8, 10 and 10 seconds.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(config())
		q.Set(pod("a", 0))
		e := next(t, q)
		for i, seconds := range []int{1, 2, 4, 8, 10, 10} {
			want := time.Duration(seconds) * time.Second
			start := time.Now()
			q.Retry(e, nil)
			place(t, q, "a", Backoff)
			var err error
			if e, err = q.Pop(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := time.Since(start); got != want {
				t.Errorf("after attempt %d: waited %v, want %v", i+1, got, want)
			}
			if e.Attempts != i+2 {
				t.Errorf("attempts: got %d, want %d", e.Attempts, i+2)
			}
		}
	})
}

func TestUnschedulable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(config())
		q.Set(pod("a", 0))
		q.Reject(next(t, q), []string{"Fit", "Taints"})
		place(t, q, "a", Unschedulable)

		q.Move(change("Affinity"))
		place(t, q, "a", Unschedulable)
		q.Move(change("Fit"))
		place(t, q, "a", Backoff) // it was rejected just now
		none(t, q)
		advance(time.Second)
		q.Reject(next(t, q), []string{"Fit"})
		advance(5 * time.Second)
		q.Move(change("Fit"))
		place(t, q, "a", Active) // its back-off is over

		// Without any change it comes again after five minutes.
		q.Reject(next(t, q), []string{"Fit"})
		start := time.Now()
		e, err := q.Pop(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := time.Since(start); got < 5*time.Minute || got > 5*time.Minute+flushEvery {
			t.Errorf("came again after %v", got)
		}
		q.Done(e)
		place(t, q, "a", Gone)
	})
}

// A change that comes while a pod is in flight is not lost.
func TestInFlight(t *testing.T) {
	tests := []struct {
		name string
		do   func(q *Queue)
		want Place
	}{
		{"nothing happens", func(*Queue) {}, Unschedulable},
		{"a change that helps", func(q *Queue) { q.Move(change("Fit")) }, Backoff},
		{"a change that does not", func(q *Queue) { q.Move(change("Affinity")) }, Unschedulable},
		{"the pod is updated", func(q *Queue) { q.Set(labelled("a", "new")) }, Backoff},
		{"only its status is", func(q *Queue) { q.Set(labelled("a", "old")) }, Unschedulable},
		{"it is deleted", func(q *Queue) { q.Delete("a") }, Gone},
		{"it is gated", func(q *Queue) { q.Set(gated("a", "g")) }, Gated},
		{"another pod's flight ends", func(q *Queue) {
			q.Set(pod("b", 0))
			e, _ := q.TryPop()
			q.Move(change("Fit"))
			q.Done(e)
		}, Backoff},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			q := New(config())
			q.Set(labelled("a", "old"))
			q.Set(pod("early", 100))
			early := next(t, q)
			q.Move(change("Fit")) // before a's flight: a will see it
			e := next(t, q)
			q.Done(early)
			test.do(q)
			q.Reject(e, []string{"Fit"})
			place(t, q, "a", test.want)
			if len(q.changes) != 0 {
				t.Errorf("%d changes are kept for nobody", len(q.changes))
			}
		})
	}
}

func TestUpdates(t *testing.T) {
	q := New(config())
	q.Set(labelled("a", "1"))
	q.Set(labelled("a", "2"))
	e := next(t, q)
	if got := e.Pod.Pod.Labels["v"]; got != "2" {
		t.Errorf("active: got version %q", got)
	}
	q.Set(labelled("a", "3"))
	q.Retry(e, nil)
	q.Set(labelled("a", "4"))
	place(t, q, "a", Backoff)
	if got := q.entries["a"].Pod.Pod.Labels["v"]; got != "4" {
		t.Errorf("back-off: got version %q", got)
	}
	q.Delete("a")
	place(t, q, "a", Gone)
	q.Delete("a")

	q.Set(labelled("b", "1"))
	q.Reject(next(t, q), []string{"Fit"})
	q.Set(labelled("b", "1"))
	place(t, q, "b", Unschedulable)
	q.Set(labelled("b", "2"))
	place(t, q, "b", Backoff)
	q.Delete("b")
	none(t, q)
}

func TestGates(t *testing.T) {
	q := New(config())
	q.Set(gated("a", "x", "y"))
	place(t, q, "a", Gated)
	q.Move(change("Gates"))
	q.Set(gated("a", "y"))
	place(t, q, "a", Gated)
	none(t, q)
	q.Set(gated("a"))
	place(t, q, "a", Active)
	q.Set(gated("b", "x"))
	q.Delete("b")
	place(t, q, "b", Gone)
	if got := q.Len(Gated); got != 0 {
		t.Errorf("gated: got %d", got)
	}
}

// A pod whose binding failed comes back, once, with its attempts.
func TestRetry_afterDone(t *testing.T) {
	q := New(config())
	q.Set(pod("a", 0))
	e := next(t, q)
	q.Done(e)
	place(t, q, "a", Gone)
	q.Retry(e, labelled("a", "new"))
	place(t, q, "a", Backoff)
	if got := q.entries["a"]; got.Attempts != 1 || got.Pod.Pod.Labels["v"] != "new" {
		t.Errorf("got %+v", got)
	}
	q.Delete("a")

	q.Set(pod("b", 0))
	e = next(t, q)
	q.Done(e)
	q.Set(pod("b", 0)) // an update came first
	q.Retry(e, pod("b", 0))
	place(t, q, "b", Active)
	if got := next(t, q).Attempts; got != 2 {
		t.Errorf("attempts: got %d, want 2", got)
	}
}

func TestNominated(t *testing.T) {
	q := New(config())
	a := pod("a", 0)
	q.Nominate(a, "n") // not in the queue
	if got := q.Nominated("n"); len(got) != 0 {
		t.Errorf("got %v", got)
	}
	q.Set(a)
	e := next(t, q)
	q.Nominate(a, "n")
	q.Nominate(a, "m")
	if len(q.Nominated("n")) != 0 || len(q.Nominated("m")) != 1 {
		t.Errorf("got %v and %v", q.Nominated("n"), q.Nominated("m"))
	}
	q.Done(e)
	if got := q.Nominated("m"); len(got) != 0 {
		t.Errorf("after Done: got %v", got)
	}
}

func TestPop_waits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(config())
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan string)
		go func() {
			defer close(got)
			for {
				e, err := q.Pop(ctx)
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						got <- err.Error()
					}
					return
				}
				got <- e.Pod.Pod.Name
				q.Done(e)
			}
		}()
		synctest.Wait()
		for _, name := range []string{"a", "b"} {
			q.Set(pod(name, 0))
			if n := <-got; n != name {
				t.Errorf("got %q, want %q", n, name)
			}
		}
		cancel()
		if s, ok := <-got; ok {
			t.Errorf("after the end: got %q", s)
		}
	})
}
