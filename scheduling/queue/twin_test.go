package queue

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/proa-project/proa/scheduling/framework"
)

// bubble hides the deadline, which must not be asked for in fake time.
type bubble struct{ testing.TB }

// The queue against a twin that keeps a plain list and looks through all of it.
func TestQueue_twin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(bubble{t}, func(t *rapid.T) {
			q := New(config())
			w := &twin{pods: map[string]*twinPod{}}
			flying := map[string]*Entry{}
			for range rapid.IntRange(1, 80).Draw(t, "steps") {
				name := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "pod")
				plugin := rapid.SampledFrom([]string{"X", "Y"}).Draw(t, "plugin")
				switch op := rapid.SampledFrom([]string{"set", "gate", "delete", "pop", "done", "reject", "retry", "move", "sleep"}).Draw(t, "op"); op {
				case "set", "gate":
					p := pod(name, rapid.Int32Range(0, 2).Draw(t, "priority"))
					p.Pod.Labels = map[string]string{"v": rapid.SampledFrom([]string{"1", "2"}).Draw(t, "label")}
					if op == "gate" {
						p.Pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}}
					}
					q.Set(p)
					w.set(p)
				case "delete":
					q.Delete(types.UID(name))
					w.delete(name)
				case "pop":
					e, _ := q.TryPop()
					got := ""
					if e != nil {
						got = e.Pod.Pod.Name
						flying[got] = e
					}
					w.follow(q)
					if want := w.pop(got); got != want {
						t.Fatalf("popped %q, want %q", got, want)
					}
				case "done", "reject", "retry":
					e := flying[name]
					if e == nil {
						continue
					}
					delete(flying, name)
					switch op {
					case "done":
						q.Done(e)
					case "reject":
						q.Reject(e, []string{plugin})
					case "retry":
						q.Retry(e, nil)
					}
					w.end(name, op, plugin)
				case "move":
					q.Move(change(plugin))
					w.move(plugin)
				case "sleep":
					advance(time.Duration(rapid.IntRange(1, 400).Draw(t, "seconds")) * time.Second / 2)
				}
				w.check(t, q)
			}
		})
	})
}

type twinPod struct {
	pod              *framework.PodInfo
	place            Place
	attempts, serial int
	since, until     time.Time
	by               string
	helped           map[string]bool // by changes while in flight
	changed, deleted bool
}

type twin struct {
	pods   map[string]*twinPod
	serial int
}

func (w *twin) activate(p *twinPod) {
	w.serial++
	w.activateWith(p)
}

// activateWith activates a pod in one go with the last: nobody says which of
// them comes first.
func (w *twin) activateWith(p *twinPod) {
	if p.place != Active {
		p.place, p.serial = Active, w.serial
	}
}

func (w *twin) requeue(p *twinPod) {
	if len(p.pod.Pod.Spec.SchedulingGates) > 0 {
		p.place = Gated
		return
	}
	wait := min(time.Second<<max(min(p.attempts-1, 10), 0), 10*time.Second)
	p.until = p.since.Add(wait)
	if p.until.After(time.Now()) {
		p.place = Backoff
	} else {
		w.activate(p)
	}
}

func (w *twin) set(info *framework.PodInfo) {
	p := w.pods[info.Pod.Name]
	if p == nil {
		p = &twinPod{}
		w.pods[info.Pod.Name] = p
	}
	var old *framework.PodInfo
	old, p.pod = p.pod, info
	differs := old != nil && (old.Priority != info.Priority || old.Pod.Labels["v"] != info.Pod.Labels["v"] ||
		len(old.Pod.Spec.SchedulingGates) != len(info.Pod.Spec.SchedulingGates))
	switch p.place {
	case Gone, Gated:
		if len(info.Pod.Spec.SchedulingGates) > 0 {
			p.place = Gated
			return
		}
		p.since = time.Now()
		w.activate(p)
	case InFlight:
		p.changed = p.changed || differs
	case Unschedulable:
		if differs {
			w.requeue(p)
		}
	default:
	}
}

func (w *twin) delete(name string) {
	if p := w.pods[name]; p != nil {
		if p.place == InFlight {
			p.deleted = true
		} else {
			delete(w.pods, name)
		}
	}
}

// pop takes the pod that comes first. Of several that do, it takes the named
// one.
func (w *twin) pop(name string) string {
	var due []*twinPod
	for _, p := range w.pods {
		if p.place == Backoff && !p.until.After(time.Now()) {
			due = append(due, p)
		}
	}
	slices.SortFunc(due, func(a, b *twinPod) int { return a.until.Compare(b.until) })
	var last time.Time
	for _, p := range due {
		if !p.until.Equal(last) {
			w.serial++
		}
		last = p.until
		w.activateWith(p)
	}
	var best *twinPod
	for _, p := range w.pods {
		if p.place != Active {
			continue
		}
		if best == nil || p.before(best) || p.pod.Pod.Name == name && !best.before(p) {
			best = p
		}
	}
	if best == nil {
		return ""
	}
	best.place = InFlight
	best.attempts++
	best.helped, best.changed, best.deleted = map[string]bool{}, false, false
	return best.pod.Pod.Name
}

func (p *twinPod) before(o *twinPod) bool {
	if p.pod.Priority != o.pod.Priority {
		return p.pod.Priority > o.pod.Priority
	}
	if !p.since.Equal(o.since) {
		return p.since.Before(o.since)
	}
	return p.serial < o.serial
}

func (w *twin) end(name, op, plugin string) {
	p := w.pods[name]
	if op == "done" || p.deleted {
		delete(w.pods, name)
		return
	}
	p.since = time.Now()
	p.by = plugin
	if op == "retry" || p.helped[plugin] || p.changed {
		w.requeue(p)
		return
	}
	p.place = Unschedulable
}

func (w *twin) move(plugin string) {
	for _, p := range w.pods {
		if p.place == InFlight {
			p.helped[plugin] = true
		}
		if p.place == Unschedulable && p.by == plugin {
			w.requeue(p)
		}
	}
}

// follow does what the queue did with pods that were unschedulable for five
// minutes: when it looks for them is its own affair.
func (w *twin) follow(q *Queue) {
	w.serial++
	for name, e := range q.entries {
		p := w.pods[string(name)]
		if p == nil || p.place != Unschedulable || e.place == Unschedulable || time.Since(p.since) < 5*time.Minute {
			continue
		}
		if len(p.pod.Pod.Spec.SchedulingGates) > 0 {
			p.place = Gated
		} else {
			w.activateWith(p)
		}
	}
}

// check compares the places. Old unschedulable pods and the ends of back-offs
// are only seen when something is popped, so those may differ in time.
func (w *twin) check(t *rapid.T, q *Queue) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.follow(q)
	counts := map[Place]int{}
	for name, e := range q.entries {
		p := w.pods[string(name)]
		if p == nil {
			t.Fatalf("pod %q is %v, want gone", name, e.place)
		}
		if e.place != p.place {
			t.Fatalf("pod %q is %v, want %v", name, e.place, p.place)
		}
		if e.Attempts != p.attempts {
			t.Fatalf("pod %q: %d attempts, want %d", name, e.Attempts, p.attempts)
		}
		counts[e.place]++
	}
	if len(q.entries) != len(w.pods) {
		t.Fatalf("got %d pods, want %d", len(q.entries), len(w.pods))
	}
	for p := Active; p < places; p++ {
		if q.counts[p] != counts[p] {
			t.Fatalf("count of %v is %d, want %d", p, q.counts[p], counts[p])
		}
	}
	if len(q.inFlight) == 0 && len(q.changes) > 0 {
		t.Fatal("changes are kept for nobody")
	}
}
