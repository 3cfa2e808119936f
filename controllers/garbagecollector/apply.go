package garbagecollector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/controllers/reconcile"
	"github.com/proa-project/proa/httpapi/client"
)

// remove deletes an object as it was looked at.
func (c *Controller) remove(ctx context.Context, n node, obj *metav1.PartialObjectMetadata, how metav1.DeletionPropagation) error {
	uid, rv := obj.UID, obj.ResourceVersion
	err := client.Metadata(c.cfg.REST, n.row).Delete(ctx, n.namespace, n.name, metav1.DeleteOptions{
		PropagationPolicy: &how, Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &rv},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete %s %q: %w", n.row.Plural, n.namespace+"/"+n.name, err)
	}
	return nil
}

// release takes references off an object. What is gone or was never there is
// as good as released.
func (c *Controller) release(ctx context.Context, n node, uids []types.UID) error {
	if !api.HasProtobuf(n.row.New()) { // not a kind of Kubernetes
		return c.releaseByMerge(ctx, n, uids)
	}
	patch, err := reconcile.ReleasePatch(n.uid, uids...)
	if err != nil {
		return err
	}
	_, err = client.Metadata(c.cfg.REST, n.row).Patch(ctx, n.namespace, n.name, types.StrategicMergePatchType, patch)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("release %s %q: %w", n.row.Plural, n.namespace+"/"+n.name, err)
	}
	return nil
}

// unblock clears blockOwnerDeletion of an object's references, to break a
// circle of owners.
func (c *Controller) unblock(ctx context.Context, n node, obj *metav1.PartialObjectMetadata) error {
	refs := slices.Clone(obj.OwnerReferences)
	for i := range refs {
		refs[i].BlockOwnerDeletion = new(bool)
	}
	return c.patchMeta(ctx, n, obj, map[string]any{"ownerReferences": refs})
}

// foreground goes on with the deletion of an object that waits for what it
// owns.
func (c *Controller) foreground(ctx context.Context, n node, obj *metav1.PartialObjectMetadata, blockers []node) error {
	if len(blockers) == 0 {
		return c.dropFinalizer(ctx, n, obj, metav1.FinalizerDeleteDependents)
	}
	for _, b := range blockers {
		if !b.foreground {
			c.queue.Add(key{uid: b.uid})
		}
	}
	return nil
}

// orphanDependents releases what an object owns, and then lets it go.
func (c *Controller) orphanDependents(ctx context.Context, n node) error {
	deps := c.dependents(n.uid)
	err := reconcile.Parallel(ctx, len(deps), 8, func(i int) error {
		if deps[i].row == nil || deps[i].virtual {
			return nil
		}
		return c.release(ctx, deps[i], []types.UID{n.uid})
	})
	if err != nil {
		return err
	}
	obj, err := c.get(ctx, n.row, n.namespace, n.name, n.uid)
	if err != nil || obj == nil {
		return err
	}
	return c.dropFinalizer(ctx, n, obj, metav1.FinalizerOrphanDependents)
}

var errChanged = errors.New("the object has changed meanwhile")

func (c *Controller) dropFinalizer(ctx context.Context, n node, obj *metav1.PartialObjectMetadata, f string) error {
	if !slices.Contains(obj.Finalizers, f) {
		return nil
	}
	left := slices.DeleteFunc(slices.Clone(obj.Finalizers), func(x string) bool { return x == f })
	return c.patchMeta(ctx, n, obj, map[string]any{"finalizers": left})
}

// patchMeta changes the metadata of an object as it was looked at.
func (c *Controller) patchMeta(ctx context.Context, n node, obj *metav1.PartialObjectMetadata, fields map[string]any) error {
	fields["uid"], fields["resourceVersion"] = obj.UID, obj.ResourceVersion
	patch, err := json.Marshal(map[string]any{"metadata": fields})
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	_, err = client.Metadata(c.cfg.REST, n.row).Patch(ctx, n.namespace, n.name, types.MergePatchType, patch)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		return errChanged
	case err != nil:
		return fmt.Errorf("patch %s %q: %w", n.row.Plural, n.namespace+"/"+n.name, err)
	}
	return nil
}
