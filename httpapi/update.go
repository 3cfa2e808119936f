package httpapi

import (
	"context"
	"fmt"
	"net/http"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/registry"
)

// update answers PUT on an object or on one of the subresources that have its
// form.
func (s *Server) update(w http.ResponseWriter, r *http.Request, c *call) error {
	out, err := negotiate(r, c, offers{protobuf: c.protobuf, shapes: true})
	if err != nil {
		return err
	}
	opts, err := c.parseWriteOptions("UpdateOptions")
	if err != nil {
		return err
	}
	obj := c.New()
	warnings, err := s.decodeOwn(w, r, c, obj, opts.strictness)
	if err != nil {
		return err
	}
	rc := c.registryCall()
	rc.Warnings, rc.DryRun, rc.Options = warnings, len(opts.dryRun) > 0, opts.update()
	rc.MayCreate = s.mayCreate(r, c)
	if err = c.MatchURL(rc, obj); err != nil {
		return err
	}
	res, err := c.Update(r.Context(), rc, replaceBy(obj))
	if err != nil {
		writeWarnings(w, rc.Warnings)
		return err
	}
	code := http.StatusOK
	if res.Created {
		code = http.StatusCreated
	}
	return writeResult(w, r, c, rc, &out, code, res)
}

// replaceBy is the change to an object that a client has sent whole. The
// object is copied each time, for the pipeline changes what it gets.
func replaceBy(obj api.Object) registry.Change {
	return func(registry.Stored) (api.Object, error) {
		dup, ok := obj.DeepCopyObject().(api.Object)
		if !ok {
			return nil, fmt.Errorf("copy of a %T is none", obj)
		}
		return dup, nil
	}
}

// mayCreate asks whether the user may create what an update does not find.
func (s *Server) mayCreate(r *http.Request, c *call) func(context.Context) error {
	return func(context.Context) error {
		info := *c.info
		info.Verb = "create"
		return s.allowed(r, c.x.state.User, &info)
	}
}
