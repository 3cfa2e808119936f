package watchcache

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/proa-project/proa/storage"
)

const (
	// futureWait is how long a NotOlderThan read waits for its revision.
	futureWait = 3 * time.Second
	// A reader that waits asks for progress after firstNudge, and again
	// every nudge: most often an event is already on its way.
	firstNudge = 3 * time.Millisecond
	nudge      = 50 * time.Millisecond
)

// errBehind says that the cache did not catch up in time.
var errBehind = errors.New("the watch cache is behind its store")

// Get implements storage.Reader.
func (c *Cache) Get(ctx context.Context, key string, opts storage.GetOptions) (storage.Item, error) {
	if !strings.HasPrefix(key, c.config.Prefix) {
		return c.inner.Get(ctx, key, opts)
	}
	s, err := c.at(ctx, key, opts.Match, opts.Revision)
	if errors.Is(err, errBehind) {
		return c.getStore(ctx, key, opts)
	}
	if err != nil {
		return storage.Item{}, err
	}
	if b := s.bucket(bucketName(c.config.Prefix, key)); b != nil {
		if item := b.tree.get(key); item != nil {
			return *item, nil
		}
	}
	return storage.Item{}, storage.ErrNotFound
}

// getStore gets an item from the store below and dresses it.
func (c *Cache) getStore(ctx context.Context, key string, opts storage.GetOptions) (storage.Item, error) {
	item, err := c.inner.Get(ctx, key, opts)
	if err != nil {
		return storage.Item{}, err
	}
	return c.dressed(item), nil
}

// List implements storage.Reader.
func (c *Cache) List(ctx context.Context, prefix string, opts storage.ListOptions) (storage.List, error) {
	if !strings.HasPrefix(prefix, c.config.Prefix) {
		return c.listStore(ctx, prefix, opts)
	}
	s, err := c.at(ctx, prefix, opts.Match, opts.Revision)
	if errors.Is(err, errBehind) {
		return c.listStore(ctx, prefix, opts)
	}
	if err != nil {
		return storage.List{}, err
	}
	revision := s.revision
	if opts.Match == storage.Exact {
		revision = opts.Revision
	}
	var scratch [4]*bucket
	buckets := s.covering(c.config.Prefix, prefix, scratch[:0])
	list := c.list(buckets, prefix, opts)
	list.Revision = revision
	if list.More {
		c.kept.add(s, buckets)
	}
	return list, nil
}

// listStore lists the store below and dresses the items.
func (c *Cache) listStore(ctx context.Context, prefix string, opts storage.ListOptions) (storage.List, error) {
	if filter := opts.Filter; filter != nil {
		opts.KeysOnly = false
		opts.Filter = func(i *storage.Item) bool {
			item := c.dressed(*i)
			return filter(&item)
		}
	}
	list, err := c.inner.List(ctx, prefix, opts)
	if err != nil || opts.KeysOnly {
		return list, err
	}
	for i := range list.Items {
		list.Items[i] = c.dressed(list.Items[i])
	}
	return list, nil
}

// at returns a state that answers a read of the keys that begin with prefix,
// or errBehind if the store has to be asked.
func (c *Cache) at(ctx context.Context, prefix string, match storage.Match, revision int64) (*state, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := c.state.Load()
	switch {
	case s.closed:
		return nil, storage.ErrClosed
	case match == storage.Exact:
		return c.exactly(s, prefix, revision)
	case match == storage.Fresh:
		return c.fresh(ctx)
	case s.revision >= revision:
		return s, nil
	}
	s, err := c.reach(ctx, revision, futureWait)
	if errors.Is(err, errBehind) {
		err = &storage.RevisionError{Requested: revision, Limit: c.Revision(), Err: storage.ErrFutureRevision}
	}
	return s, err
}

// fresh returns a state that has every write acknowledged before, or
// errBehind.
func (c *Cache) fresh(ctx context.Context) (*state, error) {
	target, err := c.inner.Current(ctx)
	if err != nil {
		return nil, err
	}
	s := c.state.Load()
	if s.revision < target {
		begin := time.Now()
		s, err = c.reach(ctx, target, c.config.FreshWait)
		c.metrics.waited(time.Since(begin))
	}
	c.metrics.consistentRead(err == nil)
	return s, err
}

// reach waits until the cache has come to a revision, or returns errBehind.
func (c *Cache) reach(ctx context.Context, revision int64, patience time.Duration) (*state, error) {
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	ask := time.NewTimer(min(firstNudge, patience))
	defer ask.Stop()
	for {
		s := c.state.Load()
		switch {
		case s.closed:
			return nil, storage.ErrClosed
		case s.revision >= revision:
			return s, nil
		}
		select {
		case <-s.next:
		case <-ask.C:
			c.nudge()
			ask.Reset(nudge)
		case <-timeout.C:
			return nil, errBehind
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// nudge asks the store to tell how far it is.
func (c *Cache) nudge() {
	if w := c.feed.Load(); w != nil {
		if r, ok := (*w).(storage.ProgressRequester); ok {
			r.RequestProgress()
		}
	}
}

// exactly returns a state that is known to be the same as of revision.
func (c *Cache) exactly(s *state, prefix string, revision int64) (*state, error) {
	if limit := c.compacted.Load(); revision < limit {
		return nil, &storage.RevisionError{Requested: revision, Limit: limit, Err: storage.ErrCompacted}
	}
	if revision >= s.base && s.unchangedSince(c.config.Prefix, prefix, revision) {
		return s, nil
	}
	if s := c.kept.find(c.config.Prefix, prefix, revision); s != nil {
		return s, nil
	}
	return nil, errBehind
}

// unchangedSince reports whether the keys that begin with prefix are in s as
// they were at revision, which must not be before s.base.
func (s *state) unchangedSince(root, prefix string, revision int64) bool {
	if revision > s.revision {
		return false
	}
	var scratch [4]*bucket
	for _, b := range s.covering(root, prefix, scratch[:0]) {
		if b.ring.newest() > revision {
			return false
		}
	}
	return true
}

// list collects items of some buckets.
func (c *Cache) list(buckets []*bucket, prefix string, opts storage.ListOptions) storage.List {
	var scratch [1]span
	spans, total := spansOf(buckets, c.config.Prefix, prefix, opts.After, scratch[:0])
	list := storage.List{Remaining: -1}
	if opts.Filter != nil {
		for i := 0; i < len(spans) && !list.More; i++ {
			spans[i].tree.parts(spans[i].from, spans[i].to, func(items []*storage.Item) bool {
				return selectItems(&list, items, opts)
			})
		}
		return list
	}
	n := total
	if opts.Limit > 0 && opts.Limit < total {
		n = opts.Limit
		list.More, list.Remaining = true, int64(total-n)
	}
	list.Items = make([]storage.Item, n)
	rest := list.Items
	for _, s := range spans {
		s.tree.parts(s.from, s.to, func(items []*storage.Item) bool {
			items = items[:min(len(items), len(rest))]
			for i, item := range items {
				rest[i] = *item
			}
			rest = rest[len(items):]
			return len(rest) > 0
		})
	}
	return list
}

// selectItems adds what the filter keeps; it returns false when the list is
// full and more would follow.
func selectItems(list *storage.List, items []*storage.Item, opts storage.ListOptions) bool {
	for _, item := range items {
		if !opts.Filter(item) {
			continue
		}
		if opts.Limit > 0 && len(list.Items) == opts.Limit {
			list.More = true
			return false
		}
		list.Items = append(list.Items, *item)
	}
	return true
}

// A span is a part of a tree.
type span struct {
	tree     tree
	from, to position
}

// spansOf returns where the keys are that begin with prefix and come after
// another, in the order of keys, and how many they are.
func spansOf(buckets []*bucket, root, prefix, after string, spans []span) ([]span, int) {
	total := 0
	mixed := false // the keys of the root bucket are between those of others
	for _, b := range buckets {
		from, to := b.tree.span(prefix, after)
		if n := b.tree.count(from, to); n > 0 {
			mixed = mixed || b.name == root && len(buckets) > 1
			total += n
			spans = append(spans, span{b.tree, from, to})
		}
	}
	if !mixed {
		return spans, total
	}
	all := make([]*storage.Item, 0, total)
	for _, s := range spans {
		s.tree.parts(s.from, s.to, func(items []*storage.Item) bool {
			all = append(all, items...)
			return true
		})
	}
	slices.SortFunc(all, func(a, b *storage.Item) int { return strings.Compare(a.Key, b.Key) })
	t := newTree(all)
	return append(spans[:0], span{t, position{}, position{len(t.chunks), 0}}), total
}
