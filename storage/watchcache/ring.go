package watchcache

import (
	"slices"
	"sort"

	"github.com/proa-project/proa/storage"
)

// segmentSize is how many events a segment of a ring holds at most.
const segmentSize = 256

// A ring is an immutable view of the recent events of one bucket, in order.
// Later views share its memory: events are only ever added behind those that
// a view shows, and forgotten by whole segments.
type ring struct {
	full  []segment
	last  segment
	floor int64 // revision of the newest event that is forgotten
	count int
	bytes int
}

// segment is a run of events and the size of their values.
type segment struct {
	events []storage.Event
	bytes  int
}

// limits bound a ring.
type limits struct {
	events int
	bytes  int
}

// add returns the view with one more event.
func (r ring) add(e storage.Event, l limits) ring {
	size := len(e.Item.Value)
	if e.Type == storage.Delete && e.Prev != nil {
		size += len(e.Prev.Value)
	}
	capacity := min(segmentSize, max(1, l.events/4))
	full := len(r.last.events) >= capacity || r.last.bytes+size > l.bytes/4
	// Events of one transaction stay together: a revision is a place to go on from.
	if full && len(r.last.events) > 0 && r.last.newest() != e.Revision() {
		r.full = append(slices.Clip(r.full), r.last)
		r.last = segment{}
	}
	if r.last.events == nil {
		r.last.events = make([]storage.Event, 0, capacity)
	}
	r.last.events = append(r.last.events, e)
	r.last.bytes += size
	r.count++
	r.bytes += size
	for len(r.full) > 0 && (r.count > l.events || r.bytes > l.bytes) {
		oldest := r.full[0]
		r.floor = oldest.newest()
		r.count -= len(oldest.events)
		r.bytes -= oldest.bytes
		r.full = append([]segment(nil), r.full[1:]...)
	}
	return r
}

// newest returns the revision of the last event; there must be one.
func (s segment) newest() int64 { return s.events[len(s.events)-1].Revision() }

// newest returns the revision of the last event, or the floor.
func (r ring) newest() int64 {
	if len(r.last.events) == 0 {
		return r.floor
	}
	return r.last.newest()
}

// after returns events after a revision, at least one if there is one, from
// one segment, as a part of the ring's memory.
func (r ring) after(revision int64) []storage.Event {
	if r.newest() <= revision {
		return nil
	}
	s := r.last
	if i := sort.Search(len(r.full), func(i int) bool { return r.full[i].newest() > revision }); i < len(r.full) {
		s = r.full[i]
	}
	i := len(s.events) - 1 // readers mostly are near the end
	for step := 0; i > 0 && s.events[i-1].Revision() > revision; i-- {
		if step++; step > 8 {
			i = sort.Search(i, func(i int) bool { return s.events[i].Revision() > revision })
			break
		}
	}
	return s.events[i:len(s.events):len(s.events)]
}
