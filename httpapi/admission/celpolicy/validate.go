package celpolicy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/proa-project/proa/api/expression"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/admission/policy"
)

// A validation is a ValidatingAdmissionPolicy, compiled.
type validation struct {
	rule
	checks []check
	audits []audit
}

// A check is one of a policy's validations.
type check struct {
	program
	text    string // of the answer, if there is no better one
	message *program
	reason  metav1.StatusReason
}

// An audit is one of a policy's audit annotations.
type audit struct {
	program
	key string // complete
}

func newValidation(c *Config, o *admissionregistrationv1.ValidatingAdmissionPolicy) *validation {
	s := &o.Spec
	v := &validation{rule: newRule(c, o, s.FailurePolicy, s.ParamKind, s.MatchConstraints, s.MatchConditions, s.Variables)}
	for i := range s.Validations {
		x := &s.Validations[i]
		k := check{program: v.compile(x.Expression, expression.Condition), text: strings.TrimSpace(x.Message), reason: metav1.StatusReasonInvalid}
		if k.text == "" {
			k.text = "failed expression: " + strings.TrimSpace(x.Expression)
		}
		if x.MessageExpression != "" {
			p := v.compile(x.MessageExpression, expression.Message)
			k.message = &p
		}
		if x.Reason != nil {
			k.reason = *x.Reason
		}
		v.checks = append(v.checks, k)
	}
	for i := range s.AuditAnnotations {
		x := &s.AuditAnnotations[i]
		v.audits = append(v.audits, audit{program: v.compile(x.ValueExpression, expression.Audit), key: o.Name + "/" + x.Key})
	}
	return v
}

// A validator is a ValidatingAdmissionPolicy with one binding.
type validator struct {
	*validation
	bound
	actions []admissionregistrationv1.ValidationAction
}

var _ policy.Policy = (*validator)(nil)

// A finding is what a policy has against a write.
type finding struct {
	message string
	reason  metav1.StatusReason
	index   int // of the validation
	failed  bool
	always  bool // it denies, whatever the binding's actions are
}

// Judge implements policy.Policy.
func (v *validator) Judge(ctx context.Context, in *policy.Input) (*policy.Verdict, error) {
	j := judgment{v: v, in: in}
	bounded, cancel := v.within(ctx, in)
	defer cancel()
	skipped, err := j.run(bounded)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if m := (*misconfiguration)(nil); errors.As(err, &m) {
		j.fail(finding{message: m.Error(), always: true})
		return j.verdict(m.policy)
	}
	if err != nil {
		j.fail(finding{message: err.Error(), always: true})
	}
	if skipped {
		return &policy.Verdict{Skipped: true}, nil
	}
	return j.verdict(false)
}

// A judgment is one policy's work on one write.
type judgment struct {
	v        *validator
	in       *policy.Input
	findings []finding
	ignored  []string // failures that the failurePolicy ignores
	audits   map[string][]string
}

// run gathers findings. It reports whether there was nothing to judge.
func (j *judgment) run(ctx context.Context) (skipped bool, err error) {
	v, r := j.v, j.in.Request
	row, err := v.matches(ctx, r)
	if err != nil {
		return false, &misconfiguration{true, err}
	}
	if row == nil {
		return true, nil
	}
	params, err := v.parameters(ctx, NamespaceOf(r))
	if err != nil {
		return false, err
	}
	s, err := newSubject(ctx, j.in, row, v.c.Authorize)
	if err != nil {
		return false, err
	}
	if s.namespace, err = v.namespaceFor(ctx, r); err != nil {
		return false, err
	}
	skipped = true
	for _, p := range params {
		s.params = p
		s.declare(v.env, v.variables)
		held, err := v.conditions.hold(s)
		switch {
		case err != nil:
			j.fail(finding{message: err.Error()})
		case held:
			j.check(s)
		}
		skipped = skipped && err == nil && !held
	}
	return skipped, nil
}

// check runs the validations and the audit annotations for one parameter.
func (j *judgment) check(s *subject) {
	left := policyBudget
	var found []finding
	failed := false
	for i := range j.v.checks {
		k := &j.v.checks[i]
		val, err := s.eval(&k.program, &left)
		if errors.As(err, new(*exhausted)) {
			j.fail(finding{message: err.Error()})
			return
		}
		switch {
		case err != nil:
			found = append(found, finding{message: err.Error(), index: i, failed: true})
		case val != types.True:
			found = append(found, finding{message: k.text, reason: k.reason, index: i})
		}
	}
	for i := range found {
		f := &found[i]
		if f.failed {
			j.fail(*f)
			continue
		}
		if !failed {
			failed = j.explain(s, f, &left)
		}
		if !failed {
			j.findings = append(j.findings, *f)
		}
	}
	j.annotate(s)
}

// explain gives a finding the message that the policy makes for it. It reports
// that messages cost too much; the finding is a failure then.
func (j *judgment) explain(s *subject, f *finding, left *budget) (failed bool) {
	p := j.v.checks[f.index].message
	if p == nil {
		return false
	}
	val, err := s.eval(p, left)
	if errors.As(err, new(*exhausted)) {
		j.fail(finding{message: "failed messageExpression: " + err.Error(), index: f.index})
		return true
	}
	if err != nil {
		return false
	}
	text, _ := val.Value().(string) // the type was checked when it was compiled
	if text = strings.TrimSpace(text); text != "" && len(text) <= celconfig.MaxEvaluatedMessageExpressionSizeBytes && !strings.Contains(text, "\n") {
		f.message = text
	}
	return false
}

// maxAudit is the length of the longest audit annotation.
const maxAudit = 10 * 1024

func (j *judgment) annotate(s *subject) {
	left := policyBudget
	for i := range j.v.audits {
		a := &j.v.audits[i]
		val, err := s.eval(&a.program, &left)
		if err != nil {
			j.fail(finding{message: err.Error(), always: !errors.As(err, new(*exhausted))})
			if errors.As(err, new(*exhausted)) {
				return
			}
			continue
		}
		if text := auditText(val); text != "" && !slices.Contains(j.audits[a.key], text) {
			if j.audits == nil {
				j.audits = map[string][]string{}
			}
			j.audits[a.key] = append(j.audits[a.key], text)
		}
	}
}

func auditText(val ref.Val) string {
	text, _ := val.Value().(string) // null is none
	text = strings.TrimSpace(text)
	return text[:min(len(text), maxAudit)]
}

// fail notes a failure as the failurePolicy says.
func (j *judgment) fail(f finding) {
	if j.v.ignore {
		j.ignored = append(j.ignored, f.message)
		return
	}
	f.failed, f.reason = true, metav1.StatusReasonInvalid
	j.findings = append(j.findings, f)
}

// verdict turns findings into an answer, as the binding's actions say.
func (j *judgment) verdict(policyAtFault bool) (*policy.Verdict, error) {
	out := &policy.Verdict{}
	var denies *finding
	var audited []failureAnnotation
	for i := range j.findings {
		f := &j.findings[i]
		for _, a := range j.v.actions {
			switch a {
			case admissionregistrationv1.Deny:
				denies = first(denies, f)
			case admissionregistrationv1.Warn:
				if !f.always {
					out.Warnings = append(out.Warnings, fmt.Sprintf("Validation failed for ValidatingAdmissionPolicy '%s' with binding '%s': %s", j.v.name, j.v.binding, f.message))
				}
			case admissionregistrationv1.Audit:
				if !f.always {
					audited = append(audited, failureAnnotation{f.message, j.v.name, j.v.binding, f.index, j.v.actions})
				}
			}
		}
		if f.always {
			denies = first(denies, f)
		}
	}
	out.Annotations = j.annotations(audited)
	if denies != nil {
		status := j.v.denial(j.in.Request, denies, policyAtFault)
		if denies.failed {
			return nil, &policy.Failure{Reason: "EvaluationFailed", Detail: denies.message, Status: status}
		}
		out.Denied, out.Message = status, denies.message
		return out, nil
	}
	if len(j.ignored) > 0 {
		out.Message = "ignored: " + strings.Join(j.ignored, "; ")
		if len(j.findings) == 0 && len(out.Annotations) == 0 {
			return nil, &policy.Failure{Reason: "EvaluationFailed", Detail: strings.Join(j.ignored, "; "), Ignore: true}
		}
	}
	return out, nil
}

func first(a, b *finding) *finding {
	if a != nil {
		return a
	}
	return b
}

// denial is the answer for the client.
func (v *validator) denial(r *admission.Request, f *finding, policyAtFault bool) *metav1.Status {
	message := fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%s' denied request: %s", v.name, v.binding, f.message)
	if policyAtFault {
		message = fmt.Sprintf("ValidatingAdmissionPolicy '%s' denied request: %s", v.name, f.message)
	}
	status := Forbidden(r, message)
	status.Reason, status.Code = f.reason, code(f.reason)
	status.Details.Causes = append(status.Details.Causes, metav1.StatusCause{Message: message})
	return status
}

// failuresKey is the audit annotation for what validations have found.
const failuresKey = "validation.policy.admission.k8s.io/validation_failure"

// maxFailures bounds the audit annotation.
const maxFailures = 50

// A failureAnnotation is an item of the audit annotation.
type failureAnnotation struct {
	Message           string                                     `json:"message"`
	Policy            string                                     `json:"policy"`
	Binding           string                                     `json:"binding"`
	ExpressionIndex   int                                        `json:"expressionIndex"`
	ValidationActions []admissionregistrationv1.ValidationAction `json:"validationActions"`
}

// annotations adds what this policy has to say to what others with the same keys
// have said before.
func (j *judgment) annotations(audited []failureAnnotation) map[string]string {
	if len(j.audits) == 0 && len(audited) == 0 {
		return nil
	}
	out := map[string]string{}
	before := j.in.Request.Annotations
	for key, values := range j.audits {
		said := before[key]
		for _, v := range values {
			switch {
			case said == "":
				said = v
			case !slices.Contains(strings.Split(said, ", "), v):
				said += ", " + v
			}
		}
		out[key] = said
	}
	if len(audited) == 0 {
		return out
	}
	var all []failureAnnotation
	if err := json.Unmarshal([]byte(before[failuresKey]), &all); err != nil {
		all = nil // nobody has said anything
	}
	all = append(all, audited...)
	if text, err := json.Marshal(all[:min(len(all), maxFailures)]); err == nil {
		out[failuresKey] = string(text)
	}
	return out
}
