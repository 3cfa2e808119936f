package api

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
