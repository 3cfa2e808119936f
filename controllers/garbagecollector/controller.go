package garbagecollector

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/controllers/reconcile"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/httpapi/client/event"
	"github.com/proa-project/proa/informers"
	"github.com/proa-project/proa/informers/workqueue"
)

// Config is what the loop needs. REST, Factory and Recorder are required.
type Config struct {
	REST     *client.REST
	Factory  *informers.Factory
	Recorder *event.Recorder
	Metrics  *workqueue.Metrics
	Log      zerolog.Logger
	Workers  int // default 16
}

// A key is one thing to do with an object.
type key struct {
	uid    types.UID
	orphan bool // release its dependents, instead of deleting it
}

// A Controller is the loop.
type Controller struct {
	cfg   Config
	queue *workqueue.Queue[key]

	mu    sync.Mutex
	graph *graph // guarded by mu
	// absent are owners that a look at the server did not find, by UID and
	// namespace. It is emptied when it grows too large. Guarded by mu.
	absent map[absence]struct{}
}

// An absence is that there is no owner with the UID in a namespace.
type absence struct {
	uid       types.UID
	namespace string
}

const maxAbsent = 4096

// New returns the loop.
func New(cfg Config) *Controller {
	if cfg.Workers <= 0 {
		cfg.Workers = 16
	}
	return &Controller{
		cfg: cfg, graph: newGraph(), absent: map[absence]struct{}{},
		queue: workqueue.New[key](workqueue.Config{Name: "garbage_collector", Metrics: cfg.Metrics}),
	}
}

// Scope declares the loop.
func (c *Controller) Scope() reconcile.Scope {
	return reconcile.Scope{
		Name:  "garbagecollector",
		Reads: []string{"*"},
		Writes: []string{
			"*/delete-unowned", "*/ownerreferences-dangling",
			"*/finalizer-" + metav1.FinalizerDeleteDependents, "*/finalizer-" + metav1.FinalizerOrphanDependents,
		},
	}
}

// Run works until ctx is done. It deletes nothing before it has seen every
// kind.
func (c *Controller) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel() // before the wait
	reg, stopDefined := c.watchDefined(ctx)
	defer stopDefined()
	if err := reg.WaitForSync(ctx); err != nil {
		return err
	}
	watched, stop := c.watch(ctx, &wg)
	defer stop()
	for _, w := range watched {
		if err := w.WaitForSync(ctx); err != nil {
			return err
		}
	}
	reconcile.Workers(ctx, c.cfg.Workers, c.queue, c.cfg.Log, c.sync)
	return ctx.Err()
}

func (c *Controller) add(t todo) {
	for _, uid := range t.remove {
		c.queue.Add(key{uid: uid})
	}
	for _, uid := range t.orphan {
		c.queue.Add(key{uid: uid, orphan: true})
	}
}

func (c *Controller) observe(row *api.Resource, obj metav1.Object) {
	c.mu.Lock()
	t := c.graph.observe(row, obj)
	c.mu.Unlock()
	c.add(t)
}

func (c *Controller) gone(uid types.UID) {
	c.mu.Lock()
	t := c.graph.gone(uid)
	c.mu.Unlock()
	c.add(t)
}

// look returns a copy of a node, without its dependents.
func (c *Controller) look(uid types.UID) (n node, blockers []node, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.graph.nodes[uid]
	if p == nil {
		return n, nil, false
	}
	n = *p
	n.owners = slices.Clone(p.owners)
	for _, b := range p.blockers() {
		blockers = append(blockers, node{uid: b.uid, foreground: b.foreground})
	}
	return n, blockers, true
}

func (c *Controller) dependents(uid types.UID) []node {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.graph.nodes[uid]
	if p == nil {
		return nil
	}
	out := make([]node, 0, len(p.dependents))
	for d := range p.dependents {
		out = append(out, node{uid: d.uid, row: d.row, namespace: d.namespace, name: d.name, foreground: d.foreground, virtual: d.virtual})
	}
	return out
}

// get looks an object up at the server. It returns nil if there is none with
// the UID.
func (c *Controller) get(ctx context.Context, row *api.Resource, namespace, name string, uid types.UID) (*metav1.PartialObjectMetadata, error) {
	m, err := client.Metadata(c.cfg.REST, row).Get(ctx, namespace, name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look at %s %q: %w", row.Plural, namespace+"/"+name, err)
	case m.UID != uid:
		return nil, nil
	}
	return m, nil
}

// sync looks at one node.
func (c *Controller) sync(ctx context.Context, k key) (time.Duration, error) {
	n, blockers, ok := c.look(k.uid)
	switch {
	case !ok:
		return 0, nil
	case n.row == nil:
		return 0, nil // a kind that is not served cannot be looked up: its dependents stay
	case k.orphan:
		return 0, c.orphanDependents(ctx, n)
	case n.row.Namespaced && n.namespace == "":
		c.gone(n.uid) // named by an object without namespace: nobody can say where it is
		return 0, nil
	}
	obj, err := c.get(ctx, n.row, n.namespace, n.name, n.uid)
	if err != nil {
		return 0, err
	}
	switch {
	case obj == nil:
		c.markAbsent(n.uid, n.namespace)
		c.gone(n.uid)
		return 0, nil
	case n.virtual:
		return 0, reconcile.ErrLater // it exists; the watch will show it
	case obj.DeletionTimestamp != nil && !n.foreground:
		return 0, nil
	case n.foreground:
		return 0, c.foreground(ctx, n, obj, blockers)
	}
	return 0, c.judge(ctx, n, obj)
}

// judge deletes an object if its owners are gone.
func (c *Controller) judge(ctx context.Context, n node, obj *metav1.PartialObjectMetadata) error {
	own := c.graph.ownersOf(obj)
	if len(own) == 0 {
		return nil
	}
	states := make([]ownerState, len(own))
	for i, o := range own {
		s, err := c.state(ctx, &n, obj, o)
		if err != nil {
			return err
		}
		states[i] = s
	}
	deps := c.dependents(n.uid)
	inForeground := slices.ContainsFunc(deps, func(d node) bool { return d.foreground })
	v := judge(own, states, obj.Finalizers, len(deps) > 0, inForeground)
	if v.unblock {
		if err := c.unblock(ctx, n, obj); err != nil {
			return err
		}
	}
	if v.remove != "" {
		return c.remove(ctx, n, obj, v.remove)
	}
	if len(v.release) > 0 {
		return c.release(ctx, n, v.release)
	}
	return nil
}

// state looks at an owner.
func (c *Controller) state(ctx context.Context, n *node, obj *metav1.PartialObjectMetadata, o owner) (ownerState, error) {
	row, namespace, name := place(n, o)
	if row == nil {
		return unknown, nil
	}
	if row.Namespaced && n.namespace == "" {
		c.warn(n, obj, o, "")
		return unknown, nil // refused by upstream as well: it can never be resolved
	}
	if c.isAbsent(o.uid, namespace) {
		return dangling, nil
	}
	m, err := c.get(ctx, row, namespace, name, o.uid)
	if err != nil {
		return unknown, err
	}
	switch {
	case m == nil:
		c.markAbsent(o.uid, namespace)
		c.warnElsewhere(n, obj, o, namespace)
		return dangling, nil
	case m.DeletionTimestamp != nil && slices.Contains(m.Finalizers, metav1.FinalizerDeleteDependents):
		return waiting, nil
	}
	return solid, nil
}

// warnElsewhere tells of an owner that exists in another namespace.
func (c *Controller) warnElsewhere(n *node, obj *metav1.PartialObjectMetadata, o owner, namespace string) {
	c.mu.Lock()
	p := c.graph.nodes[o.uid]
	elsewhere := p != nil && !p.virtual && p.namespace != namespace
	c.mu.Unlock()
	if elsewhere {
		c.warn(n, obj, o, namespace)
	}
}

func (c *Controller) warn(n *node, obj *metav1.PartialObjectMetadata, o owner, namespace string) {
	msg := fmt.Sprintf("ownerRef [%s/%s, namespace: %s, name: %s, uid: %s] does not exist in namespace %q",
		o.apiVersion, o.kind, namespace, o.name, o.uid, namespace)
	if namespace == "" {
		msg = fmt.Sprintf("ownerRef [%s/%s, namespace: , name: %s, uid: %s]: cluster-scoped objects cannot have namespaced owners",
			o.apiVersion, o.kind, o.name, o.uid)
	}
	c.cfg.Recorder.EventRef(corev1.ObjectReference{
		APIVersion: n.row.GroupVersion().String(), Kind: n.row.Kind, Namespace: n.namespace, Name: n.name, UID: obj.UID,
	}, corev1.EventTypeWarning, "OwnerRefInvalidNamespace", msg)
}

func (c *Controller) isAbsent(uid types.UID, namespace string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.absent[absence{uid, namespace}]
	return ok
}

// markAbsent remembers that an owner is gone: a UID never comes back.
func (c *Controller) markAbsent(uid types.UID, namespace string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.absent) >= maxAbsent {
		clear(c.absent)
	}
	c.absent[absence{uid, namespace}] = struct{}{}
}
