package authz_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/proa-project/proa/httpapi/authz"
	"github.com/proa-project/proa/httpapi/request"
)

// rule makes a rule of words that are separated by spaces; core is the group
// without a name.
func rule(verbs, groups, resources string, names ...string) rbacv1.PolicyRule {
	g := strings.Fields(groups)
	for i := range g {
		if g[i] == "core" {
			g[i] = ""
		}
	}
	return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), APIGroups: g, Resources: strings.Fields(resources), ResourceNames: names}
}

func urls(verbs, paths string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), NonResourceURLs: strings.Fields(paths)}
}

func TestAllows(t *testing.T) {
	for _, tt := range []struct {
		name string
		rule rbacv1.PolicyRule
		info request.Info
		want bool
	}{
		{"exact", rule("get", "core", "pods"), on("get", "", "pods", "", "a", "p", ""), true},
		{"one of many", rule("get list", "apps core", "x pods"), on("list", "", "pods", "", "a", "", ""), true},
		{"other verb", rule("get", "core", "pods"), on("list", "", "pods", "", "a", "p", ""), false},
		{"any verb", rule("*", "core", "pods"), on("deletecollection", "", "pods", "", "a", "", ""), true},
		{"other group", rule("get", "apps", "pods"), on("get", "", "pods", "", "a", "p", ""), false},
		{"any group", rule("get", "*", "deployments"), on("get", "apps", "deployments", "", "a", "p", ""), true},
		{"other resource", rule("get", "core", "pods"), on("get", "", "secrets", "", "a", "p", ""), false},
		{"any resource", rule("get", "core", "*"), on("get", "", "secrets", "", "a", "p", ""), true},
		{"any resource is its parts, too", rule("get", "core", "*"), on("get", "", "pods", "log", "a", "p", ""), true},
		{"whole is not part", rule("get", "core", "pods"), on("get", "", "pods", "log", "a", "p", ""), false},
		{"part is not whole", rule("get", "core", "pods/log"), on("get", "", "pods", "", "a", "p", ""), false},
		{"part", rule("get", "core", "pods/log"), on("get", "", "pods", "log", "a", "p", ""), true},
		{"other part", rule("get", "core", "pods/log"), on("get", "", "pods", "exec", "a", "p", ""), false},
		{"part of any", rule("update", "apps", "*/scale"), on("update", "apps", "deployments", "scale", "a", "p", ""), true},
		{"other part of any", rule("update", "apps", "*/scale"), on("update", "apps", "deployments", "status", "a", "p", ""), false},
		{"part of any is not whole", rule("update", "apps", "*/scale"), on("update", "apps", "deployments", "", "a", "p", ""), false},
		{"any part means nothing", rule("get", "core", "pods/*"), on("get", "", "pods", "log", "a", "p", ""), false},
		{"name", rule("get", "core", "pods", "p", "q"), on("get", "", "pods", "", "a", "q", ""), true},
		{"other name", rule("get", "core", "pods", "p"), on("get", "", "pods", "", "a", "q", ""), false},
		{"name for a list", rule("list", "core", "pods", "p"), on("list", "", "pods", "", "a", "", ""), false},
		{"star is no name", rule("get", "core", "pods", "*"), on("get", "", "pods", "", "a", "q", ""), false},
		{"resource rule for a path", rule("get", "*", "*"), path("get", "/metrics"), false},
		{"path", urls("get", "/metrics"), path("get", "/metrics"), true},
		{"other path", urls("get", "/metrics"), path("get", "/metrics/x"), false},
		{"tree", urls("get", "/apis/*"), path("get", "/apis/apps/v1"), true},
		{"tree is not its root", urls("get", "/apis/*"), path("get", "/apis"), false},
		{"star within", urls("get", "/*/x"), path("get", "/a/x"), false},
		{"any path", urls("*", "*"), path("post", "/x"), true},
		{"path rule for a resource", urls("*", "*"), on("get", "", "pods", "", "a", "p", ""), false},
		{"other method", urls("get", "*"), path("post", "/x"), false},
	} {
		if got := authz.Allows(&tt.rule, &tt.info); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func user(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: name}
}

func group(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: "Group", APIGroup: rbacv1.GroupName, Name: name}
}

func ref(kind, name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
}

func rbac(objs ...runtime.Object) *authz.RBAC {
	x := authz.NewRoleIndex()
	for _, o := range objs {
		x.Put(o)
	}
	x.Loaded()
	return &authz.RBAC{Roles: x}
}

func TestRBAC(t *testing.T) {
	a := rbac(
		&rbacv1.ClusterRole{ObjectMeta: meta("", "view"), Rules: []rbacv1.PolicyRule{rule("get list", "core", "pods")}},
		&rbacv1.ClusterRole{ObjectMeta: meta("", "nodes"), Rules: []rbacv1.PolicyRule{rule("get", "core", "nodes"), urls("get", "/metrics")}},
		&rbacv1.Role{ObjectMeta: meta("shop", "edit"), Rules: []rbacv1.PolicyRule{rule("update", "core", "pods")}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: meta("", "ops"), RoleRef: ref("ClusterRole", "nodes"), Subjects: []rbacv1.Subject{group("ops"), group("ops")}},
		&rbacv1.RoleBinding{ObjectMeta: meta("shop", "dev"), RoleRef: ref("ClusterRole", "view"), Subjects: []rbacv1.Subject{user("ann"), {Kind: "ServiceAccount", Name: "web"}}},
		&rbacv1.RoleBinding{ObjectMeta: meta("shop", "ed"), RoleRef: ref("Role", "edit"), Subjects: []rbacv1.Subject{user("ann")}},
		&rbacv1.RoleBinding{ObjectMeta: meta("shop", "other"), RoleRef: ref("ClusterRole", "view"), Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "ci", Namespace: "build"}}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: meta("", "bad"), RoleRef: ref("ClusterRole", "view"), Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "web"}, {Kind: "Robot", Name: "x"}}},
		&rbacv1.RoleBinding{ObjectMeta: meta("shop", "lost"), RoleRef: ref("Role", "gone"), Subjects: []rbacv1.Subject{user("bob")}},
		&rbacv1.RoleBinding{ObjectMeta: meta("shop", "lost2"), RoleRef: ref("ClusterRole", "gone"), Subjects: []rbacv1.Subject{user("bob")}},
		&rbacv1.RoleBinding{ObjectMeta: meta("shop", "paths"), RoleRef: ref("ClusterRole", "nodes"), Subjects: []rbacv1.Subject{user("ann")}},
	)
	someone := func(name string, groups ...string) *request.User { return &request.User{Name: name, Groups: groups} }
	for _, tt := range []struct {
		name   string
		u      *request.User
		info   request.Info
		allow  bool
		reason string
	}{
		{"cluster role in a namespace", someone("ann"), on("list", "", "pods", "", "shop", "", ""), true, `RBAC: allowed by RoleBinding "dev/shop" of ClusterRole "view" to User "ann"`},
		{"role", someone("ann"), on("update", "", "pods", "", "shop", "p", ""), true, `RBAC: allowed by RoleBinding "ed/shop" of Role "edit" to User "ann"`},
		{"in another namespace", someone("ann"), on("list", "", "pods", "", "bank", "", ""), false, ""},
		{"in all namespaces", someone("ann"), on("list", "", "pods", "", "", "", ""), false, ""},
		{"group in the cluster", someone("zoe", "x", "ops"), on("get", "", "nodes", "", "", "n", ""), true, `RBAC: allowed by ClusterRoleBinding "ops" of ClusterRole "nodes" to Group "ops"`},
		{"path", someone("zoe", "ops"), path("get", "/metrics"), true, `RBAC: allowed by ClusterRoleBinding "ops" of ClusterRole "nodes" to Group "ops"`},
		{"path by a RoleBinding", someone("ann"), path("get", "/metrics"), false, ""},
		{"user of the name of a group", someone("ops"), on("get", "", "nodes", "", "", "n", ""), false, ""},
		{"account of the binding's namespace", someone("system:serviceaccount:shop:web"), on("get", "", "pods", "", "shop", "p", ""), true, `RBAC: allowed by RoleBinding "dev/shop" of ClusterRole "view" to ServiceAccount "web/shop"`},
		{"account of another namespace", someone("system:serviceaccount:build:ci"), on("get", "", "pods", "", "shop", "p", ""), true, `RBAC: allowed by RoleBinding "other/shop" of ClusterRole "view" to ServiceAccount "ci/build"`},
		{"account of the same name elsewhere", someone("system:serviceaccount:bank:web"), on("get", "", "pods", "", "shop", "p", ""), false, ""},
		{"role that is gone", someone("bob"), on("get", "", "pods", "", "shop", "p", ""), false, `RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, role.rbac.authorization.k8s.io "gone" not found]`},
		{"nobody", someone("eve", "system:authenticated"), on("get", "", "pods", "", "shop", "p", ""), false, ""},
	} {
		d, reason, err := a.Authorize(t.Context(), tt.u, &tt.info)
		if err != nil || d == authz.Deny || (d == authz.Allow) != tt.allow || reason != tt.reason {
			t.Errorf("%s: %d %q %v", tt.name, d, reason, err)
		}
	}
	rules, err := a.RulesFor(t.Context(), someone("bob"), "shop")
	if len(rules) > 0 || err == nil || err.Error() != `[clusterrole.rbac.authorization.k8s.io "gone" not found, role.rbac.authorization.k8s.io "gone" not found]` {
		t.Errorf("rules with a role that is gone: %v, %v", rules, err)
	}
	if rules, err = a.RulesFor(t.Context(), someone("ann", "ops"), "shop"); err != nil || len(rules) != 6 {
		t.Errorf("%v, %v", rules, err)
	}
}

// What is changed and taken away counts no more.
func TestRoleIndex_changes(t *testing.T) {
	a := rbac()
	u, info := &request.User{Name: "ann"}, on("get", "", "pods", "", "shop", "p", "")
	allowed := func() bool {
		d, _, err := a.Authorize(t.Context(), u, &info)
		if err != nil {
			t.Fatal(err)
		}
		return d == authz.Allow
	}
	role := &rbacv1.Role{ObjectMeta: meta("shop", "r"), Rules: []rbacv1.PolicyRule{rule("get", "core", "pods")}}
	bound := &rbacv1.RoleBinding{ObjectMeta: meta("shop", "b"), RoleRef: ref("Role", "r"), Subjects: []rbacv1.Subject{user("ann")}}
	for i, step := range []struct {
		do   func()
		want bool
	}{
		{func() {}, false},
		{func() { a.Roles.Put(bound) }, false},
		{func() { a.Roles.Put(role) }, true},
		{func() { a.Roles.Put(&rbacv1.Role{ObjectMeta: meta("shop", "r")}) }, false},
		{func() { a.Roles.Put(role) }, true},
		{func() { a.Roles.Put(&rbacv1.RoleBinding{ObjectMeta: meta("shop", "b"), RoleRef: ref("Role", "r")}) }, false},
		{func() { a.Roles.Put(bound); a.Roles.Put(bound) }, true},
		{func() { a.Roles.Remove(&rbacv1.Role{}, "shop", "r") }, false},
		{func() { a.Roles.Put(role) }, true},
		{func() { a.Roles.Remove(&rbacv1.RoleBinding{}, "shop", "b") }, false},
		{func() { a.Roles.Remove(&rbacv1.RoleBinding{}, "shop", "b") }, false},
		{func() { a.Roles.Remove(&rbacv1.Role{}, "shop", "r"); a.Roles.Put(bound); a.Roles.Put(role) }, true},
	} {
		if step.do(); allowed() != step.want {
			t.Errorf("step %d: %v", i, !step.want)
		}
	}
}

func TestRBAC_waits(t *testing.T) {
	a := &authz.RBAC{Roles: authz.NewRoleIndex()}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	info := path("get", "/x")
	if d, _, err := a.Authorize(ctx, request.Anonymous, &info); d != authz.NoOpinion || !errors.Is(err, context.Canceled) {
		t.Errorf("%d %v", d, err)
	}
	if a.Roles.IsLoaded() {
		t.Error("loaded")
	}
	a.Roles.Loaded()
	if d, _, err := a.Authorize(t.Context(), request.Anonymous, &info); d != authz.NoOpinion || err != nil {
		t.Errorf("%d %v", d, err)
	}
}

// A policy is everything there is, for the twin.
type policy map[string]runtime.Object

// allows goes over all bindings, as the definition of RBAC says.
func (p policy) allows(u *request.User, i *request.Info) bool {
	for _, o := range p {
		var roleRef rbacv1.RoleRef
		var subjects []rbacv1.Subject
		namespace := ""
		switch b := o.(type) {
		case *rbacv1.RoleBinding:
			roleRef, subjects, namespace = b.RoleRef, b.Subjects, b.Namespace
		case *rbacv1.ClusterRoleBinding:
			roleRef, subjects = b.RoleRef, b.Subjects
		default:
			continue
		}
		if namespace != "" && namespace != i.Namespace {
			continue
		}
		if !slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool {
			return s.Kind == "User" && s.Name == u.Name || s.Kind == "Group" && slices.Contains(u.Groups, s.Name) ||
				s.Kind == "ServiceAccount" && u.Name == "system:serviceaccount:"+s.Namespace+":"+s.Name
		}) {
			continue
		}
		var rules []rbacv1.PolicyRule
		if r, ok := p["Role/"+namespace+"/"+roleRef.Name].(*rbacv1.Role); ok && roleRef.Kind == "Role" {
			rules = r.Rules
		} else if r, ok := p["ClusterRole//"+roleRef.Name].(*rbacv1.ClusterRole); ok && roleRef.Kind == "ClusterRole" {
			rules = r.Rules
		}
		for j := range rules {
			if authz.Allows(&rules[j], i) {
				return true
			}
		}
	}
	return false
}

// The index and the twin agree after each of many random changes.
func TestRoleIndex_twin(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	pick := func(list ...string) string { return list[rnd.IntN(len(list))] }
	ns := func() string { return pick("a", "b", "c") }
	name := func() string { return pick("x", "y", "z") }
	rules := func() []rbacv1.PolicyRule {
		var out []rbacv1.PolicyRule
		for range rnd.IntN(3) {
			out = append(out, rule(pick("get", "list", "*"), pick("core", "apps", "*"), pick("pods", "secrets", "*", "deployments")))
		}
		return out
	}
	subjects := func() []rbacv1.Subject {
		var out []rbacv1.Subject
		for range rnd.IntN(4) {
			out = append(out, []rbacv1.Subject{user(name()), group(name()), {Kind: "ServiceAccount", Namespace: ns(), Name: name()}}[rnd.IntN(3)])
		}
		return out
	}
	a, twin := rbac(), policy{}
	for step := range 4000 {
		var obj runtime.Object
		m := meta(ns(), name())
		kind := pick("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")
		if strings.HasPrefix(kind, "Cluster") {
			m.Namespace = ""
		}
		switch kind {
		case "Role":
			obj = &rbacv1.Role{ObjectMeta: m, Rules: rules()}
		case "ClusterRole":
			obj = &rbacv1.ClusterRole{ObjectMeta: m, Rules: rules()}
		case "RoleBinding":
			obj = &rbacv1.RoleBinding{ObjectMeta: m, RoleRef: ref(pick("Role", "ClusterRole"), name()), Subjects: subjects()}
		default:
			obj = &rbacv1.ClusterRoleBinding{ObjectMeta: m, RoleRef: ref("ClusterRole", name()), Subjects: subjects()}
		}
		key := kind + "/" + m.Namespace + "/" + m.Name
		if rnd.IntN(3) == 0 {
			a.Roles.Remove(obj, m.Namespace, m.Name)
			delete(twin, key)
		} else {
			a.Roles.Put(obj)
			twin[key] = obj
		}
		for range 4 {
			u := &request.User{Name: pick("x", "y", "system:serviceaccount:"+ns()+":"+name()), Groups: []string{name(), "other"}}
			info := on(pick("get", "list"), pick("", "apps"), pick("pods", "secrets", "deployments"), "", pick("a", "b", ""), "", "")
			d, reason, err := a.Authorize(t.Context(), u, &info)
			if err != nil || (d == authz.Allow) != twin.allows(u, &info) {
				t.Fatalf("step %d: %+v %+v: %d %q %v", step, u, info, d, reason, err)
			}
		}
	}
}

func TestRoleIndex_hammer(t *testing.T) {
	a := rbac(&rbacv1.ClusterRole{ObjectMeta: meta("", "r"), Rules: []rbacv1.PolicyRule{rule("get", "core", "pods")}})
	b := &rbacv1.RoleBinding{ObjectMeta: meta("shop", "b"), RoleRef: ref("ClusterRole", "r"), Subjects: []rbacv1.Subject{user("ann")}}
	always := &rbacv1.RoleBinding{ObjectMeta: meta("shop", "a"), RoleRef: ref("ClusterRole", "r"), Subjects: []rbacv1.Subject{user("ann")}}
	a.Roles.Put(always)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 500 {
				a.Roles.Put(b)
				a.Roles.Remove(b, "shop", "b")
			}
		})
		wg.Go(func() {
			info := on("get", "", "pods", "", "shop", "p", "")
			for range 500 {
				if d, _, err := a.Authorize(t.Context(), &request.User{Name: "ann"}, &info); d != authz.Allow || err != nil {
					t.Errorf("%d %v", d, err)
				}
				_, err := a.RulesFor(t.Context(), &request.User{Name: "ann"}, "shop")
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func TestChain_rules(t *testing.T) {
	ofAnn := rbac(
		&rbacv1.ClusterRole{ObjectMeta: meta("", "r"), Rules: []rbacv1.PolicyRule{rule("get", "core", "pods")}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: meta("", "b"), RoleRef: ref("ClusterRole", "r"), Subjects: []rbacv1.Subject{user("ann"), user(joiner.Name)}},
	)
	chain := append(all(graph{}), ofAnn)
	ann := &request.User{Name: "ann"}
	rules, err := chain.RulesFor(t.Context(), ann, "shop")
	want := []rbacv1.PolicyRule{urls("get", "/cacerts"), rule("get", "core", "pods")}
	if d := cmp.Diff(want, rules); d != "" || err != nil {
		t.Error(d, err)
	}
	if rules, _ = chain.RulesFor(t.Context(), joiner, ""); len(rules) != 3 || rules[1].NonResourceURLs[0] != "/proa/v1/join" {
		t.Errorf("joiner: %v", rules)
	}
	if _, err = chain.RulesFor(t.Context(), n1, ""); err == nil || err.Error() != "node authorizer does not support user rule resolution" {
		t.Errorf("node: %v", err)
	}
	chain = authz.Chain{refuser{}, ofAnn}
	if rules, err = chain.RulesFor(t.Context(), ann, ""); err == nil || len(rules) != 1 {
		t.Errorf("one who cannot tell makes no difference: %v", rules)
	}
	i := on("get", "", "pods", "", "shop", "p", "")
	if d, reason, _ := chain.Authorize(t.Context(), ann, &i); d != authz.Deny || reason != "no" {
		t.Errorf("%d %s", d, reason)
	}
}

type refuser struct{}

func (refuser) Authorize(context.Context, *request.User, *request.Info) (authz.Decision, string, error) {
	return authz.Deny, "no", nil
}

// BenchmarkRBAC has 2,000 namespaces with 5 bindings each, and asks for a user
// of one of them: what a bigger cluster costs is a bigger map.
func BenchmarkRBAC(b *testing.B) {
	var objs []runtime.Object
	var view []rbacv1.PolicyRule
	for i := range 12 {
		view = append(view, rule("get list watch", fmt.Sprintf("g%d.example.com", i), "a b c d e f g h i j k l"))
	}
	view = append(view, rule("get list watch", "core", "configmaps endpoints pods services"))
	objs = append(objs, &rbacv1.ClusterRole{ObjectMeta: meta("", "view"), Rules: view})
	for i := range 2000 {
		ns := fmt.Sprintf("team-%d", i)
		for j := range 5 {
			objs = append(objs, &rbacv1.RoleBinding{
				ObjectMeta: meta(ns, fmt.Sprintf("b%d", j)), RoleRef: ref("ClusterRole", "view"),
				Subjects: []rbacv1.Subject{user(fmt.Sprintf("user-%d-%d", i, j)), group(ns), {Kind: "ServiceAccount", Name: "default"}},
			})
		}
	}
	a := rbac(objs...)
	u := &request.User{Name: "user-77-3", Groups: []string{"dev", "team-77", "system:authenticated"}}
	for name, info := range map[string]request.Info{
		"allow": on("list", "", "pods", "", "team-77", "", ""),
		"deny":  on("delete", "", "pods", "", "team-77", "p", ""),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if d, _, err := a.Authorize(b.Context(), u, &info); err != nil || (d == authz.Allow) != (name == "allow") {
					b.Fatal(d, err)
				}
			}
		})
	}
	b.Run("change", func(b *testing.B) {
		b.ReportAllocs()
		bound := objs[len(objs)-1]
		for b.Loop() {
			a.Roles.Put(bound)
		}
	})
}
