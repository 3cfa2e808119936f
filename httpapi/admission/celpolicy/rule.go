package celpolicy

import (
	"context"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/api/expression"
	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/admission/match"
	"github.com/proa-project/proa/httpapi/admission/policy"
)

// A rule is what policies of both kinds have, compiled.
type rule struct {
	c          *Config
	name       string
	order      int32
	ignore     bool
	kind       *admissionregistrationv1.ParamKind
	match      *matcher
	conditions *Conditions
	variables  []variable
	env        *expression.Env
	// namespace says that an expression looks at the request's namespace, loops
	// that one may take long.
	namespace, loops bool
}

// A variable is one that a policy declares.
type variable struct {
	name string
	program
}

// A program is an expression that may not have compiled.
type program struct {
	*expression.Program
	source string
	err    error
}

func newRule(
	c *Config, o metav1.Object, failure *admissionregistrationv1.FailurePolicyType, kind *admissionregistrationv1.ParamKind,
	constraints *admissionregistrationv1.MatchResources, conditions []admissionregistrationv1.MatchCondition,
	variables []admissionregistrationv1.Variable,
) rule {
	r := rule{
		c: c, name: o.GetName(), order: orderOf(o, 0), ignore: ignoring(failure), kind: kind, match: newMatcher(constraints),
		conditions: newConditions(conditions, kind != nil), env: expression.New(expression.Options{Params: kind != nil}),
	}
	for i := range variables {
		v := &variables[i]
		p, err := r.env.Declare(v.Name, v.Expression)
		r.variables = append(r.variables, variable{name: v.Name, program: r.note(program{p, v.Expression, err})})
	}
	r.loops = r.loops || r.conditions.loop()
	return r
}

// within ends the context with the request's budget, if expressions may need
// that long. Cancel is to be called.
func (r *rule) within(ctx context.Context, in *policy.Input) (_ context.Context, cancel context.CancelFunc) {
	if !r.loops || in.Deadline.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, in.Deadline)
}

// compile compiles one expression of the policy.
func (r *rule) compile(source string, use expression.Use) program {
	p, err := r.env.Compile(source, use)
	return r.note(program{p, source, err})
}

// note remembers what a program looks at.
func (r *rule) note(p program) program {
	if p.Program != nil {
		r.namespace = r.namespace || p.Sees[expression.Namespace]
		r.loops = r.loops || p.Loops
	}
	return p
}

// A bound is a rule with one binding.
type bound struct {
	rule    *rule
	id      policy.ID
	binding string
	order   int32
	params  *admissionregistrationv1.ParamRef
	match   *matcher // nil matches all
}

func (r *rule) bind(kind string, b metav1.Object, params *admissionregistrationv1.ParamRef, resources *admissionregistrationv1.MatchResources) bound {
	return bound{
		rule: r, id: policy.ID{Kind: kind, Name: r.name + "/" + b.GetName()}, binding: b.GetName(),
		order: orderOf(b, r.order), params: params, match: newMatcher(resources),
	}
}

// ID implements policy.Policy.
func (b *bound) ID() policy.ID { return b.id }

// Order implements policy.Policy.
func (b *bound) Order() int32 { return b.order }

// Matches implements policy.Policy. What cannot be decided matches, for Judge to
// fail as the failurePolicy says.
func (b *bound) Matches(ctx context.Context, r *admission.Request) (bool, error) {
	row, err := b.matches(ctx, r)
	return row != nil || err != nil, ctx.Err()
}

// matches returns the row as which the policy wants to see a write; nil if it
// does not want to.
func (b *bound) matches(ctx context.Context, r *admission.Request) (*api.Resource, error) {
	row, err := b.rule.match.matches(ctx, r, b.rule.c.namespaceLabels)
	if row == nil || err != nil {
		return nil, err
	}
	if other, err := b.match.matches(ctx, r, b.rule.c.namespaceLabels); other == nil || err != nil {
		return nil, err
	}
	return row, nil
}

// A matcher is a MatchResources.
type matcher struct {
	*match.Matcher
	equivalent bool // also what is the same as another kind
	err        error
}

// newMatcher returns the matcher of m, which may be nil.
func newMatcher(m *admissionregistrationv1.MatchResources) *matcher {
	if m == nil {
		return nil
	}
	all := []match.Rule{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}},
	}}}
	if len(m.ResourceRules) > 0 {
		all = named(m.ResourceRules)
	}
	x, err := match.New(match.Spec{Rules: all, Exclude: named(m.ExcludeResourceRules), Namespaces: m.NamespaceSelector, Objects: m.ObjectSelector})
	return &matcher{Matcher: x, err: err, equivalent: m.MatchPolicy == nil || *m.MatchPolicy == admissionregistrationv1.Equivalent}
}

func named(list []admissionregistrationv1.NamedRuleWithOperations) []match.Rule {
	rules := make([]match.Rule, len(list))
	for i := range list {
		rules[i] = match.Rule{RuleWithOperations: list[i].RuleWithOperations, Names: list[i].ResourceNames}
	}
	return rules
}

func (m *matcher) matches(ctx context.Context, r *admission.Request, namespace match.NamespaceLabels) (*api.Resource, error) {
	switch {
	case m == nil:
		return r.Resource, nil
	case m.err != nil:
		return nil, m.err
	}
	return Matches(ctx, m.Matcher, m.equivalent, r, namespace)
}

// Matches returns the row as which a write matches: its own, or, if equivalents
// count, that of another version or group that shows the same objects. It is nil
// if the write does not match.
func Matches(ctx context.Context, m *match.Matcher, equivalents bool, r *admission.Request, namespace match.NamespaceLabels) (*api.Resource, error) {
	if Exempt(r) {
		return nil, nil
	}
	ok, err := m.Matches(ctx, r, namespace)
	switch {
	case err != nil:
		return nil, err
	case ok:
		return r.Resource, nil
	case !equivalents:
		return nil, nil
	}
	for _, row := range equivalentRows()[r.Resource] {
		other := *r
		other.Resource = row
		if ok, err = m.Matches(ctx, &other, namespace); err != nil {
			return nil, err
		}
		if ok {
			return row, nil
		}
	}
	return nil, nil
}

// Exempt says that a write is never shown to policies and webhooks, so that a
// cluster can always be mended: that of what they are made of, and the questions
// of who somebody is and may do.
func Exempt(r *admission.Request) bool {
	switch r.Resource.Group {
	case admissionregistrationv1.GroupName, pluginsv1.GroupName, authenticationv1.GroupName, authorizationv1.GroupName:
		return true
	}
	return false
}

// equivalentRows are the rows that show the same objects as another.
//
//nolint:gochecknoglobals // built once, never changed
var equivalentRows = sync.OnceValue(func() map[*api.Resource][]*api.Resource {
	m := map[*api.Resource][]*api.Resource{}
	for _, a := range api.Resources() {
		for _, b := range api.Resources() {
			if a != b && a.Stored() == b.Stored() {
				m[a] = append(m[a], b)
			}
		}
	}
	return m
})

// namespaceFor returns the namespace of a write for expressions; nil if none
// looks at it or the write is in none.
func (r *rule) namespaceFor(ctx context.Context, w *admission.Request) (*corev1.Namespace, error) {
	if !r.namespace || !w.Resource.Namespaced || w.Namespace == "" {
		return nil, nil
	}
	ns, err := r.c.namespace(ctx, w.Namespace)
	if err != nil {
		return nil, err
	}
	ns = ns.DeepCopy()
	ns.ManagedFields = nil
	return ns, nil
}
