package bootstrap

import (
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/auth/rbac/validation"

	"github.com/proa-project/proa/api"
)

// A Step is what is to be done about one object.
type Step int

// The steps.
const (
	Keep Step = iota
	Create
	Update
	// Replace deletes and creates: the role of a binding cannot be changed.
	Replace
)

// Reconcile returns what makes an object of a cluster, nil if it is not there,
// have all that the wanted one has, and the object to write. What a user has
// added stays, and an object with the annotation
// rbac.authorization.kubernetes.io/autoupdate: "false" is left alone. It is
// pure: neither object is changed.
func Reconcile(have, want api.Object) (Step, api.Object) {
	if have == nil {
		return Create, want
	}
	if have.GetAnnotations()[autoUpdate] == "false" {
		return Keep, nil
	}
	next, ok := have.DeepCopyObject().(api.Object)
	if !ok {
		return Keep, nil
	}
	next.SetLabels(merge(have.GetLabels(), want.GetLabels()))
	next.SetAnnotations(merge(have.GetAnnotations(), want.GetAnnotations()))
	switch n := next.(type) {
	case *rbacv1.Role:
		if w, ok := want.(*rbacv1.Role); ok {
			n.Rules = addRules(n.Rules, w.Rules)
		}
	case *rbacv1.ClusterRole:
		if w, ok := want.(*rbacv1.ClusterRole); ok {
			reconcileClusterRole(n, w)
		}
	case *rbacv1.RoleBinding:
		if w, ok := want.(*rbacv1.RoleBinding); ok {
			if n.RoleRef != w.RoleRef {
				return Replace, want
			}
			n.Subjects = addSubjects(n.Subjects, w.Subjects)
		}
	case *rbacv1.ClusterRoleBinding:
		if w, ok := want.(*rbacv1.ClusterRoleBinding); ok {
			if n.RoleRef != w.RoleRef {
				return Replace, want
			}
			n.Subjects = addSubjects(n.Subjects, w.Subjects)
		}
	}
	if equality.Semantic.DeepEqual(have, next) {
		return Keep, nil
	}
	return Update, next
}

// reconcileClusterRole leaves the rules of roles that gather others' to whoever
// gathers.
func reconcileClusterRole(next, want *rbacv1.ClusterRole) {
	if want.AggregationRule == nil {
		next.Rules = addRules(next.Rules, want.Rules)
		return
	}
	if next.AggregationRule == nil {
		next.AggregationRule = want.AggregationRule.DeepCopy()
		return
	}
	for _, s := range want.AggregationRule.ClusterRoleSelectors {
		if !slices.ContainsFunc(next.AggregationRule.ClusterRoleSelectors, func(t metav1.LabelSelector) bool { return equality.Semantic.DeepEqual(s, t) }) {
			next.AggregationRule.ClusterRoleSelectors = append(next.AggregationRule.ClusterRoleSelectors, s)
		}
	}
}

// merge adds what is lacking.
func merge(have, want map[string]string) map[string]string {
	out := make(map[string]string, len(have)+len(want))
	maps.Copy(out, want)
	maps.Copy(out, have)
	return out
}

// addRules adds what the rules do not cover of those that are wanted.
func addRules(have, want []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	if ok, missing := validation.Covers(have, want); !ok {
		have = append(slices.Clone(have), missing...)
	}
	return have
}

func addSubjects(have, want []rbacv1.Subject) []rbacv1.Subject {
	for _, s := range want {
		if !slices.Contains(have, s) {
			have = append(slices.Clone(have), s)
		}
	}
	return have
}
