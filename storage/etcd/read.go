package etcd

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/proa-project/proa/storage"
)

const (
	// futureWait is how long a NotOlderThan read waits for its revision.
	futureWait = 3 * time.Second
	// futurePoll is how often it looks.
	futurePoll = 20 * time.Millisecond
	// maxPage bounds the pages of a filtered list, which grow.
	maxPage = 10_000
	// listAttempts is how often a list begins again when history is
	// compacted under it.
	listAttempts = 3
)

// Get implements storage.Reader.
func (s *Store) Get(ctx context.Context, key string, opts storage.GetOptions) (storage.Item, error) {
	response, err := s.read(ctx, "get", key, opts.Match, opts.Revision)
	if err != nil {
		return storage.Item{}, err
	}
	if len(response.Kvs) == 0 {
		return storage.Item{}, storage.ErrNotFound
	}
	return item(response.Kvs[0]), nil
}

// List implements storage.Reader.
func (s *Store) List(ctx context.Context, prefix string, opts storage.ListOptions) (storage.List, error) {
	for attempt := 1; ; attempt++ {
		list, err := s.list(ctx, prefix, opts)
		if opts.Match == storage.Exact || attempt == listAttempts || !errors.Is(err, storage.ErrCompacted) {
			return list, err
		}
	}
}

// list fetches page after page, all as of the revision of the first.
func (s *Store) list(ctx context.Context, prefix string, opts storage.ListOptions) (storage.List, error) {
	l := lister{opts: opts, page: s.config.PageSize, list: storage.List{Remaining: -1}}
	from, end := prefix, clientv3.GetPrefixRangeEnd(prefix)
	if prefix == "" {
		from, end = "\x00", "\x00" // etcd's words for everything
	}
	if opts.After >= from {
		from = opts.After + "\x00"
	}
	if end != "\x00" && from >= end {
		return s.nothing(ctx, prefix, opts)
	}
	match, revision := opts.Match, opts.Revision
	for {
		response, err := s.read(ctx, "list", from, match, revision, l.options(end)...)
		if err != nil {
			return storage.List{}, err
		}
		if l.list.Revision == 0 {
			if l.list.Revision = response.Header.Revision; match == storage.Exact {
				l.list.Revision = revision
			}
			match, revision = storage.Exact, l.list.Revision
		}
		if !l.add(response) {
			return l.list, nil
		}
		from = string(response.Kvs[len(response.Kvs)-1].Key) + "\x00"
	}
}

// A lister makes a list out of pages.
type lister struct {
	opts storage.ListOptions
	page int
	list storage.List
}

// options are those of the next page, up to end.
func (l *lister) options(end string) []clientv3.OpOption {
	size := l.page
	if l.opts.Limit > 0 && l.opts.Filter == nil {
		size = min(size, l.opts.Limit-len(l.list.Items))
	}
	options := []clientv3.OpOption{clientv3.WithRange(end), clientv3.WithLimit(int64(size))}
	if l.opts.KeysOnly {
		options = append(options, clientv3.WithKeysOnly())
	}
	return options
}

// add adds a page and returns whether another is wanted.
func (l *lister) add(page *clientv3.GetResponse) bool {
	if l.list.Items == nil && l.opts.Filter == nil {
		l.list.Items = make([]storage.Item, 0, capacity(page.Count, l.opts.Limit))
	}
	for _, kv := range page.Kvs {
		i := item(kv)
		if l.opts.Filter != nil && !l.opts.Filter(&i) {
			continue
		}
		if l.full() {
			l.list.More = true
			return false
		}
		l.list.Items = append(l.list.Items, i)
	}
	if !page.More || len(page.Kvs) == 0 {
		return false
	}
	if l.opts.Filter != nil {
		l.page = min(2*l.page, max(l.page, maxPage))
		return true
	}
	if l.full() {
		l.list.More = true
		l.list.Remaining = page.Count - int64(len(page.Kvs))
		return false
	}
	return true
}

func (l *lister) full() bool { return l.opts.Limit > 0 && len(l.list.Items) == l.opts.Limit }

// capacity is the room for count items, of which limit are wanted.
func capacity(count int64, limit int) int64 {
	if limit > 0 {
		return min(count, int64(limit))
	}
	return count
}

// nothing is a list that After has come to the end of.
func (s *Store) nothing(ctx context.Context, prefix string, opts storage.ListOptions) (storage.List, error) {
	response, err := s.read(ctx, "list", prefix, opts.Match, opts.Revision, clientv3.WithCountOnly())
	if err != nil {
		return storage.List{}, err
	}
	list := storage.List{Revision: response.Header.Revision, Remaining: -1}
	if opts.Match == storage.Exact {
		list.Revision = opts.Revision
	}
	return list, nil
}

// read is the one way that a read takes.
func (s *Store) read(ctx context.Context, operation, key string, match storage.Match, revision int64, options ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	switch {
	case match == storage.Exact && revision <= 0:
		if err := s.usable(ctx); err != nil {
			return nil, err
		}
		return nil, &storage.RevisionError{Requested: revision, Err: storage.ErrCompacted}
	case match == storage.Exact:
		options = append(options, clientv3.WithRev(revision))
		response, err := s.get(ctx, operation, key, revision, append(options, clientv3.WithSerializable())...)
		if s.local == nil && errors.Is(err, storage.ErrFutureRevision) {
			// A member that lags behind does not know the revision yet.
			response, err = s.get(ctx, operation, key, revision, options...)
		}
		return response, err
	case s.local != nil:
		options = append(options, clientv3.WithSerializable())
		if match == storage.Fresh {
			// etcd tells watchers of a change a moment before its reads show
			// it: what a watcher has seen, a fresh read waits for.
			match, revision = storage.NotOlderThan, s.known.Load()
		}
	case match == storage.NotOlderThan:
		response, err := s.get(ctx, operation, key, revision, append(options, clientv3.WithSerializable())...)
		if err != nil || response.Header.Revision >= revision {
			return response, err
		}
	}
	response, err := s.get(ctx, operation, key, revision, options...)
	if err != nil || match == storage.Fresh || response.Header.Revision >= revision {
		return response, err
	}
	timeout := time.NewTimer(futureWait)
	defer timeout.Stop()
	poll := time.NewTicker(futurePoll)
	defer poll.Stop()
	for {
		select {
		case <-poll.C:
		case <-timeout.C:
			return nil, &storage.RevisionError{Requested: revision, Limit: response.Header.Revision, Err: storage.ErrFutureRevision}
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.ctx.Done():
			return nil, storage.ErrClosed
		}
		response, err = s.get(ctx, operation, key, revision, options...)
		if err != nil || response.Header.Revision >= revision {
			return response, err
		}
	}
}

// get is one request.
func (s *Store) get(ctx context.Context, operation, key string, revision int64, options ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	done := s.metrics.start(operation)
	limited, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	response, err := s.client.Get(limited, key, options...)
	done(err)
	if err != nil {
		return nil, s.explain(ctx, operation, key, revision, err)
	}
	s.answered()
	return response, nil
}

// Current implements storage.Store.
func (s *Store) Current(ctx context.Context) (int64, error) {
	if err := s.usable(ctx); err != nil {
		return 0, err
	}
	if s.local != nil {
		return s.known.Load(), nil
	}
	response, err := s.get(ctx, "current", "\x00", 0, clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	return response.Header.Revision, nil
}

// Compact implements storage.Store.
func (s *Store) Compact(ctx context.Context, revision int64) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	done := s.metrics.start("compact")
	limited, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	_, err := s.client.Compact(limited, revision)
	if errors.Is(err, rpctypes.ErrCompacted) {
		err = nil
	}
	done(err)
	return s.explain(ctx, "compact", "", revision, err)
}

// compactRegularly keeps the history of one to two periods.
func (s *Store) compactRegularly() {
	tick := time.NewTicker(s.config.Compaction)
	defer tick.Stop()
	last := int64(0)
	for {
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			return
		}
		now, err := s.Current(s.ctx)
		if err == nil && last > 0 {
			err = s.Compact(s.ctx, last)
		}
		if err != nil {
			if s.ctx.Err() == nil {
				s.config.Log.Warn().Err(err).Msg("etcd history could not be compacted")
			}
			continue
		}
		last = now
	}
}

func item(kv *mvccpb.KeyValue) storage.Item {
	return storage.Item{Key: string(kv.Key), Value: kv.Value, Revision: kv.ModRevision}
}
