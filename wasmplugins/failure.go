package wasmplugins

import (
	"context"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
)

// failed deals with a plugin that gave no usable answer. It returns nil if the
// failure is ignored, and otherwise the error for the client.
func (c *call) failed(ctx context.Context, b *binding, err error) error {
	reason, detail := engine.ReasonOf(err), err.Error()
	if ee, ok := err.(*engine.Error); ok { //nolint:errorlint // the engine does not wrap it
		detail = ee.Detail
	}
	if reason == engine.Canceled || ctx.Err() != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	if reason == "" {
		reason = engine.Trapped
	}
	text := fmt.Sprintf("admission plugin %q failed: %s: %s", b.name, reason, detail)
	b.state.metrics.failure(string(reason))
	if reason != engine.NotReady { // the condition says so already
		c.h.note(b, string(reason), detail)
	}
	c.r.Annotate("failed.plugins.proa.io/"+b.name, cut(string(reason)+": "+detail, maxAnnotation))
	if b.ignore {
		c.r.Warn(cut(text+" (ignored)", maxWarning))
		return nil
	}
	st := metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError,
		Message: text,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseType(reason), Message: detail}}},
	}
	if reason == engine.NotReady {
		st.Code, st.Reason = http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable
		st.Details.RetryAfterSeconds = 1
	}
	return &admission.Denial{Status: st}
}

// denial is the answer for a write that a plugin refuses.
func denial(name string, reply *abi.AdmissionReply) error {
	code := reply.Code
	if code == 0 {
		code = http.StatusForbidden
	}
	reason := metav1.StatusReason(reply.Reason)
	if reason == "" {
		reason = reasonOf(code)
	}
	text := fmt.Sprintf("admission plugin %q denied the request: %s", name, cut(reply.Message, 16<<10))
	if reply.Message == "" {
		text = fmt.Sprintf("admission plugin %q denied the request without explanation", name)
	}
	return &admission.Denial{Status: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: text}}
}

func reasonOf(code int32) metav1.StatusReason {
	switch code {
	case http.StatusBadRequest:
		return metav1.StatusReasonBadRequest
	case http.StatusUnauthorized:
		return metav1.StatusReasonUnauthorized
	case http.StatusForbidden:
		return metav1.StatusReasonForbidden
	case http.StatusNotFound:
		return metav1.StatusReasonNotFound
	case http.StatusConflict:
		return metav1.StatusReasonConflict
	case http.StatusUnprocessableEntity:
		return metav1.StatusReasonInvalid
	case http.StatusTooManyRequests:
		return metav1.StatusReasonTooManyRequests
	case http.StatusInternalServerError:
		return metav1.StatusReasonInternalError
	}
	return metav1.StatusReasonUnknown
}

// note counts a failure for the plugin's status.
func (h *Host) note(b *binding, reason, detail string) {
	b.state.note(reason, detail, time.Now())
	h.status.AddAfter(key{false, b.name}, b.state.statusDelay(h.c.StatusInterval))
}

// kindOf returns the kind of an object that has no row in the table.
func kindOf(obj runtime.Object) schema.GroupVersionKind {
	if kinds, _, err := api.Scheme().ObjectKinds(obj); err == nil && len(kinds) > 0 {
		return kinds[0]
	}
	return obj.GetObjectKind().GroupVersionKind()
}
