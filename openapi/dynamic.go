package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/proa-project/proa/api"
)

// A Kind is one that appeared at run time.
type Kind struct {
	Resource *api.Resource
	// Schema is the schema of the object as decoded JSON; nil is free-form. It
	// counts for kinds without a Go type only, and must not be changed.
	Schema map[string]any
}

// Extend has the kinds described beside the fixed ones, in place of those of
// the last call. Documents of versions that have the same kinds as before are
// kept.
func (d *Documents) Extend(kinds []Kind) {
	d.extend.Lock()
	defer d.extend.Unlock()
	before := d.current.Load()
	v := &view{
		resources: d.fixed, kinds: make(map[*api.Resource]Kind, len(kinds)), version: d.version, v3: map[string]*document{},
	}
	if len(kinds) > 0 {
		v.resources = slices.Clone(d.fixed)
	}
	for _, k := range kinds {
		v.kinds[k.Resource] = k
		v.resources = append(v.resources, k.Resource)
	}
	for _, r := range v.resources {
		gv := r.GroupVersion()
		path := strings.TrimPrefix(prefix(gv.Group, gv.Version), "/")
		switch {
		case v.v3[path] != nil:
		case before != nil && before.v3[path] != nil && before.same(v, gv):
			v.v3[path] = before.v3[path]
		default:
			v.v3[path] = newDocument(func() ([]byte, error) { return v.encodeV3(&gv) }, protobufV3)
		}
	}
	v.root = newDocument(v.encodeRoot, nil)
	v.v2 = newDocument(v.encodeV2, protobufV2)
	v.discovery = newDiscovery(v.resources)
	d.current.Store(v)
}

// same reports whether two views have the same kinds of a version.
func (v *view) same(w *view, gv schema.GroupVersion) bool {
	return slices.Equal(v.of(gv), w.of(gv))
}

func (v *view) of(gv schema.GroupVersion) []*api.Resource {
	var out []*api.Resource
	for _, r := range v.resources {
		if r.Group == gv.Group && r.Version == gv.Version {
			out = append(out, r)
		}
	}
	return out
}

// freeName is the component name of a kind without a Go type.
func freeName(k gvk) string { return reversed(k.Group) + "." + k.Version + "." + k.Kind }

const metaComponent = "io.k8s.apimachinery.pkg.apis.meta.v1."

// addFree returns a reference to the schema of a kind without a Go type. What
// stands there until withSchemas is called is a placeholder.
func (m *model) addFree(k gvk) *openapi3.SchemaRef {
	for _, obj := range []any{metav1.ObjectMeta{}, metav1.ListMeta{}} {
		if _, err := m.add(obj); err != nil {
			panic(err) // the types are upstream's
		}
	}
	name := freeName(k)
	if m.schemas[name] == nil {
		m.schemas[name] = openapi3.NewSchemaRef("", &openapi3.Schema{Type: &openapi3.Types{openapi3.TypeObject}})
	}
	return &openapi3.SchemaRef{Ref: schemaPrefix + name, Value: m.schemas[name].Value}
}

// withSchemas puts the schemas of kinds without a Go type into a document, as
// they were given: nothing of them is lost on the way.
func (v *view) withSchemas(data []byte, gv *schema.GroupVersion) ([]byte, error) {
	var doc object
	for _, r := range v.resources {
		k, ok := v.kinds[r]
		if !ok || (gv != nil && r.GroupVersion() != *gv) {
			continue
		}
		if _, free := r.New().(runtime.Unstructured); !free {
			continue
		}
		if doc == nil {
			if err := json.Unmarshal(data, &doc); err != nil {
				return nil, fmt.Errorf("read OpenAPI document: %w", err)
			}
		}
		components, _ := doc["components"].(object)  // we made it
		schemas, _ := components["schemas"].(object) // as above
		schemas[freeName(r.GVK())] = objectSchema(k)
		list := r.NewList().GetObjectKind().GroupVersionKind()
		schemas[freeName(list)] = listSchema(r, list)
	}
	if doc == nil {
		return data, nil
	}
	out, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("encode OpenAPI document: %w", err)
	}
	return out, nil
}

func text(description string) object { return object{"type": "string", "description": description} }

// described is a reference with a description.
func described(component, description string) object {
	return object{"description": description, "allOf": []any{object{"$ref": schemaPrefix + component}}}
}

// objectSchema returns the schema of a kind's objects.
func objectSchema(k Kind) object {
	out := maps.Clone(k.Schema)
	if out == nil {
		out = object{"x-kubernetes-preserve-unknown-fields": true}
	}
	docs := metav1.TypeMeta{}.SwaggerDoc()
	given, _ := out["properties"].(object) // there may be none
	props := maps.Clone(given)
	if props == nil {
		props = object{}
	}
	props["apiVersion"], props["kind"] = text(docs["apiVersion"]), text(docs["kind"])
	props["metadata"] = described(metaComponent+"ObjectMeta", "Standard object's metadata.")
	out["type"], out["properties"] = "object", props
	out[gvkKey] = []any{gvkExtension(k.Resource.GVK())}
	return out
}

// listSchema returns the schema of lists of a kind.
func listSchema(r *api.Resource, list gvk) object {
	docs := metav1.TypeMeta{}.SwaggerDoc()
	return object{
		"description": list.Kind + " is a list of " + r.Kind, "type": "object", "required": []any{"items"},
		"properties": object{
			"apiVersion": text(docs["apiVersion"]), "kind": text(docs["kind"]),
			"metadata": described(metaComponent+"ListMeta", "Standard list metadata."),
			"items": object{
				"type": "array", "description": "List of " + r.Plural + ".",
				"items": object{"$ref": schemaPrefix + freeName(r.GVK())},
			},
		},
		gvkKey: []any{gvkExtension(list)},
	}
}
