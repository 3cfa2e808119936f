package reconcile

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/informers"
	"github.com/proa-project/proa/informers/workqueue"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/runner"
)

// A cycle is a loop's work while its kinds are the same.
type cycle struct {
	l       *loop
	primary *kind
	owned   []*kind
	queue   *workqueue.Queue[informers.Key]

	mu    sync.Mutex               // guards the fields below
	mine  map[informers.Key]string // the revision that the last status of ours made
	paces map[informers.Key]pace
}

func newCycle(l *loop) *cycle {
	return &cycle{
		l: l, mine: map[informers.Key]string{}, paces: map[informers.Key]pace{},
		queue: workqueue.New[informers.Key](workqueue.Config{Name: "Reconciler/" + l.handle.Name(), BaseDelay: l.p.c.BaseDelay, MaxDelay: l.p.c.MaxDelay}),
	}
}

// run works until ctx is done or a kind is no longer served.
func (c *cycle) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer func() {
		cancel()
		c.queue.ShutDown()
		wg.Wait()
		c.l.enter(nil)
	}()
	c.read(c.primary, cancel, c.l.resync())
	c.primary.copy.AddHandler(informers.Handler[object]{Add: func(o object, _ bool) { c.queue.Add(informers.KeyOf(o)) }, Update: c.updated, Delete: c.gone})
	for _, k := range c.owned {
		c.read(k, cancel, 0)
		k.copy.AddIndex(byOwner, func(o object) []string {
			if ref := metav1.GetControllerOf(o); ref != nil {
				return []string{string(ref.UID)}
			}
			return nil
		})
		k.copy.AddHandler(informers.Handler[object]{
			Add: func(o object, _ bool) { c.owner(o) }, Update: func(_, o object) { c.owner(o) }, Delete: c.owner,
		})
	}
	for _, k := range append([]*kind{c.primary}, c.owned...) {
		wg.Go(func() { _ = k.copy.Run(ctx) }) // ends with ctx
	}
	for _, k := range append([]*kind{c.primary}, c.owned...) {
		if k.copy.WaitForSync(ctx) != nil {
			return
		}
	}
	c.l.enter(c)
	for range c.l.p.c.Workers {
		wg.Go(func() { c.drain(ctx) })
	}
	<-ctx.Done()
}

// read makes the copy of a kind. end is called when the kind is not served any
// more: to somebody without rights to everything that looks like a lack of them.
func (c *cycle) read(k *kind, end func(), resync time.Duration) {
	k.api = client.Unstructured(c.l.rest, k.row)
	name := k.row.GVR().String()
	k.copy = informers.New(informers.Options[object]{
		Source: &source{Source: informers.FromClient(k.api, "", k.text, ""), tell: func(ctx context.Context, err error) {
			if err != nil && !c.served(ctx, k) {
				err = nil
				end()
			}
			c.l.trouble(name, err)
		}},
		Resync: resync, Log: c.l.p.log.With().Str("plugin", c.l.handle.Name()).Str("resource", k.row.Plural).Logger(),
	})
}

// served reports whether a kind is still there, as far as can be told.
func (c *cycle) served(ctx context.Context, k *kind) bool {
	_, err := discover(ctx, c.l.p.rest, &pluginsv1.WatchedKind{Group: k.row.Group, Version: k.row.Version, Resource: k.row.Plural})
	return !isUnserved(err)
}

// all has all objects looked at.
func (c *cycle) all() {
	for _, o := range c.primary.copy.List(nil) {
		c.queue.Add(informers.KeyOf(o))
	}
}

// updated has an object looked at, unless nothing but a status of ours is new.
func (c *cycle) updated(old, o object) {
	key := informers.KeyOf(o)
	c.mu.Lock()
	mine := c.mine[key]
	c.mu.Unlock()
	if old != o && mine == o.GetResourceVersion() {
		return
	}
	c.queue.Add(key)
}

func (c *cycle) gone(o object) {
	key := informers.KeyOf(o)
	c.mu.Lock()
	delete(c.mine, key)
	delete(c.paces, key)
	c.mu.Unlock()
	c.queue.Add(key)
}

// owner has the owner of an object looked at.
func (c *cycle) owner(o object) {
	ref := metav1.GetControllerOf(o)
	if ref == nil || ref.Kind != c.primary.row.Kind {
		return
	}
	if gv, err := schema.ParseGroupVersion(ref.APIVersion); err != nil || gv.Group != c.primary.row.Group {
		return
	}
	key := informers.Key{Name: ref.Name}
	if c.primary.row.Namespaced {
		key.Namespace = o.GetNamespace()
	}
	c.queue.Add(key)
}

// drain works on objects until ctx is done.
func (c *cycle) drain(ctx context.Context) {
	for {
		key, ok := c.queue.Get(ctx)
		if !ok {
			return
		}
		if wait := c.pace(key, time.Now()); wait > 0 {
			c.queue.Done(key)
			c.queue.AddAfter(key, wait)
			continue
		}
		after, err := c.reconcile(ctx, key)
		c.queue.Done(key)
		if ctx.Err() != nil {
			return
		}
		c.finish(key, after, err)
	}
}

// finish draws the consequences of a try.
func (c *cycle) finish(key informers.Key, after time.Duration, err error) {
	reason := engine.ReasonOf(err)
	switch {
	case err == nil:
		c.l.outcome(key, "")
		c.queue.Forget(key)
		if after > 0 {
			c.queue.AddAfter(key, after)
		}
		return
	case errors.Is(err, runner.ErrRemoved):
		return
	case apierrors.IsConflict(err):
		c.queue.AddRateLimited(key) // the copy is old; another tells
		return
	}
	c.l.outcome(key, err.Error())
	if reason == engine.NotReady {
		return // all objects are looked at when there is a guest
	}
	if o, ok := c.primary.copy.Get(key.Namespace, key.Name); ok && reason != runner.BreakerOpen {
		c.l.p.events.Event(o, corev1.EventTypeWarning, "ReconcileFailed", cut(err.Error()))
	}
	c.queue.AddRateLimited(key)
}

// A pace is how often an object was looked at of late.
type pace struct {
	since time.Time // of the calls
	last  time.Time
	calls int
}

const (
	paceWindow = 10 * time.Second
	paceCalls  = 50 // in the window; then one in each paceWait
	paceWait   = time.Second
)

// pace returns how long to wait before an object is looked at. A module whose
// answers never settle, such as one that has the time in them, wakes itself up.
func (c *cycle) pace(key informers.Key, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.paces[key]
	if now.Sub(p.since) > paceWindow {
		p = pace{since: now}
	}
	if wait := p.last.Add(paceWait).Sub(now); p.calls > paceCalls && wait > 0 {
		return wait
	}
	p.calls, p.last = p.calls+1, now
	c.paces[key] = p
	if p.calls == paceCalls+1 {
		if o, ok := c.primary.copy.Get(key.Namespace, key.Name); ok {
			c.l.p.events.Event(o, corev1.EventTypeWarning, "Restless", "is looked at all the time, and from now on once a second: the answers of the module do not settle")
		}
	}
	return 0
}
