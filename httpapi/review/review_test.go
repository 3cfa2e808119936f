package review_test

import (
	"context"
	"errors"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/httpapi/authn"
	"github.com/proa-project/proa/httpapi/authz"
	"github.com/proa-project/proa/httpapi/request"
	"github.com/proa-project/proa/httpapi/review"
)

// asked keeps what it is asked, and fails.
type asked struct {
	user *request.User
	info request.Info
}

func (a *asked) Authorize(_ context.Context, u *request.User, i *request.Info) (authz.Decision, string, error) {
	a.user, a.info = u, *i
	return authz.Deny, "because", errors.New("half of it is gone")
}

// What a review says reaches the authorizer, and what that says the client,
// also if it fails.
func TestAnswer(t *testing.T) {
	a := &asked{}
	v := review.New(review.Config{Authenticator: authn.Chain{}, Authorizer: a})
	sar := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "ann", UID: "7", Groups: []string{"dev"}, Extra: map[string]authorizationv1.ExtraValue{"Scopes": {"a"}},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: "shop", Verb: "list", Group: "example.com", Version: "v1", Resource: "things", Subresource: "log", Name: "x",
			FieldSelector: &authorizationv1.FieldSelectorAttributes{Requirements: []metav1.FieldSelectorRequirement{
				{Key: "spec.a", Operator: metav1.FieldSelectorOpIn, Values: []string{"b"}},
				{Key: "spec.c", Operator: metav1.FieldSelectorOpNotIn, Values: []string{"d"}},
				{Key: "spec.e", Operator: metav1.FieldSelectorOpExists},
			}},
			LabelSelector: &authorizationv1.LabelSelectorAttributes{Requirements: []metav1.LabelSelectorRequirement{
				{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"web"}}, {Key: "old", Operator: metav1.LabelSelectorOpDoesNotExist},
			}},
		},
	}}
	if _, err := v.Answer(t.Context(), request.Anonymous, sar); err != nil {
		t.Fatal(err)
	}
	if s := sar.Status; s.Allowed || !s.Denied || s.Reason != "because" || s.EvaluationError != "half of it is gone" {
		t.Errorf("%+v", s)
	}
	i := a.info
	if i.Resource.Group != "example.com" || i.Resource.Plural != "things" || i.Subresource != "log" || i.Namespace != "shop" || i.Name != "x" || i.Verb != "list" ||
		i.FieldSelector != "spec.a=b,spec.c!=d" || i.LabelSelector != "app in (web),!old" {
		t.Errorf("%+v", i)
	}
	if u := a.user; u.Name != "ann" || u.UID != "7" || !u.InGroup("dev") || u.Extra["scopes"][0] != "a" {
		t.Errorf("%+v", u)
	}
	rules := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "shop"}}
	if _, err := v.Answer(t.Context(), request.Anonymous, rules); err != nil || !rules.Status.Incomplete || rules.Status.ResourceRules == nil {
		t.Errorf("an authorizer that cannot tell: %+v %v", rules, err)
	}
	if _, err := v.Answer(t.Context(), request.Anonymous, &corev1.Pod{}); err == nil {
		t.Error("a pod is reviewed")
	}
}
