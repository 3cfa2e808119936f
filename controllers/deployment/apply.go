package deployment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/controllers/reconcile"
)

// do carries the plan out.
func (c *Controller) do(ctx context.Context, d *appsv1.Deployment, p *plan) error {
	if p.create != nil {
		if done, err := c.create(ctx, d, p); done || err != nil {
			return err
		}
	}
	for _, ch := range p.changes {
		now, err := c.setsC.Update(ctx, ch.to)
		if apierrors.IsConflict(err) {
			return reconcile.ErrLater // its status has changed meanwhile
		}
		if err != nil {
			return fmt.Errorf("update replica set %q: %w", ch.to.Name, err)
		}
		c.written.Note(now)
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
	now, err := c.setsC.Create(ctx, p.create)
	switch {
	case err == nil:
		c.written.Note(now)
		c.mu.Lock()
		c.created[d.UID] = made{name: now.Name, uid: now.UID}
		c.mu.Unlock()
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
	if apierrors.IsConflict(err) {
		return nil, reconcile.ErrLater // somebody has changed the deployment
	}
	if err != nil {
		return nil, fmt.Errorf("write revision of deployment: %w", err)
	}
	c.written.Note(now)
	return now, nil
}

// writeStatus stores the status if it has changed.
func (c *Controller) writeStatus(ctx context.Context, d *appsv1.Deployment, st appsv1.DeploymentStatus) error {
	if apiequality.Semantic.DeepEqual(st, d.Status) {
		return nil
	}
	up := d.DeepCopy()
	up.Status = st
	now, err := c.deplC.UpdateStatus(ctx, up)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		return reconcile.ErrLater
	case err != nil:
		return fmt.Errorf("write status of deployment: %w", err)
	}
	c.written.Note(now)
	return nil
}
