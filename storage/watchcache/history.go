package watchcache

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/proa-project/proa/storage"
)

// direct is a watcher of the store below whose events are dressed.
type direct struct {
	storage.Watcher
	c     *Cache
	batch []storage.Event
}

// watchStore watches the store below.
func (c *Cache) watchStore(ctx context.Context, prefix string, opts storage.WatchOptions) (*direct, error) {
	if filter := opts.Filter; filter != nil {
		opts.Filter = func(i *storage.Item) bool {
			item := c.dressed(*i)
			return filter(&item)
		}
	}
	w, err := c.inner.Watch(ctx, prefix, opts)
	if err != nil {
		return nil, err
	}
	return &direct{Watcher: w, c: c}, nil
}

// Next implements storage.Watcher.
func (d *direct) Next(ctx context.Context) ([]storage.Event, error) {
	events, err := d.Watcher.Next(ctx)
	if err != nil {
		return nil, err
	}
	clear(d.batch)
	d.batch = d.batch[:0]
	for _, e := range events {
		dressed := storage.Event{Type: e.Type, Item: d.dress(e.Item), Prev: d.dress(e.Prev)}
		if d.c.config.Decorate != nil {
			dressed.ShareLeft(d.c.config.Decorate)
		}
		d.batch = append(d.batch, dressed)
	}
	return d.batch, nil
}

// dress dresses an item, which may be nil or of an unknown state.
func (d *direct) dress(item *storage.Item) *storage.Item {
	if item == nil || len(item.Value) == 0 {
		return item
	}
	dressed := d.c.dressed(*item)
	return &dressed
}

// RequestProgress implements storage.ProgressRequester.
func (d *direct) RequestProgress() {
	if r, ok := d.Watcher.(storage.ProgressRequester); ok {
		r.RequestProgress()
	}
}

// history is a watcher that begins before what the cache remembers. It reads
// the store up to a revision that the cache had when it began, then goes on in
// the cache. So readers that come back after a restart need not list again.
type history struct {
	*watcher
	past atomic.Pointer[direct] // nil once the cursor has come to until
	till int64
}

// watchHistory returns a watcher that leads to w at the revision till.
func (c *Cache) watchHistory(ctx context.Context, w *watcher, till int64) (storage.Watcher, error) {
	opts := w.opts
	opts.Progress = true
	past, err := c.watchStore(ctx, w.prefix, opts)
	if err != nil {
		return nil, err
	}
	h := &history{watcher: w, till: till}
	h.past.Store(past)
	return h, nil
}

// Next implements storage.Watcher.
func (h *history) Next(ctx context.Context) ([]storage.Event, error) {
	for {
		past := h.past.Load()
		if past == nil {
			return h.watcher.Next(ctx)
		}
		select {
		case <-h.done:
			return nil, storage.ErrClosed
		default:
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		events, err := past.nextSoon(ctx)
		if err != nil {
			return nil, err
		}
		n := len(events)
		for n > 0 && events[n-1].Revision() > h.till {
			n--
		}
		before := h.seen.Load()
		if progress := past.Progress(); progress >= h.till {
			h.seen.Store(h.till)
			h.past.Store(nil)
			past.Close()
		} else {
			h.seen.Store(progress)
		}
		if n > 0 || h.opts.Progress && h.seen.Load() > before {
			return events[:n], nil
		}
	}
}

// nextSoon is Next, but comes back without events after a while, during which
// progress was asked for.
func (d *direct) nextSoon(ctx context.Context) ([]storage.Event, error) {
	soon, cancel := context.WithTimeout(ctx, nudge)
	defer cancel()
	d.RequestProgress()
	events, err := d.Next(soon)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil, nil
	}
	return events, err
}

// Progress implements storage.Watcher.
func (h *history) Progress() int64 {
	if h.past.Load() != nil {
		return h.seen.Load()
	}
	return h.watcher.Progress()
}

// Close implements storage.Watcher.
func (h *history) Close() {
	h.watcher.Close()
	if past := h.past.Load(); past != nil {
		past.Close()
	}
}

var (
	_ storage.ProgressRequester = (*direct)(nil)
	_ storage.ProgressRequester = (*history)(nil)
)
