package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/registry"
	"github.com/proa-project/proa/httpapi/request"
	"github.com/proa-project/proa/storage"
)

// What the server itself refuses.
var (
	errNoResource   = generic(http.StatusNotFound, "")
	errNoMethod     = generic(http.StatusMethodNotAllowed, "")
	errUnauthorized = apierrors.NewUnauthorized("Unauthorized")
	errTooMany      = apierrors.NewTooManyRequests("Too many requests, please try again later.", 1)
	errStopping     = apierrors.NewServiceUnavailable("the server is stopping")
	errPanicked     = errors.New("the server panicked while it answered the request; see its log")
)

func generic(code int, message string) *apierrors.StatusError {
	return apierrors.NewGenericServerResponse(code, "", schema.GroupResource{}, "", message, 0, false)
}

func badRequest(format string, args ...any) error {
	return apierrors.NewBadRequest(fmt.Sprintf(format, args...))
}

// statusOf turns an error into the answer that a client gets. It is the only
// place that does so.
func statusOf(err error) *metav1.Status {
	var (
		status  apierrors.APIStatus
		denial  *admission.Denial
		refusal *registry.Error
		decode  *api.DecodeError
		rev     *storage.RevisionError
	)
	switch {
	case errors.As(err, &status):
		st := status.Status()
		return &st
	case errors.As(err, &denial):
		st := denial.Status
		return complete(&st)
	case errors.As(err, &refusal):
		return &refusalOf(refusal).ErrStatus
	case errors.As(err, &decode):
		return &apierrors.NewBadRequest(err.Error()).ErrStatus
	case errors.Is(err, api.ErrMediaType):
		return &generic(http.StatusUnsupportedMediaType, api.ErrMediaType.Error()).ErrStatus
	case errors.Is(err, storage.ErrFutureRevision):
		errors.As(err, &rev)
		return futureRevision(rev)
	case errors.Is(err, storage.ErrCompacted):
		errors.As(err, &rev)
		return tooOld(rev)
	case errors.Is(err, storage.ErrTooLarge):
		return &apierrors.NewRequestEntityTooLargeError(storage.ErrTooLarge.Error()).ErrStatus
	case errors.Is(err, storage.ErrUnavailable), errors.Is(err, storage.ErrClosed):
		st := apierrors.NewServiceUnavailable(err.Error())
		st.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
		return &st.ErrStatus
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0).ErrStatus
	default:
		return &apierrors.NewInternalError(err).ErrStatus
	}
}

// complete fills in what a plugin has left out of a refusal.
func complete(st *metav1.Status) *metav1.Status {
	if st.Code < 400 || st.Code > 599 {
		st.Code = http.StatusForbidden
	}
	st.Status = metav1.StatusFailure
	if st.Reason == "" && st.Code == http.StatusForbidden {
		st.Reason = metav1.StatusReasonForbidden
	}
	return st
}

// refusalOf is the answer for a write that the registry refuses.
func refusalOf(e *registry.Error) *apierrors.StatusError {
	out := refusalOfReason(e)
	if len(e.Causes) > 0 {
		if out.ErrStatus.Details == nil {
			out.ErrStatus.Details = &metav1.StatusDetails{}
		}
		out.ErrStatus.Details.Causes = append(out.ErrStatus.Details.Causes, e.Causes...)
	}
	return out
}

func refusalOfReason(e *registry.Error) *apierrors.StatusError {
	switch e.Reason {
	case registry.NotFound:
		return apierrors.NewNotFound(e.Resource, e.Name)
	case registry.Exists:
		out := apierrors.NewAlreadyExists(e.Resource, e.Name)
		if e.Err != nil {
			out.ErrStatus.Message = e.Err.Error() + ": " + out.ErrStatus.Message
		}
		return out
	case registry.NoFreeName:
		return apierrors.NewGenerateNameConflict(e.Resource, e.Name, 1)
	case registry.Conflict:
		return apierrors.NewConflict(e.Resource, e.Name, e.Err)
	case registry.Invalid:
		return apierrors.NewInvalid(e.Kind, e.Name, e.Fields)
	case registry.BadRequest:
		return apierrors.NewBadRequest(e.Err.Error())
	case registry.Forbidden:
		return apierrors.NewForbidden(e.Resource, e.Name, e.Err)
	case registry.NotAllowed:
		return apierrors.NewMethodNotSupported(e.Resource, e.Err.Error())
	case registry.TooManyRequests:
		return apierrors.NewTooManyRequests(e.Err.Error(), 1)
	default:
		return apierrors.NewInternalError(e)
	}
}

// futureRevision is the answer to a read of a state that is not there yet.
func futureRevision(e *storage.RevisionError) *metav1.Status {
	if e == nil {
		e = &storage.RevisionError{}
	}
	st := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", e.Requested, e.Limit), 1)
	st.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version",
	}}
	return &st.ErrStatus
}

// tooOld is the answer to a watch from a state that is forgotten.
func tooOld(e *storage.RevisionError) *metav1.Status {
	if e == nil {
		return &apierrors.NewResourceExpired("too old resource version").ErrStatus
	}
	return &apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", e.Requested, e.Limit)).ErrStatus
}

// forbidden is the answer to a user who may not.
func forbidden(user *request.User, info *request.Info, reason string) error {
	var gr schema.GroupResource
	var what string
	if info.Resource == nil {
		what = fmt.Sprintf("User %q cannot %s path %q", user.Name, info.Verb, info.Path)
	} else {
		gr = info.Resource.GR()
		resource := gr.Resource
		if info.Subresource != "" {
			resource += "/" + info.Subresource
		}
		what = fmt.Sprintf("User %q cannot %s resource %q in API group %q", user.Name, info.Verb, resource, gr.Group)
		if info.Namespace != "" {
			what += fmt.Sprintf(" in the namespace %q", info.Namespace)
		} else {
			what += " at the cluster scope"
		}
	}
	if reason != "" {
		what += ": " + reason
	}
	return apierrors.NewForbidden(gr, info.Name, errors.New(what))
}

// expired is the answer to a list of a state that is forgotten.
func expired(opts *listOptions, after, prefix string) error {
	if opts.next == "" {
		return apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
	}
	st := apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result. " +
		"You can start a new list without the continue parameter, or use the continue token in this response to retrieve " +
		"the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that " +
		"were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.")
	st.ErrStatus.Continue = encodeContinue(-1, after, prefix)
	return st
}

// unprocessable is the answer to a patch that does not fit the object.
func unprocessable(format string, args ...any) error {
	st := generic(http.StatusUnprocessableEntity, "")
	st.ErrStatus.Message = fmt.Sprintf(format, args...)
	return st
}

// fail answers a request with an error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	st := statusOf(err)
	if st.Code >= http.StatusInternalServerError && st.Reason == metav1.StatusReasonInternalError {
		s.cfg.Log.Error().Err(err).Str("method", r.Method).Str("path", r.URL.Path).
			Str("audit_id", exchangeOf(w).state.AuditID).Msg("request failed")
	}
	if d := st.Details; d != nil && d.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	writeStatus(w, int(st.Code), st)
}

// writeStatus writes a Status, be it good news or bad.
func writeStatus(w http.ResponseWriter, code int, st *metav1.Status) {
	st.Kind, st.APIVersion = "Status", "v1"
	body, err := json.Marshal(st)
	if err != nil { // a Status is strings and numbers
		panic(err)
	}
	body = append(body, '\n')
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-cache, private")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	w.Write(body) //nolint:errcheck // the client is gone
}
