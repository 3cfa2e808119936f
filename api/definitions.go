package api

import (
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
)

// definitionRows is the part of the table about kinds that users define.
func definitionRows() []*Resource {
	return []*Resource{{
		Group: apiextensionsv1.GroupName, Version: "v1", Kind: "CustomResourceDefinition",
		Plural: "customresourcedefinitions", Singular: "customresourcedefinition",
		ShortNames: []string{"crd", "crds"}, Categories: []string{"api-extensions"},
		Verbs:        []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
		Storage:      "/registry/apiextensions.k8s.io/customresourcedefinitions/",
		New:          func() Object { return &apiextensionsv1.CustomResourceDefinition{} },
		NewList:      func() runtime.Object { return &apiextensionsv1.CustomResourceDefinitionList{} },
		Subresources: []Subresource{{Name: "status", Verbs: []string{"get", "patch", "update"}}},
	}}
}

// Defined returns the row of a kind that a definition makes, by its best served
// version, or nil if it is not served. The row is for clients: it says nothing
// about storage.
func Defined(crd *apiextensionsv1.CustomResourceDefinition) *Resource {
	best := ""
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		if v.Served && (best == "" || version.CompareKubeAwareVersionStrings(v.Name, best) > 0) {
			best = v.Name
		}
	}
	established := slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
	if best == "" || !established {
		return nil
	}
	names := &crd.Status.AcceptedNames
	return Dynamic(&Resource{
		Group: crd.Spec.Group, Version: best, Kind: names.Kind, Plural: names.Plural, Singular: names.Singular,
		Namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
		Verbs:      []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
	})
}
