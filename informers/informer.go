package informers

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/client"
)

// ErrRunning is returned by Run when it was called before.
var ErrRunning = errors.New("informer has been run already")

// Options say what an Informer copies. Client or Source is required.
type Options[T api.Object] struct {
	Client *client.Client[T]
	// Namespace and the selectors narrow what is copied; empty is everything.
	Namespace, FieldSelector, LabelSelector string
	// Indexers are indices by name, as AddIndex adds them.
	Indexers map[string]IndexFunc[T]
	// Transform, if set, changes each object before it is kept: to drop what
	// nobody reads. It owns the object.
	Transform func(T) T
	// Resync, if above 0, is how often Update is called for each object
	// though nothing has changed.
	Resync time.Duration
	// NoWatchList lists first even if the server could stream the list.
	NoWatchList bool
	// Source replaces Client, Namespace and the selectors.
	Source Source[T]
	Log    zerolog.Logger
}

// An Informer keeps a local copy of a kind's objects up to date and tells its
// handlers of the changes.
type Informer[T api.Object] struct {
	opts    Options[T]
	indexer *Indexer[T]
	fifo    *DeltaFIFO[T]
	synced  chan struct{} // closed when the first copy is complete

	mu        sync.Mutex // guards the fields below; held while a change is told
	listeners []*listener[T]
	ctx       context.Context //nolint:containedctx // of Run; nil before it
	running   bool
	ended     bool
	wg        sync.WaitGroup // the listeners' goroutines; added to with mu held and !ended
}

// New returns an Informer of its own, which does nothing before Run.
func New[T api.Object](o Options[T]) *Informer[T] {
	if o.Source == nil {
		o.Source = FromClient(o.Client, o.Namespace, o.LabelSelector, o.FieldSelector)
	}
	x := NewIndexer[T]()
	for name, f := range o.Indexers {
		x.AddIndex(name, f)
	}
	i := &Informer[T]{opts: o, indexer: x, fifo: NewDeltaFIFO[T](x), synced: make(chan struct{})}
	i.fifo.onSynced = i.markSynced
	return i
}

// Run copies until ctx is done, waits for all its goroutines, and returns the
// error of ctx. It can be called once.
func (i *Informer[T]) Run(ctx context.Context) error {
	i.mu.Lock()
	if i.running {
		i.mu.Unlock()
		return ErrRunning
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	i.running, i.ctx = true, ctx
	for _, l := range i.listeners {
		i.wg.Go(func() { l.run(ctx) })
	}
	i.mu.Unlock()

	var wg sync.WaitGroup
	r := NewReflector(ReflectorConfig[T]{
		Source: i.opts.Source, Sink: i.fifo, Log: i.opts.Log, NoWatchList: i.opts.NoWatchList,
	})
	wg.Go(func() { r.Run(ctx) }) //nolint:errcheck // ends with ctx only
	if i.opts.Resync > 0 {
		wg.Go(func() { i.resync(ctx) })
	}
	for i.fifo.Pop(ctx, i.process) { // the work is in process
	}
	wg.Wait()
	i.mu.Lock()
	i.ended = true
	i.mu.Unlock()
	i.wg.Wait()
	return ctx.Err()
}

func (i *Informer[T]) resync(ctx context.Context) {
	t := time.NewTicker(i.opts.Resync)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			i.fifo.Resync()
		case <-ctx.Done():
			return
		}
	}
}

// markSynced is called by the queue when the first copy is complete.
func (i *Informer[T]) markSynced() {
	i.mu.Lock()
	defer i.mu.Unlock()
	close(i.synced)
	for _, l := range i.listeners {
		l.push(notice[T]{kind: noticeSynced})
	}
}

// process applies the deltas of one object to the copy, and tells of them.
func (i *Informer[T]) process(k Key, ds []Delta[T], first bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, d := range ds {
		obj := d.Object
		if d.Type == Deleted {
			old, had := i.indexer.Remove(k)
			if !had {
				continue
			}
			if d.Tombstone {
				obj = old // the newer of the two
			} else if i.opts.Transform != nil {
				obj = i.opts.Transform(obj)
			}
			i.tell(notice[T]{kind: noticeDelete, obj: obj})
			continue
		}
		if i.opts.Transform != nil && d.Type != Sync {
			obj = i.opts.Transform(obj)
		}
		if d.Type == Sync {
			if now, ok := i.indexer.GetByKey(k); ok {
				i.tell(notice[T]{kind: noticeUpdate, old: now, obj: now})
			}
			continue
		}
		old, had := i.indexer.Put(obj)
		switch {
		case had && old.GetUID() != obj.GetUID():
			i.tell(notice[T]{kind: noticeDelete, obj: old})
			i.tell(notice[T]{kind: noticeAdd, obj: obj})
		case had && d.Type == Replaced && old.GetResourceVersion() == obj.GetResourceVersion() && obj.GetResourceVersion() != "":
			// a new list shows what was known
		case had:
			i.tell(notice[T]{kind: noticeUpdate, old: old, obj: obj})
		default:
			i.tell(notice[T]{kind: noticeAdd, obj: obj, initial: first})
		}
	}
}

// tell needs mu.
func (i *Informer[T]) tell(n notice[T]) {
	for _, l := range i.listeners {
		l.push(n)
	}
}

// AddHandler adds a handler. If the informer runs already, the handler is
// first told of everything that is there.
func (i *Informer[T]) AddHandler(h Handler[T]) *Registration {
	l := newListener(h)
	l.reg.remove = func() { i.remove(l) }
	i.mu.Lock()
	defer i.mu.Unlock()
	i.indexer.Each(func(_ Key, obj T) {
		l.push(notice[T]{kind: noticeAdd, obj: obj, initial: true})
	})
	if i.HasSynced() {
		l.push(notice[T]{kind: noticeSynced})
	}
	i.listeners = append(i.listeners, l)
	if i.running && !i.ended {
		ctx := i.ctx
		i.wg.Go(func() { l.run(ctx) })
	}
	return l.reg
}

func (i *Informer[T]) remove(l *listener[T]) {
	i.mu.Lock()
	defer i.mu.Unlock()
	l.once.Do(func() { close(l.stop) })
	i.listeners = slices.DeleteFunc(i.listeners, func(m *listener[T]) bool { return m == l })
}

// AddIndex adds an index. It is best called before Run; later it goes over
// everything once.
func (i *Informer[T]) AddIndex(name string, f func(T) []string) { i.indexer.AddIndex(name, f) }

// HasSynced reports whether the first copy is complete.
func (i *Informer[T]) HasSynced() bool {
	select {
	case <-i.synced:
		return true
	default:
		return false
	}
}

// WaitForSync waits until the first copy is complete, or returns the error of
// ctx.
func (i *Informer[T]) WaitForSync(ctx context.Context) error {
	select {
	case <-i.synced:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Get returns an object; the namespace is empty for kinds without.
func (i *Informer[T]) Get(namespace, name string) (T, bool) { return i.indexer.Get(namespace, name) }

// Len returns how many objects there are.
func (i *Informer[T]) Len() int { return i.indexer.Len() }

// List returns the objects that the selector matches, in no order; nil
// matches all. The slice belongs to the caller.
func (i *Informer[T]) List(sel labels.Selector) []T { return i.indexer.List(sel) }

// ListNamespace is List for one namespace.
func (i *Informer[T]) ListNamespace(namespace string, sel labels.Selector) []T {
	return i.indexer.ListNamespace(namespace, sel)
}

// ByIndex returns the objects that an index has under a value, in no order.
func (i *Informer[T]) ByIndex(name, value string) []T { return i.indexer.ByIndex(name, value) }
