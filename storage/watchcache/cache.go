package watchcache

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/proa-project/proa/storage"
)

const (
	// minBackoff and maxBackoff bound the pause before the store is tried
	// again.
	minBackoff = 20 * time.Millisecond
	maxBackoff = 2 * time.Second
)

// A Cache is a Store in front of another.
type Cache struct {
	config  Config
	inner   storage.Store
	metrics *metrics
	state   atomic.Pointer[state]
	kept    snapshots
	// compacted is the highest revision that Compact was called with.
	compacted atomic.Int64
	// feed is the watcher of the store that the cache lives on.
	feed atomic.Pointer[storage.Watcher]
	// trouble is why there is no feed, or nil.
	trouble atomic.Pointer[error]

	cancel  context.CancelFunc
	ctx     context.Context //nolint:containedctx // the life of the cache
	running sync.WaitGroup
	once    sync.Once
	err     error // of Close

	changes uint64 // belongs to the goroutine that follows the store
}

var _ storage.Store = (*Cache)(nil)

// New returns a Cache that is filled. It returns the error of the store if
// that cannot be listed; the store is then still open.
func New(ctx context.Context, config Config) (*Cache, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Cache{config: config, inner: config.Store}
	first, err := c.load(ctx)
	if err != nil {
		return nil, err
	}
	c.state.Store(first)
	if c.metrics, err = newMetrics(config.Metrics, c); err != nil {
		return nil, err
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.running.Go(c.follow)
	return c, nil
}

// Revision returns the revision that the cache has come to.
func (c *Cache) Revision() int64 { return c.state.Load().revision }

// Err returns why the cache does not get any news from its store, or nil.
func (c *Cache) Err() error {
	if err := c.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// load lists the store.
func (c *Cache) load(ctx context.Context) (*state, error) {
	list, err := c.inner.List(ctx, c.config.Prefix, storage.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("fill the watch cache: %w", err)
	}
	items := make([]*storage.Item, len(list.Items))
	for i := range list.Items {
		items[i] = c.dress(&list.Items[i], nil)
	}
	return newState(c.config.Prefix, list.Revision, items), nil
}

// dress returns an item as the cache holds it. before is what it replaces, or
// nil: equal parts are shared with it.
func (c *Cache) dress(item, before *storage.Item) *storage.Item {
	dressed := *item
	if c.config.Extract != nil {
		fields, err := c.config.Extract(item.Key, item.Value)
		if err != nil {
			c.config.Log.Warn().Err(err).Str("key", item.Key).Msg("stored value cannot be read")
			fields = storage.Fields{}
		}
		dressed.Fields = &fields
	}
	if before != nil {
		dressed.Key = before.Key
		if dressed.Fields != nil && before.Fields != nil && sameFields(dressed.Fields, before.Fields) {
			dressed.Fields = before.Fields
		}
	}
	if c.config.Decorate != nil {
		dressed.Value = c.config.Decorate(item.Value, item.Revision)
	}
	return &dressed
}

func sameFields(a, b *storage.Fields) bool {
	return sameSet(a.Labels, b.Labels) && sameSet(a.Fields, b.Fields)
}

func sameSet(a, b storage.Set) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// follow keeps the cache up to date until it closes.
func (c *Cache) follow() {
	backoff := minBackoff
	for c.ctx.Err() == nil {
		progressed, err := c.consume()
		if errors.Is(err, storage.ErrCompacted) {
			err = c.reload()
		}
		if err == nil {
			continue
		}
		if c.ctx.Err() != nil {
			return
		}
		if progressed {
			backoff = minBackoff
		}
		if c.trouble.Swap(&err) == nil {
			c.config.Log.Warn().Err(err).Msg("watch cache has lost its store")
		}
		select {
		case <-time.After(backoff):
		case <-c.ctx.Done():
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// reload begins anew, which ends all watchers.
func (c *Cache) reload() error {
	c.config.Log.Warn().Int64("revision", c.Revision()).Msg("watch cache has missed changes and lists again")
	next, err := c.load(c.ctx)
	if err != nil {
		return err
	}
	c.kept.clear()
	c.metrics.initialized()
	c.publish(next)
	return nil
}

// consume applies what the store tells until that fails. It returns whether
// the store told anything.
func (c *Cache) consume() (progressed bool, err error) {
	w, err := c.inner.Watch(c.ctx, c.config.Prefix, storage.WatchOptions{After: c.Revision(), NoPrev: true, Progress: true})
	if err != nil {
		return false, err
	}
	c.feed.Store(&w)
	defer w.Close()
	defer c.feed.Store(nil)
	if c.trouble.Swap(nil) != nil {
		c.config.Log.Info().Msg("watch cache has its store again")
	}
	for {
		events, err := w.Next(c.ctx)
		if err != nil {
			return progressed, err
		}
		c.apply(events, w.Progress())
		progressed = true
	}
}

// apply makes the state after some events.
func (c *Cache) apply(events []storage.Event, progress int64) {
	from := c.state.Load()
	c.changes++
	change := newChange(c.changes, from, limits{c.config.RingSize, c.config.RingBytes})
	for i := range events {
		e := &events[i]
		if e.Revision() <= from.revision {
			continue // told before the watch was renewed
		}
		part := change.edit(bucketName(c.config.Prefix, e.Item.Key))
		var event storage.Event
		if e.Type == storage.Delete {
			before := part.editor.remove(e.Item.Key)
			if before == nil {
				continue
			}
			event = storage.Event{Type: storage.Delete, Item: c.removed(before, e.Revision()), Prev: before}
		} else {
			before := part.editor.t.get(e.Item.Key)
			item := c.dress(e.Item, before)
			part.editor.put(item)
			event = storage.Event{Type: storage.Put, Item: item, Prev: before}
			if c.config.Decorate != nil {
				event.ShareLeft(c.config.Decorate)
			}
		}
		part.b.ring = part.b.ring.add(event, change.limits)
	}
	c.metrics.received(len(events))
	c.kept.expire(time.Now())
	if progress > from.revision || len(change.edited) > 0 {
		c.publish(change.finish(progress))
	}
}

// removed returns the last state of an item with the revision of its removal.
func (c *Cache) removed(before *storage.Item, revision int64) *storage.Item {
	item := *before
	item.Revision = revision
	if c.config.Decorate != nil {
		item.Value = c.config.Decorate(before.Value, revision)
	}
	return &item
}

// publish shows a state to the readers.
func (c *Cache) publish(next *state) {
	c.state.Swap(next).announce(next)
}

// Create implements storage.Writer.
func (c *Cache) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (int64, error) {
	return c.inner.Create(ctx, key, value, ttl)
}

// Update implements storage.Writer.
func (c *Cache) Update(ctx context.Context, key string, value []byte, expected int64, ttl time.Duration) (int64, error) {
	revision, err := c.inner.Update(ctx, key, value, expected, ttl)
	return revision, c.conflict(err)
}

// Delete implements storage.Writer.
func (c *Cache) Delete(ctx context.Context, key string, expected int64) (int64, error) {
	revision, err := c.inner.Delete(ctx, key, expected)
	return revision, c.conflict(err)
}

// conflict dresses the item that a conflict carries.
func (c *Cache) conflict(err error) error {
	var conflict *storage.ConflictError
	if err == nil || !errors.As(err, &conflict) {
		return err
	}
	return &storage.ConflictError{Current: c.dressed(conflict.Current)}
}

// dressed dresses an item if it is the cache's to do so.
func (c *Cache) dressed(item storage.Item) storage.Item {
	if !strings.HasPrefix(item.Key, c.config.Prefix) {
		return item
	}
	return *c.dress(&item, nil)
}

// Current implements storage.Store.
func (c *Cache) Current(ctx context.Context) (int64, error) { return c.inner.Current(ctx) }

// Compact implements storage.Store. It first lets the cache catch up, so that
// it does not miss what is forgotten.
func (c *Cache) Compact(ctx context.Context, revision int64) error {
	now, err := c.inner.Current(ctx)
	if err != nil {
		return err
	}
	if revision <= now {
		if _, err := c.reach(ctx, revision, c.config.FreshWait); err != nil && !errors.Is(err, errBehind) {
			return err
		}
	}
	if err := c.inner.Compact(ctx, revision); err != nil {
		return err
	}
	for known := c.compacted.Load(); revision > known; known = c.compacted.Load() {
		if c.compacted.CompareAndSwap(known, revision) {
			break
		}
	}
	return nil
}

// Close implements storage.Store. It closes the store below, too.
func (c *Cache) Close() error {
	c.once.Do(func() {
		c.cancel()
		c.running.Wait()
		c.metrics.close()
		last := *c.state.Load()
		last.closed = true
		last.next = make(chan struct{})
		c.publish(&last)
		c.err = c.inner.Close()
	})
	return c.err
}
