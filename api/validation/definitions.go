package validation

import (
	"context"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	upstream "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// hub returns a definition in the form that upstream's rules are about. The
// types within are converted by value, so that the definition stays as it is.
func hub(f *faults, o *apiextensionsv1.CustomResourceDefinition) *apiextensions.CustomResourceDefinition {
	out := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(o.DeepCopy(), out, nil); err != nil {
		f.add(field.InternalError(nil, err))
		return nil
	}
	return out
}

func definition(f *faults, o *apiextensionsv1.CustomResourceDefinition) {
	if is := hub(f, o); is != nil {
		f.list = append(f.list[:0], upstream.ValidateCustomResourceDefinition(context.Background(), is)...)
	}
}

func definitionUpdate(f *faults, o, old *apiextensionsv1.CustomResourceDefinition) {
	if is, was := hub(f, o), hub(f, old); is != nil && was != nil {
		f.list = append(f.list[:0], upstream.ValidateCustomResourceDefinitionUpdate(context.Background(), is, was)...)
	}
}

func definitionStatus(f *faults, o, old *apiextensionsv1.CustomResourceDefinition) {
	if is, was := hub(f, o), hub(f, old); is != nil && was != nil {
		f.list = append(f.list[:0], upstream.ValidateUpdateCustomResourceDefinitionStatus(context.Background(), is, was)...)
	}
}
