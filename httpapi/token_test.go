package httpapi_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/httpapi"
	"github.com/proa-project/proa/httpapi/admission"
)

// issuer issues tokens that say for whom they are.
type issuer struct{}

func (issuer) Issue(_ context.Context, namespace, name string, tr *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	if tr.Spec.BoundObjectRef != nil {
		return nil, errors.New("the key is lost")
	}
	out := tr.DeepCopy()
	out.Status.Token = namespace + "/" + name
	return out, nil
}

// onlyFor admits tokens for one audience.
type onlyFor string

func (o onlyFor) Validate(_ context.Context, r *admission.Request) error {
	tr, ok := r.Object.(*authenticationv1.TokenRequest)
	if !ok || r.Subresource != "token" || r.Operation != admission.Create || r.Name != "sa" {
		return nil
	}
	if len(tr.Spec.Audiences) == 0 || tr.Spec.Audiences[0] != string(o) {
		return &admission.Denial{Status: metav1.Status{Message: "not for you"}}
	}
	return nil
}

func TestToken(t *testing.T) {
	f := newFixture(t, func(c *httpapi.Config) {
		c.Tokens = issuer{}
		c.Admission.Validators = []admission.Validator{onlyFor("x")}
	})
	accounts := f.client.CoreV1().ServiceAccounts("default")
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "sa"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ask := func(name, audience string) (string, error) {
		tr, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}},
		}, metav1.CreateOptions{})
		return tr.Status.Token, err
	}
	if got, err := ask("sa", "x"); err != nil || got != "default/sa" {
		t.Errorf("%q %v", got, err)
	}
	if _, err := ask("sa", "y"); !apierrors.IsForbidden(err) {
		t.Errorf("admission is not asked: %v", err)
	}
	if _, err := ask("none", "x"); !apierrors.IsNotFound(err) {
		t.Errorf("%v", err)
	}
	r := f.do(t, "POST", "/api/v1/namespaces/default/serviceaccounts/sa/token", `{"spec":{"audiences":["x"],"boundObjectRef":{}}}`)
	if r.Code != http.StatusInternalServerError || r.status(t).Message != "Internal error occurred: the key is lost" {
		t.Errorf("%+v", r)
	}
}
