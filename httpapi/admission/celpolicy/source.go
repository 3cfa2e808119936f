package celpolicy

import (
	"cmp"
	"slices"
	"strconv"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/httpapi/admission/policy"
)

// A Source has the policies of a Config. It is safe for concurrent use.
type Source struct {
	policy.Lazy

	c *Config

	// The fields below belong to whoever makes the set.
	validating map[types.UID]*compiled[*validation]
	mutating   map[types.UID]*compiled[*mutation]
}

// compiled is a policy as it was when it was compiled.
type compiled[T any] struct {
	version string // of the object
	result  T
}

// New returns a Source. Its Invalidate says that a policy or a binding has
// changed.
func New(c Config) *Source {
	s := &Source{c: &c}
	s.What, s.Ready = "admission policies", c.Ready
	s.Build = func() *policy.Set { return &policy.Set{Mutate: s.mutators(), Validate: s.validators()} }
	return s
}

func (s *Source) validators() []policy.Policy {
	next := map[types.UID]*compiled[*validation]{}
	byName := map[string]*validation{}
	for _, o := range list(s.c.ValidatingPolicies) {
		v := reuse(s.validating, next, o, func() *validation { return newValidation(s.c, o) })
		byName[o.Name] = v
	}
	s.validating = next
	var out []policy.Policy
	for _, b := range byNames(list(s.c.ValidatingBindings)) {
		if v := byName[b.Spec.PolicyName]; v != nil {
			out = append(out, &validator{validation: v, bound: v.bind(policy.ValidatingAdmissionPolicy, b, b.Spec.ParamRef, b.Spec.MatchResources), actions: b.Spec.ValidationActions})
		}
	}
	return out
}

func (s *Source) mutators() []policy.Policy {
	next := map[types.UID]*compiled[*mutation]{}
	byName := map[string]*mutation{}
	for _, o := range list(s.c.MutatingPolicies) {
		m := reuse(s.mutating, next, o, func() *mutation { return newMutation(s.c, o) })
		byName[o.Name] = m
	}
	s.mutating = next
	var out []policy.Policy
	for _, b := range byNames(list(s.c.MutatingBindings)) {
		if m := byName[b.Spec.PolicyName]; m != nil {
			out = append(out, &mutator{mutation: m, bound: m.bind(policy.MutatingAdmissionPolicy, b, b.Spec.ParamRef, b.Spec.MatchResources)})
		}
	}
	return out
}

func list[T any](f func() []T) []T {
	if f == nil {
		return nil
	}
	return f()
}

func byNames[T metav1.Object](list []T) []T {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b T) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return list
}

// reuse returns what an object was compiled to before, or compiles it.
func reuse[T any](old, next map[types.UID]*compiled[T], o metav1.Object, compile func() T) T {
	key := types.UID(o.GetName() + "/" + string(o.GetUID()))
	c := old[key]
	if c == nil || c.version != o.GetResourceVersion() || c.version == "" {
		c = &compiled[T]{version: o.GetResourceVersion(), result: compile()}
	}
	next[key] = c
	return c.result
}

// orderOf returns the place in the order that an object says, or else.
func orderOf(o metav1.Object, otherwise int32) int32 {
	n, err := strconv.ParseInt(o.GetAnnotations()[policy.OrderAnnotation], 10, 32)
	if err != nil {
		return otherwise
	}
	return int32(n)
}

// ignoring reports whether writes go on without a policy that fails.
func ignoring(p *admissionregistrationv1.FailurePolicyType) bool {
	return p != nil && *p == admissionregistrationv1.Ignore
}
