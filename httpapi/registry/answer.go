package registry

import (
	"context"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/api/defaulting"
	"github.com/proa-project/proa/api/validation"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/request"
)

// An Answer makes the answer to an object of a kind of which nothing is stored:
// mostly the same object with its status filled in. The object belongs to it.
type Answer func(ctx context.Context, user *request.User, obj api.Object) (api.Object, error)

// Answer is Create for kinds of which nothing is stored: all is the same but
// the last step.
func (r *Resource) Answer(ctx context.Context, c *Call, obj api.Object, answer Answer) (Result, error) {
	if err := r.matchNamespace(c, obj); err != nil {
		return Result{}, err
	}
	c.Name = obj.GetName()
	clearPart(obj, r.parts.status)

	defaulting.Default(obj)
	req := r.admissionRequest(c, admission.Create, obj, nil)
	obj, err := r.mutate(ctx, c, req)
	if err != nil {
		return Result{}, err
	}
	defaulting.Default(obj)

	value, err := api.Encode(obj)
	if err != nil {
		return Result{}, err
	}
	if err = r.validate(obj, value, validation.Create(obj)); err != nil {
		return Result{}, err
	}
	req.Encoded(value)
	if err = r.admit(ctx, c, req); err != nil {
		return Result{}, err
	}
	if obj, err = answer(ctx, c.User, obj); err != nil {
		return Result{}, err
	}
	if value, err = api.Encode(obj); err != nil {
		return Result{}, err
	}
	return Result{Object: obj, Value: value, Created: true}, nil
}
