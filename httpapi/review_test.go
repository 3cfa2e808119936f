package httpapi_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/authz"
	"github.com/proa-project/proa/httpapi/registry"
	"github.com/proa-project/proa/httpapi/request"
)

// roles has alice be able to do everything, and ann to see pods in shop.
func roles() *authz.RBAC {
	x := authz.NewRoleIndex()
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	x.Put(&rbacv1.ClusterRole{ObjectMeta: meta("all"), Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}, {Verbs: []string{"*"}, NonResourceURLs: []string{"*"}},
	}})
	x.Put(&rbacv1.ClusterRole{ObjectMeta: meta("see"), Rules: []rbacv1.PolicyRule{{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"pods"}}}})
	x.Put(&rbacv1.ClusterRole{ObjectMeta: meta("ask"), Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"create"}, APIGroups: []string{"authorization.k8s.io", "authentication.k8s.io"}, Resources: []string{"*"}},
	}})
	bind := func(name, role string, subjects ...rbacv1.Subject) {
		x.Put(&rbacv1.ClusterRoleBinding{ObjectMeta: meta(name), RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: role}, Subjects: subjects})
	}
	bind("all", "all", rbacv1.Subject{Kind: "User", Name: "alice"})
	bind("ask", "ask", rbacv1.Subject{Kind: "Group", Name: "system:authenticated"})
	x.Put(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "see"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "see"},
		Subjects: []rbacv1.Subject{{Kind: "User", Name: "ann"}},
	})
	x.Put(&rbacv1.ClusterRole{ObjectMeta: meta("be"), Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"impersonate"}, APIGroups: []string{""}, Resources: []string{"users"}, ResourceNames: []string{"ann"}},
		{Verbs: []string{"impersonate"}, APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"userextras/scopes"}, ResourceNames: []string{"view"}},
	}})
	bind("be", "be", rbacv1.Subject{Kind: "User", Name: "mallory"})
	x.Loaded()
	return &authz.RBAC{Roles: x}
}

func newRBACFixture(t *testing.T) *fixture {
	t.Helper()
	return newFixture(t, func(c *httpapi.Config) { c.Authorizer = authz.Chain{roles()} })
}

func (f *fixture) as(t *testing.T, token string, impersonate rest.ImpersonationConfig) *kubernetes.Clientset {
	t.Helper()
	c := rest.CopyConfig(f.config)
	c.BearerToken, c.Impersonate = token, impersonate
	c.ContentType = "application/vnd.kubernetes.protobuf"
	clients, err := kubernetes.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return clients
}

func TestAccessReviews(t *testing.T) {
	f := newRBACFixture(t)
	ann := f.as(t, "ann", rest.ImpersonationConfig{}).AuthorizationV1()
	in := func(namespace, verb, group, resource string) *authorizationv1.ResourceAttributes {
		return &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Group: group, Resource: resource}
	}
	self, err := ann.SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: in("shop", "list", "", "pods")},
	}, metav1.CreateOptions{})
	if err != nil || !self.Status.Allowed || self.Status.Reason != `RBAC: allowed by RoleBinding "see/shop" of ClusterRole "see" to User "ann"` {
		t.Errorf("%+v %v", self, err)
	}
	sar := func(user string, groups []string, r *authorizationv1.ResourceAttributes, path *authorizationv1.NonResourceAttributes) authorizationv1.SubjectAccessReviewStatus {
		t.Helper()
		got, err := ann.SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: user, Groups: groups, ResourceAttributes: r, NonResourceAttributes: path},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Error(err)
			return authorizationv1.SubjectAccessReviewStatus{}
		}
		return got.Status
	}
	if s := sar("bob", nil, in("shop", "list", "", "pods"), nil); s.Allowed || s.Denied || s.Reason != "" {
		t.Errorf("%+v", s)
	}
	if s := sar("alice", nil, in("", "frob", "example.com", "things"), nil); !s.Allowed {
		t.Errorf("of what the server does not have: %+v", s)
	}
	if s := sar("", []string{"system:authenticated"}, &authorizationv1.ResourceAttributes{Verb: "create", Group: "authentication.k8s.io", Resource: "tokenreviews"}, nil); !s.Allowed {
		t.Errorf("of a group: %+v", s)
	}
	if s := sar("alice", nil, nil, &authorizationv1.NonResourceAttributes{Verb: "get", Path: "/metrics"}); !s.Allowed {
		t.Errorf("of a path: %+v", s)
	}
	local, err := ann.LocalSubjectAccessReviews("shop").Create(t.Context(), &authorizationv1.LocalSubjectAccessReview{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, // which is not there
		Spec:       authorizationv1.SubjectAccessReviewSpec{User: "ann", ResourceAttributes: in("shop", "get", "", "pods")},
	}, metav1.CreateOptions{})
	if err != nil || !local.Status.Allowed {
		t.Errorf("%+v %v", local, err)
	}
	rules, err := ann.SelfSubjectRulesReviews().Create(t.Context(), &authorizationv1.SelfSubjectRulesReview{
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "shop"},
	}, metav1.CreateOptions{})
	if err != nil || rules.Status.Incomplete || len(rules.Status.ResourceRules) != 2 || rules.Status.ResourceRules[1].Resources[0] != "pods" {
		t.Errorf("%+v %v", rules, err)
	}
}

// What is wrong with a review is said in upstream's words.
func TestReviews_invalid(t *testing.T) {
	f := newRBACFixture(t)
	const sar, ssar, lsar = "/apis/authorization.k8s.io/v1/subjectaccessreviews", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "/apis/authorization.k8s.io/v1/namespaces/shop/localsubjectaccessreviews"
	for _, tt := range []struct {
		name, path, body string
		code             int
		want             string
	}{
		{"nobody", sar, `{"spec":{"resourceAttributes":{"verb":"get"}}}`, 422, `spec.user: Invalid value: "": at least one of user or group must be specified`},
		{"nothing", ssar, `{"spec":{}}`, 422, `spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified`},
		{"both", ssar, `{"spec":{"resourceAttributes":{},"nonResourceAttributes":{}}}`, 422, `spec.nonResourceAttributes: Invalid value: {}: cannot be specified in combination with resourceAttributes`},
		{"a name", ssar, `{"metadata":{"name":"x"},"spec":{"resourceAttributes":{}}}`, 422, `metadata: Invalid value: {"name":"x"}: must be empty`},
		{"another namespace", lsar, `{"spec":{"user":"a","resourceAttributes":{"namespace":"bank"}}}`, 422, `spec.resourceAttributes.namespace: Invalid value: "bank": must match metadata.namespace`},
		{"namespaces differ", lsar, `{"metadata":{"namespace":"bank"},"spec":{"user":"a","resourceAttributes":{"namespace":"bank"}}}`, 400, `the namespace of the provided object does not match the namespace sent on the request`},
		{"a path in a namespace", lsar, `{"spec":{"user":"a","nonResourceAttributes":{"path":"/x"}}}`, 422, `spec.nonResourceAttributes: Invalid value: {"path":"/x"}: disallowed on this kind of request`},
		{"two forms of a selector", ssar, `{"spec":{"resourceAttributes":{"fieldSelector":{"rawSelector":"a=b","requirements":[{"key":"a","operator":"In","values":["b"]}]}}}}`, 422, `spec.resourceAttributes.fieldSelector.rawSelector: Invalid value: "a=b": may not specified at the same time as requirements`},
		{"no namespace", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", `{"spec":{}}`, 400, `no namespace on request`},
		{"no token", "/apis/authentication.k8s.io/v1/tokenreviews", `{"spec":{}}`, 422, `spec.token: Required value`},
		{"another kind", sar, `{"kind":"Pod","apiVersion":"v1"}`, 400, `Pod in version "v1" cannot be handled as a SubjectAccessReview`},
		{"unknown field", ssar + "?fieldValidation=Strict", `{"spec":{"x":1,"resourceAttributes":{}}}`, 400, `unknown field "spec.x"`},
	} {
		r := f.do(t, "POST", tt.path, tt.body)
		if r.Code != tt.code || !strings.Contains(r.status(t).Message, tt.want) {
			t.Errorf("%s: %d %s", tt.name, r.Code, r.Body)
		}
	}
	for _, method := range []string{"GET", "DELETE", "PUT"} {
		if r := f.do(t, method, sar, ""); r.Code != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d %s", method, r.Code, r.Body)
		}
	}
	if r := f.do(t, "GET", sar+"/x", ""); r.Code != http.StatusNotFound {
		t.Errorf("%d %s", r.Code, r.Body)
	}
	// A table and YAML are made as of any kind.
	if r := f.do(t, "POST", ssar, `{"spec":{"resourceAttributes":{"verb":"get"}}}`, "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io"); r.Code != 201 || !strings.Contains(r.Body, `"kind":"Table"`) {
		t.Errorf("%+v", r)
	}
	if r := f.do(t, "POST", ssar, `{"spec":{"resourceAttributes":{"verb":"get"}}}`, "Accept", "application/yaml"); r.Code != 201 || !strings.Contains(r.Body, "allowed: true") {
		t.Errorf("%+v", r)
	}
}

// noTokens refuses all reviews of tokens.
type noTokens struct{}

func (noTokens) Validate(_ context.Context, r *admission.Request) error {
	if _, ok := r.Object.(*authenticationv1.TokenReview); ok && r.Operation == admission.Create {
		return &admission.Denial{Status: metav1.Status{Message: "not today"}}
	}
	return nil
}

func TestTokenReview(t *testing.T) {
	f := newFixture(t)
	reviews := f.as(t, "alice", rest.ImpersonationConfig{}).AuthenticationV1()
	ask := func(token string, audiences ...string) authenticationv1.TokenReviewStatus {
		t.Helper()
		got, err := reviews.TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return got.Status
	}
	if s := ask("ann"); !s.Authenticated || s.User.Username != "ann" || len(s.Audiences) != 0 || s.Error != "" {
		t.Errorf("%+v", s)
	}
	if s := ask("ann", "x", "https://kubernetes.default.svc"); !s.Authenticated || len(s.Audiences) != 1 {
		t.Errorf("%+v", s)
	}
	if s := ask("ann", "x"); s.Authenticated || s.User.Username != "" {
		t.Errorf("%+v", s)
	}
	if s := ask("bad"); s.Authenticated || s.Error == "" {
		t.Errorf("%+v", s)
	}
	refusing := newFixture(t, func(c *httpapi.Config) { c.Admission = &admission.Chain{Validators: []admission.Validator{noTokens{}}} })
	if r := refusing.do(t, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", `{"spec":{"token":"x"}}`); r.Code != 403 {
		t.Errorf("admission is not asked: %+v", r)
	}
}

// A configured answer takes the place of the server's own.
func TestAnswers(t *testing.T) {
	f := newFixture(t, func(c *httpapi.Config) {
		c.Answers = map[string]registry.Answer{"selfsubjectreviews.authentication.k8s.io": func(_ context.Context, u *request.User, obj api.Object) (api.Object, error) {
			r, ok := obj.(*authenticationv1.SelfSubjectReview)
			if !ok || r.Status.UserInfo.Username != "" {
				return nil, errors.New("what the client says of itself is believed")
			}
			r.Status.UserInfo.Username = "not " + u.Name
			return r, nil
		}}
	})
	r := f.do(t, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", `{"status":{"userInfo":{"username":"root"}}}`)
	if r.Code != 201 || !strings.Contains(r.Body, `"username":"not alice"`) {
		t.Errorf("%+v", r)
	}
}

func TestImpersonate(t *testing.T) {
	f := newRBACFixture(t)
	for _, tt := range []struct {
		name, token string
		as          rest.ImpersonationConfig
		want        authenticationv1.UserInfo
		refused     string
	}{
		{"user", "alice", rest.ImpersonationConfig{UserName: "ann"}, authenticationv1.UserInfo{Username: "ann", Groups: []string{"system:authenticated"}}, ""},
		{"whole", "alice", rest.ImpersonationConfig{UserName: "ann", UID: "7", Groups: []string{"dev", "ops"}, Extra: map[string][]string{"scopes": {"a", "b"}, "example.com/x%y": {"z"}}}, authenticationv1.UserInfo{
			Username: "ann", UID: "7", Groups: []string{"dev", "ops", "system:authenticated"}, Extra: map[string]authenticationv1.ExtraValue{"scopes": {"a", "b"}, "example.com/x%y": {"z"}},
		}, ""},
		{"account", "alice", rest.ImpersonationConfig{UserName: "system:serviceaccount:shop:web"}, authenticationv1.UserInfo{
			Username: "system:serviceaccount:shop:web", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"},
		}, ""},
		{"may", "mallory", rest.ImpersonationConfig{UserName: "ann", Extra: map[string][]string{"scopes": {"view"}}}, authenticationv1.UserInfo{Username: "ann", Groups: []string{"system:authenticated"}, Extra: map[string]authenticationv1.ExtraValue{"scopes": {"view"}}}, ""},
		{"anonymous", "alice", rest.ImpersonationConfig{UserName: "system:anonymous"}, authenticationv1.UserInfo{}, `selfsubjectreviews.authentication.k8s.io is forbidden: User "system:anonymous" cannot create resource "selfsubjectreviews" in API group "authentication.k8s.io" at the cluster scope`},
		{"another", "mallory", rest.ImpersonationConfig{UserName: "alice"}, authenticationv1.UserInfo{}, `users "alice" is forbidden: User "mallory" cannot impersonate resource "users" in API group "" at the cluster scope`},
		{"group", "mallory", rest.ImpersonationConfig{UserName: "ann", Groups: []string{"system:masters"}}, authenticationv1.UserInfo{}, `groups "system:masters" is forbidden: User "mallory" cannot impersonate resource "groups" in API group "" at the cluster scope`},
		{"an account's", "mallory", rest.ImpersonationConfig{UserName: "system:serviceaccount:shop:web"}, authenticationv1.UserInfo{}, `serviceaccounts "web" is forbidden: User "mallory" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "shop"`},
		{"extra", "mallory", rest.ImpersonationConfig{UserName: "ann", Extra: map[string][]string{"scopes": {"edit"}}}, authenticationv1.UserInfo{}, `userextras.authentication.k8s.io "edit" is forbidden: User "mallory" cannot impersonate resource "userextras/scopes" in API group "authentication.k8s.io" at the cluster scope`},
		{"uid", "mallory", rest.ImpersonationConfig{UserName: "ann", UID: "7"}, authenticationv1.UserInfo{}, `uids.authentication.k8s.io "7" is forbidden: User "mallory" cannot impersonate resource "uids" in API group "authentication.k8s.io" at the cluster scope`},
	} {
		got, err := f.as(t, tt.token, tt.as).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if tt.refused != "" {
			if err == nil || err.Error() != tt.refused {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		if err != nil || !equal(t, tt.want, got.Status.UserInfo) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	// It does what the other may, no more.
	if _, err := f.as(t, "alice", rest.ImpersonationConfig{UserName: "ann"}).CoreV1().Pods("shop").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	const text = `pods is forbidden: User "ann" cannot list resource "pods" in API group "" in the namespace "default"`
	if _, err := f.as(t, "alice", rest.ImpersonationConfig{UserName: "ann"}).CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); err == nil || err.Error() != text {
		t.Error(err)
	}
	if r := f.do(t, "GET", "/api/v1/pods", "", "Impersonate-Group", "x"); r.Code != http.StatusInternalServerError || !strings.Contains(r.Body, "without impersonating a user") {
		t.Errorf("a group alone: %+v", r)
	}
	if r := f.do(t, "GET", "/api/v1/pods", "", "Authorization", "", "Impersonate-User", "alice"); r.Code != http.StatusUnauthorized {
		t.Errorf("by nobody: %+v", r)
	}
}

func equal(t *testing.T, want, got any) bool {
	t.Helper()
	d := cmp.Diff(want, got)
	if d != "" {
		t.Error(d)
	}
	return d == ""
}
