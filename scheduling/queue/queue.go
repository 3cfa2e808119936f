// Package queue holds the pods that wait for a node.
//
// A pod is in one of five places. Active pods are handed out by priority and
// then by the time they came. A pod that failed for a reason that may pass by
// itself waits in back-off, for longer with each attempt. A pod that no node
// fits waits as unschedulable until a change in the cluster may help it, or
// MaxUnschedulable has gone by. A pod that a PreEnqueue plugin refuses is gated
// until it is updated. A pod that Pop has handed out is in flight until Done,
// Reject or Retry; changes that happen meanwhile are not lost.
package queue

import (
	"container/heap"
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/scheduling/framework"
)

// Config says how long pods wait and who decides about them.
type Config struct {
	// InitialBackoff is the wait after the first failed attempt, default 1 s;
	// it doubles with each up to MaxBackoff, default 10 s.
	InitialBackoff, MaxBackoff time.Duration
	// MaxUnschedulable is after what time an unschedulable pod is tried again
	// without a change, default 5 min.
	MaxUnschedulable time.Duration
	// Admit returns why a pod may not be queued, and who says so; nil lets all
	// in.
	Admit func(pod *corev1.Pod) (*framework.Rejection, string)
	// Helps reports whether a change is worth another attempt for a pod that
	// the named plugins rejected; nil means always. It is called with the
	// queue's lock held.
	Helps func(pod *framework.PodInfo, rejectedBy []string, c framework.Change) bool
	// Moved is told of each pod that enters a place, with what brought it
	// there; it may be nil. It is called with the queue's lock held.
	Moved func(to Place, event string)
}

// Place is where in the queue a pod is.
type Place uint8

// The places of a pod. Gone is that of a pod which the queue does not know.
const (
	Gone Place = iota
	Active
	Backoff
	Unschedulable
	Gated
	InFlight

	places
)

// String names the place as metrics do.
func (p Place) String() string {
	return [...]string{"gone", "active", "backoff", "unschedulable", "gated", "inflight"}[p]
}

// An Entry is a pod on its way through the queue. Between Pop and the call that
// gives it back, it belongs to the caller, who may read it.
type Entry struct {
	// Pod is the pod as it was when it was handed out.
	Pod *framework.PodInfo
	// Attempts is how often it was handed out.
	Attempts int
	// Added is when the pod first came.
	Added time.Time
	// RejectedBy are the plugins that rejected it last.
	RejectedBy []string

	place   Place
	index   int       // in the heap of its place
	since   time.Time // when it came to its place; older first
	serial  uint64    // breaks ties of since
	until   time.Time // end of the back-off
	start   uint64    // the first change that it has not seen, while in flight
	latest  *framework.PodInfo
	changed bool // the pod was updated, while in flight
	deleted bool // while in flight
}

// Queue is safe for use by several goroutines.
type Queue struct {
	cfg  Config
	wake chan struct{} // holds a token when there may be something to hand out

	mu        sync.Mutex // guards all below
	entries   map[types.UID]*Entry
	active    byPriority
	backoff   byUntil
	parked    map[types.UID]*Entry // unschedulable
	inFlight  map[types.UID]*Entry
	counts    [places]int
	serial    uint64
	nextFlush time.Time
	changes   []framework.Change // that pods in flight have not seen
	first     uint64             // the number of changes[0]
	nominated map[string]map[types.UID]*framework.PodInfo
}

// flushEvery is how often parked pods are looked through for old ones.
const flushEvery = 30 * time.Second

// New returns an empty queue.
func New(cfg Config) *Queue {
	if cfg.InitialBackoff <= 0 {
		cfg.InitialBackoff = time.Second
	}
	if cfg.MaxBackoff <= 0 {
		cfg.MaxBackoff = 10 * time.Second
	}
	if cfg.MaxUnschedulable <= 0 {
		cfg.MaxUnschedulable = 5 * time.Minute
	}
	if cfg.Admit == nil {
		cfg.Admit = func(*corev1.Pod) (*framework.Rejection, string) { return nil, "" }
	}
	if cfg.Helps == nil {
		cfg.Helps = func(*framework.PodInfo, []string, framework.Change) bool { return true }
	}
	if cfg.Moved == nil {
		cfg.Moved = func(Place, string) {}
	}
	return &Queue{
		cfg:       cfg,
		wake:      make(chan struct{}, 1),
		entries:   make(map[types.UID]*Entry),
		parked:    make(map[types.UID]*Entry),
		inFlight:  make(map[types.UID]*Entry),
		nominated: make(map[string]map[types.UID]*framework.PodInfo),
	}
}

// Set adds a pod, or brings one that is there up to date.
func (q *Queue) Set(pod *framework.PodInfo) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e, known := q.entries[pod.Pod.UID]
	if !known {
		e = &Entry{Pod: pod, Added: time.Now()}
		q.entries[pod.Pod.UID] = e
		q.admit(e, "PodAdd")
		return
	}
	switch e.place {
	case InFlight:
		e.changed = e.changed || changed(e.current().Pod, pod.Pod)
		e.latest = pod
	case Active:
		e.Pod = pod
		heap.Fix(&q.active, e.index) // its priority may be another; its turn among equals is not
	case Backoff:
		e.Pod = pod
	case Gated:
		e.Pod = pod
		q.admit(e, "PodUpdate")
	case Unschedulable:
		old := e.Pod
		e.Pod = pod
		if changed(old.Pod, pod.Pod) {
			q.requeue(e, framework.PodOwn.String())
		}
	default:
	}
}

// Delete takes a pod out. One that is in flight will not come back.
func (q *Queue) Delete(uid types.UID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e, ok := q.entries[uid]
	if !ok {
		return
	}
	q.unnominate(uid)
	if e.place == InFlight {
		e.deleted = true
		return
	}
	q.place(e, Gone, "PodDelete")
}

// Pop hands out the pod that is due, and waits for one. It returns ctx's error
// when ctx ends.
func (q *Queue) Pop(ctx context.Context) (*Entry, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		e, wait := q.TryPop()
		if e != nil {
			return e, nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-q.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// TryPop is Pop without waiting: if nothing is due it returns nil and the time
// until something might be.
func (q *Queue) TryPop() (*Entry, time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	q.flush(now)
	if len(q.active) == 0 {
		wait := time.Hour
		if len(q.backoff) > 0 {
			wait = min(wait, q.backoff[0].until.Sub(now))
		}
		if len(q.parked) > 0 {
			wait = min(wait, q.nextFlush.Sub(now))
		}
		return nil, wait
	}
	e := q.active[0]
	e.Attempts++
	e.start = q.first + uint64(len(q.changes))
	e.latest, e.changed, e.deleted = nil, false, false
	q.place(e, InFlight, "")
	if len(q.active) > 0 {
		q.signal() // for another caller
	}
	return e, 0
}

// flush moves what has waited long enough.
func (q *Queue) flush(now time.Time) {
	for len(q.backoff) > 0 && !q.backoff[0].until.After(now) {
		q.place(q.backoff[0], Active, "BackoffComplete")
	}
	if now.Before(q.nextFlush) {
		return
	}
	q.nextFlush = now.Add(flushEvery)
	for _, e := range q.parked {
		if now.Sub(e.since) >= q.cfg.MaxUnschedulable {
			q.requeue(e, framework.AnyEvent.String())
		}
	}
}

// Done ends the flight of a pod that needs no further attempt.
func (q *Queue) Done(e *Entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.entries[e.Pod.Pod.UID] == e {
		q.unnominate(e.Pod.Pod.UID)
		q.place(e, Gone, "")
	}
}

// Reject ends the flight of a pod that no node fits. It waits for a change that
// helps one of the plugins that rejected it; if one has come meanwhile, only
// for the end of its back-off.
func (q *Queue) Reject(e *Entry, plugins []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.land(e) {
		return
	}
	e.RejectedBy = plugins
	helped := e.changed
	for i := e.start; i < q.first+uint64(len(q.changes)) && !helped; i++ {
		helped = q.cfg.Helps(e.Pod, plugins, q.changes[i-q.first])
	}
	e.since = time.Now()
	if helped {
		q.requeue(e, "ScheduleAttemptFailure")
	} else {
		q.place(e, Unschedulable, "ScheduleAttemptFailure")
	}
}

// Retry ends the flight of a pod, or puts back one that is done, after a
// failure that says nothing about the pod: it comes again after its back-off.
// pod is its latest version, or nil for what the queue knows.
func (q *Queue) Retry(e *Entry, pod *framework.PodInfo) {
	q.mu.Lock()
	defer q.mu.Unlock()
	uid := e.Pod.Pod.UID
	switch known := q.entries[uid]; known {
	case e:
		if !q.land(e) {
			return
		}
	case nil:
		q.entries[uid] = e
	default: // it has come back as a new pod
		known.Attempts = max(known.Attempts, e.Attempts)
		known.Added = e.Added
		return
	}
	if pod != nil {
		e.Pod = pod
	}
	e.since = time.Now()
	q.requeue(e, "ScheduleAttemptFailure")
}

// land takes an entry from its flight and reports whether it is still wanted.
func (q *Queue) land(e *Entry) bool {
	if q.entries[e.Pod.Pod.UID] != e || e.place != InFlight {
		return false
	}
	if e.deleted {
		q.place(e, Gone, "PodDelete")
		return false
	}
	e.Pod = e.current()
	e.latest = nil
	return true
}

func (e *Entry) current() *framework.PodInfo {
	if e.latest != nil {
		return e.latest
	}
	return e.Pod
}

// Move tells the queue of a change in the cluster.
func (q *Queue) Move(c framework.Change) {
	if c.Event == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.inFlight) > 0 {
		q.changes = append(q.changes, c)
	}
	for _, e := range q.parked {
		if q.cfg.Helps(e.Pod, e.RejectedBy, c) {
			q.requeue(e, c.Event.String())
		}
	}
}

// Len returns how many pods are in a place.
func (q *Queue) Len(p Place) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.counts[p]
}

// Place returns where a pod is.
func (q *Queue) Place(uid types.UID) Place {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.entries[uid]; e != nil {
		return e.place
	}
	return Gone
}

// Nominate notes that a pod in the queue is to get the node once others have
// left it; an empty name takes the note back.
func (q *Queue) Nominate(pod *framework.PodInfo, node string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.unnominate(pod.Pod.UID)
	if node == "" || q.entries[pod.Pod.UID] == nil {
		return
	}
	if q.nominated[node] == nil {
		q.nominated[node] = make(map[types.UID]*framework.PodInfo)
	}
	q.nominated[node][pod.Pod.UID] = pod
}

// Nominated returns the pods that are to get the node, in no order.
func (q *Queue) Nominated(node string) []*framework.PodInfo {
	q.mu.Lock()
	defer q.mu.Unlock()
	var pods []*framework.PodInfo
	for _, p := range q.nominated[node] {
		pods = append(pods, p)
	}
	return pods
}

func (q *Queue) unnominate(uid types.UID) {
	for node, pods := range q.nominated {
		delete(pods, uid)
		if len(pods) == 0 {
			delete(q.nominated, node)
		}
	}
}
