package httpapi

import (
	"bytes"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/dynamic"
	"github.com/proa-project/proa/httpapi/registry"
	"github.com/proa-project/proa/storage"
)

// dynamicRequest returns what a provider is told of the request.
func (c *call) dynamicRequest() *dynamic.Request {
	return &dynamic.Request{
		User: c.x.state.User, AuditID: c.x.state.AuditID, Namespace: c.info.Namespace, Name: c.info.Name,
		LabelSelector: c.info.LabelSelector, FieldSelector: c.info.FieldSelector,
	}
}

// current asks the provider for the object that the request names.
func (c *call) current(r *http.Request) (*unstructured.Unstructured, error) {
	req := c.dynamicRequest()
	req.LabelSelector, req.FieldSelector = "", ""
	obj, err := c.kind.Provider.Get(r.Context(), req)
	if err != nil {
		return nil, err
	}
	if obj == nil || obj.Object == nil || obj.GetName() != c.info.Name || (c.Namespaced && obj.GetNamespace() != c.info.Namespace) {
		return nil, apierrors.NewNotFound(c.GR(), c.info.Name)
	}
	return obj, nil
}

// virtualGet answers GET on an object of a virtual resource.
func (s *Server) virtualGet(w http.ResponseWriter, r *http.Request, c *call) error {
	out, err := negotiate(r, c, offers{shapes: true})
	if err != nil {
		return err
	}
	obj, err := c.current(r)
	if err != nil {
		return err
	}
	return c.writeVirtual(w, r, &out, http.StatusOK, obj)
}

func (c *call) writeVirtual(w http.ResponseWriter, r *http.Request, out *output, code int, obj *unstructured.Unstructured) error {
	value, err := c.present(r.Context(), obj)
	if err != nil {
		return err
	}
	return writeDocument(w, r, c, out, code, document{value: value})
}

// virtualList answers GET on a collection of a virtual resource.
func (s *Server) virtualList(w http.ResponseWriter, r *http.Request, c *call) error {
	out, err := negotiate(r, c, offers{shapes: true})
	if err != nil {
		return err
	}
	opts, err := c.parseListOptions(false)
	if err != nil {
		return err
	}
	sel, err := c.parseSelector()
	if err != nil {
		return err
	}
	meta := listMeta{remaining: -1}
	// The moment before is what a watch has to go on from.
	revision, err := c.kind.Poll().Present(r.Context())
	if err != nil {
		return err
	}
	meta.version = strconv.FormatInt(revision, 10)

	req := c.dynamicRequest()
	req.Name, req.Limit, req.Continue = "", opts.limit, opts.next
	list, err := c.kind.Provider.List(r.Context(), req)
	if err != nil {
		return err
	}
	if list == nil {
		list = &unstructured.UnstructuredList{}
	}
	meta.next = list.GetContinue()
	items := make([]storage.Item, 0, len(list.Items))
	for i := range list.Items {
		if obj := &list.Items[i]; c.info.Namespace != "" && obj.GetNamespace() != c.info.Namespace {
			continue
		}
		item, err := c.itemOf(r.Context(), &list.Items[i])
		if err != nil {
			return err
		}
		if sel.matches(&item) {
			items = append(items, item)
		}
	}
	return writeList(w, r, c, &out, meta, items)
}

// virtualCreate answers POST on a collection of a virtual resource.
func (s *Server) virtualCreate(w http.ResponseWriter, r *http.Request, c *call) error {
	creator, ok := c.kind.Provider.(dynamic.Creator)
	if !ok {
		return errNoMethod
	}
	out, err := negotiate(r, c, offers{shapes: true})
	if err != nil {
		return err
	}
	opts, err := c.parseWriteOptions("CreateOptions")
	if err != nil {
		return err
	}
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetGroupVersionKind(c.GVK())
	warnings, err := s.decode(w, r, obj, opts.strictness)
	if err != nil {
		return err
	}
	rc := c.registryCall()
	rc.Warnings, rc.DryRun, rc.Options = warnings, len(opts.dryRun) > 0, opts.create()
	if obj.GetResourceVersion() != "" {
		return badRequest("resourceVersion should not be set on objects to be created")
	}
	if err := c.ownKind(obj); err != nil {
		return err
	}
	if obj.GetName() == "" && obj.GetGenerateName() == "" {
		return badRequest("name or generateName is required")
	}
	rc.Name = obj.GetName()
	return c.writeThrough(w, r, &out, http.StatusCreated, rc, admission.Create, obj, nil,
		func(obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			req := c.dynamicRequest()
			req.Name = obj.GetName()
			return creator.Create(r.Context(), req, obj)
		})
}

// ownKind gives the object the namespace of the URL, and says if it is of
// another namespace or kind.
func (c *call) ownKind(obj *unstructured.Unstructured) error {
	if obj.GetKind() != c.Kind {
		return badRequest("the kind of the object (%s) does not match the kind of the URL (%s)", obj.GetKind(), c.Kind)
	}
	switch ns := obj.GetNamespace(); {
	case !c.Namespaced:
		obj.SetNamespace("")
	case ns == "":
		obj.SetNamespace(c.info.Namespace)
	case ns != c.info.Namespace:
		return badRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

// writeThrough has admission look at an object, then the provider take it, and
// answers with what that has made of it.
func (c *call) writeThrough(
	w http.ResponseWriter, r *http.Request, out *output, code int, rc *registry.Call, op admission.Operation,
	obj, old *unstructured.Unstructured, write func(*unstructured.Unstructured) (*unstructured.Unstructured, error),
) error {
	var was api.Object
	if old != nil {
		was = old
	}
	admitted, err := c.AdmitObject(r.Context(), rc, op, obj, was)
	writeWarnings(w, rc.Warnings)
	if err != nil {
		return err
	}
	obj, ok := admitted.(*unstructured.Unstructured)
	if !ok {
		return badRequest("admission left a %T in place of a %s", admitted, c.Kind)
	}
	if !rc.DryRun {
		made, err := write(obj)
		if err != nil {
			return err
		}
		if made != nil {
			obj = made
		}
		c.kind.Poll().Soon()
	}
	return c.writeVirtual(w, r, out, code, obj)
}

// virtualUpdate answers PUT on an object of a virtual resource.
func (s *Server) virtualUpdate(w http.ResponseWriter, r *http.Request, c *call) error {
	opts, err := c.parseWriteOptions("UpdateOptions")
	if err != nil {
		return err
	}
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetGroupVersionKind(c.GVK())
	warnings, err := s.decode(w, r, obj, opts.strictness)
	if err != nil {
		return err
	}
	rc := c.registryCall()
	rc.Warnings, rc.DryRun, rc.Options = warnings, len(opts.dryRun) > 0, opts.update()
	return s.changeVirtual(w, r, c, rc, func([]byte) (*unstructured.Unstructured, error) { return obj, nil })
}

// virtualPatch answers PATCH on an object of a virtual resource.
func (s *Server) virtualPatch(w http.ResponseWriter, r *http.Request, c *call) error {
	opts, err := c.parseWriteOptions("PatchOptions")
	if err != nil {
		return err
	}
	p, err := s.readPatch(w, r, c, opts.strictness)
	if err != nil {
		return err
	}
	rc := c.registryCall()
	rc.DryRun, rc.Options = len(opts.dryRun) > 0, opts.patch()
	return s.changeVirtual(w, r, c, rc, func(value []byte) (*unstructured.Unstructured, error) {
		obj := &unstructured.Unstructured{Object: map[string]any{}}
		obj.SetGroupVersionKind(c.GVK())
		warnings, err := p.apply(value, obj)
		rc.Warnings = append(rc.Warnings, warnings...)
		return obj, err
	})
}

// changeVirtual changes an object of a virtual resource. The change gets the
// object as it is now, as JSON.
func (s *Server) changeVirtual(w http.ResponseWriter, r *http.Request, c *call, rc *registry.Call, change func(value []byte) (*unstructured.Unstructured, error)) error {
	updater, ok := c.kind.Provider.(dynamic.Updater)
	if !ok {
		return errNoMethod
	}
	out, err := negotiate(r, c, offers{shapes: true})
	if err != nil {
		return err
	}
	old, err := c.current(r)
	if err != nil {
		return err
	}
	theirs := old.GetResourceVersion()
	value, err := c.present(r.Context(), old)
	if err != nil {
		return err
	}
	obj, err := change(value)
	if err != nil {
		return err
	}
	if err = c.MatchURL(rc, obj); err == nil {
		err = c.ownKind(obj)
	}
	if err != nil {
		return err
	}
	if ok, err := c.matchesRevision(r.Context(), obj.GetResourceVersion(), old); err != nil {
		return err
	} else if !ok {
		return apierrors.NewConflict(c.GR(), c.info.Name, registry.ErrModified)
	}
	keepIdentity(obj, old, theirs)
	if _, same, err := c.kind.Poll().Encode(obj); err == nil {
		if _, before, err := c.kind.Poll().Encode(old); err == nil && bytes.Equal(same, before) {
			writeWarnings(w, rc.Warnings)
			return c.writeVirtual(w, r, &out, http.StatusOK, old)
		}
	}
	return c.writeThrough(w, r, &out, http.StatusOK, rc, admission.Update, obj, old,
		func(obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			keepIdentity(obj, old, theirs)
			return updater.Update(r.Context(), c.dynamicRequest(), obj)
		})
}

// keepIdentity gives an object what makes it the one that it is to replace.
func keepIdentity(obj, old *unstructured.Unstructured, version string) {
	obj.SetUID(old.GetUID())
	if created := old.GetCreationTimestamp(); !created.IsZero() {
		obj.SetCreationTimestamp(created)
	}
	obj.SetResourceVersion(version)
}

// virtualDelete answers DELETE on an object of a virtual resource.
func (s *Server) virtualDelete(w http.ResponseWriter, r *http.Request, c *call) error {
	deleter, ok := c.kind.Provider.(dynamic.Deleter)
	if !ok {
		return errNoMethod
	}
	opts, err := s.deleteOptions(w, r, c)
	if err != nil {
		return err
	}
	old, err := c.current(r)
	if err != nil {
		return err
	}
	if err = c.matchPreconditions(r, opts.Preconditions, old); err != nil {
		return err
	}
	rc := c.registryCall()
	rc.DryRun, rc.Options = len(opts.DryRun) > 0, opts
	_, err = c.AdmitObject(r.Context(), rc, admission.Delete, nil, old)
	writeWarnings(w, rc.Warnings)
	if err != nil {
		return err
	}
	if !rc.DryRun {
		last, err := deleter.Delete(r.Context(), c.dynamicRequest(), opts)
		if err != nil {
			return err
		}
		if last != nil {
			old = last
		}
		c.kind.Poll().Soon()
	}
	writeStatus(w, http.StatusOK, deletedStatus(c, old))
	return nil
}

// matchPreconditions checks what a client takes for granted of a deletion.
func (c *call) matchPreconditions(r *http.Request, p *metav1.Preconditions, old *unstructured.Unstructured) error {
	if p == nil {
		return nil
	}
	if p.UID != nil && *p.UID != old.GetUID() {
		return apierrors.NewConflict(c.GR(), c.info.Name, registry.ErrModified)
	}
	if p.ResourceVersion != nil {
		if ok, err := c.matchesRevision(r.Context(), *p.ResourceVersion, old); err != nil {
			return err
		} else if !ok {
			return apierrors.NewConflict(c.GR(), c.info.Name, registry.ErrModified)
		}
	}
	return nil
}
