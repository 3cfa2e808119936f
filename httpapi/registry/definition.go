package registry

import (
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/api"
)

// definitionStrategy is that of CustomResourceDefinitions.
func definitionStrategy() strategy {
	return strategy{
		generation: true, keepsMeta: true,
		create: storeVersion, deleting: cleanUpFirst,
		update: func(obj, _ api.Object, subresource string) {
			if subresource == "" {
				storeVersion(obj)
			}
		},
	}
}

// storeVersion notes in which version objects are stored from now on.
func storeVersion(obj api.Object) {
	crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return
	}
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		if v.Storage && !slices.Contains(crd.Status.StoredVersions, v.Name) {
			crd.Status.StoredVersions = append(slices.Clone(crd.Status.StoredVersions), v.Name)
			return
		}
	}
}

// cleanUpFirst keeps a definition until its objects are gone.
func cleanUpFirst(obj api.Object) {
	crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return
	}
	if !slices.Contains(crd.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer) {
		crd.Finalizers = append(crd.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer)
	}
	setDefinitionCondition(crd, &apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionTrue, Reason: "InstanceDeletionPending",
		Message:            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
		LastTransitionTime: metav1.Time{Time: time.Now().UTC().Truncate(timePrecision)},
	})
}

func setDefinitionCondition(crd *apiextensionsv1.CustomResourceDefinition, c *apiextensionsv1.CustomResourceDefinitionCondition) {
	crd.Status.Conditions = append(slices.DeleteFunc(crd.Status.Conditions, func(have apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return have.Type == c.Type
	}), *c)
}
