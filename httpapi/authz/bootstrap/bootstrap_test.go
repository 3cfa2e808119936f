package bootstrap_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/api/defaulting"
	"github.com/proa-project/proa/api/validation"
	"github.com/proa-project/proa/httpapi/authz/bootstrap"
)

func key(o api.Object) string {
	return api.ByType(o).Plural + "/" + o.GetNamespace() + "/" + o.GetName()
}

// TestObjects wants valid objects, each of its own name, that need no more to
// be done about, and bindings of roles that are there.
func TestObjects(t *testing.T) {
	seen := map[string]bool{}
	for _, o := range bootstrap.Objects() {
		if seen[key(o)] {
			t.Errorf("%s is there twice", key(o))
		}
		seen[key(o)] = true
		made, ok := o.DeepCopyObject().(api.Object)
		if !ok {
			t.Fatal(o)
		}
		defaulting.Default(made)
		if d := cmp.Diff(o, made); d != "" {
			t.Errorf("%s is defaulted: %s", key(o), d)
		}
		if errs := validation.Create(o); len(errs) > 0 {
			t.Errorf("%s: %v", key(o), errs)
		}
		if step, next := bootstrap.Reconcile(made, o); step != bootstrap.Keep || next != nil {
			t.Errorf("%s is not enough for itself: %d %v", key(o), step, next)
		}
		if step, next := bootstrap.Reconcile(nil, o); step != bootstrap.Create || next != o {
			t.Errorf("%s: %d", key(o), step)
		}
	}
	for _, o := range bootstrap.Objects() {
		if b, ok := o.(*rbacv1.ClusterRoleBinding); ok && !seen["clusterroles//"+b.RoleRef.Name] {
			t.Errorf("%s is bound to nothing", b.Name)
		}
	}
	for _, name := range []string{"cluster-admin", "admin", "edit", "view", "system:discovery", "system:basic-user", "system:public-info-viewer"} {
		if !seen["clusterroles//"+name] {
			t.Errorf("no %s", name)
		}
	}
}

func role(autoupdate string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	r := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "r", Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: autoupdate}}, Rules: rules}
	return r
}

func rule(verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: verbs, APIGroups: []string{""}, Resources: []string{"pods"}}
}

func gathering(labels ...string) *rbacv1.ClusterRole {
	r := role("true")
	r.AggregationRule = &rbacv1.AggregationRule{}
	for _, l := range labels {
		r.AggregationRule.ClusterRoleSelectors = append(r.AggregationRule.ClusterRoleSelectors, metav1.LabelSelector{MatchLabels: map[string]string{l: "true"}})
	}
	return r
}

func bound(role string, users ...string) *rbacv1.ClusterRoleBinding {
	b := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b", Annotations: map[string]string{}, Labels: map[string]string{}}, RoleRef: rbacv1.RoleRef{Name: role}}
	for _, u := range users {
		b.Subjects = append(b.Subjects, rbacv1.Subject{Kind: "User", Name: u})
	}
	return b
}

func TestReconcile(t *testing.T) {
	labeled := role("true", rule("get"))
	labeled.Labels = map[string]string{"mine": "yes"}
	both := role("true", rule("get"), rule("list"))
	both.Labels = map[string]string{"mine": "yes"}
	filled := gathering("a")
	filled.Rules = []rbacv1.PolicyRule{rule("get")}
	grown := gathering("a", "b")
	grown.Rules = filled.Rules
	for _, tt := range []struct {
		name       string
		have, want api.Object
		step       bootstrap.Step
		next       api.Object
	}{
		{"enough", role("true", rule("*")), role("true", rule("get")), bootstrap.Keep, nil},
		{"more rules", labeled, role("true", rule("get", "list")), bootstrap.Update, both},
		{"kept by the user", role("false"), role("true", rule("get")), bootstrap.Keep, nil},
		{"gathered rules stay", filled, gathering("a"), bootstrap.Keep, nil},
		{"another selector", filled, gathering("b"), bootstrap.Update, grown},
		{"becomes one that gathers", role("true"), gathering("a"), bootstrap.Update, gathering("a")},
		{"users stay", bound("r", "ann", "bob"), bound("r", "ann"), bootstrap.Keep, nil},
		{"another user", bound("r", "ann"), bound("r", "bob"), bootstrap.Update, bound("r", "ann", "bob")},
		{"another role", bound("r", "ann"), bound("s", "bob"), bootstrap.Replace, bound("s", "bob")},
	} {
		before := tt.have.DeepCopyObject()
		step, next := bootstrap.Reconcile(tt.have, tt.want)
		if step != tt.step {
			t.Errorf("%s: step %d", tt.name, step)
			continue
		}
		if tt.next == nil {
			continue
		}
		if next.GetLabels() != nil && len(next.GetLabels()) == 0 && tt.next.GetLabels() == nil {
			next.SetLabels(nil)
		}
		if d := cmp.Diff(tt.next, next); d != "" {
			t.Errorf("%s: %s", tt.name, d)
		}
		if d := cmp.Diff(before, tt.have); d != "" {
			t.Errorf("%s: what is there is changed: %s", tt.name, d)
		}
	}
}
