package noderestriction

import (
	"context"
	"errors"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/request"
)

type pods map[string]string

func (p pods) NodeOfPod(_ context.Context, namespace, pod string) (string, error) {
	return p[namespace+"/"+pod], nil
}

func node(name string, change func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		"kubernetes.io/hostname": name, "a.node-restriction.kubernetes.io/zone": "x",
	}}}
	if change != nil {
		change(n)
	}
	return n
}

func token(ref *authenticationv1.BoundObjectReference) runtime.Object {
	return &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: ref}}
}

func TestValidate(t *testing.T) {
	v := &Validator{Pods: pods{"shop/mine": "n1", "shop/theirs": "n2"}}
	nodes, leases, accounts := api.ByGVR("", "v1", "nodes"), api.ByGVR("coordination.k8s.io", "v1", "leases"), api.ByGVR("", "v1", "serviceaccounts")
	bare := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	for _, tt := range []struct {
		name     string
		resource *api.Resource
		sub      string
		object   runtime.Object
		old      runtime.Object
		denied   string // part of the message; "" if allowed
	}{
		{"creates itself", nodes, "", bare, nil, ""},
		{"creates another", nodes, "", node("n2", nil), nil, `nodes "n2" is forbidden: node "n1" is not allowed to modify node "n2"`},
		{"registers with taints", nodes, "", &corev1.Node{ObjectMeta: bare.ObjectMeta, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "a"}}}}, nil, ""},
		{"creates with a reserved label", nodes, "", node("n1", nil), nil, "is not allowed to modify labels"},
		{"changes its labels", nodes, "", node("n1", func(n *corev1.Node) { n.Labels["disk"] = "ssd" }), node("n1", nil), ""},
		{"changes a reserved label", nodes, "", node("n1", func(n *corev1.Node) { n.Labels["a.node-restriction.kubernetes.io/zone"] = "y" }), node("n1", nil), "labels"},
		{"drops a reserved label", nodes, "", bare, node("n1", nil), "labels"},
		{"drops its taints", nodes, "", node("n1", nil), node("n1", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "a"}} }), "taints"},
		{"owns itself", nodes, "", node("n1", func(n *corev1.Node) { n.OwnerReferences = []metav1.OwnerReference{{Name: "x"}} }), node("n1", nil), "owner references"},
		{"its lease", leases, "", &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, nil, ""},
		{"another's lease", leases, "", &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}, nil, "same name as the requesting node"},
		{"token for its pod", accounts, "token", token(&authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: "mine", UID: "1"}), nil, ""},
		{"token for another's pod", accounts, "token", token(&authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: "theirs", UID: "1"}), nil, "scheduled on a different node"},
		{"token without a pod", accounts, "token", token(nil), nil, "not bound to a pod"},
		{"token for a Secret", accounts, "token", token(&authenticationv1.BoundObjectReference{Kind: "Secret", APIVersion: "v1", Name: "s", UID: "1"}), nil, "not bound to a pod"},
		{"token without a uid", accounts, "token", token(&authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: "mine"}), nil, "without a uid"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &admission.Request{
				Operation: admission.Create, Resource: tt.resource, Subresource: tt.sub, Namespace: "shop", Name: "web",
				Object: tt.object, OldObject: tt.old, User: &request.User{Name: "system:node:n1", Groups: []string{request.Nodes}},
			}
			err := v.Validate(context.Background(), r)
			var d *admission.Denial
			if tt.denied == "" && err != nil || tt.denied != "" && (!errors.As(err, &d) || d.Status.Code != 403 || !strings.Contains(err.Error(), tt.denied)) {
				t.Errorf("error is %v, want %q", err, tt.denied)
			}
			r.User = &request.User{Name: "jane"}
			if err := v.Validate(context.Background(), r); err != nil {
				t.Errorf("somebody else is denied: %v", err)
			}
		})
	}
}
