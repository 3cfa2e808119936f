package builtin

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/request"
)

const (
	nodesGroup     = "system:nodes"
	nodeUserPrefix = "system:node:"
	// restrictedPrefix is that of labels which nodes may not give themselves.
	restrictedPrefix = "node-restriction.kubernetes.io"
	nodeLeases       = corev1.NamespaceNodeLease
)

// NodeRestriction holds the agents of nodes to what is theirs: their own node
// object, their own lease, and the pods that run on them.
type NodeRestriction struct{}

// Mutate changes nothing.
func (n NodeRestriction) Mutate(_ context.Context, r *admission.Request) error {
	node, ok := nodeOf(r.User)
	if !ok {
		return nil
	}
	if node == "" {
		return forbid(r, "could not determine node identity from user")
	}
	switch {
	case is(r, "", "pods"):
		return n.pods(node, r)
	case is(r, "", "nodes"):
		return n.nodes(node, r)
	case is(r, "coordination.k8s.io", "leases"):
		return n.leases(node, r)
	case is(r, "", "serviceaccounts") && r.Subresource == "token":
		return nil // the authorizer has looked at it
	default:
		return nil
	}
}

// nodeOf returns the node that a user is the agent of. ok is false for users
// who are none.
func nodeOf(u *request.User) (name string, ok bool) {
	if u == nil || !u.InGroup(nodesGroup) {
		return "", false
	}
	name, _ = strings.CutPrefix(u.Name, nodeUserPrefix)
	if name == u.Name {
		name = ""
	}
	return name, true
}

func (NodeRestriction) pods(node string, r *admission.Request) error {
	old, _ := r.OldObject.(*corev1.Pod) //nolint:errcheck // nil for a create
	switch {
	case r.Operation == admission.Create && r.Subresource == "":
		return createMirror(node, r)
	case r.Operation == admission.Create && r.Subresource == "eviction":
		if e, ok := r.Object.(*policyv1.Eviction); !ok || e.Name == "" {
			return forbid(r, "could not determine pod from request data")
		}
		return nil
	case r.Operation == admission.Create:
		return forbid(r, "unexpected pod subresource %q", r.Subresource)
	case r.Operation == admission.Update && r.Subresource == "status":
		if old == nil || old.Spec.NodeName != node {
			return forbid(r, "node %q can only update pod status for pods with spec.nodeName set to itself", node)
		}
		if pod, ok := r.Object.(*corev1.Pod); ok && !equality.Semantic.DeepEqual(pod.Labels, old.Labels) {
			return forbid(r, "node %q cannot update labels through pod status", node)
		}
		return nil
	case r.Operation == admission.Delete:
		if old == nil || old.Spec.NodeName != node {
			return forbid(r, "node %q can only delete pods with spec.nodeName set to itself", node)
		}
		return nil
	default:
		return forbid(r, "unexpected operation %q, node %q can only create and delete mirror pods", r.Operation, node)
	}
}

// createMirror admits pods that only show what the node runs anyway.
func createMirror(node string, r *admission.Request) error {
	pod, ok := r.Object.(*corev1.Pod)
	switch {
	case !ok:
		return forbid(r, "unexpected type %T", r.Object)
	case pod.Annotations[corev1.MirrorPodAnnotationKey] == "":
		return forbid(r, "pod does not have %q annotation, node %q can only create mirror pods", corev1.MirrorPodAnnotationKey, node)
	case pod.Spec.NodeName != node:
		return forbid(r, "node %q can only create pods with spec.nodeName set to itself", node)
	case len(pod.OwnerReferences) > 1:
		return forbid(r, "node %q can only create pods with a single owner reference set to itself", node)
	case pod.Spec.ServiceAccountName != "" && pod.Spec.ServiceAccountName != "default":
		return forbid(r, "node %q can not create pods that reference a service account", node)
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Secret != nil || v.ConfigMap != nil || v.PersistentVolumeClaim != nil || v.Projected != nil {
			return forbid(r, "node %q can not create pods that reference API objects in volume %q", node, v.Name)
		}
	}
	return nil
}

func (NodeRestriction) nodes(node string, r *admission.Request) error {
	if r.Name != node {
		if obj, ok := r.Object.(*corev1.Node); !ok || r.Name != "" || obj.Name != node {
			return forbid(r, "node %q is not allowed to modify node %q", node, r.Name)
		}
	}
	obj, _ := r.Object.(*corev1.Node)    //nolint:errcheck // nil for a delete
	old, _ := r.OldObject.(*corev1.Node) //nolint:errcheck // nil for a create
	switch r.Operation {
	case admission.Create:
		if obj.Spec.ConfigSource != nil { //nolint:staticcheck // refused because it is of old
			return forbid(r, "node %q is not allowed to create pods with a non-nil configSource", node)
		}
		if bad := restrictedLabels(nil, obj.Labels); len(bad) > 0 {
			return forbid(r, "node %q is not allowed to set the following labels: %s", node, strings.Join(bad, ", "))
		}
		if len(obj.OwnerReferences) > 0 {
			return forbid(r, "node %q is not allowed to set ownerReferences", node)
		}
	case admission.Update:
		if obj == nil || old == nil {
			return forbid(r, "unexpected type %T", r.Object)
		}
		if !sameTaints(obj.Spec.Taints, old.Spec.Taints) {
			return forbid(r, "node %q is not allowed to modify taints", node)
		}
		if bad := restrictedLabels(old.Labels, obj.Labels); len(bad) > 0 {
			return forbid(r, "is not allowed to modify labels: %s", strings.Join(bad, ", "))
		}
		if !equality.Semantic.DeepEqual(obj.OwnerReferences, old.OwnerReferences) {
			return forbid(r, "node %q is not allowed to modify ownerReferences", node)
		}
	case admission.Delete:
		return forbid(r, "node %q is not allowed to delete node %q", node, r.Name)
	}
	return nil
}

// sameTaints leaves the time of taints out, which is not what they do.
func sameTaints(a, b []corev1.Taint) bool {
	return slices.EqualFunc(a, b, func(x, y corev1.Taint) bool {
		return x.Key == y.Key && x.Value == y.Value && x.Effect == y.Effect
	})
}

// restrictedLabels returns the labels that differ and that a node may not
// change itself.
func restrictedLabels(old, now map[string]string) []string {
	var bad []string
	check := func(key string) {
		prefix, _, _ := strings.Cut(key, "/")
		own := prefix == restrictedPrefix || strings.HasSuffix(prefix, "."+restrictedPrefix)
		if own && old[key] != now[key] && !slices.Contains(bad, key) {
			bad = append(bad, key)
		}
	}
	for k := range old {
		check(k)
	}
	for k := range now {
		check(k)
	}
	slices.Sort(bad)
	return bad
}

func (NodeRestriction) leases(node string, r *admission.Request) error {
	if r.Namespace != nodeLeases {
		return forbid(r, "can only access leases in the %q system namespace", nodeLeases)
	}
	name := r.Name
	if obj, ok := r.Object.(metav1.Object); ok && name == "" {
		name = obj.GetName()
	}
	if name != node {
		return forbid(r, "can only access node lease with the same name as the requesting node")
	}
	return nil
}
