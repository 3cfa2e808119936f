package replicaset

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// forgetAfter is when a pod that was created and never seen is given up:
	// it came and went while the watch was down.
	forgetAfter = time.Minute
	// doubtFor is how long a create whose outcome is unknown counts as done.
	doubtFor = 2 * time.Second
)

// expectations remember what was done to the pods of each set and does not
// show in the cache yet, so that a late cache never leads to doing it twice.
type expectations struct {
	mu   sync.Mutex
	sets map[types.UID]*expectation // by the set's UID; guarded by mu, as its content
}

type expectation struct {
	flying  int                     // creates that have no answer yet
	seen    map[types.UID]bool      // pods the cache showed while creates were flying
	pending map[types.UID]time.Time // created, not seen; until when that counts
	doubts  []time.Time             // creates of unknown outcome; until when they count
	dying   map[types.UID]struct{}  // deletion was asked for
}

func newExpectations() *expectations { return &expectations{sets: map[types.UID]*expectation{}} }

// of needs mu.
func (e *expectations) of(set types.UID) *expectation {
	x := e.sets[set]
	if x == nil {
		x = &expectation{seen: map[types.UID]bool{}, pending: map[types.UID]time.Time{}, dying: map[types.UID]struct{}{}}
		e.sets[set] = x
	}
	return x
}

// creating says that a create is about to be sent.
func (e *expectations) creating(set types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.of(set).flying++
}

// created says how a create ended: with the pod's UID, or without one; then
// known tells whether it is certain that there is no pod.
func (e *expectations) created(set, pod types.UID, known bool, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.sets[set]
	if x == nil {
		return // the set is gone
	}
	x.flying--
	switch {
	case pod != "" && !x.seen[pod]:
		x.pending[pod] = now.Add(forgetAfter)
	case pod == "" && !known:
		x.doubts = append(x.doubts, now.Add(doubtFor))
	}
	if x.flying == 0 {
		clear(x.seen)
	}
}

// observed says that the cache has shown the pod.
func (e *expectations) observed(set, pod types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.sets[set]
	if x == nil {
		return
	}
	delete(x.pending, pod)
	if x.flying > 0 {
		x.seen[pod] = true
	}
}

// deleting says that the pod's deletion is asked for; undelete that it failed.
func (e *expectations) deleting(set, pod types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.of(set).dying[pod] = struct{}{}
}

func (e *expectations) undelete(set, pod types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.of(set).dying, pod)
}

// A snapshot is what was outstanding at one moment.
type snapshot struct {
	pending map[types.UID]bool
	doubts  int
	dying   map[types.UID]bool
}

// snapshot must be taken before the cache is read: what leaves it afterwards
// shows in the cache.
func (e *expectations) snapshot(set types.UID, now time.Time) snapshot {
	e.mu.Lock()
	defer e.mu.Unlock()
	var s snapshot
	x := e.sets[set]
	if x == nil {
		return s
	}
	for uid, until := range x.pending {
		if now.After(until) {
			delete(x.pending, uid)
			continue
		}
		if s.pending == nil {
			s.pending = make(map[types.UID]bool, len(x.pending))
		}
		s.pending[uid] = true
	}
	for len(x.doubts) > 0 && now.After(x.doubts[0]) {
		x.doubts = x.doubts[1:]
	}
	s.doubts = len(x.doubts)
	for uid := range x.dying {
		if s.dying == nil {
			s.dying = make(map[types.UID]bool, len(x.dying))
		}
		s.dying[uid] = true
	}
	return s
}

// gone says that the pod is no more in the cache, or shows its deletion.
func (e *expectations) gone(set, pod types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.sets[set]; x != nil {
		delete(x.dying, pod)
		delete(x.pending, pod)
	}
}

// forget drops what is known of a set that is gone.
func (e *expectations) forget(set types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.sets, set)
}
