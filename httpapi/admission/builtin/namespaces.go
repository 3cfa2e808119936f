package builtin

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/proa-project/proa/httpapi/admission"
)

// Namespaces knows the namespaces that there are.
type Namespaces interface {
	// Phase returns the phase of a namespace, and ok false if there is none of
	// the name. With fresh it is not older than the call.
	Phase(ctx context.Context, name string, fresh bool) (phase corev1.NamespacePhase, ok bool, err error)
}

// NamespaceLifecycle refuses new objects in namespaces that are not there or
// about to go, and the deletion of those that must stay.
type NamespaceLifecycle struct {
	Namespaces Namespaces
	// Immortal are the namespaces that cannot be deleted.
	Immortal []string
}

// Mutate changes nothing: what is refused should be so before the plugins are
// asked that cost more.
func (n NamespaceLifecycle) Mutate(ctx context.Context, r *admission.Request) error {
	if is(r, "", "namespaces") {
		if r.Operation == admission.Delete && slices.Contains(n.Immortal, r.Name) {
			return forbid(r, "this namespace may not be deleted")
		}
		return nil
	}
	if r.Namespace == "" || r.Operation != admission.Create || r.Subresource != "" || r.Resource.CreateOnly {
		return nil
	}
	phase, ok, err := n.Namespaces.Phase(ctx, r.Namespace, false)
	if err == nil && !ok {
		phase, ok, err = n.Namespaces.Phase(ctx, r.Namespace, true)
	}
	switch {
	case err != nil:
		return err
	case !ok:
		return &admission.Denial{Status: apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, r.Namespace).ErrStatus}
	case phase == corev1.NamespaceTerminating:
		return because(forbid(r, "unable to create new content in namespace %s because it is being terminated", r.Namespace), metav1.StatusCause{
			Type:    corev1.NamespaceTerminatingCause,
			Message: "namespace " + r.Namespace + " is being terminated",
			Field:   "metadata.namespace",
		})
	default:
		return nil
	}
}
