package openapi

import (
	"reflect"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/openapi/schema"
)

// root returns the schema of a resource's kind.
func (m *model) root(r *api.Resource) *openapi3.Schema {
	return m.schemas[m.name(reflect.TypeOf(r.New()).Elem())].Value
}

// A compiler turns kin-openapi's schemas into compact ones. It keeps what it
// made, so that types in common are shared.
type compiler struct {
	made    map[*openapi3.Schema]*schema.Schema
	lenient bool // nothing is required
}

func newCompiler() *compiler { return &compiler{made: map[*openapi3.Schema]*schema.Schema{}} }

// compile returns the compact form. What it does not understand becomes
// opaque, so that kin-openapi decides.
func (c *compiler) compile(s *openapi3.Schema) *schema.Schema {
	if done := c.made[s]; done != nil {
		return done
	}
	out := &schema.Schema{}
	c.made[s] = out // before its parts: they may refer to it
	if !understood(s) {
		out.Opaque = true
		return out
	}
	out.Types = typesOf(s)
	switch s.Format {
	case "int32":
		out.Format = schema.Int32
	case "date-time":
		out.Format = schema.DateTime
	case "byte":
		out.Format = schema.Base64
	}
	if len(s.Properties) > 0 {
		out.Properties = make(map[string]*schema.Property, len(s.Properties))
		for name, p := range s.Properties {
			out.Properties[name] = &schema.Property{Schema: c.compile(p.Value)}
		}
	}
	if a := s.AdditionalProperties.Schema; a != nil {
		out.Additional = c.compile(a.Value)
	}
	if s.Items != nil {
		out.Items = c.compile(s.Items.Value)
	}
	if !c.lenient {
		out.Require(s.Required...)
	}
	return out
}

// understood reports whether a schema has only what compile knows. The test
// is against a copy of what is known, so that a keyword that is added some day
// makes a schema opaque, not wrong.
func understood(s *openapi3.Schema) bool {
	if len(s.AllOf) > 0 || len(s.OneOf) > 0 && (s.Type != nil || len(s.Properties) > 0) {
		return false
	}
	for _, o := range s.OneOf {
		if o.Value.Type == nil || !reflect.DeepEqual(*o.Value, openapi3.Schema{Type: o.Value.Type}) {
			return false
		}
	}
	switch s.Format {
	case "", "int32", "int64", "double", "float", "date-time", "byte", "int-or-string":
	default:
		return false
	}
	return reflect.DeepEqual(*s, openapi3.Schema{
		Extensions: s.Extensions, Description: s.Description, Default: s.Default, Title: s.Title, Example: s.Example,
		Type: s.Type, Format: s.Format, OneOf: s.OneOf, Properties: s.Properties, Required: s.Required,
		AdditionalProperties: openapi3.AdditionalProperties{Schema: s.AdditionalProperties.Schema}, Items: s.Items,
	})
}

func typesOf(s *openapi3.Schema) schema.Types {
	var list []string
	for _, o := range s.OneOf {
		list = append(list, o.Value.Type.Slice()...)
	}
	if s.Type != nil {
		list = append(list, s.Type.Slice()...)
	}
	if len(list) == 0 {
		return schema.Any
	}
	var t schema.Types
	for _, name := range list {
		t |= map[string]schema.Types{
			openapi3.TypeObject: schema.Object, openapi3.TypeArray: schema.Array, openapi3.TypeString: schema.String,
			openapi3.TypeInteger: schema.Integer, openapi3.TypeNumber: schema.Number, openapi3.TypeBoolean: schema.Boolean,
		}[name]
	}
	return t
}
