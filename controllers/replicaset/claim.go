package replicaset

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/controllers/reconcile"
)

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
