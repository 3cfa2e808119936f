package etcd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/proa-project/proa/storage"
)

// watcher is a watch of etcd. It resumes by itself when a connection is lost.
type watcher struct {
	s      *Store
	opts   storage.WatchOptions
	ctx    context.Context //nolint:containedctx // the life of the watcher, which ends with the store's
	cancel context.CancelFunc
	once   sync.Once
	seen   atomic.Int64

	// requests has room for one: more would ask for the same.
	requests chan struct{}

	// The fields below belong to the caller of Next.
	responses clientv3.WatchChan
	batch     []storage.Event
	err       error // why the watcher has ended
}

var _ storage.ProgressRequester = (*watcher)(nil)

// Watch implements storage.Store.
func (s *Store) Watch(ctx context.Context, prefix string, opts storage.WatchOptions) (storage.Watcher, error) {
	after := opts.After
	if after == 0 {
		now, err := s.Current(ctx)
		if err != nil {
			return nil, err
		}
		after = now
	} else if err := s.remembers(ctx, after); err != nil {
		return nil, err
	}
	w := &watcher{s: s, opts: opts, requests: make(chan struct{}, 1)}
	w.seen.Store(after)
	w.ctx, w.cancel = context.WithCancel(s.ctx)
	options := []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithRev(after + 1)}
	if !opts.NoPrev {
		options = append(options, clientv3.WithPrevKV())
	}
	stream := w.ctx
	if s.local == nil {
		stream = clientv3.WithRequireLeader(stream)
	}
	if opts.Progress {
		// A stream of its own: progress is told to all watches of a stream
		// together, when the last of them is up to date.
		stream = metadata.AppendToOutgoingContext(stream, "proa-watch", strconv.FormatUint(streams.Add(1), 10))
		options = append(options, clientv3.WithProgressNotify())
		s.running.Go(func() { w.askForProgress(stream) })
	}
	w.responses = s.client.Watch(stream, prefix, options...)
	return w, nil
}

// streams numbers the streams of watchers that want progress.
var streams atomic.Uint64 //nolint:gochecknoglobals // a source of names

// remembers returns ErrCompacted if the changes after a revision are gone.
func (s *Store) remembers(ctx context.Context, after int64) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	if s.local != nil {
		if oldest := s.oldest(); after < oldest-1 {
			return &storage.RevisionError{Requested: after, Limit: oldest, Err: storage.ErrCompacted}
		}
		return nil
	}
	_, err := s.get(ctx, "watch", "\x00", after, clientv3.WithRev(after+1), clientv3.WithCountOnly(), clientv3.WithSerializable())
	if errors.Is(err, storage.ErrFutureRevision) {
		return nil
	}
	return err
}

// Next implements storage.Watcher.
func (w *watcher) Next(ctx context.Context) ([]storage.Event, error) {
	for {
		if w.ctx.Err() != nil {
			return nil, storage.ErrClosed
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if w.err != nil {
			return nil, w.err
		}
		select {
		case response, ok := <-w.responses:
			if w.err = w.failure(response, ok); w.err != nil {
				return nil, w.err
			}
			before := w.seen.Load()
			if events := w.take(response); len(events) > 0 || w.opts.Progress && w.seen.Load() > before {
				return events, nil
			}
		case <-ctx.Done():
		case <-w.ctx.Done():
		}
	}
}

// failure returns why a response is the last.
func (w *watcher) failure(response clientv3.WatchResponse, ok bool) error {
	err := response.Err()
	switch {
	case w.ctx.Err() != nil:
		return storage.ErrClosed
	case !ok:
		return fmt.Errorf("watch: %w: the stream has ended", storage.ErrUnavailable)
	case errors.Is(err, rpctypes.ErrCompacted):
		return &storage.RevisionError{Requested: w.seen.Load(), Limit: response.CompactRevision, Err: storage.ErrCompacted}
	case err != nil:
		return fmt.Errorf("watch: %w: %w", storage.ErrUnavailable, err)
	}
	return nil
}

// take returns the events of a response and moves the progress.
func (w *watcher) take(response clientv3.WatchResponse) []storage.Event {
	clear(w.batch)
	w.batch = w.batch[:0]
	for _, e := range response.Events {
		if event := w.event(e); w.selects(&event, e) {
			w.batch = append(w.batch, event)
		}
	}
	last := int64(0)
	if n := len(response.Events); n > 0 {
		last = response.Events[n-1].Kv.ModRevision
	} else if response.IsProgressNotify() {
		last = response.Header.Revision
	}
	if last > w.seen.Load() {
		w.seen.Store(last)
		w.s.learn(last)
	}
	return w.batch
}

func (w *watcher) event(e *clientv3.Event) storage.Event {
	current := item(e.Kv)
	event := storage.Event{Type: storage.Put, Item: &current}
	if e.PrevKv != nil {
		before := item(e.PrevKv)
		event.Prev = &before
	}
	if e.Type == clientv3.EventTypeDelete {
		event.Type = storage.Delete
		current.Value = nil
		if event.Prev != nil {
			current.Value = event.Prev.Value
		}
	}
	return event
}

func (w *watcher) selects(event *storage.Event, e *clientv3.Event) bool {
	switch {
	case w.opts.Filter == nil:
		return true
	case event.Type == storage.Put && w.opts.Filter(event.Item):
		return true
	case event.Prev != nil:
		return w.opts.Filter(event.Prev)
	}
	return event.Type == storage.Delete || !e.IsCreate() && !w.opts.NoPrev // what was before is not known
}

// Progress implements storage.Watcher.
func (w *watcher) Progress() int64 { return w.seen.Load() }

// RequestProgress implements storage.ProgressRequester.
func (w *watcher) RequestProgress() {
	select {
	case w.requests <- struct{}{}:
	default:
	}
}

// askForProgress passes the requests on.
func (w *watcher) askForProgress(stream context.Context) {
	for {
		select {
		case <-w.requests:
			// An error means that the stream is being renewed; who waits for
			// progress asks again.
			_ = w.s.client.RequestProgress(stream)
		case <-w.ctx.Done():
			return
		}
	}
}

// Close implements storage.Watcher.
func (w *watcher) Close() { w.once.Do(w.cancel) }
