package api

import (
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
)

// Dynamic returns a copy of a row that is not in the table: of a kind that
// appears at run time. Where New and NewList are nil, objects are unstructured
// with apiVersion and kind set.
func Dynamic(row *Resource) *Resource {
	r := *row
	gvk := r.GVK()
	if r.New == nil {
		r.New = func() Object {
			u := &unstructured.Unstructured{Object: map[string]any{}}
			u.SetGroupVersionKind(gvk)
			return u
		}
	}
	if r.NewList == nil {
		r.NewList = func() runtime.Object {
			l := &unstructured.UnstructuredList{Object: map[string]any{}}
			l.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
			return l
		}
	}
	r.extract = newExtractor(&r)
	return &r
}

// Labels returns the labels of a stored object of any kind, sorted by key. The
// strings may share value's memory, so value must not change.
func Labels(value []byte) ([][2]string, error) {
	labels, _, err := labelsOnly.run(value)
	return labels, err
}

//nolint:gochecknoglobals // built once, never changed
var labelsOnly = newExtractor(&Resource{})

// encodeFree is Encode for objects without a Go type of their own.
func encodeFree(u *unstructured.Unstructured) ([]byte, error) {
	data, err := json.Marshal(u.Object)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", u.GetKind(), err)
	}
	return data, nil
}

var errNotMap = errors.New("json: cannot unmarshal into Go value of type map[string]interface {}")

// decodeFree reads JSON into an object without a Go type of its own. The
// strict errors are duplicate fields.
func decodeFree(data []byte, u *unstructured.Unstructured, strict bool) (faults []error, err error) {
	var object map[string]any
	if strict {
		faults, err = kjson.UnmarshalStrict(data, &object)
	} else {
		err = kjson.UnmarshalCaseSensitivePreserveInts(data, &object)
	}
	switch {
	case err != nil:
		return nil, err
	case object == nil:
		return nil, errNotMap
	}
	if err := checkMeta(object); err != nil {
		return nil, err
	}
	u.Object = object
	return faults, nil
}

// checkMeta refuses what accessors of unstructured objects cannot read, as
// decoding into a Go type would.
func checkMeta(object map[string]any) error {
	for _, key := range [...]string{"apiVersion", "kind"} {
		switch v := object[key].(type) {
		case nil:
			delete(object, key) // null is as good as absent
		case string:
		default:
			return fmt.Errorf("json: cannot unmarshal %s into Go struct field .%s of type string", jsonKind(v), key)
		}
	}
	switch v := object["metadata"].(type) {
	case nil:
		object["metadata"] = map[string]any{}
	case map[string]any:
	default:
		return fmt.Errorf("json: cannot unmarshal %s into Go struct field .metadata of type v1.ObjectMeta", jsonKind(v))
	}
	return nil
}

func jsonKind(v any) string {
	switch v.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case bool:
		return "bool"
	case string:
		return "string"
	default:
		return "number"
	}
}
