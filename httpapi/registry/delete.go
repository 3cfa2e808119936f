package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/storage"
)

// Delete removes an object, or marks it if something has to be done before:
// by its finalizers, by an agent that ends it gracefully, or by the collection
// of its dependents.
func (r *Resource) Delete(ctx context.Context, c *Call, opts *metav1.DeleteOptions) (Result, error) {
	if c.Options == nil {
		c.Options = opts
	}
	old, err := r.Load(ctx, c, false)
	fresh := false
	for {
		var res Result
		if err == nil {
			res, err = r.tryDelete(ctx, c, opts, old)
		}
		var conflict *storage.ConflictError
		switch {
		case err == nil:
			return res, nil
		case errors.As(err, &conflict):
			old, err = r.Decode(ctx, conflict.Current)
			fresh = true
		case fresh || ctx.Err() != nil || errors.Is(err, storage.ErrUnavailable):
			return Result{}, err
		default:
			old, err = r.Load(ctx, c, true)
			fresh = true
		}
	}
}

// tryDelete carries out a deletion of one state of the object.
func (r *Resource) tryDelete(ctx context.Context, c *Call, opts *metav1.DeleteOptions, old Stored) (Result, error) {
	if err := r.matchPreconditions(c, opts.Preconditions, old); err != nil {
		return Result{}, err
	}
	req := r.admissionRequest(c, admission.Delete, nil, old.Object)
	if err := r.admission.Mutate(ctx, req); err != nil {
		return Result{}, err
	}
	if err := r.admit(ctx, c, req); err != nil {
		return Result{}, err
	}

	obj, ok := old.Object.DeepCopyObject().(api.Object)
	if !ok {
		return Result{}, fmt.Errorf("copy of a %s is a %T", r.Kind, old.Object)
	}
	grace := r.graceOf(obj, opts)
	obj.SetFinalizers(r.finalizersFor(obj, opts))
	if r.strategy.deleting != nil && obj.GetDeletionTimestamp() == nil {
		r.strategy.deleting(obj)
	}
	held := len(obj.GetFinalizers()) > 0 || (r.strategy.held != nil && r.strategy.held(obj))
	if grace == 0 && !held {
		return r.remove(ctx, c, obj, old.Value, old)
	}
	r.mark(obj, grace)
	if held && r.strategy.terminate != nil {
		r.strategy.terminate(obj)
	}
	return r.persist(ctx, c, obj, old)
}

// matchPreconditions checks what the client takes for granted.
func (r *Resource) matchPreconditions(c *Call, p *metav1.Preconditions, old Stored) error {
	if p == nil {
		return nil
	}
	if p.UID != nil {
		if err := r.matchUID(c, string(*p.UID), old); err != nil {
			return err
		}
	}
	if have := strconv.FormatInt(old.Revision, 10); p.ResourceVersion != nil && *p.ResourceVersion != have {
		return r.preconditionFailed(c, "ResourceVersion", *p.ResourceVersion, have)
	}
	return nil
}

// graceOf returns the seconds that the object has left, which never grow once
// the deletion has been asked for.
func (r *Resource) graceOf(obj api.Object, opts *metav1.DeleteOptions) int64 {
	if !r.GracefulDelete || r.strategy.grace == nil {
		return 0
	}
	grace := r.strategy.grace(obj, opts.GracePeriodSeconds)
	if before := obj.GetDeletionGracePeriodSeconds(); obj.GetDeletionTimestamp() != nil && before != nil {
		if opts.GracePeriodSeconds == nil {
			return *before
		}
		return min(grace, *before)
	}
	return grace
}

// mark notes on the object that it is to end.
func (r *Resource) mark(obj api.Object, grace int64) {
	before := obj.GetDeletionGracePeriodSeconds()
	if obj.GetDeletionTimestamp() != nil && before != nil && *before <= grace {
		return
	}
	when := r.deletionTime(grace)
	if was := obj.GetDeletionTimestamp(); was != nil && before != nil {
		asked := was.Add(-secondsOf(*before)) // when the deletion was first asked for
		when = &metav1.Time{Time: asked.Add(secondsOf(grace)).UTC()}
	}
	obj.SetDeletionTimestamp(when)
	obj.SetDeletionGracePeriodSeconds(&grace)
	if g := obj.GetGeneration(); g > 0 {
		obj.SetGeneration(g + 1)
	}
}

// finalizersFor returns the object's finalizers with those that stand for what
// becomes of its dependents.
func (r *Resource) finalizersFor(obj api.Object, opts *metav1.DeleteOptions) []string {
	have := obj.GetFinalizers()
	var want string
	switch {
	case opts.PropagationPolicy != nil:
		switch *opts.PropagationPolicy {
		case metav1.DeletePropagationOrphan:
			want = metav1.FinalizerOrphanDependents
		case metav1.DeletePropagationForeground:
			want = metav1.FinalizerDeleteDependents
		case metav1.DeletePropagationBackground:
		}
	case opts.OrphanDependents != nil: //nolint:staticcheck // old clients send it
		if *opts.OrphanDependents { //nolint:staticcheck // as above
			want = metav1.FinalizerOrphanDependents
		}
	case slices.Contains(have, metav1.FinalizerOrphanDependents), slices.Contains(have, metav1.FinalizerDeleteDependents):
		return have
	case r.strategy.orphans:
		want = metav1.FinalizerOrphanDependents
	}
	out := slices.DeleteFunc(slices.Clone(have), func(f string) bool {
		return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
	})
	if want != "" {
		out = append(out, want)
	}
	return out
}

// finished reports whether an update takes away the last thing that kept an
// object whose deletion has been asked for.
func (r *Resource) finished(obj, old api.Object) bool {
	if old.GetDeletionTimestamp() == nil || len(obj.GetFinalizers()) > 0 {
		return false
	}
	if grace := old.GetDeletionGracePeriodSeconds(); grace != nil && *grace != 0 {
		return false
	}
	if r.strategy.held == nil {
		return len(old.GetFinalizers()) > 0
	}
	return !r.strategy.held(obj) && (r.strategy.held(old) || len(old.GetFinalizers()) > 0)
}

// remove is the transaction of a deletion. The result shows obj and value, the
// last state.
func (r *Resource) remove(ctx context.Context, c *Call, obj api.Object, value []byte, old Stored) (Result, error) {
	if c.DryRun {
		return result(obj, value, old.Revision, Result{Deleted: true}), nil
	}
	key := r.Key(c.Namespace, c.Name)
	revision, err := r.store.Delete(ctx, key, old.Revision)
	if err != nil {
		return Result{}, r.writeError(c, err)
	}
	r.recent.wrote(key, revision)
	return result(obj, value, revision, Result{Deleted: true}), nil
}

// persist stores a state that has not been through the pipeline of Update,
// because the server alone has made it.
func (r *Resource) persist(ctx context.Context, c *Call, obj api.Object, old Stored) (Result, error) {
	value, stored, err := r.encode(ctx, obj)
	if err != nil {
		return Result{}, err
	}
	if c.DryRun || old.holds(stored) {
		return result(obj, value, old.Revision, Result{}), nil
	}
	return r.replace(ctx, c, obj, value, stored, old)
}

// ReturnsDeleted reports whether the answer to a delete is the object that is
// gone.
func (r *Resource) ReturnsDeleted() bool { return r.strategy.returnsDeleted }
