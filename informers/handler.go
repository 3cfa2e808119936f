package informers

import (
	"context"
	"sync"

	"github.com/proa-project/proa/api"
)

// A Handler is told of changes. Functions may be nil.
type Handler[T api.Object] struct {
	// Add is called for a new object. Initial is true for the objects that
	// were there when the handler or the informer began.
	Add func(obj T, initial bool)
	// Update is called for a changed object. After a resync old and obj are
	// the same.
	Update func(old, obj T)
	// Delete is called with the last known state of an object that is gone.
	Delete func(obj T)
}

// A Registration is a handler at an informer.
type Registration struct {
	synced chan struct{}
	remove func()
}

// HasSynced reports whether the handler has been told of everything that was
// there at the beginning.
func (r *Registration) HasSynced() bool {
	select {
	case <-r.synced:
		return true
	default:
		return false
	}
}

// WaitForSync waits until HasSynced, or returns the error of ctx.
func (r *Registration) WaitForSync(ctx context.Context) error {
	select {
	case <-r.synced:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Remove takes the handler away. A call that is under way is not waited for.
func (r *Registration) Remove() { r.remove() }

type noticeKind uint8

const (
	noticeAdd noticeKind = iota
	noticeUpdate
	noticeDelete
	noticeSynced
)

type notice[T api.Object] struct {
	kind     noticeKind
	initial  bool
	old, obj T
}

// A listener feeds one handler from a queue without bound, on one goroutine.
type listener[T api.Object] struct {
	h    Handler[T]
	reg  *Registration
	wake chan struct{} // holds a token when the queue may not be empty
	stop chan struct{} // closed by Remove
	once sync.Once     // closes stop

	mu    sync.Mutex
	queue []notice[T] // guarded by mu
}

func newListener[T api.Object](h Handler[T]) *listener[T] {
	return &listener[T]{
		h: h, wake: make(chan struct{}, 1), stop: make(chan struct{}),
		reg: &Registration{synced: make(chan struct{})},
	}
}

func (l *listener[T]) push(n notice[T]) {
	l.mu.Lock()
	l.queue = append(l.queue, n)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run calls the handler until ctx is done or the handler is removed.
func (l *listener[T]) run(ctx context.Context) {
	var batch []notice[T]
	for {
		l.mu.Lock()
		batch, l.queue = l.queue, batch[:0]
		l.mu.Unlock()
		if len(batch) == 0 {
			select {
			case <-l.wake:
				continue
			case <-l.stop:
				return
			case <-ctx.Done():
				return
			}
		}
		for i := range batch {
			select {
			case <-l.stop:
				return
			case <-ctx.Done():
				return
			default:
				l.call(&batch[i])
			}
		}
		clear(batch)
		if cap(batch) > 1024 {
			batch = nil
		}
	}
}

func (l *listener[T]) call(n *notice[T]) {
	switch n.kind {
	case noticeAdd:
		if l.h.Add != nil {
			l.h.Add(n.obj, n.initial)
		}
	case noticeUpdate:
		if l.h.Update != nil {
			l.h.Update(n.old, n.obj)
		}
	case noticeDelete:
		if l.h.Delete != nil {
			l.h.Delete(n.obj)
		}
	case noticeSynced:
		close(l.reg.synced)
	}
}
