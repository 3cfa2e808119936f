package match_test

import (
	"context"
	"errors"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/admission/match"
)

func rule(group, resource string, ops ...admissionregistrationv1.OperationType) match.Rule {
	return match.Rule{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
		Operations: ops,
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{resource}},
	}}
}

func scoped(r match.Rule, s admissionregistrationv1.ScopeType) match.Rule {
	r.Scope = &s
	return r
}

func named(r match.Rule, names ...string) match.Rule {
	r.Names = names
	return r
}

// namespaces are those of the test, by name.
func namespaces(_ context.Context, name string) (labels.Set, error) {
	switch name {
	case "prod":
		return labels.Set{"env": "prod"}, nil
	case "broken":
		return nil, errors.New("no labels")
	}
	return nil, nil
}

func TestMatches(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "prod", Labels: map[string]string{"app": "web"}}}
	plain := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "prod"}}
	prod := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "prod", Labels: map[string]string{"env": "prod"}}}
	pods, spaces := api.ByGVR("", "v1", "pods"), api.ByGVR("", "v1", "namespaces")
	create := func(namespace string) *admission.Request {
		return &admission.Request{Operation: admission.Create, Resource: pods, Namespace: namespace, Name: "a", Object: pod}
	}
	all := rule("*", "*/*", admissionregistrationv1.OperationAll)
	web := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	env := &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}
	for name, tc := range map[string]struct {
		spec    match.Spec
		request *admission.Request
		want    bool
	}{
		"no rule":                 {match.Spec{}, create("prod"), false},
		"the resource":            {match.Spec{Rules: []match.Rule{rule("", "pods", "CREATE")}}, create("prod"), true},
		"everything":              {match.Spec{Rules: []match.Rule{all}}, create("prod"), true},
		"another operation":       {match.Spec{Rules: []match.Rule{rule("", "pods", "UPDATE")}}, create("prod"), false},
		"another group":           {match.Spec{Rules: []match.Rule{rule("apps", "pods", "CREATE")}}, create("prod"), false},
		"another resource":        {match.Spec{Rules: []match.Rule{rule("", "secrets", "CREATE")}}, create("prod"), false},
		"a subresource only":      {match.Spec{Rules: []match.Rule{rule("", "pods/exec", "CREATE")}}, create("prod"), false},
		"all subresources":        {match.Spec{Rules: []match.Rule{rule("", "pods/*", "CONNECT")}}, &admission.Request{Operation: admission.Connect, Resource: pods, Subresource: "exec", Namespace: "prod"}, true},
		"without the subresource": {match.Spec{Rules: []match.Rule{rule("", "pods", "CONNECT")}}, &admission.Request{Operation: admission.Connect, Resource: pods, Subresource: "exec", Namespace: "prod"}, false},
		"cluster scope":           {match.Spec{Rules: []match.Rule{scoped(all, admissionregistrationv1.ClusterScope)}}, create("prod"), false},
		"namespaced scope":        {match.Spec{Rules: []match.Rule{scoped(all, admissionregistrationv1.NamespacedScope)}}, create("prod"), true},
		"the name":                {match.Spec{Rules: []match.Rule{named(all, "a")}}, create("prod"), true},
		"another name":            {match.Spec{Rules: []match.Rule{named(all, "b")}}, create("prod"), false},
		"excluded":                {match.Spec{Rules: []match.Rule{all}, Exclude: []match.Rule{rule("", "pods", "CREATE")}}, create("prod"), false},
		"labels of the object":    {match.Spec{Rules: []match.Rule{all}, Objects: web}, create("prod"), true},
		"labels of the old one":   {match.Spec{Rules: []match.Rule{all}, Objects: web}, &admission.Request{Operation: admission.Update, Resource: pods, Namespace: "prod", Object: plain, OldObject: pod}, true},
		"other labels":            {match.Spec{Rules: []match.Rule{all}, Objects: web}, &admission.Request{Operation: admission.Create, Resource: pods, Namespace: "prod", Object: plain}, false},
		"the namespace":           {match.Spec{Rules: []match.Rule{all}, Namespaces: env}, create("prod"), true},
		"another namespace":       {match.Spec{Rules: []match.Rule{all}, Namespaces: env}, create("test"), false},
		"a namespace itself":      {match.Spec{Rules: []match.Rule{all}, Namespaces: env}, &admission.Request{Operation: admission.Delete, Resource: spaces, Name: "prod", OldObject: prod}, true},
		"in no namespace":         {match.Spec{Rules: []match.Rule{all}, Namespaces: env}, &admission.Request{Operation: admission.Create, Resource: api.ByGVR("", "v1", "nodes"), Object: &corev1.Node{}}, true},
	} {
		m, err := match.New(tc.spec)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, err := m.Matches(t.Context(), tc.request, namespaces); err != nil || got != tc.want {
			t.Errorf("%s: %v, %v; want %v", name, got, err, tc.want)
		}
	}
	m, err := match.New(match.Spec{Rules: []match.Rule{all}, Namespaces: env})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Matches(t.Context(), create("broken"), namespaces); err == nil {
		t.Error("no error where the labels cannot be had")
	}
	odd := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Odd"}}}
	for _, s := range []match.Spec{{Namespaces: odd}, {Objects: odd}} {
		if _, err := match.New(s); err == nil {
			t.Errorf("%+v is taken", s)
		}
	}
}
