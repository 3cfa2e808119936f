package watchcache

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/proa-project/proa/storage"
)

// Watch implements storage.Store. Its watchers cost nothing while they are
// not asked, and little while they wait.
func (c *Cache) Watch(ctx context.Context, prefix string, opts storage.WatchOptions) (storage.Watcher, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := c.state.Load()
	if s.closed {
		return nil, storage.ErrClosed
	}
	if !strings.HasPrefix(prefix, c.config.Prefix) {
		return c.watchStore(ctx, prefix, opts)
	}
	if opts.After == 0 {
		now, err := c.inner.Current(ctx)
		if err != nil {
			return nil, err
		}
		opts.After = now
	}
	if limit := c.compacted.Load(); opts.After < limit-1 {
		return nil, &storage.RevisionError{Requested: opts.After, Limit: limit, Err: storage.ErrCompacted}
	}
	w := &watcher{c: c, prefix: prefix, opts: opts, done: make(chan struct{})}
	if name := bucketName(c.config.Prefix, prefix); name != c.config.Prefix {
		w.name = name
	}
	w.seen.Store(opts.After)
	if s = c.state.Load(); w.forgotten(s) {
		return c.watchHistory(ctx, w, s.revision)
	}
	return w, nil
}

// A watcher is a cursor in the rings of its cache.
type watcher struct {
	c      *Cache
	prefix string
	name   string // of the one bucket that has all keys with prefix; "" if there may be several
	opts   storage.WatchOptions
	done   chan struct{}
	once   sync.Once
	seen   atomic.Int64 // events up to this revision have been delivered or are of no concern

	batch []storage.Event // belongs to the caller of Next
}

// Next implements storage.Watcher.
func (w *watcher) Next(ctx context.Context) ([]storage.Event, error) {
	for {
		select {
		case <-w.done:
			return nil, storage.ErrClosed
		default:
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s := w.c.state.Load()
		switch {
		case s.closed:
			return nil, storage.ErrClosed
		case w.forgotten(s):
			w.c.metrics.terminated()
			seen := w.seen.Load()
			return nil, &storage.RevisionError{Requested: seen, Limit: s.revision, Err: storage.ErrCompacted}
		}
		events, moved, next := w.poll(s)
		if len(events) > 0 || moved && w.opts.Progress {
			w.c.metrics.dispatched(len(events))
			return events, nil
		}
		select {
		case <-next:
		case <-w.done:
		case <-ctx.Done():
		}
	}
}

// forgotten reports whether events after the cursor are gone.
func (w *watcher) forgotten(s *state) bool {
	seen := w.seen.Load()
	if w.name != "" {
		if b := s.bucket(w.name); b != nil {
			return seen < b.ring.floor
		}
		return seen < s.base
	}
	for _, b := range s.covering(w.c.config.Prefix, w.prefix, nil) {
		if seen < b.ring.floor {
			return true
		}
	}
	return seen < s.base
}

// poll returns the events that a state has for the watcher, whether the
// cursor moved, and what to wait for if there are none.
func (w *watcher) poll(s *state) (events []storage.Event, moved bool, next <-chan struct{}) {
	seen := w.seen.Load()
	if w.name == "" {
		events, next = w.pollAll(s, seen), s.next
	} else if b := s.bucket(w.name); b == nil {
		next = s.next
	} else {
		if events = w.pollOne(b, seen); len(events) > 0 {
			return events, true, nil
		}
		next = b.next
	}
	if w.opts.Progress {
		next = s.next
	}
	if s.revision > seen {
		w.seen.Store(s.revision)
		moved = true
	}
	return events, moved, next
}

// pollOne returns the next events of a bucket and moves the cursor behind them.
func (w *watcher) pollOne(b *bucket, seen int64) []storage.Event {
	whole := w.opts.Filter == nil && w.prefix == w.name
	w.forget()
	for {
		events := b.ring.after(seen)
		if len(events) == 0 {
			return nil
		}
		seen = events[len(events)-1].Revision()
		if whole {
			w.seen.Store(seen)
			return events
		}
		for i := range events {
			if w.selects(&events[i]) {
				w.batch = append(w.batch, events[i])
			}
		}
		if len(w.batch) > 0 {
			w.seen.Store(seen)
			return w.batch
		}
	}
}

// pollAll returns the next events of all buckets in order.
func (w *watcher) pollAll(s *state, seen int64) []storage.Event {
	w.forget()
	for _, b := range s.covering(w.c.config.Prefix, w.prefix, nil) {
		after := seen
		for events := b.ring.after(after); len(events) > 0; events = b.ring.after(after) {
			after = events[len(events)-1].Revision()
			for i := range events {
				if w.selects(&events[i]) {
					w.batch = append(w.batch, events[i])
				}
			}
		}
	}
	slices.SortStableFunc(w.batch, func(a, b storage.Event) int { return int(a.Revision() - b.Revision()) })
	return w.batch
}

// forget empties the batch and lets go of what was in it.
func (w *watcher) forget() {
	clear(w.batch)
	w.batch = w.batch[:0]
}

func (w *watcher) selects(e *storage.Event) bool {
	if len(w.prefix) > len(w.name) && !strings.HasPrefix(e.Item.Key, w.prefix) {
		return false
	}
	if w.opts.Filter == nil {
		return true
	}
	return w.opts.Filter(e.Item) || e.Type == storage.Put && e.Prev != nil && w.opts.Filter(e.Prev)
}

// Progress implements storage.Watcher.
func (w *watcher) Progress() int64 {
	s, seen := w.c.state.Load(), w.seen.Load()
	if s.revision <= seen {
		return seen
	}
	if w.name != "" {
		if b := s.bucket(w.name); b != nil && b.ring.newest() > seen {
			return seen
		}
		return s.revision
	}
	for _, b := range s.covering(w.c.config.Prefix, w.prefix, nil) {
		if b.ring.newest() > seen {
			return seen
		}
	}
	return s.revision
}

// RequestProgress implements storage.ProgressRequester.
func (w *watcher) RequestProgress() { w.c.nudge() }

// Close implements storage.Watcher.
func (w *watcher) Close() { w.once.Do(func() { close(w.done) }) }
