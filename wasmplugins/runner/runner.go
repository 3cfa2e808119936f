// Package runner keeps one guest running for each object that binds a module to
// an extension point. All points share it: it starts guests, replaces them when
// their object or module changes, counts what they use, stops calling those
// that keep failing, and says on the object how they do.
//
// A Point says what is special about a kind:
//
//	r, err := runner.New(config, runner.Point[*pluginsv1.AdmissionPlugin, Guest]{
//		Kind: "AdmissionPlugin", Start: start, Changed: publish,
//	})
//	go r.Run(ctx)
//	for _, h := range r.Handles() {
//		usage, err := h.Use(ctx, func(g Guest) (engine.Usage, error) { ... })
//	}
//
// A new version is started beside the one that runs and takes its place in one
// step. If it cannot be started, what runs goes on, unless the module itself
// was deleted.
package runner

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/labels"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/httpapi/client/event"
	"github.com/proa-project/proa/informers"
	"github.com/proa-project/proa/informers/workqueue"
	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/library"
)

// Modules is where the code comes from; *library.Library is one.
type Modules interface {
	Get(ctx context.Context, module, digest string) (*library.Ref, error)
	Subscribe(f func(module string))
	// WaitReady waits until the modules of the start are loaded.
	WaitReady(ctx context.Context) error
}

// Grant returns how the host calls of a module are answered, and the names of
// those that are in force. A nil function answers none.
type Grant func(c *pluginsv1.Common, m abi.Manifest) (call func(ctx context.Context, operation string, request []byte) ([]byte, error), inForce []string)

// Config is what the runners of all points share. REST, Factory and Modules are
// required.
type Config struct {
	REST    *client.REST
	Factory *informers.Factory
	Modules Modules
	// Grant decides on capabilities; nil grants none.
	Grant Grant
	// Events tells users what happens to plugins; nil tells nobody.
	Events  *event.Recorder
	Metrics *Metrics // nil counts nothing
	Log     zerolog.Logger
	// StatusInterval is the least time between two writes of one plugin's
	// failures. Default 5 s.
	StatusInterval time.Duration
	// Breaker says when a plugin that fails is no longer called.
	Breaker Breaker
}

// A Guest is a module that runs behind an extension point.
type Guest interface {
	comparable
	// Close waits for calls that run and frees the guest.
	Close()
}

// GuestConfig says how a guest is run.
type GuestConfig struct {
	Name       string
	Settings   []byte
	Limits     engine.Limits
	Capability func(ctx context.Context, operation string, request []byte) ([]byte, error)
	Log        func(engine.Level, []byte)
}

// Code is what a guest is made of.
type Code struct {
	*engine.Code
	ABI      string
	Manifest abi.Manifest
}

// A Point says what is special about the objects of one kind.
type Point[T pluginsv1.Binding, G Guest] struct {
	// Kind is that of the objects, for messages and metrics.
	Kind string
	// Start starts a guest. An error that wraps abi.ErrSettings says that the
	// settings are refused; the others are *engine.Error.
	Start func(ctx context.Context, obj T, code Code, c GuestConfig) (G, error)
	// Common returns which module an object binds, nil for none. Default is
	// what Bound returns.
	Common func(obj T) *pluginsv1.Common
	// Silent keeps the runner from writing status: another does.
	Silent bool
	// Amend adds to an object's status, of which it gets a copy, before it is
	// written. G is zero if nothing runs.
	Amend func(obj T, g G)
	// Changed is called after objects or what runs for them has changed.
	Changed func()
	// Limits are the defaults where the object says nothing.
	Limits engine.Limits
}

// A Runner runs the guests of one kind.
type Runner[T pluginsv1.Binding, G Guest] struct {
	c       Config
	point   Point[T, G]
	objects *informers.Informer[T]
	api     *client.Client[T]
	work    *workqueue.Queue[string]
	status  *workqueue.Queue[string]
	retired *workqueue.Queue[string] // plugins with a guest that was replaced
	list    atomic.Pointer[[]*Handle[T, G]]
	synced  chan struct{} // closed when Handles has the objects of the start
	ready   chan struct{} // closed when their guests run, or are known to fail

	mu      sync.Mutex // guards the field below
	handles map[string]*Handle[T, G]
}

// New returns a Runner, which does nothing before Run.
func New[T pluginsv1.Binding, G Guest](c Config, p Point[T, G]) *Runner[T, G] {
	c.StatusInterval = cmp.Or(c.StatusInterval, 5*time.Second)
	c.Breaker = c.Breaker.withDefaults()
	r := &Runner[T, G]{
		c: c, point: p,
		objects: informers.For[T](c.Factory), api: client.For[T](c.REST),
		work:    workqueue.New[string](workqueue.Config{Name: p.Kind, MaxDelay: time.Minute}),
		status:  workqueue.New[string](workqueue.Config{Name: p.Kind + "-status", BaseDelay: 100 * time.Millisecond, MaxDelay: time.Minute}),
		retired: workqueue.New[string](workqueue.Config{Name: p.Kind + "-retired"}),
		synced:  make(chan struct{}), ready: make(chan struct{}),
		handles: map[string]*Handle[T, G]{},
	}
	if p.Common == nil {
		r.point.Common = func(obj T) *pluginsv1.Common { common, _ := obj.Bound(); return common }
	}
	r.list.Store(&[]*Handle[T, G]{})
	c.Modules.Subscribe(r.moduleChanged)
	return r
}

// Run keeps the guests as the API has them until ctx is done, then closes them
// all and returns the error of ctx. It can be called once.
func (r *Runner[T, G]) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer func() {
		wg.Wait()
		r.closeAll()
	}()
	handler := r.objects.AddHandler(informers.Handler[T]{
		Add:    func(o T, _ bool) { r.work.Add(o.GetName()) },
		Update: func(_, o T) { r.work.Add(o.GetName()) },
		Delete: func(o T) { r.work.Add(o.GetName()) },
	})
	defer handler.Remove()
	if err := r.objects.WaitForSync(ctx); err != nil {
		return err
	}
	r.first(ctx)
	close(r.ready)
	for range 2 {
		wg.Go(func() { r.drain(ctx, r.work, r.sync) })
	}
	wg.Go(func() { r.drain(ctx, r.status, r.writeStatus) })
	wg.Go(func() { r.drain(ctx, r.retired, r.expire) })
	<-ctx.Done()
	return ctx.Err()
}

// first takes up what is there at the start: first the objects' places, so that
// nothing slips by, then their guests.
func (r *Runner[T, G]) first(ctx context.Context) {
	list := r.objects.List(labels.Everything())
	for _, o := range list {
		r.handle(o)
	}
	r.publish()
	close(r.synced)
	if r.c.Modules.WaitReady(ctx) != nil {
		return // ctx is done
	}
	for _, o := range list {
		if err := r.sync(ctx, o.GetName()); err != nil && ctx.Err() == nil {
			r.work.AddRateLimited(o.GetName())
		}
	}
}

// drain works on a queue until ctx is done.
func (r *Runner[T, G]) drain(ctx context.Context, q *workqueue.Queue[string], f func(context.Context, string) error) {
	for {
		name, ok := q.Get(ctx)
		if !ok {
			return
		}
		err := f(ctx, name)
		q.Done(name)
		switch {
		case err == nil:
			q.Forget(name)
		case ctx.Err() == nil:
			r.c.Log.Debug().Err(err).Str("kind", r.point.Kind).Str("plugin", name).Msg("plugin work is tried again")
			q.AddRateLimited(name)
		}
	}
}

// expire closes a guest that was replaced, when it is time.
func (r *Runner[T, G]) expire(_ context.Context, name string) error { //nolint:unparam // drain wants it
	r.mu.Lock()
	h := r.handles[name]
	r.mu.Unlock()
	if h == nil {
		return nil
	}
	if wait := h.before.expire(time.Now()); wait > 0 {
		r.retired.AddAfter(name, wait)
	}
	return nil
}

// Synced reports whether WaitSynced would return at once.
func (r *Runner[T, G]) Synced() bool {
	select {
	case <-r.synced:
		return true
	default:
		return false
	}
}

// WaitSynced waits until Handles has the objects that were there at the start,
// or returns the error of ctx.
func (r *Runner[T, G]) WaitSynced(ctx context.Context) error { return wait(ctx, r.synced) }

// WaitReady waits until the guests of the start run, or are known to fail, or
// returns the error of ctx.
func (r *Runner[T, G]) WaitReady(ctx context.Context) error { return wait(ctx, r.ready) }

func wait(ctx context.Context, c <-chan struct{}) error {
	select {
	case <-c:
		return nil
	default:
	}
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ErrNotReady is returned by Ready.
var ErrNotReady = errors.New("plugins are being loaded")

// Ready returns ErrNotReady until WaitReady would return.
func (r *Runner[T, G]) Ready() error {
	select {
	case <-r.ready:
		return nil
	default:
		return ErrNotReady
	}
}

// Handles returns all objects of the kind by name, whether or not a guest runs
// for them. The slice never changes.
func (r *Runner[T, G]) Handles() []*Handle[T, G] { return *r.list.Load() }

// Touch has an object's status written, for Amend's sake, not before the
// interval of status writes is over.
func (r *Runner[T, G]) Touch(name string) { r.status.AddAfter(name, r.c.StatusInterval) }

// handle returns the handle of an object, which is given its new state.
func (r *Runner[T, G]) handle(o T) *Handle[T, G] {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.handles[o.GetName()]
	if h == nil {
		h = newHandle(r, o.GetName())
		r.handles[o.GetName()] = h
	}
	h.object.Store(&o)
	return h
}

// publish makes the list that everybody sees.
func (r *Runner[T, G]) publish() {
	r.mu.Lock()
	list := make([]*Handle[T, G], 0, len(r.handles))
	for _, h := range r.handles {
		list = append(list, h)
	}
	slices.SortFunc(list, func(a, b *Handle[T, G]) int { return cmp.Compare(a.name, b.name) })
	r.list.Store(&list)
	r.mu.Unlock()
	if r.point.Changed != nil {
		r.point.Changed()
	}
}

// moduleChanged has the plugins of a module look at it.
func (r *Runner[T, G]) moduleChanged(module string) {
	for _, h := range r.Handles() {
		if c := r.point.Common(h.Object()); c != nil && c.Module == module {
			r.work.Add(h.name)
		}
	}
}

// closeAll ends everything. Nothing syncs any more.
func (r *Runner[T, G]) closeAll() {
	r.work.ShutDown()
	r.status.ShutDown()
	r.retired.ShutDown()
	r.mu.Lock()
	handles := r.handles
	r.handles = nil
	r.mu.Unlock()
	for _, h := range handles {
		var none G
		h.swap(none, "", "the server is shutting down")
	}
}
