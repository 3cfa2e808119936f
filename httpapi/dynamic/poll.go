package dynamic

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/storage/memory"
)

const (
	// pollHistory is how many changes a watch may lag behind.
	pollHistory = 8192
	// pollFailures is after how many failed looks in a row watches end.
	pollFailures = 3
)

// A Poll turns the list of a virtual resource into changes: whoever watches
// looks at the list when it is time, and all others see the differences, too.
// Its revisions grow from one start of the process to the next.
type Poll struct {
	row      *api.Resource
	interval time.Duration
	list     func(context.Context) (*unstructured.UnstructuredList, error)

	base  int64         // what is added to the revisions of store
	store storage.Store // the last list, and the changes before
	turn  chan struct{} // is held by who looks

	mu       sync.Mutex // guards the fields below
	due      time.Time  // when it is time for the next look
	failures int        // looks that failed, in a row
}

func newPoll(row *api.Resource, interval time.Duration, list func(context.Context) (*unstructured.UnstructuredList, error)) *Poll {
	return &Poll{
		row: row, interval: interval, list: list,
		base: time.Now().UnixMicro(), store: memory.New(memory.Config{History: pollHistory}), turn: make(chan struct{}, 1),
	}
}

// wait returns how long it is until the next look.
func (p *Poll) wait() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Until(p.due)
}

// look brings the store up to date if it is time.
func (p *Poll) look(ctx context.Context) error {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if p.wait() > 0 {
		return nil // somebody else was here
	}
	list, err := p.list(ctx)
	if err == nil {
		err = p.compare(ctx, list)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.due = time.Now().Add(p.interval)
	if err == nil {
		p.failures = 0
		return nil
	}
	p.failures++
	return fmt.Errorf("list %s: %w", p.row.GR(), err)
}

// Soon has the next watcher look without waiting: something has changed.
func (p *Poll) Soon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.due = time.Time{}
}

// compare makes the store hold a list.
func (p *Poll) compare(ctx context.Context, list *unstructured.UnstructuredList) error {
	found, err := p.store.List(ctx, "", storage.ListOptions{})
	if err != nil {
		return err
	}
	old := make(map[string]*storage.Item, len(found.Items))
	for i := range found.Items {
		old[found.Items[i].Key] = &found.Items[i]
	}
	for i := range list.Items {
		key, value, err := p.Encode(&list.Items[i])
		if err != nil {
			return err
		}
		was := old[key]
		delete(old, key)
		if err := p.put(ctx, key, value, was); err != nil {
			return err
		}
	}
	for key, item := range old {
		if _, err := p.store.Delete(ctx, key, item.Revision); err != nil {
			return err
		}
	}
	return nil
}

// put makes the store hold an object.
func (p *Poll) put(ctx context.Context, key string, value []byte, was *storage.Item) error {
	var err error
	switch {
	case was != nil && bytes.Equal(was.Value, value):
	case was != nil && uidOf(was.Value) == uidOf(value):
		_, err = p.store.Update(ctx, key, value, was.Revision, 0)
	case was != nil: // another object of the same name
		if _, err = p.store.Delete(ctx, key, was.Revision); err == nil {
			_, err = p.store.Create(ctx, key, value, 0)
		}
	default:
		if _, err = p.store.Create(ctx, key, value, 0); errors.Is(err, storage.ErrExists) {
			return fmt.Errorf("%q is in the list twice", key)
		}
	}
	return err
}

func uidOf(value []byte) string { return string(api.Member(api.Member(value, "metadata"), "uid")) }

// Encode returns what an object is known by, and the object as JSON.
func (p *Poll) Encode(obj *unstructured.Unstructured) (key string, value []byte, err error) {
	obj.SetGroupVersionKind(p.row.GVK())
	value, err = api.Encode(obj)
	return p.row.Key(obj.GetNamespace(), obj.GetName()), value, err
}

// Present returns the revision of a moment during the call. The list is not
// older than the interval then, so that a watch after it begins with what a
// list shows that is made later.
func (p *Poll) Present(ctx context.Context) (int64, error) {
	if p.wait() <= 0 {
		if err := p.look(ctx); err != nil {
			return 0, err
		}
	}
	n, err := p.store.Current(ctx)
	return p.base + n, err
}

// RevisionOf returns the resourceVersion of an object: where watches have seen
// it, or else a digest.
func (p *Poll) RevisionOf(ctx context.Context, key string, value []byte) int64 {
	if item, err := p.store.Get(ctx, key, storage.GetOptions{}); err == nil && bytes.Equal(item.Value, value) {
		return p.base + item.Revision
	}
	return Digest(value)
}

// Digest returns a number that stands for the content of an object.
func Digest(value []byte) int64 {
	h := fnv.New64a()
	h.Write(value)                 // it never fails
	return int64(h.Sum64()>>1 | 1) //nolint:gosec // 63 bits
}

// List returns the present list as watches see it.
func (p *Poll) List(ctx context.Context, prefix string, opts storage.ListOptions) (storage.List, error) {
	if _, err := p.Present(ctx); err != nil {
		return storage.List{}, err
	}
	found, err := p.store.List(ctx, prefix, storage.ListOptions{Filter: opts.Filter})
	found.Revision += p.base
	for i := range found.Items {
		found.Items[i].Revision += p.base
	}
	return found, err
}

// Watch returns the changes after a revision.
func (p *Poll) Watch(ctx context.Context, prefix string, opts storage.WatchOptions) (storage.Watcher, error) {
	if _, err := p.Present(ctx); err != nil {
		return nil, err
	}
	if opts.After != 0 {
		if opts.After <= p.base {
			return nil, &storage.RevisionError{Requested: opts.After, Limit: p.base, Err: storage.ErrCompacted}
		}
		opts.After -= p.base
	}
	w, err := p.store.Watch(ctx, prefix, opts)
	if err != nil {
		return nil, err
	}
	return &pollWatcher{Watcher: w, poll: p}, nil
}

// A pollWatcher is one watch.
type pollWatcher struct {
	storage.Watcher
	poll *Poll
}

// Next implements storage.Watcher. It is here that somebody looks at the list.
func (w *pollWatcher) Next(ctx context.Context) ([]storage.Event, error) {
	for {
		due, cancel := context.WithTimeout(ctx, max(w.poll.wait(), 0))
		events, err := w.Watcher.Next(due)
		cancel()
		switch {
		case err == nil:
			return w.shift(events), nil
		case ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded):
			return nil, err
		}
		if err := w.poll.look(ctx); err != nil && (ctx.Err() != nil || w.poll.failed()) {
			return nil, err
		}
	}
}

func (p *Poll) failed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failures >= pollFailures
}

// shift returns events with the revisions that clients see.
func (w *pollWatcher) shift(events []storage.Event) []storage.Event {
	out := make([]storage.Event, len(events))
	for i := range events {
		out[i] = storage.Event{Type: events[i].Type, Item: w.moved(events[i].Item), Prev: w.moved(events[i].Prev)}
	}
	return out
}

func (w *pollWatcher) moved(item *storage.Item) *storage.Item {
	if item == nil {
		return nil
	}
	dup := *item
	dup.Revision += w.poll.base
	return &dup
}

// Progress implements storage.Watcher.
func (w *pollWatcher) Progress() int64 { return w.Watcher.Progress() + w.poll.base }
