package rbac_test

import (
	"context"
	"errors"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/admission/rbac"
	"github.com/proa-project/proa/httpapi/request"
)

func rule(verb, group, resource string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names}
}

// rights are what users have: ann sees pods, root has everything, bo may
// escalate the role r and bind the role view; and two roles.
type rights struct{ incomplete error }

func (g rights) RulesFor(_ context.Context, u *request.User, _ string) ([]rbacv1.PolicyRule, error) {
	switch u.Name {
	case "ann":
		return []rbacv1.PolicyRule{rule("get", "", "pods"), rule("list", "", "pods")}, g.incomplete
	case "root":
		return []rbacv1.PolicyRule{rule("*", "*", "*"), {Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}}, nil
	}
	return nil, g.incomplete
}

func (rights) RoleRules(_ context.Context, ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, bool, error) {
	switch {
	case ref.Kind == "ClusterRole" && ref.Name == "view":
		return []rbacv1.PolicyRule{rule("get", "", "pods"), rule("list", "", "pods")}, true, nil
	case ref.Kind == "Role" && ref.Name == "edit" && namespace == "shop":
		return []rbacv1.PolicyRule{rule("get", "", "pods"), rule("update", "", "pods"), rule("delete", "", "pods"), rule("get", "", "secrets", "x")}, true, nil
	case ref.Name == "broken":
		return nil, false, errors.New("the index is gone")
	}
	return nil, false, nil
}

func may(_ context.Context, u *request.User, i *request.Info) (bool, error) {
	return u.Name == "bo" && (i.Verb == "escalate" && i.Resource.Plural == "roles" && i.Name == "r" && i.Namespace == "shop" ||
		i.Verb == "bind" && i.Resource.Plural == "clusterroles" && i.Name == "view" && i.Namespace == "shop"), nil
}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func role(rules ...rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: meta("shop", "r"), Rules: rules}
}

func clusterRole(label string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	r := &rbacv1.ClusterRole{ObjectMeta: meta("", "c"), Rules: rules}
	if label != "" {
		r.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{label: "true"}}}}
	}
	return r
}

func binding(kind, name string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: meta("shop", "b"), RoleRef: rbacv1.RoleRef{Kind: kind, Name: name}}
}

func owned(r *rbacv1.Role) *rbacv1.Role {
	r.OwnerReferences, r.Finalizers = []metav1.OwnerReference{{Name: "x"}}, []string{"example.com/x"}
	return r
}

func TestValidator(t *testing.T) {
	const held = ` (groups=["dev" "system:authenticated"]) is attempting to grant RBAC permissions not currently held:` + "\n"
	for _, tt := range []struct {
		name, user string
		obj, old   runtime.Object
		want       string
	}{
		{"what one has", "ann", role(rule("get", "", "pods")), nil, ""},
		{
			"more", "ann", role(rule("get", "", "pods"), rule("update", "", "pods"), rule("delete", "", "pods"), rule("get", "", "secrets", "x")), nil,
			`roles.rbac.authorization.k8s.io "r" is forbidden: user "ann"` + held + `{APIGroups:[""], Resources:["pods"], Verbs:["update" "delete"]}` + "\n" + `{APIGroups:[""], Resources:["secrets"], ResourceNames:["x"], Verbs:["get"]}`,
		},
		{"everything", "ann", role(rule("*", "*", "*")), nil, `roles.rbac.authorization.k8s.io "r" is forbidden: user "ann"` + held + `{APIGroups:["*"], Resources:["*"], Verbs:["*"]}`},
		{"paths", "ann", clusterRole("", rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/x"}}), nil, `clusterroles.rbac.authorization.k8s.io "c" is forbidden: user "ann"` + held + `{NonResourceURLs:["/x"], Verbs:["get"]}`},
		{"by one who has all", "root", role(rule("get", "example.com", "things")), nil, ""},
		{"a change to more", "ann", role(rule("get", "", "secrets")), role(rule("get", "", "pods")), `roles.rbac.authorization.k8s.io "r" is forbidden: user "ann"` + held + `{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}`},
		{"no change of the rules", "ann", &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "r", Labels: map[string]string{"a": "b"}}, Rules: []rbacv1.PolicyRule{rule("*", "*", "*")}}, role(rule("*", "*", "*")), ""},
		{"less of what one has not", "ann", role(rule("get", "", "secrets")), role(rule("get", "", "secrets"), rule("list", "", "secrets")), `roles.rbac.authorization.k8s.io "r" is forbidden: user "ann"` + held + `{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}`},
		{"may escalate", "bo", role(rule("*", "*", "*")), role(), ""},
		{"may escalate another", "bo", &rbacv1.Role{ObjectMeta: meta("shop", "q"), Rules: []rbacv1.PolicyRule{rule("*", "*", "*")}}, &rbacv1.Role{ObjectMeta: meta("shop", "q")}, `roles.rbac.authorization.k8s.io "q" is forbidden: user "bo"` + held + `{APIGroups:["*"], Resources:["*"], Verbs:["*"]}`},
		{"aggregation", "ann", clusterRole("a"), nil, `clusterroles.rbac.authorization.k8s.io "c" is forbidden: must have cluster-admin privileges to use an aggregationRule`},
		{"an end of aggregation", "ann", clusterRole(""), clusterRole("a"), `clusterroles.rbac.authorization.k8s.io "c" is forbidden: must have cluster-admin privileges to use an aggregationRule`},
		{"aggregation by one who has all", "root", clusterRole("a"), nil, ""},
		{"binding", "ann", binding("ClusterRole", "view"), nil, ""},
		{"binding of more", "ann", binding("Role", "edit"), nil, `rolebindings.rbac.authorization.k8s.io "b" is forbidden: user "ann"` + held + `{APIGroups:[""], Resources:["pods"], Verbs:["update" "delete"]}` + "\n" + `{APIGroups:[""], Resources:["secrets"], ResourceNames:["x"], Verbs:["get"]}`},
		{"binding of nothing", "ann", binding("ClusterRole", "gone"), nil, `clusterroles.rbac.authorization.k8s.io "gone" not found`},
		{"may bind", "bo", binding("ClusterRole", "view"), nil, ""},
		{"may bind another", "bo", binding("Role", "edit"), nil, `rolebindings.rbac.authorization.k8s.io "b" is forbidden: user "bo"` + held + `{APIGroups:[""], Resources:["pods"], Verbs:["get" "update" "delete"]}` + "\n" + `{APIGroups:[""], Resources:["secrets"], ResourceNames:["x"], Verbs:["get"]}`},
		{"cluster binding", "ann", &rbacv1.ClusterRoleBinding{ObjectMeta: meta("", "b"), RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "gone"}}, nil, `clusterroles.rbac.authorization.k8s.io "gone" not found`},
		{"letting go", "ann", role(rule("*", "*", "*")), owned(role(rule("*", "*", "*"))), ""},
		{"another kind", "ann", nil, nil, ""},
	} {
		v := &rbac.Validator{Rules: rights{}, May: may}
		r := &admission.Request{Operation: admission.Create, Object: tt.obj, OldObject: tt.old, User: &request.User{Name: tt.user, Groups: []string{"dev", "system:authenticated"}}}
		if r.Resource = api.ByGVR("", "v1", "pods"); tt.obj != nil {
			o := tt.obj.(api.Object) // they all are
			r.Resource, r.Namespace, r.Name = api.ByType(o), o.GetNamespace(), o.GetName()
		}
		if tt.old != nil {
			r.Operation = admission.Update
		}
		err := v.Validate(t.Context(), r)
		var d *admission.Denial
		if tt.want == "" && err != nil || tt.want != "" && (!errors.As(err, &d) || d.Status.Message != tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
		for _, who := range []*request.User{nil, {Name: "x", Groups: []string{request.Masters}}} {
			if r.User = who; v.Validate(t.Context(), r) != nil {
				t.Errorf("%s by the server itself: %v", tt.name, v.Validate(t.Context(), r))
			}
		}
	}
}

func TestValidator_fails(t *testing.T) {
	r := &admission.Request{
		Operation: admission.Create, Resource: api.ByGVR(rbacv1.GroupName, "v1", "rolebindings"), Namespace: "shop", Name: "b",
		Object: binding("Role", "broken"), User: &request.User{Name: "ann"},
	}
	var d *admission.Denial
	v := &rbac.Validator{Rules: rights{incomplete: errors.New("one is lost")}, May: may}
	if err := v.Validate(t.Context(), r); err == nil || errors.As(err, &d) {
		t.Errorf("the index fails: %v", err)
	}
	r.Object = binding("Role", "edit")
	const want = `rolebindings.rbac.authorization.k8s.io "b" is forbidden: user "eve" (groups=[]) is attempting to grant RBAC permissions not currently held:
{APIGroups:[""], Resources:["pods"], Verbs:["get" "update" "delete"]}
{APIGroups:[""], Resources:["secrets"], ResourceNames:["x"], Verbs:["get"]}; resolution errors: [one is lost]`
	r.User = &request.User{Name: "eve"}
	if err := v.Validate(t.Context(), r); !errors.As(err, &d) || d.Status.Message != want {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := v.Validate(ctx, r); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	broken := &rbac.Validator{Rules: rights{}, May: func(context.Context, *request.User, *request.Info) (bool, error) { return false, errors.New("no") }}
	if err := broken.Validate(t.Context(), r); err == nil || errors.As(err, &d) {
		t.Errorf("%v", err)
	}
}
