// Package workqueue is the queue of keys between informers and the loops that
// reconcile: it joins what is added twice, delays, and backs off per key.
//
// A key that is added while a worker has it is handed out again after Done,
// never to two workers at once. So whoever changes state and then adds the key
// knows that a worker will look at that state.
package workqueue

import (
	"context"
	"math/bits"
	"sync"
	"time"
)

// The defaults of a Config.
const (
	DefaultBaseDelay = 5 * time.Millisecond
	DefaultMaxDelay  = 1000 * time.Second
)

// Config says how a queue is named and how it backs off.
type Config struct {
	// Name is the label of the metrics.
	Name string
	// BaseDelay is the delay of the first AddRateLimited of a key; each
	// further one doubles it up to MaxDelay. 0 means 5 ms and 1000 s.
	BaseDelay, MaxDelay time.Duration
	// Clock tells the time; nil is time.Now. Timers are those of package
	// time whatever the clock, so a test of delays runs under synctest.
	Clock func() time.Time
	// Metrics, if not nil, counts. Queues may share one.
	Metrics *Metrics
}

// A Queue hands keys to workers. It is safe for concurrent use and starts no
// goroutine; ShutDown stops its timers.
type Queue[K comparable] struct {
	cfg Config
	m   *queueMetrics

	mu sync.Mutex // guards the fields below
	// ready holds the keys to hand out, in order: queue[head:].
	queue []K
	head  int
	// dirty has the keys that are to be handed out: those in queue, and those
	// that wait for the Done of a worker.
	dirty map[K]time.Time // when they were added
	// processing has the keys that workers have, and since when.
	processing map[K]time.Time
	delayed    map[K]*delay
	failures   map[K]int
	waiters    []chan struct{} // workers in Get, oldest first
	shutDown   bool
}

type delay struct {
	at    time.Time
	timer *time.Timer
}

// New returns an empty queue.
func New[K comparable](cfg Config) *Queue[K] {
	if cfg.BaseDelay <= 0 {
		cfg.BaseDelay = DefaultBaseDelay
	}
	if cfg.MaxDelay <= 0 {
		cfg.MaxDelay = DefaultMaxDelay
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	q := &Queue[K]{
		cfg: cfg, dirty: map[K]time.Time{}, processing: map[K]time.Time{},
		delayed: map[K]*delay{}, failures: map[K]int{},
	}
	q.m = cfg.Metrics.queue(cfg.Name, q.longestRunning)
	return q
}

// Add hands the key out as soon as a worker is free, once however often it is
// added until then.
func (q *Queue[K]) Add(k K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(k)
}

// add needs mu.
func (q *Queue[K]) add(k K) {
	if q.shutDown {
		return
	}
	if _, ok := q.dirty[k]; ok {
		return
	}
	q.m.added()
	q.dirty[k] = q.cfg.Clock()
	if _, ok := q.processing[k]; ok {
		return
	}
	q.push(k)
}

// push needs mu.
func (q *Queue[K]) push(k K) {
	q.queue = append(q.queue, k)
	q.m.depth(len(q.queue) - q.head)
	q.wakeOne()
}

// wakeOne needs mu.
func (q *Queue[K]) wakeOne() {
	if len(q.waiters) > 0 {
		close(q.waiters[0])
		q.waiters = q.waiters[1:]
	}
}

// AddAfter adds the key after d. Of several delays of one key the shortest
// counts.
func (q *Queue[K]) AddAfter(k K, d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shutDown {
		return
	}
	if d <= 0 {
		q.add(k)
		return
	}
	q.m.retried()
	at := q.cfg.Clock().Add(d)
	if have := q.delayed[k]; have != nil {
		if !at.Before(have.at) {
			return
		}
		have.timer.Stop()
	}
	e := &delay{at: at}
	e.timer = time.AfterFunc(d, func() { q.due(k, e) })
	q.delayed[k] = e
}

func (q *Queue[K]) due(k K, e *delay) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.delayed[k] == e { // else it was replaced or shut down
		delete(q.delayed, k)
		q.add(k)
	}
}

// AddRateLimited adds the key after its back-off, and doubles that for the
// next time.
func (q *Queue[K]) AddRateLimited(k K) { q.AddAfter(k, q.next(k)) }

func (q *Queue[K]) next(k K) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.failures[k]
	if !q.shutDown {
		q.failures[k] = n + 1
	}
	return backoff(q.cfg.BaseDelay, q.cfg.MaxDelay, n)
}

// backoff is base*2^n, at most most.
func backoff(base, most time.Duration, n int) time.Duration {
	if n >= bits.LeadingZeros64(uint64(base))-1 { //nolint:gosec // base is positive
		return most
	}
	return min(base<<n, most)
}

// Requeues returns how many times AddRateLimited was called since Forget.
func (q *Queue[K]) Requeues(k K) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.failures[k]
}

// Forget ends the back-off of the key: it was processed well.
func (q *Queue[K]) Forget(k K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.failures, k)
}

// Get waits for a key. Whoever gets it calls Done afterwards. It returns false
// when ctx is done, or when the queue was shut down and is empty.
func (q *Queue[K]) Get(ctx context.Context) (K, bool) {
	var zero K
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		if ctx.Err() != nil {
			q.passOn()
			return zero, false
		}
		if q.head < len(q.queue) {
			return q.take(), true
		}
		if q.shutDown {
			return zero, false
		}
		w := make(chan struct{})
		q.waiters = append(q.waiters, w)
		q.mu.Unlock()
		select {
		case <-w:
		case <-ctx.Done():
		}
		q.mu.Lock()
		for i := range q.waiters {
			if q.waiters[i] == w {
				q.waiters = append(q.waiters[:i:i], q.waiters[i+1:]...)
				break
			}
		}
	}
}

// passOn needs mu. It wakes another worker for what this one was woken for.
func (q *Queue[K]) passOn() {
	if q.head < len(q.queue) {
		q.wakeOne()
	}
}

// take needs mu and a key in queue.
func (q *Queue[K]) take() K {
	var zero K
	k := q.queue[q.head]
	q.queue[q.head] = zero
	q.head++
	if q.head == len(q.queue) {
		if cap(q.queue) > 1024 {
			q.queue = nil
		}
		q.queue, q.head = q.queue[:0], 0
	}
	now := q.cfg.Clock()
	q.m.got(now.Sub(q.dirty[k]), len(q.queue)-q.head)
	delete(q.dirty, k)
	q.processing[k] = now
	return k
}

// Done says that the worker has finished with the key. If it was added
// meanwhile it is handed out again.
func (q *Queue[K]) Done(k K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	began, ok := q.processing[k]
	if !ok {
		return
	}
	q.m.done(q.cfg.Clock().Sub(began))
	delete(q.processing, k)
	if _, again := q.dirty[k]; again {
		q.push(k)
	}
}

// Len returns how many keys wait for a worker.
func (q *Queue[K]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queue) - q.head
}

// ShutDown ends the queue: what is delayed or added later is dropped, what
// waits is still handed out, and then Get returns false.
func (q *Queue[K]) ShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shutDown {
		return
	}
	q.shutDown = true
	for k, e := range q.delayed {
		e.timer.Stop()
		delete(q.delayed, k)
	}
	for len(q.waiters) > 0 {
		q.wakeOne()
	}
	q.m.close()
}

// longestRunning is read when metrics are collected: for how long the keys
// that workers have were had, in all and the longest.
func (q *Queue[K]) longestRunning() (sum, longest time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.cfg.Clock()
	for _, began := range q.processing {
		d := now.Sub(began)
		sum += d
		longest = max(longest, d)
	}
	return sum, longest
}
