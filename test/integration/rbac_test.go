package integration_test

import (
	"context"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/proa-project/proa/test/cluster"
)

// TestServiceAccountRole gives a service account a role, and does with its
// token what the role allows, and what it does not.
func TestServiceAccountRole(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Config{})
	ctx := bounded(t, 60*time.Second)
	admin := clients(t, c)
	const ns = "default"
	meta := metav1.ObjectMeta{Namespace: ns, Name: "robot"}
	if _, err := admin.CoreV1().ServiceAccounts(ns).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := admin.RbacV1().Roles(ns).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"get", "list", "watch", "create"}, APIGroups: []string{""}, Resources: []string{"configmaps"}},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	bound, err := admin.RbacV1().RoleBindings(ns).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "robot"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "robot", Namespace: ns}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	token, err := admin.CoreV1().ServiceAccounts(ns).CreateToken(ctx, "robot", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	robot := protobufClients(t, &rest.Config{Host: c.URL, BearerToken: token.Status.Token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: c.Authority.PEM()}})

	may := func(ctx context.Context) bool {
		_, err := robot.CoreV1().ConfigMaps(ns).List(ctx, metav1.ListOptions{})
		if err != nil && !apierrors.IsForbidden(err) {
			t.Fatal(err)
		}
		return err == nil
	}
	cluster.Eventually(t, 10*time.Second, "the role counts", may)
	if _, err := robot.CoreV1().ConfigMaps(ns).Create(ctx, configMap("of-robot"), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	w, err := robot.CoreV1().ConfigMaps(ns).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.Stop()
	const text = `secrets is forbidden: User "system:serviceaccount:default:robot" cannot list resource "secrets" in API group "" in the namespace "default"`
	if _, err := robot.CoreV1().Secrets(ns).List(ctx, metav1.ListOptions{}); err == nil || err.Error() != text {
		t.Error(err)
	}
	if _, err := robot.CoreV1().ConfigMaps("kube-system").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("in another namespace: %v", err)
	}
	if err := robot.CoreV1().ConfigMaps(ns).Delete(ctx, "of-robot", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("another verb: %v", err)
	}
	if _, err := robot.Discovery().ServerVersion(); err != nil {
		t.Error(err)
	}
	me, err := robot.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || me.Status.UserInfo.Username != "system:serviceaccount:default:robot" || me.Status.UserInfo.UID == "" {
		t.Errorf("%+v %v", me, err)
	}
	whose, err := admin.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token.Status.Token}}, metav1.CreateOptions{})
	if err != nil || !whose.Status.Authenticated || whose.Status.User.Username != me.Status.UserInfo.Username {
		t.Errorf("%+v %v", whose, err)
	}
	asked, err := admin.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: me.Status.UserInfo.Username, ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: ns, Verb: "get", Resource: "configmaps"},
	}}, metav1.CreateOptions{})
	if err != nil || !asked.Status.Allowed || asked.Status.Reason != `RBAC: allowed by RoleBinding "robot/default" of Role "robot" to ServiceAccount "robot/default"` {
		t.Errorf("%+v %v", asked, err)
	}

	// What is taken away counts no more.
	if err := admin.RbacV1().RoleBindings(ns).Delete(ctx, bound.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t, 10*time.Second, "the role counts no more", func(ctx context.Context) bool { return !may(ctx) })
}
