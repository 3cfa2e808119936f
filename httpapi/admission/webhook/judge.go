package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/admission/celpolicy"
	"github.com/proa-project/proa/httpapi/admission/policy"
)

// Judge implements policy.Policy: it calls the webhook.
func (h *hook) Judge(ctx context.Context, in *policy.Input) (*policy.Verdict, error) {
	r := in.Request
	row, err := h.matches(ctx, r)
	if err != nil {
		return nil, err
	}
	if row == nil {
		return &policy.Verdict{Skipped: true}, nil
	}
	held, err := h.conditions.Hold(ctx, in, row, h.s.c.Authorize)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, &policy.Failure{Reason: "EvaluationFailed", Detail: err.Error(), Ignore: h.ignore, Status: celpolicy.Forbidden(r, err.Error())}
	case !held:
		return &policy.Verdict{Skipped: true}, nil
	case r.DryRun && !h.dryRun:
		status := apierrors.NewBadRequest(fmt.Sprintf("admission webhook %q does not support dry run", h.name)).ErrStatus
		return &policy.Verdict{Denied: &status, Message: status.Message}, nil
	}
	shown, err := show(in, row)
	if err != nil {
		return nil, internal("BadObject", err)
	}
	reply, err := h.ask(ctx, in, row, shown)
	if err != nil {
		return nil, h.failure(ctx, r, err)
	}
	return h.verdict(in, row, shown, reply)
}

// shown is a write as a webhook gets to see it.
type shown struct{ object, oldObject []byte }

// show converts the objects of a write to the row as which it is shown.
func show(in *policy.Input, row *api.Resource) (shown, error) {
	if row == in.Request.Resource {
		return shown{in.Object, in.OldObject}, nil
	}
	object, err := convert(row, in.Request.Resource, in.Object)
	if err != nil {
		return shown{}, err
	}
	old, err := convert(row, in.Request.Resource, in.OldObject)
	return shown{object, old}, err
}

func convert(to, from *api.Resource, object []byte) ([]byte, error) {
	if len(object) == 0 {
		return nil, nil
	}
	obj := from.New()
	if _, err := api.Decode(object, api.MediaJSON, obj, api.Ignore); err != nil {
		return nil, err
	}
	obj, err := celpolicy.Convert(to, from, obj)
	if err != nil {
		return nil, err
	}
	return api.Encode(obj)
}

// A callError is why a webhook has no usable answer.
type callError struct {
	reason string // for traces and metrics
	err    error
}

func (e *callError) Error() string { return e.err.Error() }
func (e *callError) Unwrap() error { return e.err }

// ask calls the webhook. The error is a *callError.
func (h *hook) ask(ctx context.Context, in *policy.Input, row *api.Resource, s shown) (*reply, error) {
	version, err := reviewVersion(h.versions)
	if err != nil {
		return nil, &callError{"BadConfiguration", fmt.Errorf("could not create admission objects: %w", err)}
	}
	uid := types.UID(uuid.NewString())
	body, err := encodeReview(version, uid, in.Request, row, s)
	if err != nil {
		return nil, &callError{"BadObject", fmt.Errorf("could not create admission objects: %w", err)}
	}
	c, err := h.s.clients.get(&h.address)
	if err != nil {
		return nil, &callError{"BadConfiguration", fmt.Errorf("could not get REST client: %w", err)}
	}
	answer, err := c.post(ctx, body, h.limit(in.Deadline))
	if err != nil {
		reason := "CallFailed"
		if errors.Is(err, context.DeadlineExceeded) {
			reason = "DeadlineExceeded"
		}
		return nil, &callError{reason, fmt.Errorf("failed to call webhook: %w", err)}
	}
	out, err := decodeReply(answer, version, uid, h.mutates)
	if err != nil {
		return nil, &callError{"BadReply", err}
	}
	return out, nil
}

// failure is what becomes of a call without a usable answer.
func (h *hook) failure(ctx context.Context, r *admission.Request, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	reason := "CallFailed"
	if c := (*callError)(nil); errors.As(err, &c) {
		reason = c.reason
	}
	text := fmt.Errorf("failed calling webhook %q: %w", h.name, err)
	status := apierrors.NewInternalError(text).ErrStatus
	if h.ignore {
		r.Annotate("failed-open."+h.prefix()+h.place(r), h.name)
	}
	return &policy.Failure{Reason: reason, Detail: text.Error(), Ignore: h.ignore, Status: &status}
}

func internal(reason string, err error) *policy.Failure {
	status := apierrors.NewInternalError(err).ErrStatus
	return &policy.Failure{Reason: reason, Detail: err.Error(), Status: &status}
}

// prefix is that of the audit annotations of the kind.
func (h *hook) prefix() string {
	if h.mutates {
		return "mutation.webhook.admission.k8s.io/"
	}
	return "validating.webhook.admission.k8s.io/"
}

// place names the call in audit annotations: a second one is of round 1.
func (h *hook) place(r *admission.Request) string {
	name := func(round int) string { return fmt.Sprintf("round_%d_index_%d", round, h.index) }
	if _, again := r.Annotations[h.prefix()+name(0)]; again && h.mutates {
		return name(1)
	}
	return name(0)
}

// verdict turns a reply into an answer.
func (h *hook) verdict(in *policy.Input, row *api.Resource, s shown, a *reply) (*policy.Verdict, error) {
	v := &policy.Verdict{Warnings: a.Warnings, Annotations: map[string]string{}}
	for k, text := range a.AuditAnnotations {
		v.Annotations[h.name+"/"+k] = text
	}
	if !a.Allowed {
		v.Denied = h.denial(a.Result)
		v.Message = v.Denied.Message
		return v, nil
	}
	if !h.mutates {
		return v, nil
	}
	ops, err := h.change(v, in, row, s, a)
	if err != nil {
		return nil, err
	}
	place := h.place(in.Request)
	note := annotation{Configuration: h.configuration, Webhook: h.name}
	changed := ops > 0
	note.Mutated = &changed
	v.Annotations[h.prefix()+place] = note.String()
	if secret := row.Group == "" && row.Plural == "secrets"; changed && !secret && len(a.Patch) <= maxPatchAnnotation {
		note = annotation{Configuration: h.configuration, Webhook: h.name, Patch: a.Patch, PatchType: "JSONPatch"}
		v.Annotations["patch.webhook.admission.k8s.io/"+place] = note.String()
	}
	return v, nil
}

// maxPatchAnnotation is the largest patch that goes into an audit annotation.
const maxPatchAnnotation = 10 << 10

// An annotation says in the audit log what a webhook did.
type annotation struct {
	Configuration string          `json:"configuration"`
	Webhook       string          `json:"webhook"`
	Mutated       *bool           `json:"mutated,omitempty"`
	Patch         json.RawMessage `json:"patch,omitempty"`
	PatchType     string          `json:"patchType,omitempty"`
}

func (a annotation) String() string {
	text, err := json.Marshal(a)
	if err != nil { // the patch was read before
		return ""
	}
	return string(text)
}

// change puts a patch into the verdict. It returns the number of its operations.
func (h *hook) change(v *policy.Verdict, in *policy.Input, row *api.Resource, s shown, a *reply) (ops int, err error) {
	if len(a.Patch) == 0 {
		return 0, nil
	}
	if err = json.Unmarshal(a.Patch, &[]json.RawMessage{}); err != nil { // its errors say more
		return 0, internal("BadReply", err)
	}
	patch, err := jsonpatch.DecodePatch(a.Patch)
	switch {
	case err != nil:
		return 0, internal("BadReply", err)
	case len(patch) == 0:
		return 0, nil
	case len(s.object) == 0:
		return 0, internal("BadReply", fmt.Errorf("admission webhook %q attempted to modify the object, which is not supported for this operation", h.name))
	case a.PatchType != "JSONPatch":
		return 0, h.failure(context.Background(), in.Request, &callError{"BadReply", fmt.Errorf("unsupported patch type %q", a.PatchType)})
	case row == in.Request.Resource:
		v.Patch = a.Patch
		return len(patch), nil
	}
	object, err := patch.Apply(s.object)
	if err == nil {
		object, err = convert(in.Request.Resource, row, object)
	}
	if err != nil {
		return 0, internal("BadReply", err)
	}
	v.Object = object
	return len(patch), nil
}

// denial is the answer for a write that the webhook refuses.
func (h *hook) denial(result *metav1.Status) *metav1.Status {
	status := metav1.Status{}
	if result != nil {
		status = *result
	}
	status.Code = max(status.Code, http.StatusBadRequest)
	if status.Status == "" || status.Status == metav1.StatusSuccess {
		status.Status = metav1.StatusFailure
	}
	by := fmt.Sprintf("admission webhook %q denied the request", h.name)
	switch {
	case status.Message != "":
		status.Message = by + ": " + status.Message
	case status.Reason != "":
		status.Message = by + ": " + string(status.Reason)
	default:
		status.Message = by + " without explanation"
	}
	return &status
}

// kindName is the name of an object's Go type.
func kindName(obj any) string {
	t := reflect.TypeOf(obj)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Name()
}
