package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	kjson "sigs.k8s.io/json"
)

// Encode returns obj as compact JSON with apiVersion and kind, whether or not
// they are set in obj, and without a newline at the end. It only reads obj, so
// that obj may be shared.
func Encode(obj runtime.Object) ([]byte, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return encodeFree(u)
	}
	w := prefixWriter{prefix: typePrefix(obj)}
	if err := json.NewEncoder(&w).Encode(obj); err != nil {
		return nil, fmt.Errorf("encode %T: %w", obj, err)
	}
	return w.out, nil
}

// EncodeStored returns obj as Encode does, but without its resourceVersion:
// the form that is stored.
func EncodeStored(obj Object) ([]byte, error) {
	data, err := Encode(obj)
	if err != nil || obj.GetResourceVersion() == "" {
		return data, err
	}
	return dropRevision(data), nil
}

// typePrefix returns the type members that obj lacks: {"kind":"Pod","apiVersion":"v1"
// or nothing.
func typePrefix(obj runtime.Object) string {
	have := obj.GetObjectKind().GroupVersionKind()
	if have.Kind != "" && have.Version != "" {
		return ""
	}
	gvk, ok := kindOf(obj)
	if !ok {
		return ""
	}
	switch apiVersion := gvk.GroupVersion().String(); {
	case have.Kind == "" && have.Version == "":
		return `{"kind":"` + gvk.Kind + `","apiVersion":"` + apiVersion + `"`
	case have.Kind == "":
		return `{"kind":"` + gvk.Kind + `"`
	default:
		return `{"apiVersion":"` + apiVersion + `"`
	}
}

// kindOf returns the kind of obj's Go type.
func kindOf(obj runtime.Object) (schema.GroupVersionKind, bool) {
	if r := ByType(obj); r != nil {
		return r.GVK(), true
	}
	gvks, _, err := Scheme().ObjectKinds(obj)
	if err != nil {
		return schema.GroupVersionKind{}, false
	}
	return gvks[0], true
}

// A prefixWriter keeps the one object that a json.Encoder writes to it, with
// prefix in place of its opening brace and without the newline at its end.
type prefixWriter struct {
	prefix string
	out    []byte
}

func (w *prefixWriter) Write(p []byte) (int, error) {
	body := bytes.TrimSuffix(p, []byte("\n"))
	if w.prefix == "" || len(body) < 2 || body[0] != '{' {
		w.out = bytes.Clone(body)
		return len(p), nil
	}
	w.out = make([]byte, 0, len(w.prefix)+len(body))
	w.out = append(w.out, w.prefix...)
	if body[1] != '}' {
		w.out = append(w.out, ',')
	}
	w.out = append(w.out, body[1:]...)
	return len(p), nil
}

// EncodeProtobuf returns obj in the protobuf envelope of Kubernetes. It fails
// for kinds that have no protobuf form (see HasProtobuf).
func EncodeProtobuf(obj runtime.Object) ([]byte, error) {
	var out bytes.Buffer
	if err := protobufSerializer().Encode(obj, &out); err != nil {
		return nil, fmt.Errorf("encode %T as protobuf: %w", obj, err)
	}
	return out.Bytes(), nil
}

//nolint:gochecknoglobals // built once, never changed
var protobufSerializer = sync.OnceValue(func() *protobuf.Serializer {
	return protobuf.NewSerializer(Scheme(), Scheme())
})

// HasProtobuf says whether obj's kind has a protobuf form: the kinds of
// Kubernetes do, Proa's own do not.
func HasProtobuf(obj runtime.Object) bool {
	_, ok := obj.(protoMessage)
	return ok
}

type protoMessage interface {
	Reset()
	Marshal() ([]byte, error)
	Unmarshal(data []byte) error
}

// DecodeStored reads stored JSON into an empty object. It is lenient: fields
// that it does not know are dropped.
func DecodeStored(value []byte, into Object) error {
	if u, ok := into.(*unstructured.Unstructured); ok {
		if _, err := decodeFree(value, u, false); err != nil {
			return fmt.Errorf("decode stored object: %w", err)
		}
		return nil
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(value, into); err != nil {
		return fmt.Errorf("decode stored %T: %w", into, err)
	}
	return nil
}
