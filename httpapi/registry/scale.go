package registry

import (
	"context"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proa-project/proa/api"
)

// ScaleOf returns how many replicas an object wants and has, as its scale
// subresource shows it.
func ScaleOf(obj api.Object) (*autoscalingv1.Scale, error) {
	out := &autoscalingv1.Scale{
		TypeMeta: metav1.TypeMeta{Kind: "Scale", APIVersion: autoscalingv1.SchemeGroupVersion.String()},
		ObjectMeta: metav1.ObjectMeta{
			Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(),
			ResourceVersion: obj.GetResourceVersion(), CreationTimestamp: obj.GetCreationTimestamp(),
		},
	}
	var replicas *int32
	var selector *metav1.LabelSelector
	switch o := obj.(type) {
	case *appsv1.Deployment:
		replicas, selector, out.Status.Replicas = o.Spec.Replicas, o.Spec.Selector, o.Status.Replicas
	case *appsv1.ReplicaSet:
		replicas, selector, out.Status.Replicas = o.Spec.Replicas, o.Spec.Selector, o.Status.Replicas
	default:
		return nil, fmt.Errorf("a %T has no scale", obj)
	}
	if replicas != nil {
		out.Spec.Replicas = *replicas
	}
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, fmt.Errorf("selector of %q: %w", obj.GetName(), err)
	}
	out.Status.Selector = s.String()
	return out, nil
}

// Scale is ScaleOf for objects of the resource.
func (r *Resource) Scale(obj api.Object) (*autoscalingv1.Scale, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok && r.custom != nil {
		return r.customScale(u)
	}
	return ScaleOf(obj)
}

// UpdateScale changes how many replicas an object wants. The change gets the
// present scale and returns the wanted one.
func (r *Resource) UpdateScale(ctx context.Context, c *Call, change func(*autoscalingv1.Scale) (*autoscalingv1.Scale, error)) (Result, error) {
	return r.Update(ctx, c, func(old Stored) (api.Object, error) {
		have, err := r.Scale(old.Object)
		if err != nil {
			return nil, err
		}
		want, err := change(have)
		if err != nil {
			return nil, err
		}
		if want.Name != c.Name {
			return nil, r.badRequest(c, "the name of the object (%s) does not match the name on the URL (%s)", want.Name, c.Name)
		}
		if n := want.Spec.Replicas; n < 0 {
			return nil, &Error{
				Reason: Invalid, Resource: r.GR(), Kind: schema.GroupKind{Group: autoscalingv1.GroupName, Kind: "Scale"}, Name: c.Name,
				Fields: field.ErrorList{field.Invalid(field.NewPath("spec", "replicas"), n, "must be greater than or equal to 0")},
			}
		}
		if err := r.matchScale(c, want, old); err != nil {
			return nil, err
		}
		obj, ok := old.Object.DeepCopyObject().(api.Object)
		if !ok {
			return nil, fmt.Errorf("copy of a %s is a %T", r.Kind, old.Object)
		}
		obj.SetResourceVersion(want.ResourceVersion)
		switch o := obj.(type) {
		case *unstructured.Unstructured:
			return obj, r.setReplicas(o, int64(want.Spec.Replicas))
		case *appsv1.Deployment:
			o.Spec.Replicas = &want.Spec.Replicas
		case *appsv1.ReplicaSet:
			o.Spec.Replicas = &want.Spec.Replicas
		}
		return obj, nil
	})
}

// matchScale checks the resourceVersion and the uid of a wanted scale.
func (r *Resource) matchScale(c *Call, want *autoscalingv1.Scale, old Stored) error {
	if v := want.ResourceVersion; v != "" && v != strconv.FormatInt(old.Revision, 10) {
		return r.fail(c, Conflict, ErrModified)
	}
	return r.matchUID(c, string(want.UID), old)
}
