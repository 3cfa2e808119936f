package celpolicy

import (
	"cmp"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/httpapi/admission"
)

// Forbidden returns the answer for a write that admission refuses.
func Forbidden(r *admission.Request, message string) *metav1.Status {
	name := r.Name
	if obj, ok := r.Object.(metav1.Object); ok && name == "" {
		name = cmp.Or(obj.GetName(), obj.GetGenerateName())
	}
	name = cmp.Or(name, "Unknown")
	status := apierrors.NewForbidden(r.Resource.GR(), name, errors.New(message)).ErrStatus
	return &status
}

// code returns the status code that goes with the reason of a validation.
func code(reason metav1.StatusReason) int32 {
	switch reason {
	case metav1.StatusReasonForbidden:
		return http.StatusForbidden
	case metav1.StatusReasonUnauthorized:
		return http.StatusUnauthorized
	case metav1.StatusReasonRequestEntityTooLarge:
		return http.StatusRequestEntityTooLarge
	default:
		return http.StatusUnprocessableEntity
	}
}
