package informers

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/proa-project/proa/api"
)

// A DeltaType is how a DeltaFIFO came to know of an object's state.
type DeltaType uint8

// The types of deltas.
const (
	Added    DeltaType = iota + 1 // a watch told of a new object
	Updated                       // a watch told of a change
	Deleted                       // the object is gone
	Replaced                      // a list showed the object
	Sync                          // nothing happened; the object is told again
)

// A Delta is one thing that happened to an object.
type Delta[T api.Object] struct {
	Type   DeltaType
	Object T
	// Tombstone is true for a Deleted that was found out from a list: the
	// Object is the last state known, and may be an old one.
	Tombstone bool
}

// Known is what the consumer of a DeltaFIFO has: its Indexer.
type Known[T api.Object] interface {
	GetByKey(k Key) (T, bool)
	Each(f func(k Key, obj T))
}

// A DeltaFIFO holds the deltas of each object until they are popped, in the
// order in which the objects first came in. Of several deletions in a row one
// is kept. It is a Sink.
type DeltaFIFO[T api.Object] struct {
	known Known[T]
	wake  chan struct{} // holds a token when items may be waiting
	// onSynced is called once, with mu held, when the first Replace has been
	// popped. It may be nil.
	onSynced func()

	mu    sync.Mutex // guards the fields below; held while a pop is processed
	items map[Key][]Delta[T]
	queue []Key
	head  int // queue[head:] is waiting
	// first is how many keys of the first Replace are not popped yet; -1
	// before it.
	first int
}

// NewDeltaFIFO returns an empty queue in front of known, which must change
// only inside the function given to Pop.
func NewDeltaFIFO[T api.Object](known Known[T]) *DeltaFIFO[T] {
	return &DeltaFIFO[T]{known: known, wake: make(chan struct{}, 1), items: map[Key][]Delta[T]{}, first: -1}
}

// Apply queues one change.
func (f *DeltaFIFO[T]) Apply(typ watch.EventType, obj T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch typ {
	case watch.Added:
		f.add(KeyOf(obj), Delta[T]{Type: Added, Object: obj})
	case watch.Modified:
		f.add(KeyOf(obj), Delta[T]{Type: Updated, Object: obj})
	case watch.Deleted:
		f.add(KeyOf(obj), Delta[T]{Type: Deleted, Object: obj})
	default:
		return // bookmarks and errors are no changes
	}
	f.signal()
}

// Replace queues the given objects, and a tombstone for each other object that
// is known or waiting.
func (f *DeltaFIFO[T]) Replace(items []T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	keep := make(map[Key]struct{}, len(items))
	for _, obj := range items {
		k := KeyOf(obj)
		keep[k] = struct{}{}
		f.add(k, Delta[T]{Type: Replaced, Object: obj})
	}
	for k, ds := range f.items {
		last := ds[len(ds)-1]
		if _, ok := keep[k]; !ok && last.Type != Deleted {
			f.add(k, Delta[T]{Type: Deleted, Object: last.Object, Tombstone: true})
		}
	}
	f.known.Each(func(k Key, obj T) {
		if _, ok := keep[k]; ok {
			return
		}
		if _, waiting := f.items[k]; !waiting {
			f.add(k, Delta[T]{Type: Deleted, Object: obj, Tombstone: true})
		}
	})
	if f.first < 0 {
		f.first = len(f.queue) - f.head
		f.checkSynced()
	}
	f.signal()
}

// Resync queues a Sync for each known object that has nothing waiting.
func (f *DeltaFIFO[T]) Resync() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known.Each(func(k Key, obj T) {
		if _, waiting := f.items[k]; !waiting {
			f.add(k, Delta[T]{Type: Sync, Object: obj})
		}
	})
	f.signal()
}

// add needs mu.
func (f *DeltaFIFO[T]) add(k Key, d Delta[T]) {
	ds, waiting := f.items[k]
	if !waiting {
		f.queue = append(f.queue, k)
	}
	if n := len(ds); n > 0 && d.Type == Deleted && ds[n-1].Type == Deleted {
		if ds[n-1].Tombstone {
			ds[n-1] = d // the truth is better than the guess
		}
		return
	}
	f.items[k] = append(ds, d)
}

func (f *DeltaFIFO[T]) signal() {
	if f.head == len(f.queue) {
		return
	}
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Pop waits for an object with deltas and calls process with them while the
// queue is locked; process must not call the queue. It returns false when ctx
// is done. First is true for the objects of the first Replace.
func (f *DeltaFIFO[T]) Pop(ctx context.Context, process func(k Key, ds []Delta[T], first bool)) bool {
	for {
		if ctx.Err() != nil {
			return false
		}
		if f.tryPop(process) {
			return true
		}
		select {
		case <-f.wake:
		case <-ctx.Done():
			return false
		}
	}
}

func (f *DeltaFIFO[T]) tryPop(process func(k Key, ds []Delta[T], first bool)) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.head == len(f.queue) {
		return false
	}
	k := f.queue[f.head]
	f.queue[f.head] = Key{}
	f.head++
	if f.head == len(f.queue) {
		if cap(f.queue) > 1024 {
			f.queue = nil
		}
		f.queue, f.head = f.queue[:0], 0
	}
	ds := f.items[k]
	delete(f.items, k)
	first := f.first > 0
	process(k, ds, first)
	if first {
		f.first--
		f.checkSynced()
	}
	return true
}

// checkSynced needs mu.
func (f *DeltaFIFO[T]) checkSynced() {
	if f.first == 0 && f.onSynced != nil {
		f.onSynced()
		f.onSynced = nil
	}
}

// HasSynced reports whether everything of the first Replace was popped.
func (f *DeltaFIFO[T]) HasSynced() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.first == 0
}
