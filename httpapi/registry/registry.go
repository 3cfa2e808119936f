// Package registry is the life of a stored resource: default, mutate,
// validate, admit, persist; and the subresources that write to it.
package registry

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/request"
	"github.com/proa-project/proa/storage"
)

// A Schema knows the shapes of kinds.
type Schema interface {
	// Validate returns what is wrong with the shape of an encoded object.
	Validate(r *api.Resource, body []byte) field.ErrorList
}

// Config says what the resources of a server work with.
type Config struct {
	// Store keeps the objects. It must be set.
	Store storage.Store
	// Schema validates shapes; nil leaves that out.
	Schema Schema
	// Admission is called for each write; nil admits everything.
	Admission *admission.Chain
	// Custom is what is special about a kind without a Go type; nil for others.
	Custom Custom
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// A Resource carries out the writes to one kind. It is safe for concurrent
// use.
type Resource struct {
	*api.Resource

	store     storage.Store
	schema    Schema
	custom    Custom
	admission *admission.Chain
	now       func() time.Time
	strategy  strategy
	parts     parts
	recent    *recent
}

// New returns the Resource for a row of the table of kinds.
func New(row *api.Resource, cfg Config) *Resource {
	r := &Resource{
		Resource:  row,
		store:     cfg.Store,
		schema:    cfg.Schema,
		admission: cfg.Admission,
		now:       cfg.Now,
		custom:    cfg.Custom,
		strategy:  strategyOf(row),
		parts:     partsOf(row),
		recent:    newRecent(),
	}
	if r.custom != nil {
		r.strategy, r.schema = customStrategy(), nil
	}
	if r.admission == nil {
		r.admission = &admission.Chain{}
	}
	if r.now == nil {
		r.now = time.Now
	}
	return r
}

// A Call is what is common to all writes: who wants what, and how.
type Call struct {
	UID             string // of the request
	User            *request.User
	Namespace, Name string // as in the URL; Name is "" for a create
	Subresource     string
	DryRun          bool
	// Options is what the client sent beside the object, such as
	// *metav1.CreateOptions.
	Options runtime.Object
	// MayCreate is asked before an update creates what it does not find; nil
	// permits it.
	MayCreate func(context.Context) error

	// Warnings are for the client. The calls of this package add to them.
	Warnings []string
}

// A Result is the outcome of a write.
type Result struct {
	// Object is the object with its new resourceVersion, and Value the same
	// as JSON.
	Object api.Object
	Value  []byte
	// Created is true if the write made the object, Deleted if the object is
	// gone after it.
	Created, Deleted bool
}

// A Stored is an object as it is in storage.
type Stored struct {
	Object   api.Object // with resourceVersion; never modify
	Value    []byte     // the object as JSON with resourceVersion; never modify
	Revision int64

	raw []byte // the value that storage holds
}

// Load returns the object that the call names. With fresh it is not older
// than the call, otherwise it may be as old as the store's cache, but shows
// what this server has written.
func (r *Resource) Load(ctx context.Context, c *Call, fresh bool) (Stored, error) {
	key := r.Key(c.Namespace, c.Name)
	opts := storage.GetOptions{Match: storage.NotOlderThan, Revision: r.recent.least(key)}
	if fresh {
		opts = storage.GetOptions{}
	}
	item, err := r.store.Get(ctx, key, opts)
	if err != nil {
		return Stored{}, r.StorageError(c, err)
	}
	return r.Decode(ctx, item)
}

// Decode returns an item of storage as an object of the resource.
func (r *Resource) Decode(ctx context.Context, item storage.Item) (Stored, error) {
	s := Stored{Revision: item.Revision, raw: item.Value}
	if r.custom != nil {
		return r.decodeCustom(ctx, item)
	}
	stored := r.Stored()
	obj := stored.New()
	if err := api.DecodeStored(item.Value, obj); err != nil {
		return s, fmt.Errorf("decode %q: %w", item.Key, err)
	}
	if r.StoredAs == nil {
		s.Value = api.SetRevision(item.Value, item.Revision)
		setRevision(obj, item.Revision)
		s.Object = obj
		return s, nil
	}
	own, err := r.FromStored(obj)
	if err != nil {
		return s, fmt.Errorf("convert %q: %w", item.Key, err)
	}
	setRevision(own, item.Revision)
	s.Object = own
	s.Value, err = api.Encode(own)
	return s, err
}

// encode returns an object as JSON without resourceVersion, in the form of
// the resource and in the form that is stored. They are one for most kinds.
func (r *Resource) encode(ctx context.Context, obj api.Object) (own, stored []byte, err error) {
	own, err = api.EncodeStored(obj)
	if err == nil && r.custom != nil {
		stored, err = r.custom.Write(ctx, own)
		return own, stored, err
	}
	if err != nil || r.StoredAs == nil {
		return own, own, err
	}
	as, err := r.ToStored(obj)
	if err != nil {
		return nil, nil, err
	}
	stored, err = api.EncodeStored(as)
	return own, stored, err
}

// admissionRequest returns what admission is asked about a write.
func (r *Resource) admissionRequest(c *Call, op admission.Operation, obj, old runtime.Object) *admission.Request {
	return &admission.Request{
		UID: c.UID, Operation: op, Resource: r.Resource, Subresource: c.Subresource,
		Namespace: c.Namespace, Name: c.Name, User: c.User, DryRun: c.DryRun,
		Options: c.Options, Object: obj, OldObject: old,
	}
}

// mutate has the object of an admission request changed, and returns it.
func (r *Resource) mutate(ctx context.Context, c *Call, req *admission.Request) (api.Object, error) {
	err := r.admission.Mutate(ctx, req)
	c.Warnings, req.Warnings = append(c.Warnings, req.Warnings...), nil
	if err != nil {
		return nil, err
	}
	obj, ok := req.Object.(api.Object)
	if !ok {
		return nil, fmt.Errorf("admission left a %T in place of a %s", req.Object, r.Kind)
	}
	return obj, nil
}

// Admit asks admission about an object that is not stored, such as a request
// for a token.
func (r *Resource) Admit(ctx context.Context, c *Call, op admission.Operation, obj runtime.Object) error {
	req := r.admissionRequest(c, op, obj, nil)
	err := r.admission.Mutate(ctx, req)
	if err == nil {
		err = r.admission.Validate(ctx, req)
	}
	c.Warnings = append(c.Warnings, req.Warnings...)
	return err
}

// AdmitObject asks admission about a write whose object is kept elsewhere. It
// returns the object as admission has changed it; obj is nil for a deletion.
func (r *Resource) AdmitObject(ctx context.Context, c *Call, op admission.Operation, obj, old api.Object) (api.Object, error) {
	var before runtime.Object
	if old != nil {
		before = old
	}
	if obj == nil {
		req := r.admissionRequest(c, op, nil, before)
		if err := r.admission.Mutate(ctx, req); err != nil {
			return nil, err
		}
		return nil, r.admit(ctx, c, req)
	}
	req := r.admissionRequest(c, op, obj, before)
	obj, err := r.mutate(ctx, c, req)
	if err != nil {
		return nil, err
	}
	return obj, r.admit(ctx, c, req)
}

// admit asks admission whether a write may go on.
func (r *Resource) admit(ctx context.Context, c *Call, req *admission.Request) error {
	err := r.admission.Validate(ctx, req)
	c.Warnings, req.Warnings = append(c.Warnings, req.Warnings...), nil
	return err
}

// validate returns the error for an object with faults, or nil: faults are
// those against the rules of the kind, to which those against its shape are
// added unless they say the same about a field.
func (r *Resource) validate(obj api.Object, value []byte, faults field.ErrorList) error {
	if r.schema != nil {
		for _, f := range r.schema.Validate(r.Resource, value) {
			if !reported(faults, f) {
				faults = append(faults, f)
			}
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return &Error{Reason: Invalid, Resource: r.GR(), Kind: r.GVK().GroupKind(), Name: obj.GetName(), Fields: faults}
}

// reported says whether a list has a fault of a field.
func reported(faults field.ErrorList, f *field.Error) bool {
	for _, g := range faults {
		if g.Field == f.Field {
			return true
		}
	}
	return false
}
