package storagetest

import (
	"context"
	"sync"
	"time"

	"github.com/proa-project/proa/storage"
)

// An Op is an operation that a Faulty store can be told to fail.
type Op string

// The operations.
const (
	Get     Op = "get"
	List    Op = "list"
	Create  Op = "create"
	Update  Op = "update"
	Delete  Op = "delete"
	Watch   Op = "watch"
	Next    Op = "next" // of the store's watchers, also while they wait
	Current Op = "current"
	Compact Op = "compact"
)

// Ops are all operations.
func Ops() []Op { return []Op{Get, List, Create, Update, Delete, Watch, Next, Current, Compact} }

// Faulty is a Store that passes everything on to another and fails on demand.
// Faults may be set and lifted at any time.
type Faulty struct {
	inner storage.Store

	mu      sync.Mutex // guards the fields below
	faults  map[Op]fault
	calls   map[Op]int
	changed chan struct{} // closed and replaced when faults change
}

// fault is what befalls an operation.
type fault struct {
	err   error
	left  int  // how many calls still fail; -1 is all
	after bool // the operation is carried out, then err is returned
	hang  bool // the operation blocks until its context ends
}

// NewFaulty returns a Faulty in front of inner. Close closes inner.
func NewFaulty(inner storage.Store) *Faulty {
	return &Faulty{inner: inner, faults: map[Op]fault{}, calls: map[Op]int{}, changed: make(chan struct{})}
}

// Fail makes the operations fail with err until Heal, without being carried
// out. No operation means all of them.
func (f *Faulty) Fail(err error, ops ...Op) { f.set(fault{err: err, left: -1}, ops) }

// FailNext makes the next n calls of each operation fail with err.
func (f *Faulty) FailNext(n int, err error, ops ...Op) { f.set(fault{err: err, left: n}, ops) }

// FailAfter makes the operations return err after they have been carried out:
// what a caller sees when the answer is lost on its way.
func (f *Faulty) FailAfter(err error, ops ...Op) { f.set(fault{err: err, left: -1, after: true}, ops) }

// Hang makes the operations block until their context ends or the fault is
// lifted, after which they are carried out.
func (f *Faulty) Hang(ops ...Op) { f.set(fault{left: -1, hang: true}, ops) }

// Heal lifts the faults of the operations. No operation means all of them.
func (f *Faulty) Heal(ops ...Op) { f.set(fault{}, ops) }

// Calls returns how often the operation has been called.
func (f *Faulty) Calls(op Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[op]
}

func (f *Faulty) set(what fault, ops []Op) {
	if len(ops) == 0 {
		ops = Ops()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, op := range ops {
		if what == (fault{}) {
			delete(f.faults, op)
		} else {
			f.faults[op] = what
		}
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

// enter counts a call and returns the error to fail with before it, and the
// error to fail with after it.
func (f *Faulty) enter(ctx context.Context, op Op) (before, after error) {
	f.mu.Lock()
	f.calls[op]++
	f.mu.Unlock()
	for {
		f.mu.Lock()
		what, found := f.faults[op]
		if found && what.left > 0 {
			if what.left--; what.left == 0 {
				delete(f.faults, op)
			} else {
				f.faults[op] = what
			}
		}
		changed := f.changed
		f.mu.Unlock()
		switch {
		case !found:
			return nil, nil
		case what.hang:
			select {
			case <-changed:
			case <-ctx.Done():
				return ctx.Err(), nil
			}
		case what.after:
			return nil, what.err
		default:
			return what.err, nil
		}
	}
}

// call carries out one operation with the faults that are set for it.
func call[T any](ctx context.Context, f *Faulty, op Op, do func() (T, error)) (T, error) {
	var zero T
	before, after := f.enter(ctx, op)
	if before != nil {
		return zero, before
	}
	result, err := do()
	if after != nil {
		return zero, after
	}
	return result, err
}

// Get implements storage.Store.
func (f *Faulty) Get(ctx context.Context, key string, opts storage.GetOptions) (storage.Item, error) {
	return call(ctx, f, Get, func() (storage.Item, error) { return f.inner.Get(ctx, key, opts) })
}

// List implements storage.Store.
func (f *Faulty) List(ctx context.Context, prefix string, opts storage.ListOptions) (storage.List, error) {
	return call(ctx, f, List, func() (storage.List, error) { return f.inner.List(ctx, prefix, opts) })
}

// Create implements storage.Store.
func (f *Faulty) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (int64, error) {
	return call(ctx, f, Create, func() (int64, error) { return f.inner.Create(ctx, key, value, ttl) })
}

// Update implements storage.Store.
func (f *Faulty) Update(ctx context.Context, key string, value []byte, expected int64, ttl time.Duration) (int64, error) {
	return call(ctx, f, Update, func() (int64, error) { return f.inner.Update(ctx, key, value, expected, ttl) })
}

// Delete implements storage.Store.
func (f *Faulty) Delete(ctx context.Context, key string, expected int64) (int64, error) {
	return call(ctx, f, Delete, func() (int64, error) { return f.inner.Delete(ctx, key, expected) })
}

// Current implements storage.Store.
func (f *Faulty) Current(ctx context.Context) (int64, error) {
	return call(ctx, f, Current, func() (int64, error) { return f.inner.Current(ctx) })
}

// Compact implements storage.Store.
func (f *Faulty) Compact(ctx context.Context, revision int64) error {
	_, err := call(ctx, f, Compact, func() (struct{}, error) { return struct{}{}, f.inner.Compact(ctx, revision) })
	return err
}

// Watch implements storage.Store.
func (f *Faulty) Watch(ctx context.Context, prefix string, opts storage.WatchOptions) (storage.Watcher, error) {
	return call(ctx, f, Watch, func() (storage.Watcher, error) {
		w, err := f.inner.Watch(ctx, prefix, opts)
		if err != nil {
			return nil, err
		}
		return &faultyWatcher{Watcher: w, f: f}, nil
	})
}

// Close implements storage.Store.
func (f *Faulty) Close() error { return f.inner.Close() }

// faultyWatcher fails with the Next operation of its store. Its progress
// cannot be requested: it comes when it comes.
type faultyWatcher struct {
	storage.Watcher
	f *Faulty

	mu     sync.Mutex // guards failed
	failed error      // why the watcher has ended
}

// Next implements storage.Watcher.
func (w *faultyWatcher) Next(ctx context.Context) ([]storage.Event, error) {
	for {
		w.mu.Lock()
		failed := w.failed
		w.mu.Unlock()
		if failed != nil {
			return nil, failed
		}
		w.f.mu.Lock()
		changed := w.f.changed
		w.f.mu.Unlock()
		before, _ := w.f.enter(ctx, Next)
		if before != nil {
			if ctx.Err() == nil {
				w.mu.Lock()
				w.failed = before
				w.mu.Unlock()
			}
			return nil, before
		}
		events, again, err := w.wait(ctx, changed)
		if !again {
			return events, err
		}
	}
}

// wait is the inner Next, given up when faults change.
func (w *faultyWatcher) wait(ctx context.Context, changed <-chan struct{}) (events []storage.Event, again bool, err error) {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() {
		select {
		case <-changed:
			cancel()
		case <-inner.Done():
		}
	})
	events, err = w.Watcher.Next(inner)
	return events, err != nil && inner.Err() != nil && ctx.Err() == nil, err
}
