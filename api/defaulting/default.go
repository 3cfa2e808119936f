// Package defaulting fills in what a client left out of an object, kind by
// kind, with the values that Kubernetes documents.
package defaulting

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Default fills in what is left out of obj, which it changes. It does nothing
// for kinds without defaults. To default twice is to default once.
func Default(obj runtime.Object) {
	switch o := obj.(type) {
	case *corev1.Secret:
		if o.Type == "" {
			o.Type = corev1.SecretTypeOpaque
		}
	}
}
