package registry

import (
	"context"
	"errors"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/storage"
)

// Create stores a new object, which belongs to the call from then on.
func (r *Resource) Create(ctx context.Context, c *Call, obj api.Object) (Result, error) {
	if err := r.matchNamespace(c, obj); err != nil {
		return Result{}, err
	}
	if obj.GetResourceVersion() != "" {
		return Result{}, r.badRequest(c, "resourceVersion should not be set on objects to be created")
	}
	c.Name = obj.GetName()

	if err := r.prepare(obj); err != nil {
		return Result{}, err
	}
	req := r.admissionRequest(c, admission.Create, obj, nil)
	obj, err := r.mutate(ctx, c, req)
	if err != nil {
		return Result{}, err
	}
	if err = r.prepare(obj); err != nil {
		return Result{}, err
	}
	r.initObject(c, obj)

	base := ""
	if obj.GetName() == "" && obj.GetGenerateName() != "" {
		base = obj.GetGenerateName()
		obj.SetName(generateName(base))
	}
	nameNamespace(obj)
	value, stored, err := r.encode(ctx, obj)
	if err != nil {
		return Result{}, err
	}
	if err = r.validate(obj, value, r.faults(ctx, c, obj, nil)); err != nil {
		return Result{}, err
	}
	req.Encoded(value)
	if err = r.admit(ctx, c, req); err != nil {
		return Result{}, err
	}

	c.Name = obj.GetName()
	revision, err := r.insert(ctx, c, stored)
	for attempt := 1; base != "" && attempt < nameAttempts && errors.Is(err, storage.ErrExists); attempt++ {
		obj.SetName(generateName(base))
		nameNamespace(obj)
		if value, stored, err = r.encode(ctx, obj); err != nil {
			return Result{}, err
		}
		c.Name = obj.GetName()
		revision, err = r.insert(ctx, c, stored)
	}
	switch {
	case err == nil:
		return result(obj, value, revision, Result{Created: true}), nil
	case !errors.Is(err, storage.ErrExists):
		return Result{}, r.StorageError(c, err)
	case base != "":
		return Result{}, r.fail(c, NoFreeName, nil)
	default:
		return Result{}, r.exists(ctx, c)
	}
}

// matchNamespace gives the object the namespace of the URL, or says that it
// has another.
func (r *Resource) matchNamespace(c *Call, obj api.Object) error {
	switch ns := obj.GetNamespace(); {
	case !r.Namespaced:
		if ns != "" {
			obj.SetNamespace("")
		}
	case ns == "":
		obj.SetNamespace(c.Namespace)
	case ns != c.Namespace:
		return r.badRequest(c, "the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

// initObject sets what the server alone decides on a new object.
func (r *Resource) initObject(c *Call, obj api.Object) {
	r.initMeta(obj)
	if r.Namespaced {
		obj.SetNamespace(c.Namespace)
	}
	if !r.strategy.keepsStatus {
		clearPart(obj, r.parts.status)
	}
	r.initCustom(obj)
	if r.strategy.create != nil {
		r.strategy.create(obj)
	}
}

// insert is the transaction of a create. A dry run only looks.
func (r *Resource) insert(ctx context.Context, c *Call, value []byte) (int64, error) {
	key := r.Key(c.Namespace, c.Name)
	if !c.DryRun {
		revision, err := r.store.Create(ctx, key, value, r.TTL)
		r.recent.wrote(key, revision)
		return revision, err
	}
	_, err := r.store.Get(ctx, key, storage.GetOptions{})
	switch {
	case err == nil:
		return 0, storage.ErrExists
	case errors.Is(err, storage.ErrNotFound):
		return 0, nil
	default:
		return 0, err
	}
}

// exists says that the name is taken, and whether by an object that is about
// to go.
func (r *Resource) exists(ctx context.Context, c *Call) error {
	e := r.fail(c, Exists, nil)
	if there, err := r.Load(ctx, c, false); err == nil && there.Object.GetDeletionTimestamp() != nil {
		e.Err = errors.New("object is being deleted")
	}
	return e
}

// result completes a Result with an object that was written at a revision; 0
// stands for a dry run.
func result(obj api.Object, value []byte, revision int64, r Result) Result {
	r.Object, r.Value = obj, value
	if revision != 0 {
		setRevision(obj, revision)
		r.Value = api.SetRevision(value, revision)
	}
	return r
}
