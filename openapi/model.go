package openapi

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3gen"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/proa-project/proa/api"
)

const schemaPrefix = "#/components/schemas/"

// A model collects the schemas of Go types and of all types within them. It
// belongs to one goroutine.
type model struct {
	gen     *openapi3gen.Generator
	schemas openapi3.Schemas        // by component name
	types   map[string]reflect.Type // of the schemas
	groups  map[string]string       // package path -> prefix of component names
	markers markers
}

// newModel returns an empty model.
func newModel(resources []*api.Resource) *model {
	m := &model{
		schemas: openapi3.Schemas{},
		types:   map[string]reflect.Type{},
		groups:  map[string]string{},
		markers: readMarkers(),
	}
	for _, r := range resources {
		obj := r.New()
		if _, free := obj.(runtime.Unstructured); free {
			continue
		}
		path := reflect.TypeOf(obj).Elem().PkgPath()
		m.groups[path] = reversed(r.Group) + "." + r.Version + "."
	}
	m.gen = openapi3gen.NewGenerator(
		openapi3gen.CreateTypeNameGenerator(m.name),
		openapi3gen.CreateComponentSchemas(openapi3gen.ExportComponentSchemasOptions{ExportComponentSchemas: true, ExportTopLevelSchema: true}),
		openapi3gen.SchemaCustomizer(m.customize),
	)
	return m
}

// add adds the type of an object, and returns a reference to its schema.
func (m *model) add(obj any) (*openapi3.SchemaRef, error) {
	t := reflect.TypeOf(obj)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if _, err := m.gen.GenerateSchemaRef(t); err != nil {
		return nil, fmt.Errorf("schema of %s: %w", t, err)
	}
	name := m.name(t)
	return &openapi3.SchemaRef{Ref: schemaPrefix + name, Value: m.schemas[name].Value}, nil
}

// finish resolves the references between the schemas.
func (m *model) finish() {
	for _, s := range m.schemas {
		m.resolve(s.Value)
	}
}

func (m *model) resolve(s *openapi3.Schema) {
	for _, ref := range children(s) {
		if name, ok := strings.CutPrefix(ref.Ref, schemaPrefix); ok {
			ref.Value = m.schemas[name].Value
			continue
		}
		ref.Ref = "" // the generator puts the names of Go types here
		m.resolve(ref.Value)
	}
}

// children returns the references directly within a schema.
func children(s *openapi3.Schema) []*openapi3.SchemaRef {
	refs := slices.Concat(s.AllOf, s.OneOf)
	for _, p := range s.Properties {
		refs = append(refs, p)
	}
	if s.Items != nil {
		refs = append(refs, s.Items)
	}
	if a := s.AdditionalProperties.Schema; a != nil {
		refs = append(refs, a)
	}
	return refs
}

// name returns the component name of a type: that of upstream for upstream's
// types, io.example.group.v1.Kind for those of our own groups.
func (m *model) name(t reflect.Type) string {
	if n, ok := reflect.TypeAssert[interface{ OpenAPIModelName() string }](reflect.Zero(t)); ok {
		// a struct may have the method from one embedded in it
		if name := n.OpenAPIModelName(); strings.HasSuffix(name, "."+t.Name()) {
			return name
		}
	}
	if p, ok := m.groups[t.PkgPath()]; ok {
		return p + t.Name()
	}
	host, path, _ := strings.Cut(t.PkgPath(), "/")
	return reversed(host) + "." + strings.ReplaceAll(path, "/", ".") + "." + t.Name()
}

// reversed turns plugins.example.com into com.example.plugins.
func reversed(domain string) string {
	parts := strings.Split(domain, ".")
	slices.Reverse(parts)
	return strings.Join(parts, ".")
}

// customize is called with the schema of each type as the generator makes it,
// from the inside out.
func (m *model) customize(_ string, t reflect.Type, _ reflect.StructTag, s *openapi3.Schema) error {
	s.Nullable = false
	switch v := reflect.Zero(t).Interface().(type) {
	case interface{ OpenAPIV3OneOfTypes() []string }:
		*s = openapi3.Schema{Format: formatOf(v)}
		for _, typ := range v.OpenAPIV3OneOfTypes() {
			s.OneOf = append(s.OneOf, openapi3.NewSchemaRef("", &openapi3.Schema{Type: &openapi3.Types{typ}}))
		}
	case interface{ OpenAPISchemaType() []string }:
		types := openapi3.Types(v.OpenAPISchemaType())
		*s = openapi3.Schema{Format: formatOf(v)}
		if len(types) > 0 { // else it is any JSON
			s.Type = &types
		}
	default:
		switch t.Kind() {
		case reflect.Int:
			s.Format = "int32"
		case reflect.Struct:
			s.Type = &openapi3.Types{openapi3.TypeObject}
			m.customizeFields(t, s)
		default: // as it is
		}
	}
	if t.Kind() == reflect.Struct {
		s.Description = docsOf(t)[""]
		m.customizeKind(t, s)
		name := m.name(t)
		m.schemas[name] = openapi3.NewSchemaRef("", s)
		m.types[name] = t
	}
	return nil
}

func formatOf(v any) string {
	if f, ok := v.(interface{ OpenAPISchemaFormat() string }); ok {
		return f.OpenAPISchemaFormat()
	}
	return ""
}

// customizeKind names the kinds that a type stands for, and what else is
// known of the type as a whole.
func (m *model) customizeKind(t reflect.Type, s *openapi3.Schema) {
	if m.markers.atomic(t, "") {
		extend(s, "x-kubernetes-map-type", "atomic")
	}
	obj, ok := reflect.TypeAssert[runtime.Object](reflect.New(t))
	if !ok {
		return
	}
	gvks, _, err := api.Scheme().ObjectKinds(obj)
	if err != nil {
		return // a part of a kind that looks like one: runtime.Unknown
	}
	var list []any
	slices.SortFunc(gvks, func(a, b gvk) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Kind, b.Kind))
	})
	for _, k := range gvks {
		if k.Version != runtime.APIVersionInternal {
			list = append(list, gvkExtension(k))
		}
	}
	if len(list) > 0 {
		extend(s, gvkKey, list)
	}
}

func extend(s *openapi3.Schema, key string, value any) {
	if s.Extensions == nil {
		s.Extensions = map[string]any{}
	}
	s.Extensions[key] = value
}

// customizeFields describes the fields of a struct.
func (m *model) customizeFields(t reflect.Type, s *openapi3.Schema) {
	for _, f := range fieldsOf(t) {
		ref := s.Properties[f.name]
		if ref == nil {
			continue
		}
		if strings.HasPrefix(ref.Ref, schemaPrefix) {
			// Beside a $ref nothing counts, so the reference goes into an allOf.
			ref = openapi3.NewSchemaRef("", &openapi3.Schema{AllOf: openapi3.SchemaRefs{ref}})
			s.Properties[f.name] = ref
		}
		p := ref.Value
		p.Description = docsOf(f.owner)[f.name]
		for tag, key := range map[string]string{"patchStrategy": "x-kubernetes-patch-strategy", "patchMergeKey": "x-kubernetes-patch-merge-key"} {
			if v := f.Tag.Get(tag); v != "" {
				extend(p, key, v)
			}
		}
		m.markers.apply(f, p)
		if !f.omitempty && !m.markers.optional(f) {
			s.Required = append(s.Required, f.name)
		}
	}
	slices.Sort(s.Required)
	if len(s.Properties) == 0 {
		s.Properties = nil
	}
}

// A jsonField is a field as encoding/json sees it.
type jsonField struct {
	reflect.StructField
	owner     reflect.Type // the struct that declares it
	name      string       // in JSON
	omitempty bool
}

// fieldsOf returns the fields of a struct, and in their place those of structs
// that are inlined in it.
func fieldsOf(t reflect.Type) []jsonField {
	var fields []jsonField
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		typ := f.Type
		if typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		switch {
		case name == "-" || !f.IsExported():
		case name == "" && f.Anonymous && typ.Kind() == reflect.Struct:
			fields = append(fields, fieldsOf(typ)...)
		case name != "":
			fields = append(fields, jsonField{StructField: f, owner: t, name: name, omitempty: strings.Contains(options, "omitempty")})
		}
	}
	return fields
}

// docsOf returns the documentation that a type carries, by JSON name; that of
// the type itself is under "".
func docsOf(t reflect.Type) map[string]string {
	d, ok := reflect.TypeAssert[interface{ SwaggerDoc() map[string]string }](reflect.Zero(t))
	if !ok {
		return nil
	}
	return d.SwaggerDoc()
}
