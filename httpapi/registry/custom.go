package registry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/api/defaulting"
	"github.com/proa-project/proa/api/validation"
	"github.com/proa-project/proa/storage"
)

// A Custom is what is special about the objects of a kind without a Go type.
type Custom interface {
	// Read returns stored objects, as JSON, in the form of the kind.
	Read(ctx context.Context, values [][]byte) ([][]byte, error)
	// Write returns an object, as JSON, in the form that is stored.
	Write(ctx context.Context, value []byte) ([]byte, error)
	// Prepare drops what the schema does not know and fills in defaults.
	Prepare(obj *unstructured.Unstructured) (unknown []string, err error)
	// Validate returns the faults of a new object, or of one that is to replace
	// old; status says that only the status may differ.
	Validate(ctx context.Context, obj, old *unstructured.Unstructured, status bool) field.ErrorList
	// ScalePaths returns where an object has the replicas that it wants and has
	// and its selector, "" if there is none: .spec.replicas.
	ScalePaths() (spec, status, selector string)
}

// customStrategy is that of kinds without a Go type.
func customStrategy() strategy { return strategy{generation: true, keepsStatus: true} }

// free returns an object without a Go type as what it is, or nil.
func free(obj api.Object) *unstructured.Unstructured {
	u, _ := obj.(*unstructured.Unstructured) // nil is the answer
	return u
}

// prepare fills in what is left out of an object.
func (r *Resource) prepare(obj api.Object) error {
	if r.custom == nil {
		defaulting.Default(obj)
	} else if u := free(obj); u != nil {
		_, err := r.custom.Prepare(u)
		return err
	}
	return nil
}

// faults returns what is wrong with an object that is new, or to replace old.
func (r *Resource) faults(ctx context.Context, c *Call, obj, old api.Object) field.ErrorList {
	switch {
	case r.custom != nil:
		u := free(obj)
		if u == nil {
			return field.ErrorList{field.InternalError(nil, fmt.Errorf("a %T is in place of a %s", obj, r.Kind))}
		}
		return r.custom.Validate(ctx, u, free(old), c.Subresource == "status")
	case old == nil:
		return validation.Create(obj)
	case c.Subresource == "status":
		return validation.UpdateStatus(obj, old)
	default:
		return validation.Update(obj, old)
	}
}

// decodeCustom is Decode for kinds without a Go type.
func (r *Resource) decodeCustom(ctx context.Context, item storage.Item) (Stored, error) {
	s := Stored{Revision: item.Revision, raw: item.Value}
	own, err := r.custom.Read(ctx, [][]byte{item.Value})
	if err != nil {
		return s, err
	}
	obj := r.New()
	if err := api.DecodeStored(own[0], obj); err != nil {
		return s, fmt.Errorf("decode %q: %w", item.Key, err)
	}
	setRevision(obj, item.Revision)
	s.Object, s.Value = obj, api.SetRevision(own[0], item.Revision)
	return s, nil
}

// initCustom drops the status of a new object if it has a way of its own.
func (r *Resource) initCustom(obj api.Object) {
	if u := free(obj); u != nil && r.custom != nil && r.Subresource("status") != nil {
		delete(u.Object, "status")
	}
}

// keepCustom gives the wanted state of an object without a Go type what a call
// may not change: the status, or everything else.
func (r *Resource) keepCustom(c *Call, obj, old api.Object) {
	is, was := free(obj), free(old)
	if is == nil || was == nil {
		return
	}
	from := was
	if c.Subresource == "status" {
		from = is.DeepCopy()
		revision := is.GetResourceVersion()
		is.Object = was.DeepCopy().Object
		is.SetResourceVersion(revision)
	} else if r.Subresource("status") == nil {
		return
	}
	if status, ok := from.Object["status"]; ok {
		is.Object["status"] = status
	} else {
		delete(is.Object, "status")
	}
}

// sameCustom reports whether two objects differ in nothing but metadata.
func sameCustom(a, b api.Object) bool {
	x, y := free(a), free(b)
	return x != nil && y != nil && equality.Semantic.DeepEqual(withoutMeta(x.Object), withoutMeta(y.Object))
}

func withoutMeta(object map[string]any) map[string]any {
	out := make(map[string]any, len(object))
	for key, value := range object {
		if key != "metadata" {
			out[key] = value
		}
	}
	return out
}

// steps returns the members on the way of a path such as .spec.replicas.
func steps(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }

// customScale returns the scale of an object without a Go type.
func (r *Resource) customScale(u *unstructured.Unstructured) (*autoscalingv1.Scale, error) {
	specPath, statusPath, selectorPath := r.custom.ScalePaths()
	if specPath == "" {
		return nil, fmt.Errorf("a %s has no scale", r.Kind)
	}
	out := &autoscalingv1.Scale{
		TypeMeta: metav1.TypeMeta{Kind: "Scale", APIVersion: autoscalingv1.SchemeGroupVersion.String()},
		ObjectMeta: metav1.ObjectMeta{
			Name: u.GetName(), Namespace: u.GetNamespace(), UID: u.GetUID(),
			ResourceVersion: u.GetResourceVersion(), CreationTimestamp: u.GetCreationTimestamp(),
		},
	}
	want, ok, err := unstructured.NestedInt64(u.Object, steps(specPath)...)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("the spec replicas field %q does not exist", specPath)
	}
	have, _, err := unstructured.NestedInt64(u.Object, steps(statusPath)...)
	if err != nil {
		return nil, err
	}
	out.Spec.Replicas, out.Status.Replicas = clamp(want), clamp(have)
	if selectorPath != "" {
		out.Status.Selector, _, err = unstructured.NestedString(u.Object, steps(selectorPath)...)
	}
	return out, err
}

func clamp(n int64) int32 { return int32(max(math.MinInt32, min(n, math.MaxInt32))) }

// setReplicas sets how many replicas an object without a Go type wants.
func (r *Resource) setReplicas(u *unstructured.Unstructured, n int64) error {
	if r.custom == nil {
		return errors.New("there is no scale")
	}
	spec, _, _ := r.custom.ScalePaths()
	return unstructured.SetNestedField(u.Object, n, steps(spec)...)
}
