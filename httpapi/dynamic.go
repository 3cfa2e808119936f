package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/dynamic"
	"github.com/proa-project/proa/httpapi/registry"
	"github.com/proa-project/proa/httpapi/request"
	"github.com/proa-project/proa/openapi"
	"github.com/proa-project/proa/storage"
)

// setDynamic makes the kinds of a set those that appear at run time. Endpoints
// of kinds that stay, stay.
func (s *Server) setDynamic(set *dynamic.Set, rc registry.Config) {
	var before map[string]*endpoint
	if m := s.dynamic.Load(); m != nil {
		before = *m
	}
	next := make(map[string]*endpoint, len(set.Kinds()))
	described := make([]openapi.Kind, 0, len(set.Kinds()))
	for _, k := range set.Kinds() {
		row := k.Resource
		name := row.Group + "/" + row.Version + "/" + row.Plural
		if ep := before[name]; ep != nil && ep.kind == k {
			next[name] = ep
		} else {
			next[name] = newDynamicEndpoint(k, rc)
		}
		described = append(described, openapi.Kind{Resource: row, Schema: k.Schema})
	}
	if d, ok := s.cfg.Documents.(ExtensibleDocuments); ok {
		d.Extend(described)
	}
	s.dynamic.Store(&next)
}

// dynamicEndpoint returns the endpoint of a kind that appeared at run time, or
// nil.
func (s *Server) dynamicEndpoint(group, version, plural string) *endpoint {
	m := s.dynamic.Load()
	if m == nil || len(*m) == 0 {
		return nil
	}
	return (*m)[group+"/"+version+"/"+plural]
}

func newDynamicEndpoint(k *dynamic.Kind, rc registry.Config) *endpoint {
	rc.Schema = nil // it knows the fixed table only
	if k.Stored != nil {
		rc.Custom = k.Stored
	}
	ep := newEndpoint(k.Resource, rc)
	ep.kind, ep.converted = k, true
	if p := k.Poll(); p != nil {
		ep.store, ep.protobuf = p, false
	}
	return ep
}

// serveDynamic answers requests that have no route: those for kinds that
// appeared at run time. The endpoint is the one that parse found, so that a
// request sees one table from beginning to end.
func (s *Server) serveDynamic(w http.ResponseWriter, r *http.Request) {
	x := exchangeOf(w)
	ep := x.dynamic
	if ep == nil {
		s.fail(w, r, errNoResource)
		return
	}
	if !isRead(x.state.Info.Verb) {
		// A write that has found the old table must not outlive what follows.
		for !ep.kind.Enter() {
			row := ep.Resource.Resource
			if ep = s.dynamicEndpoint(row.Group, row.Version, row.Plural); ep == nil {
				s.fail(w, r, errNoResource)
				return
			}
			x.state.Info.Resource = ep.Resource.Resource
		}
		defer ep.kind.Leave()
	}
	v, err := s.dynamicVerb(ep, r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.resource(ep, v)(w, r)
}

func isRead(verb string) bool { return verb == "get" || verb == "list" || verb == "watch" }

// dynamicVerb returns who answers a request for a kind that appeared at run
// time.
func (s *Server) dynamicVerb(ep *endpoint, r *http.Request) (verb, error) {
	info := &request.Of(r).Info
	name := dynamicVerbName(r.Method, info)
	if info.Subresource != "" {
		sub := ep.Subresource(info.Subresource)
		switch {
		case sub == nil:
			return nil, errNoResource
		case !slices.Contains(sub.Verbs, name):
			return nil, errNoMethod
		}
		if v := s.subresource(ep, sub.Name, name); v != nil {
			return v, nil
		}
		return nil, errNoMethod
	}
	wholeCluster := ep.Namespaced && info.Namespace == ""
	if name == "" || !slices.Contains(ep.Verbs, name) || (wholeCluster && name != "list" && name != "watch") {
		return nil, errNoMethod
	}
	verbs := map[string]verb{
		"get": s.get, "list": s.listOrWatch, "watch": s.listOrWatch, "create": s.create, "update": s.update,
		"patch": s.patch, "delete": s.delete, "deletecollection": s.deleteCollection,
	}
	if ep.kind.Provider != nil {
		verbs = map[string]verb{
			"get": s.virtualGet, "list": s.virtualList, "watch": s.watch, "create": s.virtualCreate,
			"update": s.virtualUpdate, "patch": s.virtualPatch, "delete": s.virtualDelete,
		}
	}
	return verbs[name], nil
}

// dynamicVerbName returns the verb of a request, "" if the method makes no
// sense for an item or for a collection.
func dynamicVerbName(method string, info *request.Info) string {
	switch method {
	case http.MethodPost:
		if info.Name != "" && info.Subresource == "" {
			return ""
		}
	case http.MethodPut, http.MethodPatch:
		if info.Name == "" {
			return ""
		}
	case http.MethodGet, http.MethodDelete:
	default:
		return ""
	}
	return info.Verb
}

// ownDynamic returns an item in the form of a kind that appeared at run time.
// What is made is remembered, for the same item is asked for again and again.
func (ep *endpoint) ownDynamic(ctx context.Context, item *storage.Item) ([]byte, error) {
	if ep.kind.Provider != nil {
		return api.SetRevision(item.Value, item.Revision), nil
	}
	own, err := ep.readStored(ctx, []storage.Item{*item})
	if err != nil {
		return nil, err
	}
	return own[0], nil
}

// readStored returns items in the form of a stored kind that appeared at run
// time: a converter is better asked once for all of them.
func (ep *endpoint) readStored(ctx context.Context, items []storage.Item) ([][]byte, error) {
	out := make([][]byte, len(items))
	var values [][]byte
	var which []int
	for i := range items {
		if own, ok := ep.messages.get(items[i].Value); ok {
			out[i] = own
			continue
		}
		values, which = append(values, items[i].Value), append(which, i)
	}
	if len(values) == 0 {
		return out, nil
	}
	own, err := ep.kind.Stored.Read(ctx, values)
	if err != nil {
		return nil, err
	}
	lasting := ep.kind.Stored.Lasting()
	for j, i := range which {
		out[i] = api.SetRevision(own[j], items[i].Revision)
		if lasting {
			ep.messages.put(items[i].Value, out[i])
		}
	}
	return out, nil
}

// ownAll is own for many items.
func (ep *endpoint) ownAll(ctx context.Context, items []storage.Item, docs []document) error {
	if ep.kind != nil && ep.kind.Stored != nil {
		values, err := ep.readStored(ctx, items)
		if err != nil {
			return err
		}
		for i, value := range values {
			docs[i].value = value
		}
		return nil
	}
	for i := range items {
		var err error
		if docs[i].value, err = ep.own(ctx, &items[i]); err != nil {
			return err
		}
	}
	return nil
}

// prune drops from an object what the schema of a kind that appeared at run
// time does not know, and fills in defaults.
func (c *call) prune(obj api.Object, strictness api.Strictness) (warnings []string, err error) {
	u, ok := obj.(*unstructured.Unstructured)
	if c.kind == nil || c.kind.Stored == nil || !ok {
		return nil, nil
	}
	unknown, err := c.kind.Stored.Prepare(u)
	if err != nil {
		return nil, &api.DecodeError{Want: c.GVK(), Have: u.GroupVersionKind(), Err: err}
	}
	if len(unknown) == 0 || strictness == api.Ignore {
		return nil, nil
	}
	faults := make([]error, 0, len(unknown))
	for _, path := range unknown {
		faults = append(faults, fmt.Errorf("unknown field %q", path))
		warnings = append(warnings, faults[len(faults)-1].Error())
	}
	if strictness == api.Strict {
		return nil, &api.DecodeError{Want: c.GVK(), Have: u.GroupVersionKind(), Err: runtime.NewStrictDecodingError(faults)}
	}
	return warnings, nil
}

// decodeOwn reads the body of a request into an object of the kind.
func (s *Server) decodeOwn(w http.ResponseWriter, r *http.Request, c *call, obj api.Object, strictness api.Strictness) ([]string, error) {
	warnings, err := s.decode(w, r, obj, strictness)
	if err != nil || c.kind == nil {
		return warnings, err
	}
	more, err := c.prune(obj, strictness)
	return append(warnings, more...), err
}

// freeRows writes the cells of a kind whose columns are JSONPaths.
type freeRows struct {
	printer *dynamic.Printer
	kind    string
}

func newFreeRows(k *dynamic.Kind, now time.Time) (*freeRows, error) {
	p, err := k.Printer(now)
	return &freeRows{p, k.Resource.Kind}, err
}

// AppendColumns implements rowWriter.
func (f *freeRows) AppendColumns(b []byte) []byte {
	text, err := json.Marshal(f.printer.Columns())
	if err != nil {
		panic(err) // they are strings and numbers
	}
	return append(b, text...)
}

// Append implements rowWriter.
func (f *freeRows) Append(b []byte, obj runtime.Object) ([]byte, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return b, fmt.Errorf("a %T is in place of a %s", obj, f.kind)
	}
	text, err := json.Marshal(f.printer.Cells(u.Object))
	return append(b, text...), err
}

// AppendStored implements rowWriter.
func (f *freeRows) AppendStored(b, value []byte) ([]byte, error) {
	var u unstructured.Unstructured
	if err := api.DecodeStored(value, &u); err != nil {
		return b, err
	}
	return f.Append(b, &u)
}

// itemOf returns an object of a virtual resource as storage would.
func (ep *endpoint) itemOf(ctx context.Context, obj *unstructured.Unstructured) (storage.Item, error) {
	p := ep.kind.Poll()
	key, value, err := p.Encode(obj)
	if err != nil {
		return storage.Item{}, err
	}
	return storage.Item{Key: key, Value: value, Revision: p.RevisionOf(ctx, key, value)}, nil
}

// present returns an object of a virtual resource as clients see it.
func (ep *endpoint) present(ctx context.Context, obj *unstructured.Unstructured) ([]byte, error) {
	item, err := ep.itemOf(ctx, obj)
	if err != nil {
		return nil, err
	}
	return api.SetRevision(item.Value, item.Revision), nil
}

// matchesRevision reports whether a client means an object as it is now.
func (ep *endpoint) matchesRevision(ctx context.Context, version string, obj *unstructured.Unstructured) (bool, error) {
	key, value, err := ep.kind.Poll().Encode(obj)
	if err != nil || version == "" || version == "0" {
		return err == nil, err
	}
	n, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		return false, badRequest("invalid resource version: %v", err)
	}
	return n == dynamic.Digest(value) || n == ep.kind.Poll().RevisionOf(ctx, key, value), nil
}
