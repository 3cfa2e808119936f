package memory

import (
	"slices"
	"sort"
	"time"

	"github.com/proa-project/proa/storage"
)

// put writes a new state of key. It needs mu for writing, as all below.
func (s *Store) put(key string, value []byte, ttl time.Duration) int64 {
	s.disarm(key)
	prev := s.at(key, s.revision)
	s.revision++
	item := &storage.Item{Key: key, Value: value, Revision: s.revision}
	s.record(key, version{s.revision, item}, storage.Event{Type: storage.Put, Item: item, Prev: prev})
	if ttl > 0 {
		s.arm(key, item.Revision, ttl)
	}
	return s.revision
}

// remove ends key, which must be there.
func (s *Store) remove(key string) int64 {
	s.disarm(key)
	prev := s.at(key, s.revision)
	s.revision++
	last := *prev
	last.Revision = s.revision
	s.record(key, version{s.revision, nil}, storage.Event{Type: storage.Delete, Item: &last, Prev: prev})
	return s.revision
}

// record adds a change to the history of its key and to the log.
func (s *Store) record(key string, v version, e storage.Event) {
	if len(s.versions[key]) == 0 {
		s.keys = slices.Insert(s.keys, sort.SearchStrings(s.keys, key), key)
	}
	s.versions[key] = append(s.versions[key], v)
	s.log = append(s.log, e)
	if len(s.log) > s.history+s.history/4 {
		s.compact(s.log[len(s.log)-s.history].Revision())
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// compact forgets what was before revision.
func (s *Store) compact(revision int64) {
	s.compacted = revision
	keep := s.keys[:0]
	for _, key := range s.keys {
		versions := s.versions[key]
		first := 0
		for first+1 < len(versions) && versions[first+1].revision <= revision {
			first++
		}
		if versions[first].revision <= revision && versions[first].item == nil {
			first++
		}
		if first == len(versions) {
			delete(s.versions, key)
			continue
		}
		s.versions[key] = slices.Clone(versions[first:])
		keep = append(keep, key)
	}
	clear(s.keys[len(keep):])
	s.keys = keep
	n := sort.Search(len(s.log), func(i int) bool { return s.log[i].Revision() >= revision })
	if n > 0 {
		s.dropped = s.log[n-1].Revision()
		s.log = slices.Clone(s.log[n:]) // so that the forgotten part is freed
	}
}

// arm has key removed after ttl unless it is written again.
func (s *Store) arm(key string, revision int64, ttl time.Duration) {
	s.expiries.Add(1)
	s.timers[key] = time.AfterFunc(ttl, func() {
		defer s.expiries.Done()
		s.mu.Lock()
		defer s.mu.Unlock()
		if item := s.at(key, s.revision); !s.closed && item != nil && item.Revision == revision {
			delete(s.timers, key)
			s.remove(key)
		}
	})
}

// disarm stops the timer of key.
func (s *Store) disarm(key string) {
	if timer := s.timers[key]; timer != nil {
		delete(s.timers, key)
		if timer.Stop() {
			s.expiries.Done()
		}
	}
}
