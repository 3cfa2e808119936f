package registry

import (
	"hash/maphash"
	"sync/atomic"
)

// recent remembers when keys were written last, by this server. A write that
// follows another of the same object asks the cache for a state with that
// write in it: to wait for it costs less than to find out, at the end of the
// pipeline, that the state was old.
//
// Keys share slots, so that the revision may be that of another key. All it
// does then is to ask for a newer state than needed.
type recent struct {
	seed  maphash.Seed
	slots [256]atomic.Int64
}

func newRecent() *recent { return &recent{seed: maphash.MakeSeed()} }

func (r *recent) slot(key string) *atomic.Int64 {
	return &r.slots[maphash.String(r.seed, key)%uint64(len(r.slots))]
}

// wrote notes the revision of a write.
func (r *recent) wrote(key string, revision int64) {
	s := r.slot(key)
	for {
		have := s.Load()
		if revision <= have || s.CompareAndSwap(have, revision) {
			return
		}
	}
}

// least returns a revision that the state of a key should not be older than.
func (r *recent) least(key string) int64 { return r.slot(key).Load() }
