package virtual

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/proa-project/proa/httpapi/dynamic"
	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/native"
)

// A provider has a module answer for one resource.
type provider struct {
	h        *handle
	resource string
	gvk      string // group/version
	kind     string
}

// ask has the module answer.
func (p *provider) ask(ctx context.Context, verb string, r *dynamic.Request, object []byte) (*abi.ServeReply, error) {
	q := abi.ServeRequest{
		APIVersion: abi.Native, Verb: verb, Resource: p.resource, Namespace: r.Namespace, Name: r.Name, Object: object,
		LabelSelector: r.LabelSelector, FieldSelector: r.FieldSelector, Limit: r.Limit, Continue: r.Continue,
	}
	if r.User != nil {
		q.User = abi.ServeUser{Username: r.User.Name, Groups: r.User.Groups}
	}
	input, err := json.Marshal(&q)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	var reply *abi.ServeReply
	_, err = p.h.Use(ctx, func(g *native.Plugin) (engine.Usage, error) {
		return g.Ask(ctx, engine.Call{Seed: r.AuditID}, input, func(b []byte) error {
			var bad error
			reply, bad = abi.ParseServeReply(b, verb)
			return bad
		})
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, p.failed(err)
	case reply.Status != nil:
		return nil, p.refused(r, reply.Status)
	}
	return reply, nil
}

// failed is the answer for a module that has none.
func (p *provider) failed(err error) error {
	text := err.Error()
	if ee, ok := errors.AsType[*engine.Error](err); ok {
		text = fmt.Sprintf("virtual API %q failed: %s: %s", p.h.Name(), ee.Reason, ee.Detail)
	}
	e := apierrors.NewServiceUnavailable(text)
	e.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	return e
}

func (p *provider) gr() schema.GroupResource {
	return schema.GroupResource{Group: p.h.Object().Spec.Group, Resource: p.resource}
}

// refused is a module's own failure.
func (p *provider) refused(r *dynamic.Request, s *abi.ServeStatus) error {
	st := metav1.Status{
		Status: metav1.StatusFailure, Code: s.Code, Reason: metav1.StatusReason(s.Reason), Message: s.Message,
		Details: &metav1.StatusDetails{Name: r.Name, Kind: p.resource},
	}
	if st.Reason == "" {
		st.Reason = apierrors.ReasonForError(apierrors.NewGenericServerResponse(int(s.Code), "", p.gr(), r.Name, s.Message, 0, true))
	}
	if st.Message == "" && s.Code == http.StatusNotFound {
		return apierrors.NewNotFound(p.gr(), r.Name)
	}
	return &apierrors.StatusError{ErrStatus: st}
}

// object decodes an object of a reply.
func (p *provider) object(raw []byte, r *dynamic.Request) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(withType(raw, p.gvk, p.kind), u); err != nil {
		return nil, p.bad(err)
	}
	if u.GetName() == "" {
		return nil, p.bad(errors.New("an object has no metadata.name"))
	}
	if r.Name != "" && u.GetName() != r.Name {
		return nil, p.bad(fmt.Errorf("the object is named %q, not %q", u.GetName(), r.Name))
	}
	if r.Namespace != "" && u.GetNamespace() == "" {
		u.SetNamespace(r.Namespace)
	}
	return u, nil
}

// withType lets a module leave out apiVersion and kind.
func withType(raw []byte, apiVersion, kind string) []byte {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil || m == nil {
		return raw
	}
	m["apiVersion"], m["kind"] = json.RawMessage(`"`+apiVersion+`"`), json.RawMessage(`"`+kind+`"`)
	if out, err := json.Marshal(m); err == nil {
		return out
	}
	return raw
}

// bad counts a reply that cannot be used.
func (p *provider) bad(err error) error {
	p.h.Failed(engine.BadReply, err)
	return p.failed(&engine.Error{Plugin: p.h.Name(), Reason: engine.BadReply, Detail: err.Error()})
}

// Get implements dynamic.Provider.
func (p *provider) Get(ctx context.Context, r *dynamic.Request) (*unstructured.Unstructured, error) {
	return p.one(ctx, "get", r, nil)
}

func (p *provider) one(ctx context.Context, verb string, r *dynamic.Request, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	var body []byte
	if obj != nil {
		var err error
		if body, err = obj.MarshalJSON(); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	reply, err := p.ask(ctx, verb, r, body)
	if err != nil {
		return nil, err
	}
	return p.object(reply.Object, r)
}

// List implements dynamic.Provider.
func (p *provider) List(ctx context.Context, r *dynamic.Request) (*unstructured.UnstructuredList, error) {
	reply, err := p.ask(ctx, "list", r, nil)
	if err != nil {
		return nil, err
	}
	list := &unstructured.UnstructuredList{}
	list.SetContinue(reply.Continue)
	for _, raw := range reply.Items {
		u, err := p.object(raw, &dynamic.Request{Namespace: r.Namespace})
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, *u)
	}
	return list, nil
}

// Create implements dynamic.Creator.
func (p *provider) Create(ctx context.Context, r *dynamic.Request, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return p.one(ctx, "create", r, obj)
}

// Update implements dynamic.Updater.
func (p *provider) Update(ctx context.Context, r *dynamic.Request, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return p.one(ctx, "update", r, obj)
}

// Delete implements dynamic.Deleter.
func (p *provider) Delete(ctx context.Context, r *dynamic.Request, _ *metav1.DeleteOptions) (*unstructured.Unstructured, error) {
	reply, err := p.ask(ctx, "delete", r, nil)
	if err != nil || len(reply.Object) == 0 {
		return nil, err
	}
	return p.object(reply.Object, r)
}
