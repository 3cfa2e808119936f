package deployment

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/controllers/reconcile"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/httpapi/client/event"
	"github.com/proa-project/proa/informers"
	"github.com/proa-project/proa/informers/workqueue"
)

// settle is how long changes of the sets' status are gathered.
const settle = 5 * time.Millisecond

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
	cfg         Config
	deployments *informers.Informer[*appsv1.Deployment]
	sets        *informers.Informer[*appsv1.ReplicaSet]
	pods        *informers.Informer[*corev1.Pod]
	deplC       *client.Client[*appsv1.Deployment]
	setsC       *client.Client[*appsv1.ReplicaSet]
	queue       *workqueue.Queue[informers.Key]
	// written are the deployments and sets that this loop has written.
	written reconcile.Written

	mu      sync.Mutex
	created map[types.UID]made // by deployment; guarded by mu
}

// made is a set that the loop has created and may not see yet.
type made struct {
	name string
	uid  types.UID
}

// New returns the loop.
func New(cfg Config) *Controller {
	if cfg.Workers <= 0 {
		cfg.Workers = 5
	}
	return &Controller{
		cfg:         cfg,
		deployments: informers.For[*appsv1.Deployment](cfg.Factory),
		sets:        informers.For[*appsv1.ReplicaSet](cfg.Factory),
		pods:        informers.For[*corev1.Pod](cfg.Factory),
		deplC:       client.For[*appsv1.Deployment](cfg.REST), setsC: client.For[*appsv1.ReplicaSet](cfg.REST),
		created: map[types.UID]made{},
		queue:   workqueue.New[informers.Key](workqueue.Config{Name: "deployment", Metrics: cfg.Metrics}),
	}
}

// Scope declares the loop.
func (c *Controller) Scope() reconcile.Scope {
	return reconcile.Scope{
		Name:   "deployment",
		Reads:  []string{"deployments", "replicasets", "pods"},
		Writes: []string{"deployments/status", "deployments/revision", "replicasets/of-deployments"},
	}
}

// Run works until ctx is done.
func (c *Controller) Run(ctx context.Context) error {
	c.sets.AddIndex(reconcile.ByOwner, reconcile.OwnerIndex[*appsv1.ReplicaSet])
	c.sets.AddIndex(reconcile.ByOrphans, reconcile.Orphans[*appsv1.ReplicaSet])
	c.pods.AddIndex(reconcile.ByOwner, reconcile.OwnerIndex[*corev1.Pod])
	for _, r := range []*informers.Registration{c.watchDeployments(), c.watchSets(), c.watchPods()} {
		defer r.Remove()
		if err := r.WaitForSync(ctx); err != nil {
			return err
		}
	}
	reconcile.Workers(ctx, c.cfg.Workers, c.queue, c.cfg.Log, c.sync)
	return ctx.Err()
}

func (c *Controller) watchDeployments() *informers.Registration {
	return c.deployments.AddHandler(informers.Handler[*appsv1.Deployment]{
		Add:    func(d *appsv1.Deployment, _ bool) { c.queue.Add(informers.KeyOf(d)) },
		Update: func(_, d *appsv1.Deployment) { c.queue.Add(informers.KeyOf(d)) },
		Delete: func(d *appsv1.Deployment) {
			c.written.Forget(d.UID)
			c.forgetMade(d.UID)
			c.queue.Add(informers.KeyOf(d))
		},
	})
}

func (c *Controller) watchSets() *informers.Registration {
	return c.sets.AddHandler(informers.Handler[*appsv1.ReplicaSet]{
		Add: func(rs *appsv1.ReplicaSet, _ bool) { c.setChanged(rs, 0) },
		Update: func(old, rs *appsv1.ReplicaSet) {
			if reconcile.ControllerUID(old) != reconcile.ControllerUID(rs) {
				c.setChanged(old, 0)
			}
			c.setChanged(rs, settle)
		},
		Delete: func(rs *appsv1.ReplicaSet) {
			c.written.Forget(rs.UID)
			c.setChanged(rs, 0)
		},
	})
}

func (c *Controller) setChanged(rs *appsv1.ReplicaSet, wait time.Duration) {
	if ref := metav1.GetControllerOfNoCopy(rs); ref != nil {
		if d := c.ownerOf(rs); d != nil {
			c.queue.AddAfter(informers.KeyOf(d), wait)
		}
		return
	}
	for _, d := range c.deployments.ListNamespace(rs.Namespace, nil) {
		if sel, err := metav1.LabelSelectorAsSelector(d.Spec.Selector); err == nil && !sel.Empty() && sel.Matches(labels.Set(rs.Labels)) {
			c.queue.AddAfter(informers.KeyOf(d), wait)
		}
	}
}

// ownerOf returns the deployment that controls the set, or nil.
func (c *Controller) ownerOf(rs *appsv1.ReplicaSet) *appsv1.Deployment {
	ref := metav1.GetControllerOfNoCopy(rs)
	if ref == nil || ref.Kind != "Deployment" {
		return nil
	}
	d, ok := c.deployments.Get(rs.Namespace, ref.Name)
	if !ok || d.UID != ref.UID {
		return nil
	}
	return d
}

// watchPods sees to it that Recreate goes on when the last old pod is gone.
func (c *Controller) watchPods() *informers.Registration {
	ended := func(p *corev1.Pod) {
		ref := metav1.GetControllerOfNoCopy(p)
		if ref == nil || ref.Kind != "ReplicaSet" {
			return
		}
		rs, ok := c.sets.Get(p.Namespace, ref.Name)
		if !ok {
			return
		}
		if d := c.ownerOf(rs); d != nil && d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
			c.queue.AddAfter(informers.KeyOf(d), settle)
		}
	}
	return c.pods.AddHandler(informers.Handler[*corev1.Pod]{
		Update: func(old, p *corev1.Pod) {
			if finished(p) && !finished(old) {
				ended(p)
			}
		},
		Delete: ended,
	})
}

func finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// sync brings one deployment a step further.
func (c *Controller) sync(ctx context.Context, k informers.Key) (time.Duration, error) {
	d, ok := c.deployments.Get(k.Namespace, k.Name)
	if !ok {
		return 0, nil
	}
	if c.late(d) {
		return reconcile.Patience, nil // at the latest: the cache will show what was written
	}
	sel, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil || sel.Empty() {
		return 0, nil //nolint:nilerr // the server refuses such deployments; nothing can be done for one
	}
	sets, err := c.claim(ctx, d, sel)
	if err != nil {
		return 0, err
	}
	v := view{
		d: d, sets: sets, owner: reconcile.ControllerRef(d, c.deplC.Resource()),
		oldPods: c.oldPods(d, sets), now: time.Now(),
	}
	p, err := newPlan(v)
	if err != nil {
		return 0, err
	}
	if err := c.do(ctx, d, &p); err != nil {
		return 0, err
	}
	return p.again, nil
}

// late tells whether the cache does not show yet what this loop has done to
// the deployment and its sets.
func (c *Controller) late(d *appsv1.Deployment) bool {
	if c.written.Stale(d) {
		return true
	}
	c.mu.Lock()
	m, ok := c.created[d.UID]
	c.mu.Unlock()
	if ok {
		rs, seen := c.sets.Get(d.Namespace, m.name)
		if c.written.Missing(m.uid, seen && rs.UID == m.uid) {
			return true
		}
		c.forgetMade(d.UID)
	}
	for _, rs := range c.sets.ByIndex(reconcile.ByOwner, string(d.UID)) {
		if c.written.Stale(rs) {
			return true
		}
	}
	return false
}

func (c *Controller) forgetMade(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.created, uid)
}

// oldPods tells whether pods of old sets are alive, which Recreate waits for.
func (c *Controller) oldPods(d *appsv1.Deployment, sets []*appsv1.ReplicaSet) bool {
	if d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		return false
	}
	_, old := split(d, sets)
	for _, rs := range old {
		for _, p := range c.pods.ByIndex(reconcile.ByOwner, string(rs.UID)) {
			if !finished(p) {
				return true
			}
		}
	}
	return false
}
