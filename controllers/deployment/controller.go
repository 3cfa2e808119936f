package deployment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
		queue: workqueue.New[informers.Key](workqueue.Config{Name: "deployment", Metrics: cfg.Metrics}),
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
		Delete: func(d *appsv1.Deployment) { c.queue.Add(informers.KeyOf(d)) },
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
		Delete: func(rs *appsv1.ReplicaSet) { c.setChanged(rs, 0) },
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

// claim returns the sets that the deployment controls, after it has adopted
// and released what it must.
func (c *Controller) claim(ctx context.Context, d *appsv1.Deployment, sel labels.Selector) ([]*appsv1.ReplicaSet, error) {
	var mine []*appsv1.ReplicaSet
	var errs []error
	for _, rs := range c.sets.ByIndex(reconcile.ByOwner, string(d.UID)) {
		if reconcile.ClaimOf(d, rs, sel) != reconcile.Release {
			mine = append(mine, rs)
			continue
		}
		patch, err := reconcile.ReleasePatch(rs.UID, d.UID)
		if err == nil {
			_, err = c.setsC.Patch(ctx, rs.Namespace, rs.Name, types.StrategicMergePatchType, patch)
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) {
			errs = append(errs, fmt.Errorf("release replica set: %w", err))
		}
	}
	sure := false
	for _, rs := range c.sets.ByIndex(reconcile.ByOrphans, d.Namespace) {
		if reconcile.ClaimOf(d, rs, sel) != reconcile.Adopt {
			continue
		}
		if !sure {
			live, err := c.deplC.Get(ctx, d.Namespace, d.Name)
			if err != nil {
				return nil, fmt.Errorf("look at deployment before adoption: %w", err)
			}
			if live.UID != d.UID || live.DeletionTimestamp != nil {
				break
			}
			sure = true
		}
		patch, err := reconcile.AdoptPatch(d, c.deplC.Resource(), rs.UID)
		if err == nil {
			rs, err = c.setsC.Patch(ctx, rs.Namespace, rs.Name, types.StrategicMergePatchType, patch)
		}
		switch {
		case err == nil:
			mine = append(mine, rs)
		case !apierrors.IsNotFound(err):
			errs = append(errs, fmt.Errorf("adopt replica set: %w", err))
		}
	}
	return mine, errors.Join(errs...)
}

// do carries the plan out.
func (c *Controller) do(ctx context.Context, d *appsv1.Deployment, p *plan) error {
	if p.create != nil {
		if done, err := c.create(ctx, d, p); done || err != nil {
			return err
		}
	}
	for _, ch := range p.changes {
		if _, err := c.setsC.Update(ctx, ch.to); err != nil {
			return fmt.Errorf("update replica set %q: %w", ch.to.Name, err)
		}
		c.scaled(d, ch.to.Name, size(ch.from), size(ch.to))
	}
	for _, rs := range p.remove {
		uid := rs.UID
		err := c.setsC.Delete(ctx, rs.Namespace, rs.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete old replica set %q: %w", rs.Name, err)
		}
	}
	if p.revision != "" && p.revision != d.Annotations[revisionAnnotation] {
		now, err := c.annotate(ctx, d, p.revision)
		if err != nil {
			return err
		}
		d = now // a write of the status carries the annotations along
	}
	return c.writeStatus(ctx, d, p.status)
}

func (c *Controller) scaled(d *appsv1.Deployment, set string, from, to int32) {
	switch {
	case to > from:
		c.cfg.Recorder.Eventf(d, corev1.EventTypeNormal, "ScalingReplicaSet", "Scaled up replica set %s from %d to %d", set, from, to)
	case to < from:
		c.cfg.Recorder.Eventf(d, corev1.EventTypeNormal, "ScalingReplicaSet", "Scaled down replica set %s from %d to %d", set, from, to)
	}
}

// create makes the new set. Done is true if the rest of the plan cannot be
// carried out.
func (c *Controller) create(ctx context.Context, d *appsv1.Deployment, p *plan) (done bool, err error) {
	_, err = c.setsC.Create(ctx, p.create)
	switch {
	case err == nil:
		c.scaled(d, p.create.Name, 0, size(p.create))
		return false, nil
	case apierrors.IsAlreadyExists(err):
		return true, c.exists(ctx, d, p)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return true, nil
	}
	message := fmt.Sprintf("Failed to create new replica set %q: %v", p.create.Name, err)
	if ctx.Err() == nil {
		c.cfg.Recorder.Event(d, corev1.EventTypeWarning, reasonFailed, message)
	}
	if hasDeadline(d) && ctx.Err() == nil {
		st, _ := newStatus(d, nil, nil, &note{corev1.ConditionFalse, reasonFailed, message}, time.Now())
		keep := d.Status
		keep.ObservedGeneration, keep.Conditions = d.Generation, st.Conditions
		if serr := c.writeStatus(ctx, d, keep); serr != nil {
			err = errors.Join(err, serr)
		}
	}
	return true, fmt.Errorf("create replica set %q: %w", p.create.Name, err)
}

var errNotSeen = errors.New("the replica set exists and is not in the cache yet")

// exists looks at a set that has the name of the new one already: it is the
// new one and the cache is late, or another template has the same hash.
func (c *Controller) exists(ctx context.Context, d *appsv1.Deployment, p *plan) error {
	have, err := c.setsC.Get(ctx, d.Namespace, p.create.Name)
	if err != nil {
		return fmt.Errorf("look at replica set %q: %w", p.create.Name, err)
	}
	if reconcile.ControllerUID(have) == d.UID && sameTemplate(&have.Spec.Template, &d.Spec.Template) {
		return errNotSeen
	}
	st := *d.Status.DeepCopy()
	var n int32 = 1
	if st.CollisionCount != nil {
		n = *st.CollisionCount + 1
	}
	st.CollisionCount = &n
	return c.writeStatus(ctx, d, st)
}

// annotate gives the deployment its revision.
func (c *Controller) annotate(ctx context.Context, d *appsv1.Deployment, rev string) (*appsv1.Deployment, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": d.UID, "resourceVersion": d.ResourceVersion, "annotations": map[string]string{revisionAnnotation: rev},
	}})
	if err != nil {
		return nil, fmt.Errorf("encode revision: %w", err)
	}
	now, err := c.deplC.Patch(ctx, d.Namespace, d.Name, types.MergePatchType, patch)
	if err != nil {
		return nil, fmt.Errorf("write revision of deployment: %w", err)
	}
	return now, nil
}

// writeStatus stores the status if it has changed.
func (c *Controller) writeStatus(ctx context.Context, d *appsv1.Deployment, st appsv1.DeploymentStatus) error {
	if apiequality.Semantic.DeepEqual(st, d.Status) {
		return nil
	}
	up := d.DeepCopy()
	up.Status = st
	_, err := c.deplC.UpdateStatus(ctx, up)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("write status of deployment: %w", err)
	}
	return nil
}
