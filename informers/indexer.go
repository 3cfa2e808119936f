package informers

import (
	"sync"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/proa-project/proa/api"
)

// An IndexFunc returns the values under which an object is found in an index.
type IndexFunc[T api.Object] func(T) []string

// An Indexer is a local copy of objects with indices. It is safe for
// concurrent use. An index by namespace is always there. Slices that it
// returns belong to the caller, the objects in them are shared.
type Indexer[T api.Object] struct {
	mu      sync.RWMutex // guards the fields below
	items   map[Key]T
	byNS    bucket[T]
	indices map[string]*index[T]
}

type index[T api.Object] struct {
	values IndexFunc[T]
	bucket bucket[T]
}

// A bucket has the objects by the value of an index.
type bucket[T api.Object] map[string]map[Key]T

func (b bucket[T]) put(value string, k Key, obj T) {
	m := b[value]
	if m == nil {
		m = map[Key]T{}
		b[value] = m
	}
	m[k] = obj
}

func (b bucket[T]) drop(value string, k Key) {
	m := b[value]
	delete(m, k)
	if len(m) == 0 {
		delete(b, value)
	}
}

// NewIndexer returns an empty Indexer.
func NewIndexer[T api.Object]() *Indexer[T] {
	return &Indexer[T]{items: map[Key]T{}, byNS: bucket[T]{}, indices: map[string]*index[T]{}}
}

// AddIndex adds an index, over the objects that are there already too. An
// index with the same name is replaced.
func (x *Indexer[T]) AddIndex(name string, f IndexFunc[T]) {
	x.mu.Lock()
	defer x.mu.Unlock()
	ix := &index[T]{values: f, bucket: bucket[T]{}}
	for k, obj := range x.items {
		for _, v := range f(obj) {
			ix.bucket.put(v, k, obj)
		}
	}
	x.indices[name] = ix
}

// Put sets an object and returns the one that was there before.
func (x *Indexer[T]) Put(obj T) (old T, had bool) {
	k := KeyOf(obj)
	x.mu.Lock()
	defer x.mu.Unlock()
	old, had = x.items[k]
	x.items[k] = obj
	if k.Namespace != "" {
		x.byNS.put(k.Namespace, k, obj)
	}
	for _, ix := range x.indices {
		if had {
			for _, v := range ix.values(old) {
				ix.bucket.drop(v, k)
			}
		}
		for _, v := range ix.values(obj) {
			ix.bucket.put(v, k, obj)
		}
	}
	return old, had
}

// Remove takes an object out and returns it.
func (x *Indexer[T]) Remove(k Key) (old T, had bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	old, had = x.items[k]
	if !had {
		return old, false
	}
	delete(x.items, k)
	if k.Namespace != "" {
		x.byNS.drop(k.Namespace, k)
	}
	for _, ix := range x.indices {
		for _, v := range ix.values(old) {
			ix.bucket.drop(v, k)
		}
	}
	return old, true
}

// GetByKey returns an object.
func (x *Indexer[T]) GetByKey(k Key) (T, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	obj, ok := x.items[k]
	return obj, ok
}

// Get returns an object; the namespace is empty for kinds without.
func (x *Indexer[T]) Get(namespace, name string) (T, bool) { return x.GetByKey(Key{namespace, name}) }

// Len returns how many objects there are.
func (x *Indexer[T]) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.items)
}

// Each calls f for each object, in no order. f must not change the Indexer.
func (x *Indexer[T]) Each(f func(k Key, obj T)) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for k, obj := range x.items {
		f(k, obj)
	}
}

// List returns the objects that the selector matches, in no order. A nil
// selector matches all.
func (x *Indexer[T]) List(sel labels.Selector) []T {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return pick(x.items, sel)
}

// ListNamespace returns the objects of a namespace that the selector matches.
func (x *Indexer[T]) ListNamespace(namespace string, sel labels.Selector) []T {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return pick(x.byNS[namespace], sel)
}

// ByIndex returns the objects that an index has under a value, in no order.
func (x *Indexer[T]) ByIndex(name, value string) []T {
	x.mu.RLock()
	defer x.mu.RUnlock()
	ix := x.indices[name]
	if ix == nil {
		return nil
	}
	return pick(ix.bucket[value], nil)
}

func pick[T api.Object](from map[Key]T, sel labels.Selector) []T {
	if len(from) == 0 {
		return nil
	}
	if sel == nil || sel.Empty() {
		all := make([]T, 0, len(from))
		for _, obj := range from {
			all = append(all, obj)
		}
		return all
	}
	var some []T
	for _, obj := range from {
		if sel.Matches(labels.Set(obj.GetLabels())) {
			some = append(some, obj)
		}
	}
	return some
}
