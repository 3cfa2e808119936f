package openapi

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/openapi/schema"
)

// validators check objects against the schemas of their kinds. There are two
// forms of each schema: a compact one that tells of nearly all good objects
// that they are good, without decoding them; and kin-openapi's, which has the
// last word and says what is wrong.
type validators struct {
	resources []*api.Resource

	fastOnce sync.Once
	fast     map[*api.Resource]*schema.Schema

	fullOnce sync.Once
	full     map[*api.Resource]*openapi3.Schema

	err error // from making one of them; a fault of the program
}

// Validate returns what is wrong with the shape of an object of a resource,
// given as encoded JSON. What the schema does not know is no fault, null is
// the same as absent, and a status may be incomplete.
func (d *Documents) Validate(r *api.Resource, body []byte) field.ErrorList {
	v := &d.validators
	v.fastOnce.Do(v.makeFast)
	if s := v.fast[r]; s != nil && s.Fits(body) {
		return nil
	}
	return v.explain(r, body)
}

// explain validates with kin-openapi.
func (v *validators) explain(r *api.Resource, body []byte) field.ErrorList {
	v.fullOnce.Do(v.makeFull)
	s := v.full[r]
	if s == nil {
		return field.ErrorList{field.InternalError(nil, fmt.Errorf("no schema of %s: %w", r.GR(), v.err))}
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return field.ErrorList{field.Invalid(nil, "", "must be JSON: "+err.Error())}
	}
	dropNulls(value)
	err := s.VisitJSON(value, openapi3.MultiErrors(),
		openapi3.WithStringFormatValidators(map[string]openapi3.StringFormatValidator{
			"date-time": openapi3.NewCallbackValidator(checkDateTime),
			"byte":      openapi3.NewCallbackValidator(checkBase64),
		}))
	return toFieldErrors(s, err)
}

func checkDateTime(text string) error {
	_, err := time.Parse(time.RFC3339Nano, text)
	return err
}

func checkBase64(text string) error {
	_, err := base64.StdEncoding.DecodeString(text)
	return err
}

// dropNulls removes members of objects that are null.
func dropNulls(value any) {
	switch v := value.(type) {
	case map[string]any:
		for k, m := range v {
			if m == nil {
				delete(v, k)
			} else {
				dropNulls(m)
			}
		}
	case []any:
		for _, m := range v {
			dropNulls(m)
		}
	}
}

// validationModel makes the schemas of all kinds as validation wants them.
func (v *validators) validationModel() (*model, error) {
	m := newModel(v.resources)
	for _, r := range v.resources {
		if _, err := m.add(r.New()); err != nil {
			return nil, err
		}
	}
	m.finish()
	for name, ref := range m.schemas {
		switch name {
		case "io.k8s.apimachinery.pkg.runtime.RawExtension", "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1":
			*ref.Value = openapi3.Schema{} // published as objects, but any JSON decodes into them
		}
		for key, p := range ref.Value.Properties {
			// the descriptions beside references are no longer wanted
			if len(p.Value.AllOf) == 1 {
				ref.Value.Properties[key] = p.Value.AllOf[0]
			}
			p.Value.Description = ""
		}
		// A time that is zero is written as null.
		ref.Value.Required = slices.DeleteFunc(ref.Value.Required, func(key string) bool {
			return ref.Value.Properties[key].Value.Format == "date-time"
		})
	}
	return m, nil
}

func (v *validators) makeFull() {
	m, err := v.validationModel()
	if err != nil {
		v.err = err
		return
	}
	v.full = map[*api.Resource]*openapi3.Schema{}
	for _, r := range v.resources {
		v.full[r] = m.root(r)
	}
}

func (v *validators) makeFast() {
	m, err := v.validationModel()
	if err != nil {
		return // makeFull will meet the same error
	}
	strict, lenient := newCompiler(), newCompiler()
	lenient.lenient = true // see toFieldErrors
	v.fast = map[*api.Resource]*schema.Schema{}
	for _, r := range v.resources {
		root := m.root(r)
		s := strict.compile(root)
		if status := root.Properties["status"]; status != nil {
			s.Properties["status"].Schema = lenient.compile(status.Value)
		}
		v.fast[r] = s
	}
}

// toFieldErrors turns the errors of kin-openapi into those of Kubernetes.
func toFieldErrors(root *openapi3.Schema, err error) field.ErrorList {
	var list field.ErrorList
	for _, e := range flatten(nil, err) {
		pointer := e.JSONPointer()
		if e.SchemaField == "required" && len(pointer) > 1 && pointer[0] == "status" {
			continue
		}
		list = append(list, toFieldError(pathOf(root, pointer), e))
	}
	slices.SortStableFunc(list, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
	return list
}

// flatten collects the errors within err that are not made of others.
func flatten(list []*openapi3.SchemaError, err error) []*openapi3.SchemaError {
	switch e := err.(type) { //nolint:errorlint // each layer is looked at by itself
	case nil:
	case *openapi3.SchemaError:
		list = append(list, e)
	case openapi3.MultiError:
		for _, one := range e {
			list = flatten(list, one)
		}
	default:
		list = flatten(list, errors.Unwrap(err))
	}
	return list
}

func toFieldError(path *field.Path, e *openapi3.SchemaError) *field.Error {
	switch e.SchemaField {
	case "required":
		return field.Required(path, "")
	case "enum":
		return field.NotSupported(path, e.Value, slices.Clone(stringsOf(e.Schema.Enum)))
	case "type":
		return field.TypeInvalid(path, shown(e.Value), "must be of type "+strings.Join(e.Schema.Type.Slice(), " or "))
	case "oneOf":
		var types []string
		for _, s := range e.Schema.OneOf {
			types = append(types, s.Value.Type.Slice()...)
		}
		return field.TypeInvalid(path, shown(e.Value), "must be of type "+strings.Join(types, " or "))
	case "nullable":
		return field.Required(path, "must not be null")
	}
	reason := e.Reason
	if reason == "" {
		reason = "does not match " + strconv.Quote(e.SchemaField)
	}
	return field.Invalid(path, shown(e.Value), reason)
}

func stringsOf(values []any) []string {
	var s []string
	for _, v := range values {
		s = append(s, fmt.Sprint(v))
	}
	return s
}

// shown returns a value as it may be part of a message.
func shown(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v)
		}
	}
	return v
}

// pathOf writes a path as Kubernetes does: spec.containers[0].name, and keys
// of maps in brackets.
func pathOf(s *openapi3.Schema, pointer []string) *field.Path {
	var path *field.Path
	for _, step := range pointer {
		for s != nil && len(s.AllOf) == 1 {
			s = s.AllOf[0].Value
		}
		switch i, err := strconv.Atoi(step); {
		case s == nil:
			path = path.Child(step)
		case s.Items != nil && err == nil:
			path, s = path.Index(i), s.Items.Value
		case s.Properties[step] != nil:
			path, s = path.Child(step), s.Properties[step].Value
		case s.AdditionalProperties.Schema != nil:
			path, s = path.Key(step), s.AdditionalProperties.Schema.Value
		default:
			path, s = path.Child(step), nil
		}
	}
	return path
}
