package crd

import (
	"slices"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/dynamic"
)

// kindsOf returns the kinds of the served versions of a definition, the best
// version first.
func kindsOf(crd *apiextensionsv1.CustomResourceDefinition, names *apiextensionsv1.CustomResourceDefinitionNames, converter func(string) (Converter, bool)) ([]*dynamic.Kind, error) {
	var kinds []*dynamic.Kind
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		if !v.Served {
			continue
		}
		compiled, err := compile(crd, v)
		if err != nil {
			return nil, err
		}
		compiled.converter = converter
		kinds = append(kinds, &dynamic.Kind{
			Resource: api.Dynamic(rowOf(crd, names, v)), Columns: columnsOf(v), Schema: compiled.published, Stored: compiled,
		})
	}
	slices.SortStableFunc(kinds, func(a, b *dynamic.Kind) int {
		return dynamic.CompareVersions(b.Resource.Version, a.Resource.Version)
	})
	return kinds, nil
}

// rowOf returns the row of a version.
func rowOf(crd *apiextensionsv1.CustomResourceDefinition, names *apiextensionsv1.CustomResourceDefinitionNames, v *apiextensionsv1.CustomResourceDefinitionVersion) *api.Resource {
	row := &api.Resource{
		Group: crd.Spec.Group, Version: v.Name, Kind: names.Kind, Plural: names.Plural, Singular: names.Singular,
		Namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
		ShortNames: names.ShortNames, Categories: names.Categories,
		Verbs:   []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
		Storage: "/registry/" + crd.Spec.Group + "/" + names.Plural + "/",
	}
	if crd.DeletionTimestamp != nil {
		row.Verbs = []string{"delete", "deletecollection", "get", "list", "watch"}
	}
	for _, f := range v.SelectableFields {
		row.Fields = append(row.Fields, strings.TrimPrefix(f.JSONPath, "."))
	}
	verbs := []string{"get", "patch", "update"}
	if s := v.Subresources; s != nil && s.Scale != nil {
		row.Subresources = append(row.Subresources, api.Subresource{
			Name: "scale", Group: autoscalingv1.GroupName, Version: "v1", Kind: "Scale", Verbs: verbs,
			New: func() runtime.Object { return &autoscalingv1.Scale{} },
		})
	}
	if s := v.Subresources; s != nil && s.Status != nil {
		row.Subresources = append(row.Subresources, api.Subresource{Name: "status", Verbs: verbs})
	}
	return row
}

func columnsOf(v *apiextensionsv1.CustomResourceDefinitionVersion) []dynamic.Column {
	var columns []dynamic.Column
	for i := range v.AdditionalPrinterColumns {
		c := &v.AdditionalPrinterColumns[i]
		columns = append(columns, dynamic.Column{
			Name: c.Name, Type: c.Type, Format: c.Format, Description: c.Description, Priority: c.Priority, JSONPath: c.JSONPath,
		})
	}
	return columns
}
