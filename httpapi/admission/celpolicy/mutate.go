package celpolicy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"google.golang.org/protobuf/types/known/structpb"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	celmutation "k8s.io/apiserver/pkg/cel/mutation"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"

	"github.com/proa-project/proa/api/expression"
	"github.com/proa-project/proa/httpapi/admission/policy"
)

// A mutation is a MutatingAdmissionPolicy, compiled.
type mutation struct {
	rule
	steps []step
	again bool
}

// A step is one of a policy's mutations.
type step struct {
	program
	apply bool // an apply configuration, not a patch
}

func newMutation(c *Config, o *admissionregistrationv1.MutatingAdmissionPolicy) *mutation {
	s := &o.Spec
	m := &mutation{
		rule:  newRule(c, o, s.FailurePolicy, s.ParamKind, s.MatchConstraints, s.MatchConditions, s.Variables),
		again: s.ReinvocationPolicy == admissionregistrationv1.IfNeededReinvocationPolicy,
	}
	for i := range s.Mutations {
		x := &s.Mutations[i]
		switch {
		case x.PatchType == admissionregistrationv1.PatchTypeApplyConfiguration && x.ApplyConfiguration != nil:
			m.steps = append(m.steps, step{m.compile(strings.TrimSpace(x.ApplyConfiguration.Expression), expression.Apply), true})
		case x.PatchType == admissionregistrationv1.PatchTypeJSONPatch && x.JSONPatch != nil:
			m.steps = append(m.steps, step{m.compile(strings.TrimSpace(x.JSONPatch.Expression), expression.Patch), false})
		}
	}
	return m
}

// A mutator is a MutatingAdmissionPolicy with one binding.
type mutator struct {
	*mutation
	bound
}

var _ policy.Policy = (*mutator)(nil)

// Reinvoke says that the policy wants to see what others change after it.
func (m *mutator) Reinvoke() bool { return m.again }

// Ignores says that a policy that breaks the object is passed over.
func (m *mutator) Ignores() bool { return m.ignore }

// Judge implements policy.Policy.
func (m *mutator) Judge(ctx context.Context, in *policy.Input) (*policy.Verdict, error) {
	e := edit{m: m, in: in}
	bounded, cancel := m.within(ctx, in)
	defer cancel()
	skipped, err := e.run(bounded)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		e.faults = append(e.faults, err)
	}
	if len(e.faults) > 0 {
		if f := e.failure(); !m.ignore || !e.changed {
			return nil, f
		}
	}
	if !e.changed {
		return &policy.Verdict{Skipped: skipped}, nil
	}
	out, err := json.Marshal(e.object)
	if err != nil {
		return nil, &policy.Failure{Reason: "BadReply", Detail: err.Error(), Ignore: m.ignore}
	}
	return &policy.Verdict{Object: out}, nil
}

// An edit is one policy's work on one object.
type edit struct {
	m       *mutator
	in      *policy.Input
	object  map[string]any
	changed bool
	faults  []error
}

// run makes the changes. It reports whether there was nothing to do.
func (e *edit) run(ctx context.Context) (skipped bool, err error) {
	m, r := e.m, e.in.Request
	row, err := m.matches(ctx, r)
	if err != nil {
		return false, &misconfiguration{true, err}
	}
	if row == nil || len(e.in.Object) == 0 {
		return true, nil
	}
	params, err := m.parameters(ctx, NamespaceOf(r))
	if err != nil {
		return false, err
	}
	s, err := newSubject(ctx, e.in, row, m.c.Authorize)
	if err != nil {
		return false, err
	}
	if s.namespace, err = m.namespaceFor(ctx, r); err != nil {
		return false, err
	}
	e.object = s.object
	skipped = true
	for _, p := range params {
		s.params = p
		s.declare(m.env, m.variables)
		held, fault := m.conditions.hold(s)
		if fault != nil {
			e.faults = append(e.faults, &unevaluated{fault})
			skipped = false
		}
		if fault != nil || !held {
			continue
		}
		skipped = false
		for i := range m.steps {
			if fault = e.step(s, &m.steps[i]); fault != nil {
				e.faults = append(e.faults, &unevaluated{fault})
			}
		}
	}
	if e.changed && row != r.Resource {
		e.object, err = as(r.Resource, row, e.object)
	}
	return skipped, err
}

// unevaluated is what went wrong with an expression or its result.
type unevaluated struct{ error }

// step makes one change.
func (e *edit) step(s *subject, x *step) error {
	if x.err != nil {
		return x.err
	}
	left := policyBudget
	val, err := s.eval(&x.program, &left)
	if err != nil {
		return err
	}
	var next map[string]any
	if x.apply {
		next, err = e.apply(s, val)
	} else {
		next, err = patched(e.object, val)
	}
	if err != nil || reflect.DeepEqual(next, e.object) {
		return err
	}
	if next, err = e.defaulted(next); err != nil {
		return err
	}
	e.object, e.changed = next, true
	s.object = next
	s.declare(e.m.env, e.m.variables) // they may look at the object
	return nil
}

// defaulted fills in the defaults of a changed object.
func (e *edit) defaulted(object map[string]any) (map[string]any, error) {
	if e.m.c.Default == nil {
		return object, nil
	}
	return e.m.c.defaulted(e.in.Request, object)
}

// patched returns an object after a list of JSONPatch.
func patched(object map[string]any, val ref.Val) (map[string]any, error) {
	list, ok := val.(traits.Lister)
	if !ok {
		return nil, errors.New("type mismatch: JSONPatchType.expression should evaluate to array")
	}
	ops := []operation{}
	for it := list.Iterator(); it.HasNext() == types.True; {
		op, err := operationOf(it.Next())
		if err != nil {
			return nil, err
		}
		ops = append(ops, op)
	}
	text, err := json.Marshal(ops)
	if err != nil {
		return nil, fmt.Errorf("JSON Patch: %w", err)
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		return nil, fmt.Errorf("JSON Patch: %w", err)
	}
	before, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("failed to create JSON patch: %w", err)
	}
	after, err := patch.Apply(before)
	if errors.Is(err, jsonpatch.ErrTestFailed) {
		return object, nil
	}
	if err != nil {
		return nil, fmt.Errorf("JSON Patch: %w", err)
	}
	var out map[string]any
	return out, utiljson.Unmarshal(after, &out)
}

// An operation is one of RFC 6902.
type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	From  string          `json:"from,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
}

func operationOf(val ref.Val) (operation, error) {
	native, err := val.ConvertToNative(reflect.TypeFor[*celmutation.JSONPatchVal]())
	if err != nil {
		return operation{}, fmt.Errorf("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch: %w", err)
	}
	p, ok := native.(*celmutation.JSONPatchVal)
	if !ok {
		return operation{}, fmt.Errorf("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch, got element of %T", native)
	}
	op := operation{Op: p.Op, Path: p.Path, From: p.From}
	if p.Val == nil {
		return op, nil
	}
	if obj, ok := p.Val.(*dynamic.ObjectVal); ok {
		if err = obj.CheckTypeNamesMatchFieldPathNames(); err != nil {
			return operation{}, fmt.Errorf("type mismatch: %w", err)
		}
	}
	v, err := p.Val.ConvertToNative(reflect.TypeFor[*structpb.Value]())
	if err == nil {
		op.Value, err = json.Marshal(v)
	}
	if err != nil {
		return operation{}, fmt.Errorf("JSONPath valueExpression evaluated to a type that could not marshal to JSON: %w", err)
	}
	return op, nil
}

// failure is what has gone wrong, with the answer for the client.
func (e *edit) failure() *policy.Failure {
	status := Forbidden(e.in.Request, "admission request denied by policy")
	status.Message = ""
	for _, err := range e.faults {
		text := fmt.Sprintf("policy '%s' with binding '%s' denied request: %s", e.m.name, e.m.binding, err.Error())
		if m := (*misconfiguration)(nil); errors.As(err, &m) && m.policy {
			text = fmt.Sprintf("policy %q denied request: %s", e.m.name, err.Error())
		}
		if status.Message == "" {
			status.Message = text
			if errors.As(err, new(*unevaluated)) {
				status.Reason = metav1.StatusReasonInvalid
			}
		}
		status.Details.Causes = append(status.Details.Causes, metav1.StatusCause{Message: text})
	}
	return &policy.Failure{Reason: "EvaluationFailed", Detail: errors.Join(e.faults...).Error(), Ignore: e.m.ignore, Status: status}
}
