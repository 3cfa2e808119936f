package memory

import (
	"context"
	"sort"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/proa-project/proa/storage"
)

// watchBatch is how many events Next returns at most.
const watchBatch = 256

// watcher is a cursor in the log of its Store.
type watcher struct {
	s      *Store
	prefix string
	opts   storage.WatchOptions
	seen   atomic.Int64 // events up to this revision are delivered
	closed chan struct{}
	once   sync.Once
	batch  []storage.Event
}

// Watch implements storage.Store.
func (s *Store) Watch(ctx context.Context, prefix string, opts storage.WatchOptions) (storage.Watcher, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, storage.ErrClosed
	}
	w := &watcher{s: s, prefix: prefix, opts: opts, closed: make(chan struct{})}
	after := opts.After
	if after == 0 {
		after = s.revision
	}
	if after < s.compacted-1 {
		return nil, &storage.RevisionError{Requested: after, Limit: s.compacted, Err: storage.ErrCompacted}
	}
	w.seen.Store(after)
	return w, nil
}

// Next implements storage.Watcher.
func (w *watcher) Next(ctx context.Context) ([]storage.Event, error) {
	for {
		select {
		case <-w.closed:
			return nil, storage.ErrClosed
		default:
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		events, moved, changed, err := w.poll()
		if err != nil || len(events) > 0 || moved && w.opts.Progress {
			return events, err
		}
		select {
		case <-changed:
		case <-w.closed:
		case <-ctx.Done():
		}
	}
}

// poll returns the events that are there, whether the cursor moved, and a
// channel that is closed when there may be more.
func (w *watcher) poll() (events []storage.Event, moved bool, changed <-chan struct{}, err error) {
	w.s.mu.RLock()
	defer w.s.mu.RUnlock()
	seen := w.seen.Load()
	switch {
	case w.s.closed:
		return nil, false, nil, storage.ErrClosed
	case w.s.dropped > seen:
		return nil, false, nil, &storage.RevisionError{Requested: seen, Limit: w.s.compacted, Err: storage.ErrCompacted}
	}
	clear(w.batch)
	w.batch = w.batch[:0]
	log := w.s.log
	for i := sort.Search(len(log), func(i int) bool { return log[i].Revision() > seen }); i < len(log); i++ {
		if len(w.batch) == watchBatch {
			w.seen.Store(log[i-1].Revision())
			return w.batch, true, nil, nil
		}
		if w.selects(&log[i]) {
			w.batch = append(w.batch, log[i])
		}
	}
	if w.s.revision > seen {
		w.seen.Store(w.s.revision)
		moved = true
	}
	return w.batch, moved, w.s.changed, nil
}

func (w *watcher) selects(e *storage.Event) bool {
	if !strings.HasPrefix(e.Item.Key, w.prefix) {
		return false
	}
	if w.opts.Filter == nil {
		return true
	}
	return w.opts.Filter(e.Item) || e.Prev != nil && w.opts.Filter(e.Prev)
}

// Progress implements storage.Watcher.
func (w *watcher) Progress() int64 { return w.seen.Load() }

// Close implements storage.Watcher.
func (w *watcher) Close() { w.once.Do(func() { close(w.closed) }) }
