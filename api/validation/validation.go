// Package validation holds the semantic rules of each kind: what a schema
// cannot say. Paths and texts are those of Kubernetes.
package validation

import (
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proa-project/proa/api"
)

// Create returns the faults of a new object, which has been defaulted.
func Create(obj api.Object) field.ErrorList {
	r := api.ByType(obj)
	namespaced := r != nil && r.Namespaced
	return metavalidation.ValidateObjectMetaAccessor(obj, namespaced, metavalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
}

// Update returns the faults of an object that is to replace old.
func Update(obj, old api.Object) field.ErrorList {
	return append(Create(obj), metavalidation.ValidateObjectMetaAccessorUpdate(obj, old, field.NewPath("metadata"))...)
}

// UpdateStatus returns the faults of an object that is to replace old through
// the status subresource: only metadata and status differ.
func UpdateStatus(obj, old api.Object) field.ErrorList {
	return metavalidation.ValidateObjectMetaAccessorUpdate(obj, old, field.NewPath("metadata"))
}
