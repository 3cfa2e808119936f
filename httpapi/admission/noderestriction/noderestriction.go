// Package noderestriction keeps node agents, in admission, from writing what
// authorization cannot see: objects of other nodes under a name that only the
// body tells, and parts of their own Node that are not theirs.
package noderestriction

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/httpapi/admission"
)

// reservedLabel marks labels that only administrators may put on a node.
const reservedLabel = "node-restriction.kubernetes.io/"

// A PodLookup tells which node a pod is bound to; "" if it is bound to none or
// is not there.
type PodLookup interface {
	NodeOfPod(ctx context.Context, namespace, pod string) (string, error)
}

// Validator restricts the writes of node agents. Others pass.
type Validator struct {
	Pods PodLookup
}

// Validate returns an *admission.Denial for what a node must not write.
func (v *Validator) Validate(ctx context.Context, r *admission.Request) error {
	if r.User == nil || r.Operation == admission.Delete {
		return nil
	}
	node, ok := r.User.NodeName()
	if !ok {
		return nil
	}
	switch r.Resource.GR().String() {
	case "nodes":
		return validateNode(r, node)
	case "leases.coordination.k8s.io":
		if l, ok := r.Object.(*coordinationv1.Lease); ok && l.Name != node {
			return deny(r, l.Name, "can only access node lease with the same name as the requesting node")
		}
	case "serviceaccounts":
		if tr, ok := r.Object.(*authenticationv1.TokenRequest); ok && r.Subresource == "token" {
			return v.validateToken(ctx, r, tr, node)
		}
	}
	return nil
}

func validateNode(r *admission.Request, node string) error {
	n, ok := r.Object.(*corev1.Node)
	if !ok {
		return nil
	}
	if n.Name != node {
		return deny(r, n.Name, fmt.Sprintf("node %q is not allowed to modify node %q", node, n.Name))
	}
	var before corev1.Node
	if old, ok := r.OldObject.(*corev1.Node); ok {
		before = *old
		if !equality.Semantic.DeepEqual(before.Spec.Taints, n.Spec.Taints) {
			return deny(r, n.Name, fmt.Sprintf("node %q is not allowed to modify taints", node))
		}
	}
	if !maps.Equal(reserved(before.Labels), reserved(n.Labels)) {
		return deny(r, n.Name, fmt.Sprintf("is not allowed to modify labels: %s", reservedLabel))
	}
	if len(n.OwnerReferences) > 0 && !equality.Semantic.DeepEqual(before.OwnerReferences, n.OwnerReferences) {
		return deny(r, n.Name, fmt.Sprintf("node %q is not allowed to modify owner references", node))
	}
	return nil
}

// reserved returns the labels that nodes must not touch.
func reserved(labels map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range labels {
		domain, _, _ := strings.Cut(k, "/")
		if domain+"/" == reservedLabel || strings.HasSuffix(domain+"/", "."+reservedLabel) {
			out[k] = v
		}
	}
	return out
}

// validateToken wants tokens that end with a pod of the node. That the pod
// runs as the account is for whoever issues the token.
func (v *Validator) validateToken(ctx context.Context, r *admission.Request, tr *authenticationv1.TokenRequest, node string) error {
	ref := tr.Spec.BoundObjectRef
	if ref == nil || ref.APIVersion != "v1" || ref.Kind != "Pod" || ref.Name == "" {
		return deny(r, r.Name, "node requested token not bound to a pod")
	}
	if ref.UID == "" {
		return deny(r, r.Name, "node requested token with a pod binding without a uid")
	}
	bound, err := v.Pods.NodeOfPod(ctx, r.Namespace, ref.Name)
	if err != nil {
		return fmt.Errorf("look up the node of pod %s/%s: %w", r.Namespace, ref.Name, err)
	}
	if bound != node {
		return deny(r, r.Name, "node requested token bound to a pod scheduled on a different node")
	}
	return nil
}

func deny(r *admission.Request, name, why string) error {
	gr := r.Resource.GR()
	return &admission.Denial{Status: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusForbidden,
		Reason:  metav1.StatusReasonForbidden,
		Message: fmt.Sprintf("%s %q is forbidden: %s", gr, name, why),
		Details: &metav1.StatusDetails{Name: name, Group: gr.Group, Kind: gr.Resource},
	}}
}
