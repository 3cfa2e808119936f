package replicaset

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/api"
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

// claim returns the pods that the set controls, after it has adopted those
// that match it and released those that do not any more.
func (c *Controller) claim(ctx context.Context, rs *appsv1.ReplicaSet, sel labels.Selector) ([]*corev1.Pod, error) {
	owned := c.pods.ByIndex(reconcile.ByOwner, string(rs.UID))
	mine := owned[:0]
	var errs []error
	for _, p := range owned {
		if reconcile.ClaimOf(rs, p, sel) == reconcile.Release {
			errs = append(errs, c.release(ctx, rs, p))
			continue
		}
		mine = append(mine, p) // a set that is deleted keeps what it has
	}
	adopted, err := c.adopt(ctx, rs, sel)
	return append(mine, adopted...), errors.Join(append(errs, err)...)
}

func (c *Controller) release(ctx context.Context, rs *appsv1.ReplicaSet, p *corev1.Pod) error {
	patch, err := reconcile.ReleasePatch(p.UID, rs.UID)
	if err == nil {
		_, err = c.podsC.Patch(ctx, p.Namespace, p.Name, types.StrategicMergePatchType, patch)
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) {
		return fmt.Errorf("release pod %q: %w", p.Namespace+"/"+p.Name, err)
	}
	return nil
}

// adopt makes the set the controller of pods that match it and have none. The
// cache may not know yet that the set is gone, so that is looked up first.
func (c *Controller) adopt(ctx context.Context, rs *appsv1.ReplicaSet, sel labels.Selector) ([]*corev1.Pod, error) {
	var adopted []*corev1.Pod
	var errs []error
	sure := false
	for _, p := range c.pods.ByIndex(reconcile.ByOrphans, rs.Namespace) {
		if !active(p) || reconcile.ClaimOf(rs, p, sel) != reconcile.Adopt {
			continue
		}
		if !sure {
			live, err := c.setsC.Get(ctx, rs.Namespace, rs.Name)
			if err != nil {
				return nil, fmt.Errorf("look at replica set before adoption: %w", err)
			}
			if live.UID != rs.UID || live.DeletionTimestamp != nil {
				return nil, nil
			}
			sure = true
		}
		patch, err := reconcile.AdoptPatch(rs, c.setsC.Resource(), p.UID)
		if err == nil {
			p, err = c.podsC.Patch(ctx, p.Namespace, p.Name, types.StrategicMergePatchType, patch)
		}
		switch {
		case err == nil:
			adopted = append(adopted, p)
		case !apierrors.IsNotFound(err):
			errs = append(errs, fmt.Errorf("adopt pod: %w", err))
		}
	}
	return adopted, errors.Join(errs...)
}

// do creates and deletes pods.
func (c *Controller) do(ctx context.Context, rs *appsv1.ReplicaSet, pl plan) (*failure, error) {
	switch {
	case pl.create > 0:
		return c.create(ctx, rs, pl.create)
	case len(pl.remove) > 0:
		err := reconcile.Parallel(ctx, len(pl.remove), width, func(i int) error { return c.remove(ctx, rs, pl.remove[i]) })
		if err != nil {
			return &failure{reason: "FailedDelete", message: err.Error()}, err
		}
	}
	return nil, nil
}

func (c *Controller) create(ctx context.Context, rs *appsv1.ReplicaSet, n int) (*failure, error) {
	body, err := api.Encode(newPod(rs, c.setsC.Resource()))
	if err != nil {
		return nil, fmt.Errorf("encode pod: %w", err)
	}
	row := c.podsC.Resource()
	_, err = ramp(ctx, n, width, func() error {
		c.expect.creating(rs.UID)
		var meta metav1.PartialObjectMetadata
		cerr := c.cfg.REST.Create(ctx, row, rs.Namespace, body, &meta)
		c.expect.created(rs.UID, meta.UID, refused(cerr), time.Now())
		if cerr == nil {
			c.cfg.Recorder.Event(rs, corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: "+meta.Name)
		}
		return cerr
	})
	switch {
	case err == nil:
		return nil, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil, nil // all of it goes away
	case ctx.Err() == nil:
		c.cfg.Recorder.Event(rs, corev1.EventTypeWarning, "FailedCreate", "Error creating: "+err.Error())
	}
	return &failure{reason: "FailedCreate", message: err.Error()}, err
}

// refused tells whether the server has said no: then nothing was created.
func refused(err error) bool {
	var st apierrors.APIStatus
	return errors.As(err, &st) && st.Status().Code >= 400 && st.Status().Code < 500
}

func (c *Controller) remove(ctx context.Context, rs *appsv1.ReplicaSet, p *corev1.Pod) error {
	c.expect.deleting(rs.UID, p.UID)
	uid := p.UID
	err := c.podsC.Delete(ctx, p.Namespace, p.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it is gone, which the cache will show
	}
	if err != nil {
		c.expect.undelete(rs.UID, p.UID)
		if ctx.Err() == nil {
			c.cfg.Recorder.Event(rs, corev1.EventTypeWarning, "FailedDelete", "Error deleting: "+err.Error())
		}
		return err
	}
	if now, ok := c.pods.Get(p.Namespace, p.Name); !ok || now.UID != uid || now.DeletionTimestamp != nil {
		c.expect.gone(rs.UID, uid) // the cache was faster than the answer
	}
	c.cfg.Recorder.Event(rs, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: "+p.Name)
	return nil
}

// newPod is a pod from the set's template.
func newPod(rs *appsv1.ReplicaSet, row *api.Resource) *corev1.Pod {
	t := rs.Spec.Template.DeepCopy()
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: rs.Namespace, GenerateName: rs.Name + "-",
			Labels: t.Labels, Annotations: t.Annotations, Finalizers: t.Finalizers,
			OwnerReferences: []metav1.OwnerReference{reconcile.ControllerRef(rs, row)},
		},
		Spec: t.Spec,
	}
}

// writeStatus stores the status that the pods show, if it has changed.
func (c *Controller) writeStatus(ctx context.Context, rs *appsv1.ReplicaSet, pods []*corev1.Pod, fail *failure) (time.Duration, error) {
	st, again := newStatus(rs, pods, fail, time.Now())
	if sameStatus(&st, &rs.Status) {
		return again, nil
	}
	up := rs.DeepCopy()
	up.Status = st
	_, err := c.setsC.UpdateStatus(ctx, up)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("write status of replica set: %w", err)
	}
	return again, nil
}
