package celpolicy

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/proa-project/proa/api"
)

// as converts an object of the row from into its form as another row that shows
// the same objects. Nil stays nil.
func as(to, from *api.Resource, object map[string]any) (map[string]any, error) {
	if object == nil {
		return nil, nil
	}
	obj := from.New()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, obj); err != nil {
		return nil, err
	}
	obj, err := Convert(to, from, obj)
	if err != nil {
		return nil, err
	}
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	out["apiVersion"], out["kind"] = to.GroupVersion().String(), to.Kind
	return out, nil
}

// Convert returns an object of the row from in its form as another row that
// shows the same objects.
func Convert(to, from *api.Resource, obj api.Object) (api.Object, error) {
	if to.Stored() != from.Stored() {
		return nil, fmt.Errorf("unable to convert to %v: unknown kind", to.GVR())
	}
	var err error
	if from.ToStored != nil {
		if obj, err = from.ToStored(obj); err != nil {
			return nil, err
		}
	}
	if to.FromStored != nil {
		return to.FromStored(obj)
	}
	return obj, nil
}
