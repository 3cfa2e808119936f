package deployment

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/controllers/reconcile"
)

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
