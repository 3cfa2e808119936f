package celpolicy

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	smdschema "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/proa-project/proa/httpapi/admission"
)

// apply merges an apply configuration into the object, as the schema of its kind
// says.
func (e *edit) apply(s *subject, val ref.Val) (map[string]any, error) {
	obj, ok := val.(*dynamic.ObjectVal)
	if !ok {
		return nil, fmt.Errorf("unsupported return type from ApplyConfiguration expression: %v", val.Type())
	}
	if err := obj.CheckTypeNamesMatchFieldPathNames(); err != nil {
		return nil, fmt.Errorf("type mismatch: %w", err)
	}
	fields, ok := obj.Value().(map[string]any)
	if !ok {
		return nil, fmt.Errorf("invalid return type: %T", obj.Value())
	}
	gvk := schema.GroupVersionKind(Kind(s.write, s.row))
	types, err := e.m.c.types(gvk)
	if err != nil {
		return nil, err
	}
	wanted := &unstructured.Unstructured{Object: fields}
	wanted.SetGroupVersionKind(gvk)
	out, err := merge(types, &unstructured.Unstructured{Object: e.object}, wanted)
	if err != nil {
		return nil, fmt.Errorf("error applying patch: %w", err)
	}
	return out, nil
}

// types returns what merges objects of a kind.
func (c *Config) types(gvk schema.GroupVersionKind) (managedfields.TypeConverter, error) {
	if c.Types == nil {
		return managedfields.NewDeducedTypeConverter(), nil
	}
	t, err := c.Types(gvk)
	if t == nil && err == nil {
		err = fmt.Errorf("Resource kind %s not found. There can be a delay between when CustomResourceDefinitions are created and when they are available.", gvk) //nolint:staticcheck,revive // upstream's text
	}
	return t, err
}

func merge(types managedfields.TypeConverter, live, wanted *unstructured.Unstructured) (map[string]any, error) {
	patch, err := types.ObjectToTyped(wanted)
	if err != nil {
		return nil, fmt.Errorf("failed to convert patch object to typed object: %w", err)
	}
	if atomic := atomics(nil, patch.Schema(), patch.TypeRef(), patch.AsValue()); len(atomic) > 0 {
		return nil, fmt.Errorf("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: %v", strings.Join(atomic, ", "))
	}
	object, err := types.ObjectToTyped(live, typed.AllowDuplicates)
	if err != nil {
		return nil, fmt.Errorf("failed to convert original object to typed object: %w", err)
	}
	merged, err := object.Merge(patch)
	if err != nil {
		return nil, fmt.Errorf("failed to merge patch: %w", err)
	}
	out, err := types.TypedToObject(merged)
	if err != nil {
		return nil, fmt.Errorf("failed to convert typed object to object: %w", err)
	}
	u, ok := out.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("failed to convert typed object to object: got %T", out)
	}
	return u.Object, nil
}

// atomics returns the paths of what is in v and can only be replaced as a whole:
// a policy may not, since what it does not know would be lost.
func atomics(path fieldpath.Path, s *smdschema.Schema, t smdschema.TypeRef, v value.Value) (list []string) {
	a, ok := s.Resolve(t)
	if !ok {
		return nil
	}
	if a.Map != nil && v.IsMap() {
		if a.Map.ElementRelationship == smdschema.Atomic {
			list = append(list, path.String())
		}
		v.AsMap().Iterate(func(key string, item value.Value) bool {
			if f, ok := a.FindField(key); ok {
				list = append(list, atomics(append(path, fieldpath.PathElement{FieldName: &key}), s, f.Type, item)...)
			}
			return true
		})
	}
	if a.List != nil && v.IsList() {
		if a.List.ElementRelationship == smdschema.Atomic {
			list = append(list, path.String())
		}
		items := v.AsList()
		for i := range items.Length() {
			list = append(list, atomics(append(path, fieldpath.PathElement{Index: &i}), s, a.List.ElementType, items.At(i))...)
		}
	}
	return list
}

// defaulted fills in the defaults of an object that is written.
func (c *Config) defaulted(r *admission.Request, object map[string]any) (map[string]any, error) {
	if r.Object == nil {
		return object, nil
	}
	t := reflect.TypeOf(r.Object)
	if t.Kind() != reflect.Pointer {
		return object, nil
	}
	obj, ok := reflect.TypeAssert[runtime.Object](reflect.New(t.Elem()))
	if !ok {
		return nil, errors.New("the object cannot be defaulted")
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		u.Object = runtime.DeepCopyJSON(object)
		c.Default(u)
		return u.Object, nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object, obj, true); err != nil {
		return nil, err
	}
	c.Default(obj)
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	for _, key := range []string{"apiVersion", "kind"} {
		if v, ok := object[key]; ok {
			out[key] = v
		}
	}
	return out, nil
}
