package clusterrole

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func rule(verb string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{""}, Resources: []string{"pods"}}
}

func role(name, label string, verbs ...string) *rbacv1.ClusterRole {
	r := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: "true"}}}
	for _, v := range verbs {
		r.Rules = append(r.Rules, rule(v))
	}
	return r
}

func TestGather(t *testing.T) {
	all := []*rbacv1.ClusterRole{role("c", "edit", "update", "get"), role("b", "view", "list", "get"), role("a", "view", "watch"), role("view", "view", "delete"), role("x", "other", "create")}
	for _, tt := range []struct {
		name      string
		selectors []metav1.LabelSelector
		want      []rbacv1.PolicyRule
		bad       bool
	}{
		{"one", []metav1.LabelSelector{{MatchLabels: map[string]string{"view": "true"}}}, []rbacv1.PolicyRule{rule("watch"), rule("list"), rule("get")}, false},
		{"two, each rule once", []metav1.LabelSelector{{MatchLabels: map[string]string{"edit": "true"}}, {MatchLabels: map[string]string{"view": "true"}}}, []rbacv1.PolicyRule{rule("update"), rule("get"), rule("watch"), rule("list")}, false},
		{"none", []metav1.LabelSelector{{MatchLabels: map[string]string{"none": "true"}}}, []rbacv1.PolicyRule{}, false},
		{"no selector", nil, []rbacv1.PolicyRule{}, false},
		{"bad selector", []metav1.LabelSelector{{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}}, nil, true},
	} {
		r := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "view"}, AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: tt.selectors}}
		got, err := gather(r, all)
		if d := cmp.Diff(tt.want, got); d != "" || (err != nil) != tt.bad {
			t.Errorf("%s: %s %v", tt.name, d, err)
		}
	}
}
