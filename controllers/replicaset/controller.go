package replicaset

import (
	"context"
	"time"

	"github.com/rs/zerolog"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/proa-project/proa/controllers/reconcile"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/httpapi/client/event"
	"github.com/proa-project/proa/informers"
	"github.com/proa-project/proa/informers/workqueue"
)

const (
	// width is how many pods of one set are created or deleted at once.
	width = 48
	// settle is how long changes of pods are gathered before the status is
	// written: a thousand pods that become ready cost a few writes.
	settle = 10 * time.Millisecond
)

// Config is what the loop needs. REST, Factory and Recorder are required.
type Config struct {
	REST     *client.REST
	Factory  *informers.Factory
	Recorder *event.Recorder
	Metrics  *workqueue.Metrics
	Log      zerolog.Logger
	Workers  int // default 5
}

// A Controller is the loop.
type Controller struct {
	cfg    Config
	sets   *informers.Informer[*appsv1.ReplicaSet]
	pods   *informers.Informer[*corev1.Pod]
	setsC  *client.Client[*appsv1.ReplicaSet]
	podsC  *client.Client[*corev1.Pod]
	queue  *workqueue.Queue[informers.Key]
	expect *expectations
	// written are the sets whose status this loop has written.
	written reconcile.Written
}

// New returns the loop.
func New(cfg Config) *Controller {
	if cfg.Workers <= 0 {
		cfg.Workers = 5
	}
	return &Controller{
		cfg:  cfg,
		sets: informers.For[*appsv1.ReplicaSet](cfg.Factory), pods: informers.For[*corev1.Pod](cfg.Factory),
		setsC: client.For[*appsv1.ReplicaSet](cfg.REST), podsC: client.For[*corev1.Pod](cfg.REST),
		queue:  workqueue.New[informers.Key](workqueue.Config{Name: "replicaset", Metrics: cfg.Metrics}),
		expect: newExpectations(),
	}
}

// Scope declares the loop.
func (c *Controller) Scope() reconcile.Scope {
	return reconcile.Scope{
		Name:   "replicaset",
		Reads:  []string{"replicasets", "pods"},
		Writes: []string{"replicasets/status", "pods/of-replicasets"},
	}
}

// Run works until ctx is done.
func (c *Controller) Run(ctx context.Context) error {
	c.pods.AddIndex(reconcile.ByOwner, reconcile.OwnerIndex[*corev1.Pod])
	c.pods.AddIndex(reconcile.ByOrphans, reconcile.Orphans[*corev1.Pod])
	c.sets.AddIndex(reconcile.ByOwner, reconcile.OwnerIndex[*appsv1.ReplicaSet])
	for _, r := range []*informers.Registration{c.watchSets(), c.watchPods()} {
		defer r.Remove()
		if err := r.WaitForSync(ctx); err != nil {
			return err
		}
	}
	reconcile.Workers(ctx, c.cfg.Workers, c.queue, c.cfg.Log, c.sync)
	return ctx.Err()
}

func (c *Controller) watchSets() *informers.Registration {
	return c.sets.AddHandler(informers.Handler[*appsv1.ReplicaSet]{
		Add:    func(rs *appsv1.ReplicaSet, _ bool) { c.queue.Add(informers.KeyOf(rs)) },
		Update: func(_, rs *appsv1.ReplicaSet) { c.queue.Add(informers.KeyOf(rs)) },
		Delete: func(rs *appsv1.ReplicaSet) {
			c.expect.forget(rs.UID)
			c.written.Forget(rs.UID)
			c.queue.Add(informers.KeyOf(rs))
		},
	})
}

func (c *Controller) watchPods() *informers.Registration {
	return c.pods.AddHandler(informers.Handler[*corev1.Pod]{
		Add: func(p *corev1.Pod, _ bool) {
			if ref := controller(p); ref != nil {
				c.expect.observed(ref.UID, p.UID)
				c.enqueue(p.Namespace, ref, settle)
				return
			}
			c.enqueueMatching(p)
		},
		Update: c.podChanged,
		Delete: func(p *corev1.Pod) {
			if ref := controller(p); ref != nil {
				c.expect.gone(ref.UID, p.UID)
				c.enqueue(p.Namespace, ref, 0)
			}
		},
	})
}

func (c *Controller) podChanged(old, p *corev1.Pod) {
	was, is := controller(old), controller(p)
	if was != nil && (is == nil || is.UID != was.UID) {
		c.expect.gone(was.UID, p.UID)
		c.enqueue(p.Namespace, was, 0)
	}
	if is == nil {
		c.enqueueMatching(p)
		return
	}
	c.expect.observed(is.UID, p.UID)
	wait := settle
	if p.DeletionTimestamp != nil && old.DeletionTimestamp == nil {
		c.expect.gone(is.UID, p.UID)
		wait = 0
	}
	if finished(p) && !finished(old) {
		wait = 0
	}
	c.enqueue(p.Namespace, is, wait)
}

// controller returns the pod's controller if that is a ReplicaSet.
func controller(p *corev1.Pod) *metav1.OwnerReference {
	if ref := metav1.GetControllerOfNoCopy(p); ref != nil && ref.Kind == "ReplicaSet" {
		return ref
	}
	return nil
}

// enqueue adds a set, with a delay to gather changes.
func (c *Controller) enqueue(namespace string, ref *metav1.OwnerReference, wait time.Duration) {
	rs, ok := c.sets.Get(namespace, ref.Name)
	if !ok || rs.UID != ref.UID {
		return
	}
	c.queue.AddAfter(informers.Key{Namespace: namespace, Name: ref.Name}, wait)
}

// enqueueMatching adds the sets that may adopt a pod.
func (c *Controller) enqueueMatching(p *corev1.Pod) {
	if metav1.GetControllerOfNoCopy(p) != nil || len(p.Labels) == 0 {
		return
	}
	for _, rs := range c.sets.ListNamespace(p.Namespace, nil) {
		if sel, err := metav1.LabelSelectorAsSelector(rs.Spec.Selector); err == nil && !sel.Empty() && sel.Matches(labels.Set(p.Labels)) {
			c.queue.Add(informers.KeyOf(rs))
		}
	}
}

// sync brings one set a step further.
func (c *Controller) sync(ctx context.Context, k informers.Key) (time.Duration, error) {
	rs, ok := c.sets.Get(k.Namespace, k.Name)
	if !ok {
		return 0, nil
	}
	if c.written.Stale(rs) {
		return reconcile.Patience, nil // at the latest
	}
	sel, err := metav1.LabelSelectorAsSelector(rs.Spec.Selector)
	if err != nil || sel.Empty() {
		return 0, nil //nolint:nilerr // the server refuses such sets; nothing can be done for one
	}
	snap := c.expect.snapshot(rs.UID, time.Now()) // before the cache is read
	pods, err := c.claim(ctx, rs, sel)
	if err != nil {
		return 0, err
	}
	v := view{rs: rs, pods: pods, dying: snap.dying, pending: snap.doubts, now: time.Now()}
	for _, p := range pods {
		delete(snap.pending, p.UID)
	}
	v.pending += len(snap.pending)
	v.neighbours = c.neighbours(rs, len(pods))
	pl := newPlan(v)
	fail, doErr := c.do(ctx, rs, pl)
	if doErr != nil && ctx.Err() != nil {
		return 0, doErr
	}
	if fail == nil && doErr == nil && (pl.create > 0 || len(pl.remove) > 0) {
		return 0, nil // the pods will show, and the status with them
	}
	again, err := c.writeStatus(ctx, rs, pods, fail)
	if doErr != nil {
		err = doErr
	}
	if err == nil && snap.doubts > 0 && (again == 0 || again > doubtFor) {
		again = doubtFor
	}
	return again, err
}

// neighbours counts the active pods of the set's owner on each node, if there
// is anything to delete.
func (c *Controller) neighbours(rs *appsv1.ReplicaSet, pods int) map[string]int {
	if pods <= int(replicas(rs)) {
		return nil
	}
	family := []*appsv1.ReplicaSet{rs}
	if owner := reconcile.ControllerUID(rs); owner != "" {
		family = c.sets.ByIndex(reconcile.ByOwner, string(owner))
	}
	n := map[string]int{}
	for _, f := range family {
		for _, p := range c.pods.ByIndex(reconcile.ByOwner, string(f.UID)) {
			if active(p) && p.Spec.NodeName != "" {
				n[p.Spec.NodeName]++
			}
		}
	}
	return n
}
