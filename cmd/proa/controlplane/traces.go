package controlplane

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/proa-project/proa/api"
	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/admission/policy"
	"github.com/proa-project/proa/httpapi/dynamic"
)

// traceResource serves the traces of admission as objects: a response's audit
// id is the name of its trace.
func traceResource(traces *policy.Traces) dynamic.Virtual {
	return dynamic.Virtual{
		Resource: &api.Resource{
			Group: pluginsv1.GroupName, Version: "v1", Kind: "AdmissionTrace", Plural: "admissiontraces", Singular: "admissiontrace",
			Verbs: []string{"get", "list", "watch"}, New: func() api.Object { return &pluginsv1.AdmissionTrace{} },
		},
		Provider: traceProvider{traces},
	}
}

type traceProvider struct{ traces *policy.Traces }

// Get implements dynamic.Provider.
func (p traceProvider) Get(_ context.Context, r *dynamic.Request) (*unstructured.Unstructured, error) {
	t, err := p.traces.Get(r.Name)
	if err != nil {
		return nil, err
	}
	return dynamic.ToUnstructured(t)
}

// List implements dynamic.Provider.
func (p traceProvider) List(context.Context, *dynamic.Request) (*unstructured.UnstructuredList, error) {
	list := &unstructured.UnstructuredList{}
	for _, t := range p.traces.List() {
		u, err := dynamic.ToUnstructured(t)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, *u)
	}
	return list, nil
}
