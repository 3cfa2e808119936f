package registry

import (
	"bytes"
	"context"
	"errors"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/storage"
)

// A Change returns the wanted state of an object. It must not modify the
// stored one. It may be called more than once, each time with a newer state;
// Object is nil in a Stored that does not exist.
type Change func(old Stored) (api.Object, error)

// Update replaces an object, or the part of it that the call's subresource is
// about, by the wanted state. If the wanted state has a resourceVersion, that
// must be the stored one. If it has none, the change is tried again for as
// long as others get in between.
func (r *Resource) Update(ctx context.Context, c *Call, change Change) (Result, error) {
	return r.update(ctx, c, change, r.tryUpdate)
}

// A step carries out a change of one state of an object. fresh says that the
// state is not just one from a cache.
type step func(ctx context.Context, c *Call, change Change, old Stored, fresh bool) (Result, error)

// update takes a step from the state at hand, and again from a newer one when
// it fails because of that.
func (r *Resource) update(ctx context.Context, c *Call, change Change, try step) (Result, error) {
	old, err := r.Load(ctx, c, false)
	fresh := false
	for {
		var res Result
		if err == nil {
			res, err = try(ctx, c, change, old, fresh)
		} else if fresh && is(err, NotFound) && r.CreateOnUpdate && c.Subresource == "" {
			return r.createByUpdate(ctx, c, change)
		}
		var conflict *storage.ConflictError
		switch {
		case err == nil:
			return res, nil
		case errors.As(err, &conflict):
			// Somebody was faster. What the store has now is as good as a read.
			old, err = r.Decode(ctx, conflict.Current)
			fresh = true
		case ctx.Err() != nil && errors.Is(err, errStale):
			// There is no time for the read that would decide.
			return Result{}, ctx.Err()
		case fresh || ctx.Err() != nil || errors.Is(err, storage.ErrUnavailable):
			return Result{}, err
		default:
			// The refusal may be due to an old state in the cache.
			old, err = r.Load(ctx, c, true)
			fresh = true
		}
	}
}

// errStale is why an outcome that rests on a cached state does not count.
var errStale = errors.New("cached state decides nothing")

// tryUpdate is the step through the whole pipeline.
func (r *Resource) tryUpdate(ctx context.Context, c *Call, change Change, old Stored, fresh bool) (Result, error) {
	obj, err := change(old)
	if err != nil {
		return Result{}, err
	}
	if err = r.MatchURL(c, obj); err != nil {
		return Result{}, err
	}
	if err = r.matchState(c, obj, old); err != nil {
		return Result{}, err
	}

	r.keep(c, obj, old.Object)
	if err = r.prepare(obj); err != nil {
		return Result{}, err
	}
	req := r.admissionRequest(c, admission.Update, obj, old.Object)
	if obj, err = r.mutate(ctx, c, req); err != nil {
		return Result{}, err
	}
	if err = r.prepare(obj); err != nil {
		return Result{}, err
	}
	r.keep(c, obj, old.Object)

	value, stored, err := r.encodeNext(ctx, c, obj, old)
	if err != nil {
		return Result{}, err
	}
	if err := r.validate(obj, value, r.faults(ctx, c, obj, old.Object)); err != nil {
		return Result{}, err
	}
	req.Encoded(value)
	if err := r.admit(ctx, c, req); err != nil {
		return Result{}, err
	}

	switch {
	case r.finished(obj, old.Object):
		return r.remove(ctx, c, obj, value, old)
	case r.TTL == 0 && old.holds(stored):
		if !fresh {
			return Result{}, errStale
		}
		return result(obj, value, old.Revision, Result{}), nil
	case c.DryRun:
		return result(obj, value, old.Revision, Result{}), nil
	}
	return r.replace(ctx, c, obj, value, stored, old)
}

// replace is the transaction of an update.
func (r *Resource) replace(ctx context.Context, c *Call, obj api.Object, value, stored []byte, old Stored) (Result, error) {
	key := r.Key(c.Namespace, c.Name)
	revision, err := r.store.Update(ctx, key, stored, old.Revision, r.TTL)
	if err != nil {
		return Result{}, r.writeError(c, err)
	}
	r.recent.wrote(key, revision)
	return result(obj, value, revision, Result{}), nil
}

// encodeNext encodes a wanted state, whose generation is one more if the spec
// is another.
func (r *Resource) encodeNext(ctx context.Context, c *Call, obj api.Object, old Stored) (own, stored []byte, err error) {
	own, stored, err = r.encode(ctx, obj)
	if err != nil || !r.strategy.generation || c.Subresource == "status" {
		return own, stored, err
	}
	if r.sameSpec(obj, own, old) {
		return own, stored, nil
	}
	obj.SetGeneration(old.Object.GetGeneration() + 1)
	return r.encode(ctx, obj)
}

// sameSpec reports whether a wanted state, of which own is the JSON, asks for
// the same as the stored one.
func (r *Resource) sameSpec(obj api.Object, own []byte, old Stored) bool {
	if r.custom != nil {
		return sameCustom(obj, old.Object)
	}
	// Specs that look the same are the same; others may still mean the same.
	return bytes.Equal(api.Member(own, r.parts.specMember), api.Member(old.Value, r.parts.specMember)) ||
		samePart(obj, old.Object, r.parts.spec)
}

// tryDirect is the step for a change that the server itself has made out of
// the stored state: it needs no validation.
func (r *Resource) tryDirect(ctx context.Context, c *Call, change Change, old Stored, _ bool) (Result, error) {
	obj, err := change(old)
	if err != nil {
		return Result{}, err
	}
	if v := obj.GetResourceVersion(); v != "" && v != strconv.FormatInt(old.Revision, 10) {
		return Result{}, r.fail(c, Conflict, ErrModified)
	}
	return r.persist(ctx, c, obj, old)
}

// Amend makes a change that the server itself has decided on: without
// admission, validation and preconditions. An object whose deletion has been
// asked for goes when nothing keeps it any more.
func (r *Resource) Amend(ctx context.Context, c *Call, change Change) (Result, error) {
	return r.update(ctx, c, change, func(ctx context.Context, c *Call, change Change, old Stored, _ bool) (Result, error) {
		obj, err := change(old)
		if err != nil {
			return Result{}, err
		}
		if !r.finished(obj, old.Object) {
			return r.persist(ctx, c, obj, old)
		}
		value, _, err := r.encode(ctx, obj)
		if err != nil {
			return Result{}, err
		}
		return r.remove(ctx, c, obj, value, old)
	})
}

// holds reports whether storage has the value already, with or without a
// resourceVersion in it.
func (s *Stored) holds(value []byte) bool {
	return bytes.Equal(s.raw, value) || bytes.Equal(s.raw, api.SetRevision(value, s.Revision))
}

// MatchURL checks that the object is the one that the URL names.
func (r *Resource) MatchURL(c *Call, obj api.Object) error {
	if name := obj.GetName(); name != c.Name {
		if name == "" {
			return r.badRequest(c, "the name of the object (%s based on URL) was undeterminable: name must be provided", c.Name)
		}
		return r.badRequest(c, "the name of the object (%s) does not match the name on the URL (%s)", name, c.Name)
	}
	if ns := obj.GetNamespace(); r.Namespaced && ns != "" && ns != c.Namespace {
		return r.badRequest(c, "the namespace of the object (%s) does not match the namespace on the URL (%s)", ns, c.Namespace)
	}
	return nil
}

// matchState checks the resourceVersion and the uid of the wanted state, if it
// has them, against the stored one.
func (r *Resource) matchState(c *Call, obj api.Object, old Stored) error {
	switch version := obj.GetResourceVersion(); version {
	case "", "0":
		if !r.UnconditionalUpdate {
			return r.invalid(c, field.Invalid(field.NewPath("metadata", "resourceVersion"), uint64(0), "must be specified for an update"))
		}
		obj.SetResourceVersion(strconv.FormatInt(old.Revision, 10)) // the newest is what is meant
	default:
		n, err := strconv.ParseInt(version, 10, 64)
		if err != nil || n < 0 {
			return r.invalid(c, field.Invalid(field.NewPath("metadata", "resourceVersion"), version, "must be a number"))
		}
		if n != old.Revision {
			return r.fail(c, Conflict, ErrModified)
		}
	}
	return r.matchUID(c, string(obj.GetUID()), old)
}

// matchUID checks a uid that a client insists on.
func (r *Resource) matchUID(c *Call, uid string, old Stored) error {
	if have := string(old.Object.GetUID()); uid != "" && uid != have {
		return r.preconditionFailed(c, "UID", uid, have)
	}
	return nil
}

// preconditionFailed says that an object is not the one that a client means.
func (r *Resource) preconditionFailed(c *Call, what, want, have string) error {
	return r.fail(c, Conflict, errors.New("Precondition failed: "+what+" in precondition: "+want+", "+what+" in object meta: "+have))
}

// keep gives the wanted state what a call may not change.
func (r *Resource) keep(c *Call, obj, old api.Object) {
	keepMeta(obj, old)
	if r.custom != nil {
		r.keepCustom(c, obj, old)
		return
	}
	if c.Subresource == "status" {
		copyPart(obj, old, r.parts.spec)
		if r.strategy.keepsMeta {
			obj.SetLabels(old.GetLabels())
			obj.SetAnnotations(old.GetAnnotations())
			obj.SetFinalizers(old.GetFinalizers())
			obj.SetOwnerReferences(old.GetOwnerReferences())
		}
	} else if r.Subresource("status") != nil {
		copyPart(obj, old, r.parts.status)
	}
	if r.strategy.update != nil {
		r.strategy.update(obj, old, c.Subresource)
	}
}

// writeError is StorageError, but leaves a conflict for Update to deal with.
func (r *Resource) writeError(c *Call, err error) error {
	conflict := (*storage.ConflictError)(nil)
	if errors.As(err, &conflict) {
		return err
	}
	return r.StorageError(c, err)
}

// createByUpdate creates the object that an update has not found.
func (r *Resource) createByUpdate(ctx context.Context, c *Call, change Change) (Result, error) {
	obj, err := change(Stored{})
	if err != nil {
		return Result{}, err
	}
	if err := r.MatchURL(c, obj); err != nil {
		return Result{}, err
	}
	if v := obj.GetResourceVersion(); v != "" && v != "0" {
		return Result{}, r.fail(c, NotFound, nil)
	}
	obj.SetResourceVersion("")
	if c.MayCreate != nil {
		if err := c.MayCreate(ctx); err != nil {
			return Result{}, err
		}
	}
	return r.Create(ctx, c, obj)
}
