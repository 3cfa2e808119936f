package admit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/admission/celpolicy"
	"github.com/proa-project/proa/httpapi/admission/match"
	"github.com/proa-project/proa/httpapi/admission/policy"
	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/runner"
)

// A binding is an AdmissionPlugin as a write sees it. It never changes.
type binding struct {
	point     *Point
	object    *pluginsv1.AdmissionPlugin
	handle    *handle
	candidate *handle // nil for none
	canary    labels.Selector
	matcher   *match.Matcher
	// conditions are the match conditions; nil always holds.
	conditions *celpolicy.Conditions
	metrics    *pluginMetrics
}

// reasonConditions is why a plugin is not asked whose match conditions cannot be
// evaluated.
const reasonConditions = "MatchConditionError"

// ID implements policy.Policy.
func (b *binding) ID() policy.ID { return policy.ID{Kind: policy.AdmissionPlugin, Name: b.object.Name} }

// Order implements policy.Policy.
func (b *binding) Order() int32 { return b.object.Spec.Order }

// Ignores tells the chain what to do when the plugin breaks the object.
func (b *binding) Ignores() bool {
	return b.object.Spec.FailurePolicy == admissionregistrationv1.Ignore
}

// Matches implements policy.Policy.
func (b *binding) Matches(ctx context.Context, r *admission.Request) (bool, error) {
	return b.matcher.Matches(ctx, r, b.point.c.NamespaceLabels)
}

// Judge implements policy.Policy.
func (b *binding) Judge(ctx context.Context, in *policy.Input) (*policy.Verdict, error) {
	switch hold, err := b.conditions.Hold(ctx, in, in.Request.Resource, b.point.c.Authorize); {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, &policy.Failure{Reason: reasonConditions, Detail: err.Error(), Ignore: b.Ignores()}
	case !hold:
		return &policy.Verdict{Skipped: true, Mode: b.object.Spec.Mode, Message: "a match condition does not hold"}, nil
	}
	request := requestOf(in)
	h := b.handle
	if b.candidate != nil {
		takes, err := b.chosen(ctx, in)
		if err != nil {
			return nil, err
		}
		if takes {
			h = b.candidate
		}
	}
	a := b.ask(ctx, h, in, request)
	if in.Phase == pluginsv1.PhaseMutate {
		in.Keep(b.ID(), version{h, a})
	}
	if b.candidate != nil && h == b.handle {
		b.compare(ctx, in, request, a)
	}
	return b.verdict(a)
}

// A version is what has answered in the mutating phase, and is to answer in the
// other, too.
type version struct {
	of   *handle
	said answer
}

// An answer is what a guest made of a write.
type answer struct {
	reply  *abi.AdmissionReply
	digest string // of the version that was asked
	usage  engine.Usage
	err    error
}

// ask asks a guest.
func (b *binding) ask(ctx context.Context, h *handle, in *policy.Input, r *abi.AdmissionRequest) answer {
	var a answer
	phase := abi.PhaseValidate
	if in.Phase == pluginsv1.PhaseMutate {
		phase = abi.PhaseMutate
	}
	digest := ""
	if v, ok := in.Kept(b.ID()).(version); ok && v.of == h && in.Phase == pluginsv1.PhaseValidate {
		if v.said.digest == "" && v.said.err != nil {
			return answer{err: v.said.err} // nothing ran then, so nothing does now
		}
		digest = v.said.digest
	}
	a.usage, a.err = h.UseVersion(ctx, digest, func(g *guest) (engine.Usage, error) {
		var u engine.Usage
		var err error
		a.digest = g.digest
		a.reply, u, err = g.Admit(ctx, engine.Call{Seed: in.Request.UID, Deadline: in.Deadline}, phase, r)
		return u, err
	})
	return a
}

// verdict turns a guest's answer into the policy's.
func (b *binding) verdict(a answer) (*policy.Verdict, error) {
	b.metrics.answered(a)
	if errors.Is(a.err, runner.ErrRemoved) {
		return &policy.Verdict{Skipped: true, Message: "the plugin was removed"}, nil
	}
	if a.err != nil {
		return nil, b.failure(a)
	}
	v := &policy.Verdict{
		Mode: b.object.Spec.Mode, Patch: a.reply.Patch, Object: a.reply.Object,
		Fuel: a.usage.Fuel, Memory: a.usage.Memory, HostCalls: a.usage.HostCalls, Digest: a.digest,
	}
	b.tell(v, a.reply)
	if !a.reply.Allowed {
		st := denial(b.object.Name, a.reply)
		v.Denied = &st
	}
	return v, nil
}

// failure tells the chain of a guest that did not answer.
func (b *binding) failure(a answer) error {
	var ee *engine.Error
	if !errors.As(a.err, &ee) || ee.Reason == engine.Canceled {
		return a.err
	}
	return &policy.Failure{
		Reason: string(ee.Reason), Detail: ee.Detail, Ignore: b.Ignores() || b.object.Spec.Mode != "" && b.object.Spec.Mode != pluginsv1.ModeEnforce,
		Retry: ee.Reason == engine.NotReady || ee.Reason == runner.BreakerOpen,
		Fuel:  a.usage.Fuel, Memory: a.usage.Memory, HostCalls: a.usage.HostCalls,
	}
}

// chosen reports whether the candidate has the say in a write.
func (b *binding) chosen(ctx context.Context, in *policy.Input) (bool, error) {
	c := b.object.Spec.Candidate
	if b.canary != nil && in.Request.Resource.Namespaced {
		ok, err := match.SelectsNamespace(ctx, b.canary, in.Request, b.point.c.NamespaceLabels)
		if err != nil || ok {
			return ok, err
		}
	}
	if c.Percent <= 0 {
		return false, nil
	}
	h := fnv.New32a()
	_, _ = fmt.Fprintf(h, "%s/%s/%s/%s", in.Request.Resource.Plural, in.Request.Namespace, in.Request.Name, nameOf(in)) // never fails
	return h.Sum32()%100 < uint32(c.Percent), nil
}

// nameOf tells objects apart whose names are yet to be generated.
func nameOf(in *policy.Input) string {
	if in.Request.Name != "" {
		return ""
	}
	return in.Request.UID
}

// Bounds of what a plugin may tell the client and the audit log.
const (
	maxWarnings    = 16
	maxWarning     = 1024
	maxAnnotations = 32
	maxAnnotation  = 4096
)

// tell passes warnings and annotations on.
func (b *binding) tell(v *policy.Verdict, reply *abi.AdmissionReply) {
	if v.Mode == pluginsv1.ModeShadow {
		return
	}
	for i, w := range reply.Warnings {
		if i == maxWarnings {
			v.Warnings = append(v.Warnings, fmt.Sprintf("admission plugin %q had %d more warnings", b.object.Name, len(reply.Warnings)-i))
			break
		}
		v.Warnings = append(v.Warnings, cut(w, maxWarning))
	}
	for k, a := range reply.AuditAnnotations {
		if len(v.Annotations) == maxAnnotations {
			break
		}
		if v.Annotations == nil {
			v.Annotations = map[string]string{}
		}
		v.Annotations[b.object.Name+"/"+cut(k, 128)] = cut(a, maxAnnotation)
	}
}

func cut(s string, n int) string {
	if len(s) > n {
		return s[:n] + "..."
	}
	return s
}

// requestOf makes the guest's request of the policy's input.
func requestOf(in *policy.Input) *abi.AdmissionRequest {
	r := in.Request
	gvk := r.Resource.GVK()
	a := &abi.AdmissionRequest{
		UID: r.UID, Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind,
		ResourceGroup: r.Resource.Group, ResourceVersion: r.Resource.Version, Resource: r.Resource.Plural,
		SubResource: r.Subresource, Name: r.Name, Namespace: r.Namespace, Operation: string(r.Operation),
		DryRun: r.DryRun, Object: in.Object, OldObject: in.OldObject,
	}
	if r.Options != nil {
		a.Options, _ = json.Marshal(r.Options) // without them if they cannot be encoded
	}
	if s := r.Resource.Subresource(r.Subresource); s != nil && s.Kind != "" {
		a.Group, a.Version, a.Kind = s.Group, s.Version, s.Kind
	}
	if u := r.User; u != nil {
		a.Username, a.UserUID, a.Groups, a.Extra = u.Name, u.UID, u.Groups, u.Extra
	}
	return a
}

// denial is the answer for a write that a plugin refuses.
func denial(name string, reply *abi.AdmissionReply) metav1.Status {
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
	return metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: text}
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
