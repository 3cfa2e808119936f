// Package match decides whether a write is one that a policy wants to see, by
// the rules and selectors that webhooks, CEL policies and plugins share.
package match

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/proa-project/proa/httpapi/admission"
)

// A Rule is a rule of a webhook, with the names that policies may narrow it
// down to; without names it is about all objects.
type Rule struct {
	admissionregistrationv1.RuleWithOperations
	Names []string
}

// Rules turns the rules of webhooks and plugins into Rules.
func Rules(list []admissionregistrationv1.RuleWithOperations) []Rule {
	rules := make([]Rule, len(list))
	for i := range list {
		rules[i].RuleWithOperations = list[i]
	}
	return rules
}

// Spec says which writes match: those of one of the rules and none of the
// exclusions, if the selectors, which may be nil, select them.
type Spec struct {
	Rules, Exclude      []Rule
	Namespaces, Objects *metav1.LabelSelector
}

// A Matcher is a Spec ready for use. It never changes.
type Matcher struct {
	rules, exclude      []Rule
	namespaces, objects labels.Selector // nil selects all
}

// NamespaceLabels returns the labels of a namespace; none if it is not there.
type NamespaceLabels func(ctx context.Context, name string) (labels.Set, error)

// New returns the Matcher of a Spec. The error is about a selector.
func New(s Spec) (*Matcher, error) {
	m := &Matcher{rules: s.Rules, exclude: s.Exclude}
	var err error
	if m.namespaces, err = selector(s.Namespaces); err != nil {
		return nil, fmt.Errorf("namespaceSelector: %w", err)
	}
	if m.objects, err = selector(s.Objects); err != nil {
		return nil, fmt.Errorf("objectSelector: %w", err)
	}
	return m, nil
}

func selector(s *metav1.LabelSelector) (labels.Selector, error) {
	if s == nil {
		return nil, nil
	}
	sel, err := metav1.LabelSelectorAsSelector(s)
	if err != nil || sel.Empty() {
		return nil, err
	}
	return sel, nil
}

// Matches reports whether a write matches. The namespace's labels are asked for
// only if a selector needs them; the error is that of asking.
func (m *Matcher) Matches(ctx context.Context, r *admission.Request, namespace NamespaceLabels) (bool, error) {
	if !anyOf(m.rules, r) || anyOf(m.exclude, r) {
		return false, nil
	}
	if m.objects != nil && !selectsObject(m.objects, r.Object) && !selectsObject(m.objects, r.OldObject) {
		return false, nil
	}
	return SelectsNamespace(ctx, m.namespaces, r, namespace)
}

// SelectsNamespace reports whether a selector, which may be nil, selects the
// namespace of a write: for a Namespace its own labels, and for what is in none
// always.
func SelectsNamespace(ctx context.Context, s labels.Selector, r *admission.Request, namespace NamespaceLabels) (bool, error) {
	if s == nil {
		return true, nil
	}
	if r.Resource.Group == "" && r.Resource.Plural == "namespaces" {
		obj := r.Object
		if obj == nil || r.Subresource != "" {
			obj = r.OldObject
		}
		return selectsObject(s, obj), nil
	}
	if !r.Resource.Namespaced {
		return true, nil
	}
	set, err := namespace(ctx, r.Namespace)
	if err != nil {
		return false, err
	}
	return s.Matches(set), nil
}

func selectsObject(s labels.Selector, obj runtime.Object) bool {
	o, ok := obj.(metav1.Object)
	return ok && s.Matches(labels.Set(o.GetLabels()))
}

func anyOf(rules []Rule, r *admission.Request) bool {
	return slices.ContainsFunc(rules, func(rule Rule) bool { return rule.matches(r) })
}

func (rule *Rule) matches(r *admission.Request) bool {
	op := admissionregistrationv1.OperationType(r.Operation)
	return (slices.Contains(rule.Operations, op) || slices.Contains(rule.Operations, admissionregistrationv1.OperationAll)) &&
		oneOf(rule.APIGroups, r.Resource.Group) && oneOf(rule.APIVersions, r.Resource.Version) &&
		scopeMatches(rule.Scope, r.Resource.Namespaced) &&
		(len(rule.Names) == 0 || slices.Contains(rule.Names, r.Name)) &&
		slices.ContainsFunc(rule.Resources, func(want string) bool {
			resource, sub, _ := strings.Cut(want, "/")
			return (resource == "*" || resource == r.Resource.Plural) && (sub == "*" || sub == r.Subresource)
		})
}

func oneOf(list []string, s string) bool {
	return slices.Contains(list, s) || slices.Contains(list, "*")
}

func scopeMatches(scope *admissionregistrationv1.ScopeType, namespaced bool) bool {
	switch {
	case scope == nil || *scope == admissionregistrationv1.AllScopes:
		return true
	case *scope == admissionregistrationv1.NamespacedScope:
		return namespaced
	default:
		return !namespaced
	}
}
