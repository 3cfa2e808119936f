// Package bootstrap has the roles and bindings that every cluster has from the
// start, and says how those of a cluster are brought up to them.
package bootstrap

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/api"
)

// Marks of what this package has made.
const (
	// bootstrapping labels it.
	bootstrapping = "kubernetes.io/bootstrapping"
	// autoUpdate is the annotation by which a user can keep an object from
	// being brought up to date, with "false".
	autoUpdate = rbacv1.AutoUpdateAnnotationKey
	// aggregateTo begins the labels by which rules of one role become rules
	// of another.
	aggregateTo = "rbac.authorization.k8s.io/aggregate-to-"
)

// Objects returns the roles and bindings. They belong to the caller.
func Objects() []api.Object {
	var out []api.Object
	for name, rules := range clusterRoles() {
		out = append(out, &rbacv1.ClusterRole{ObjectMeta: meta("", name), Rules: rules})
	}
	for name, to := range map[string]string{"admin": "", "edit": "admin", "view": "edit"} {
		r := &rbacv1.ClusterRole{ObjectMeta: meta("", name), AggregationRule: &rbacv1.AggregationRule{
			ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{aggregateTo + name: "true"}}},
		}}
		if to != "" {
			r.Labels[aggregateTo+to] = "true"
		}
		out = append(out, r)
	}
	for name, rules := range map[string][]rbacv1.PolicyRule{"admin": adminRules(), "edit": editRules(), "view": viewRules()} {
		r := &rbacv1.ClusterRole{ObjectMeta: meta("", "system:aggregate-to-"+name), Rules: rules}
		r.Labels[aggregateTo+name] = "true"
		out = append(out, r)
	}
	for name, subjects := range bindings() {
		out = append(out, &rbacv1.ClusterRoleBinding{
			ObjectMeta: meta("", name), Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		})
	}
	return append(out, readerOfRequestHeaders()...)
}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name,
		Labels: map[string]string{bootstrapping: "rbac-defaults"}, Annotations: map[string]string{autoUpdate: "true"},
	}
}

// rule makes a rule of words that are separated by spaces. The group without a
// name is "core".
func rule(verbs, groups, resources string, names ...string) rbacv1.PolicyRule {
	g := strings.Fields(groups)
	for i := range g {
		if g[i] == "core" {
			g[i] = ""
		}
	}
	return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), APIGroups: g, Resources: strings.Fields(resources), ResourceNames: names}
}

func paths(verbs, urls string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), NonResourceURLs: strings.Fields(urls)}
}

func users(names ...string) (out []rbacv1.Subject) {
	for _, n := range names {
		out = append(out, rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: n})
	}
	return out
}

func groups(names ...string) (out []rbacv1.Subject) {
	for _, n := range names {
		out = append(out, rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: n})
	}
	return out
}
