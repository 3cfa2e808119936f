package wasmplugins

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/admission"
)

// A table is the plugins that a request goes through. It never changes: a new
// one takes its place.
type table struct {
	mutate, validate []*binding // sorted by order, then name
}

// A binding is an AdmissionPlugin as a request sees it.
type binding struct {
	name     string
	order    int32
	mutate   bool
	validate bool
	ignore   bool // failurePolicy

	rules      []admissionregistrationv1.RuleWithOperations
	namespaces labels.Selector // nil selects all
	objects    labels.Selector // nil selects all

	state *pluginState
}

// newBinding reads an AdmissionPlugin.
func newBinding(p *pluginsv1.AdmissionPlugin, s *pluginState) (*binding, error) {
	b := &binding{
		name: p.Name, order: p.Spec.Order, rules: p.Spec.Rules, state: s,
		mutate:   slices.Contains(p.Spec.Phases, pluginsv1.PhaseMutate),
		validate: slices.Contains(p.Spec.Phases, pluginsv1.PhaseValidate),
		ignore:   p.Spec.FailurePolicy == admissionregistrationv1.Ignore,
	}
	var err error
	if b.namespaces, err = selector(p.Spec.NamespaceSelector); err != nil {
		return nil, fmt.Errorf("namespaceSelector: %w", err)
	}
	if b.objects, err = selector(p.Spec.ObjectSelector); err != nil {
		return nil, fmt.Errorf("objectSelector: %w", err)
	}
	return b, nil
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

// newTable sorts the bindings into phases.
func newTable(all []*binding) *table {
	slices.SortFunc(all, func(a, b *binding) int {
		return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.name, b.name))
	})
	t := &table{}
	for _, b := range all {
		if b.mutate {
			t.mutate = append(t.mutate, b)
		}
		if b.validate {
			t.validate = append(t.validate, b)
		}
	}
	return t
}

// matches reports whether the plugin wants to see a request. The namespace's
// labels are asked for only if a selector needs them.
func (b *binding) matches(ctx context.Context, r *admission.Request, namespace namespaceLabels) (bool, error) {
	if !slices.ContainsFunc(b.rules, func(rule admissionregistrationv1.RuleWithOperations) bool { return ruleMatches(&rule, r) }) {
		return false, nil
	}
	if b.objects != nil && !selectsObject(b.objects, r.Object) && !selectsObject(b.objects, r.OldObject) {
		return false, nil
	}
	if b.namespaces == nil {
		return true, nil
	}
	if isNamespace(r) {
		obj := r.Object
		if obj == nil {
			obj = r.OldObject
		}
		return selectsObject(b.namespaces, obj), nil
	}
	if !r.Resource.Namespaced {
		return true, nil
	}
	set, err := namespace(ctx, r.Namespace)
	if err != nil {
		return false, err
	}
	return b.namespaces.Matches(set), nil
}

// namespaceLabels returns the labels of a namespace.
type namespaceLabels func(ctx context.Context, name string) (labels.Set, error)

func isNamespace(r *admission.Request) bool {
	return r.Resource.Group == "" && r.Resource.Plural == "namespaces"
}

func selectsObject(s labels.Selector, obj runtime.Object) bool {
	o, ok := obj.(metav1.Object)
	return ok && s.Matches(labels.Set(o.GetLabels()))
}

// ruleMatches has the meaning of a webhook's rule.
func ruleMatches(rule *admissionregistrationv1.RuleWithOperations, r *admission.Request) bool {
	op := admissionregistrationv1.OperationType(r.Operation)
	return (slices.Contains(rule.Operations, op) || slices.Contains(rule.Operations, admissionregistrationv1.OperationAll)) &&
		oneOf(rule.APIGroups, r.Resource.Group) && oneOf(rule.APIVersions, r.Resource.Version) &&
		scopeMatches(rule.Scope, r.Resource.Namespaced) &&
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
