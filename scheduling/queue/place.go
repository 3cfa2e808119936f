package queue

import (
	"container/heap"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// admit puts a pod that is new, or was gated, where it belongs.
func (q *Queue) admit(e *Entry, event string) {
	if r, plugin := q.cfg.Admit(e.Pod.Pod); r != nil {
		e.RejectedBy = []string{plugin}
		if e.place != Gated {
			q.place(e, Gated, event)
		}
		return
	}
	e.RejectedBy = nil
	e.since = time.Now()
	q.place(e, Active, event)
}

// requeue puts a pod that failed into back-off, or into the active queue if its
// back-off is over.
func (q *Queue) requeue(e *Entry, event string) {
	if r, _ := q.cfg.Admit(e.Pod.Pod); r != nil {
		q.place(e, Gated, event)
		return
	}
	e.until = e.since.Add(q.backoffOf(e.Attempts))
	if now := time.Now(); e.until.After(now) {
		q.place(e, Backoff, event)
		return
	}
	q.place(e, Active, event)
}

// backoffOf is the wait after the given number of attempts.
func (q *Queue) backoffOf(attempts int) time.Duration {
	d := q.cfg.InitialBackoff
	for i := 1; i < attempts && d < q.cfg.MaxBackoff; i++ {
		d *= 2
	}
	return min(d, q.cfg.MaxBackoff)
}

// place moves an entry from where it is. Moving it to where it is brings a heap
// in order after a change of the pod.
func (q *Queue) place(e *Entry, to Place, event string) {
	if e.place == Active && to == Active {
		heap.Fix(&q.active, e.index)
		return
	}
	uid := e.Pod.Pod.UID
	switch e.place {
	case Active:
		heap.Remove(&q.active, e.index)
	case Backoff:
		heap.Remove(&q.backoff, e.index)
	case Unschedulable:
		delete(q.parked, uid)
	case InFlight:
		delete(q.inFlight, uid)
		q.forgetChanges()
	default:
	}
	if e.place != Gone {
		q.counts[e.place]--
	}
	e.place = to
	switch to {
	case Gone:
		delete(q.entries, uid)
		return
	case Active:
		q.serial++
		e.serial = q.serial
		heap.Push(&q.active, e)
		q.signal()
	case Backoff:
		heap.Push(&q.backoff, e)
		q.signal() // the wait may have become shorter
	case Unschedulable:
		if len(q.parked) == 0 {
			q.nextFlush = time.Now().Add(flushEvery)
			q.signal()
		}
		q.parked[uid] = e
	case InFlight:
		q.inFlight[uid] = e
	default:
	}
	q.counts[to]++
	if to != InFlight {
		q.cfg.Moved(to, event)
	}
}

// forgetChanges drops the changes that every pod in flight has seen.
func (q *Queue) forgetChanges() {
	end := q.first + uint64(len(q.changes))
	oldest := end
	for _, e := range q.inFlight {
		oldest = min(oldest, e.start)
	}
	if oldest == end {
		clear(q.changes)
		q.changes = q.changes[:0]
	} else {
		q.changes = append(q.changes[:0:0], q.changes[oldest-q.first:]...)
	}
	q.first = oldest
}

func (q *Queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// changed reports whether an update of a pod can make a difference to its
// scheduling. The scheduler's own writes to its status must not.
func changed(old, pod *corev1.Pod) bool {
	return !equality.Semantic.DeepEqual(old.Spec, pod.Spec) ||
		!equality.Semantic.DeepEqual(old.Labels, pod.Labels) ||
		!equality.Semantic.DeepEqual(old.Annotations, pod.Annotations) ||
		!old.DeletionTimestamp.Equal(pod.DeletionTimestamp)
}

// byPriority is a heap: higher priority first, then who came first.
type byPriority []*Entry

func (h byPriority) Len() int { return len(h) }

func (h byPriority) Less(i, j int) bool {
	a, b := h[i], h[j]
	if a.Pod.Priority != b.Pod.Priority {
		return a.Pod.Priority > b.Pod.Priority
	}
	if !a.since.Equal(b.since) {
		return a.since.Before(b.since)
	}
	return a.serial < b.serial
}

func (h byPriority) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *byPriority) Push(x any) {
	e := x.(*Entry) //nolint:errcheck // the heap is given nothing else
	e.index = len(*h)
	*h = append(*h, e)
}

func (h *byPriority) Pop() any { return pop((*[]*Entry)(h)) }

// byUntil is a heap: the end of the back-off that comes first.
type byUntil []*Entry

func (h byUntil) Len() int           { return len(h) }
func (h byUntil) Less(i, j int) bool { return h[i].until.Before(h[j].until) }

func (h byUntil) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *byUntil) Push(x any) {
	e := x.(*Entry) //nolint:errcheck // the heap is given nothing else
	e.index = len(*h)
	*h = append(*h, e)
}

func (h *byUntil) Pop() any { return pop((*[]*Entry)(h)) }

func pop(h *[]*Entry) *Entry {
	n := len(*h) - 1
	e := (*h)[n]
	(*h)[n] = nil
	*h = (*h)[:n]
	return e
}
