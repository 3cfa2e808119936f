package openapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/proa-project/proa/api"
)

// A pathBuilder makes the paths of one group and version.
type pathBuilder struct {
	paths  *openapi3.Paths
	params *parameters
	ref    func(obj any) *openapi3.SchemaRef // to the schema of an object's type
	tag    string                            // "core_v1"
	id     string                            // part of operation IDs: "CoreV1"
}

// operationActions are the values of x-kubernetes-action.
//
//nolint:gochecknoglobals // a constant in all but name
var operationActions = map[string]string{
	"get": "get", "list": "list", "create": "post", "update": "put", "patch": "patch",
	"delete": "delete", "deletecollection": "deletecollection", "connect": "connect",
}

// prefix returns the path of a group and version: /api/v1, /apis/apps/v1.
func prefix(group, version string) string {
	if group == "" {
		return "/api/" + version
	}
	return "/apis/" + group + "/" + version
}

// resource adds the paths of a resource and its subresources.
func (b *pathBuilder) resource(r *api.Resource) {
	base, scope := prefix(r.Group, r.Version), ""
	has := func(verb string) bool { return slices.Contains(r.Verbs, verb) }
	if r.Namespaced {
		if has("list") {
			all := &openapi3.PathItem{Parameters: slices.Concat(b.params.pretty, b.params.list)}
			all.Get = b.listOperation(r, r.Kind+"ForAllNamespaces")
			b.paths.Set(base+"/"+r.Plural, all)
		}
		base, scope = base+"/namespaces/{namespace}", "Namespaced"
	}
	object := scope + r.Kind

	collection := &openapi3.PathItem{Parameters: b.common(r.Namespaced, "")}
	if has("list") {
		collection.Get = b.listOperation(r, object)
		collection.Get.Parameters = b.params.list
	}
	if has("create") {
		collection.Post = b.writeOperation(r, "create", object, r.GVK(), r.New(), "create a "+r.Kind)
	}
	if has("deletecollection") {
		op := b.operation("deletecollection", "delete"+b.id+"Collection"+object, r.GVK(), "delete collection of "+r.Kind)
		op.Parameters = slices.Concat(b.params.delete, b.params.selection)
		b.body(op, deleteOptions, anyType)
		b.respond(op, status, r.Group, http.StatusOK)
		collection.Delete = op
	}
	b.paths.Set(base+"/"+r.Plural, collection)
	if r.CreateOnly {
		return
	}

	item := &openapi3.PathItem{Parameters: b.common(r.Namespaced, r.Kind)}
	if has("get") {
		item.Get = b.operation("get", "read"+b.id+object, r.GVK(), "read the specified "+r.Kind)
		b.respond(item.Get, r.New(), r.Group, http.StatusOK)
	}
	if has("update") {
		item.Put = b.writeOperation(r, "update", object, r.GVK(), r.New(), "replace the specified "+r.Kind)
	}
	if has("patch") {
		item.Patch = b.patchOperation(r, object, r.GVK(), r.New(), "partially update the specified "+r.Kind)
	}
	if has("delete") {
		op := b.operation("delete", "delete"+b.id+object, r.GVK(), "delete a "+r.Kind)
		op.Parameters = b.params.delete
		b.body(op, deleteOptions, anyType)
		var answer any = status
		if r.GracefulDelete {
			answer = r.New()
		}
		b.respond(op, answer, r.Group, http.StatusOK, http.StatusAccepted)
		item.Delete = op
	}
	b.paths.Set(base+"/"+r.Plural+"/{name}", item)

	for i := range r.Subresources {
		b.subresource(r, &r.Subresources[i], base+"/"+r.Plural+"/{name}/", object)
	}
}

// subresource adds the path of a subresource.
func (b *pathBuilder) subresource(r *api.Resource, s *api.Subresource, base, object string) {
	kind, id := r.GVK(), object+strings.ToUpper(s.Name[:1])+s.Name[1:]
	if s.Kind != "" {
		kind = gvk{Group: s.Group, Version: s.Version, Kind: s.Kind}
	}
	var body any = r.New()
	switch {
	case s.New != nil:
		body = s.New()
	case s.Kind != "" || s.Name == "log" || s.Name == "content":
		body = nil // a stream, not an object
	}
	of := " " + s.Name + " of the specified " + r.Kind
	item := &openapi3.PathItem{Parameters: b.common(r.Namespaced, kind.Kind)}
	for _, verb := range s.Verbs {
		switch {
		case body == nil:
			b.streamOperation(item, r, s, verb, id, kind)
		case verb == "get":
			item.Get = b.operation("get", "read"+b.id+id, kind, "read"+of)
			b.respond(item.Get, body, r.Group, http.StatusOK)
		case verb == "create":
			item.Post = b.writeOperation(r, verb, id, kind, body, "create"+of)
		case verb == "update":
			item.Put = b.writeOperation(r, verb, id, kind, body, "replace"+of)
		case verb == "patch":
			item.Patch = b.patchOperation(r, id, kind, body, "partially update"+of)
		}
	}
	b.paths.Set(base+s.Name, item)
}

// streamOperation adds an operation whose body or answer is not an object.
func (b *pathBuilder) streamOperation(item *openapi3.PathItem, r *api.Resource, s *api.Subresource, verb, id string, kind gvk) {
	action, name, text := "connect", "connect"+b.id+map[string]string{"get": "Get", "create": "Post", "update": "Put"}[verb]+id, "connect to "+s.Name+" of "+r.Kind
	if s.Kind == "" {
		action, name, text = operationActions[verb], map[string]string{"get": "read", "update": "replace", "create": "create"}[verb]+b.id+id, verb+" "+s.Name+" of the specified "+r.Kind
	}
	op := b.operation("connect", name, kind, text)
	op.Extensions["x-kubernetes-action"] = action
	op.Parameters = b.params.stream[s.Name]
	op.Responses.Set("200", &openapi3.ResponseRef{Value: openapi3.NewResponse().WithDescription("OK").
		WithContent(openapi3.NewContentWithSchema(openapi3.NewStringSchema(), []string{anyType}))})
	switch verb {
	case "get":
		item.Get = op
	case "create":
		item.Post = op
	case "update":
		item.Put = op
		op.RequestBody = &openapi3.RequestBodyRef{Value: openapi3.NewRequestBody().
			WithContent(openapi3.NewContentWithSchema(&openapi3.Schema{Type: &openapi3.Types{"string"}, Format: "binary"}, []string{anyType}))}
	}
}

const anyType = "*/*"

// common returns the parameters of all operations of a path.
func (b *pathBuilder) common(namespaced bool, kind string) openapi3.Parameters {
	var p openapi3.Parameters
	if kind != "" {
		p = append(p, parameter("path", "name", "string", "name of the "+kind))
	}
	if namespaced {
		p = append(p, parameter("path", "namespace", "string", "namespace of the object"))
	}
	return append(p, b.params.pretty...)
}

func (b *pathBuilder) operation(verb, id string, kind gvk, text string) *openapi3.Operation {
	op := openapi3.NewOperation()
	op.OperationID, op.Description, op.Tags = id, text, []string{b.tag}
	op.Extensions = map[string]any{"x-kubernetes-action": operationActions[verb], gvkKey: gvkExtension(kind)}
	op.Responses = openapi3.NewResponsesWithCapacity(4)
	op.Responses.Set("401", &openapi3.ResponseRef{Value: openapi3.NewResponse().WithDescription("Unauthorized")})
	return op
}

func (b *pathBuilder) listOperation(r *api.Resource, object string) *openapi3.Operation {
	op := b.operation("list", "list"+b.id+object, r.GVK(), "list or watch objects of kind "+r.Kind)
	types := answerTypes(r.Group)
	for _, t := range slices.Clone(types) {
		if t != "application/yaml" {
			types = append(types, t+";stream=watch")
		}
	}
	b.answer(op, b.ref(r.NewList()), types, http.StatusOK)
	return op
}

func (b *pathBuilder) writeOperation(r *api.Resource, verb, object string, kind gvk, body any, text string) *openapi3.Operation {
	name := map[string]string{"create": "create", "update": "replace"}[verb]
	op := b.operation(verb, name+b.id+object, kind, text)
	op.Parameters = b.params.write
	b.body(op, body, anyType)
	codes := []int{http.StatusOK, http.StatusCreated}
	if verb == "create" {
		codes = append(codes, http.StatusAccepted)
	}
	b.respond(op, body, r.Group, codes...)
	return op
}

func (b *pathBuilder) patchOperation(r *api.Resource, object string, kind gvk, body any, text string) *openapi3.Operation {
	op := b.operation("patch", "patch"+b.id+object, kind, text)
	op.Parameters = b.params.patch
	types := []string{"application/json-patch+json", "application/merge-patch+json"}
	if !ownGroup(r.Group) {
		types = append(types, "application/strategic-merge-patch+json")
	}
	b.body(op, patch, types...)
	b.respond(op, body, r.Group, http.StatusOK)
	return op
}

func (b *pathBuilder) body(op *openapi3.Operation, obj any, types ...string) {
	op.RequestBody = &openapi3.RequestBodyRef{Value: openapi3.NewRequestBody().WithContent(openapi3.NewContentWithSchemaRef(b.ref(obj), types))}
}

func (b *pathBuilder) respond(op *openapi3.Operation, obj any, group string, codes ...int) {
	b.answer(op, b.ref(obj), answerTypes(group), codes...)
}

func (b *pathBuilder) answer(op *openapi3.Operation, ref *openapi3.SchemaRef, types []string, codes ...int) {
	for _, code := range codes {
		op.AddResponse(code, openapi3.NewResponse().WithDescription(http.StatusText(code)).WithContent(openapi3.NewContentWithSchemaRef(ref, types)))
	}
}

// answerTypes returns the media types of answers. Types of our own have no
// protobuf form.
func answerTypes(group string) []string {
	types := []string{"application/json", "application/yaml"}
	if !ownGroup(group) {
		types = append(types, "application/vnd.kubernetes.protobuf")
	}
	return types
}

// ownGroup reports whether a group is ours, not upstream's.
func ownGroup(group string) bool {
	return strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io")
}

// camel returns a group and version as operation IDs have it: CoreV1, AppsV1.
func camel(group, version string) string {
	g := tagGroup(group)
	return strings.ToUpper(g[:1]) + g[1:] + strings.ToUpper(version[:1]) + version[1:]
}

func tagGroup(group string) string {
	if group == "" {
		return "core"
	}
	g, _, _ := strings.Cut(group, ".")
	return g
}
