package replicaset

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/controllers/reconcile"
)

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
	now, err := c.setsC.UpdateStatus(ctx, up)
	switch {
	case apierrors.IsNotFound(err):
		return 0, nil
	case apierrors.IsConflict(err):
		return 0, reconcile.ErrLater // somebody has changed the set
	case err != nil:
		return 0, fmt.Errorf("write status of replica set: %w", err)
	}
	c.written.Note(now)
	return again, nil
}
