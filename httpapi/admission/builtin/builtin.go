// Package builtin has the admission plugins that are part of the server.
package builtin

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/httpapi/admission"
)

// forbid refuses a write, in upstream's words.
func forbid(r *admission.Request, format string, args ...any) error {
	st := apierrors.NewForbidden(r.Resource.GR(), r.Name, fmt.Errorf(format, args...)).ErrStatus
	return &admission.Denial{Status: st}
}

// because adds a cause to a refusal, for clients that look for it.
func because(err error, cause metav1.StatusCause) error {
	var d *admission.Denial
	if errors.As(err, &d) && d.Status.Details != nil {
		d.Status.Details.Causes = append(d.Status.Details.Causes, cause)
	}
	return err
}

// is reports whether a request is about a resource of a group.
func is(r *admission.Request, group, plural string) bool {
	return r.Resource.Group == group && r.Resource.Plural == plural
}
