package watchcache

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// keptStates is how many states are kept for lists that go on.
	keptStates = 32
	// keptFor is for how long.
	keptFor = 2 * time.Minute
)

// snapshots are states that a list was cut from: its next pages are answered
// from them. What they share with the present costs nothing.
type snapshots struct {
	some atomic.Bool // whether there are any

	mu  sync.Mutex // guards all
	all []snapshot // by age
}

type snapshot struct {
	taken time.Time
	state *state
}

// add keeps the bucket that a list was cut from. Lists of several buckets are
// rare, and go on in the store.
func (k *snapshots) add(s *state, buckets []*bucket) {
	if len(buckets) != 1 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, kept := range k.all {
		if b := kept.state.buckets[0]; b.name == buckets[0].name && b.tree.same(buckets[0].tree) && kept.state.revision >= s.revision {
			return
		}
	}
	thin := &state{revision: s.revision, base: s.base}
	for _, b := range buckets {
		// The events are not needed.
		thin.buckets = append(thin.buckets, &bucket{name: b.name, tree: b.tree, ring: ring{floor: b.ring.newest()}})
	}
	if len(k.all) == keptStates {
		k.all = append(k.all[:0:0], k.all[1:]...)
	}
	k.all = append(k.all, snapshot{time.Now(), thin})
	k.some.Store(true)
}

// find returns a kept state that is the same as of revision, or nil.
func (k *snapshots) find(root, prefix string, revision int64) *state {
	if !k.some.Load() {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	name := bucketName(root, prefix)
	for _, kept := range slices.Backward(k.all) {
		s := kept.state
		if s.covers(root, name) && s.unchangedSince(root, prefix, revision) {
			return s
		}
	}
	return nil
}

// covers reports whether a kept state has the bucket that a read needs. Reads
// of several buckets at once are not answered from kept states.
func (s *state) covers(root, name string) bool { return name != root && s.bucket(name) != nil }

// expire drops what is too old.
func (k *snapshots) expire(now time.Time) {
	if !k.some.Load() {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for n < len(k.all) && now.Sub(k.all[n].taken) > keptFor {
		n++
	}
	k.all = append(k.all[:0:0], k.all[n:]...)
	k.some.Store(len(k.all) > 0)
}

// clear drops everything.
func (k *snapshots) clear() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = nil
	k.some.Store(false)
}
