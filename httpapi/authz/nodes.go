package authz

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/fields"

	"github.com/proa-project/proa/httpapi/request"
)

// leaseNamespace holds the leases by which nodes show that they live.
const leaseNamespace = "kube-node-lease"

// A NodeGraph tells what belongs to a node. It is asked on each request of a
// node, and may be behind what the request then reads by as little as a cache
// of the same server is.
type NodeGraph interface {
	// NodeOfPod returns the node that a pod is bound to; "" if it is bound to
	// none or is not there.
	NodeOfPod(ctx context.Context, namespace, pod string) (string, error)
	// NodeUses reports whether a pod that is bound to the node refers to the
	// object, which is one of secrets, configmaps or serviceaccounts.
	NodeUses(ctx context.Context, node, resource, namespace, name string) (bool, error)
}

// Nodes allows node agents what they need for themselves: their own node and
// lease, the pods that are bound to it and what these refer to. A create has
// no name when it is authorized: admission/noderestriction refuses those
// of other nodes' objects.
type Nodes struct {
	Graph NodeGraph
}

// Authorize allows or has no opinion.
func (n *Nodes) Authorize(ctx context.Context, u *request.User, i *request.Info) (Decision, string, error) {
	if i.Resource == nil {
		return NoOpinion, "", nil
	}
	node, ok := u.NodeName()
	if !ok {
		return NoOpinion, "", nil
	}
	if i.Resource.Group == "events.k8s.io" && i.Resource.Plural == "events" {
		return events(i)
	}
	switch i.Resource.GR().String() {
	case "nodes":
		return ownNode(node, i)
	case "leases.coordination.k8s.io":
		return ownLease(node, i)
	case "pods":
		return n.ownPods(ctx, node, i)
	case "secrets", "configmaps":
		return n.referenced(ctx, node, i)
	case "serviceaccounts":
		return n.token(ctx, node, i)
	case "events":
		return events(i)
	case "services":
		if i.Subresource == "" && isRead(i.Verb) {
			return Allow, "", nil
		}
		return NoOpinion, "a node can only read services", nil
	}
	return NoOpinion, "", nil
}

const unrelated = "no relationship found between node '%s' and this object"

func isRead(verb string) bool { return verb == "get" || verb == "list" || verb == "watch" }

func ownNode(node string, i *request.Info) (Decision, string, error) {
	switch {
	case i.Subresource == "" && (isRead(i.Verb) || i.Verb == "create"):
		return Allow, "", nil
	case (i.Verb == "update" || i.Verb == "patch") && (i.Subresource == "" || i.Subresource == "status"):
		if i.Name == node {
			return Allow, "", nil
		}
		return NoOpinion, fmt.Sprintf("node '%s' can only change its own node object", node), nil
	case i.Verb == "get" && i.Subresource == "status" && i.Name == node:
		return Allow, "", nil
	}
	return NoOpinion, "", nil
}

func ownLease(node string, i *request.Info) (Decision, string, error) {
	if i.Namespace != leaseNamespace {
		return NoOpinion, fmt.Sprintf("a node can only access leases in the %q namespace", leaseNamespace), nil
	}
	if i.Subresource != "" {
		return NoOpinion, "", nil
	}
	switch i.Verb {
	case "create":
		return Allow, "", nil
	case "get", "update", "patch", "delete":
		if i.Name == node {
			return Allow, "", nil
		}
		return NoOpinion, "a node can only access its own lease", nil
	}
	return NoOpinion, "a node can only get, create, update, patch, or delete its own lease", nil
}

func (n *Nodes) ownPods(ctx context.Context, node string, i *request.Info) (Decision, string, error) {
	switch {
	case i.Subresource == "" && (i.Verb == "list" || i.Verb == "watch"):
		if selects(i.FieldSelector, "spec.nodeName", node) {
			return Allow, "", nil
		}
		return NoOpinion, fmt.Sprintf("a node can only list and watch pods with the field selector spec.nodeName=%s", node), nil
	case i.Name == "":
	case i.Subresource == "" && (i.Verb == "get" || i.Verb == "delete"),
		i.Subresource == "status" && (i.Verb == "get" || i.Verb == "update" || i.Verb == "patch"):
		bound, err := n.Graph.NodeOfPod(ctx, i.Namespace, i.Name)
		if err != nil {
			return NoOpinion, "", fmt.Errorf("look up the node of pod %s/%s: %w", i.Namespace, i.Name, err)
		}
		if bound == node {
			return Allow, "", nil
		}
		return NoOpinion, fmt.Sprintf(unrelated, node), nil
	}
	return NoOpinion, "a node can only read and delete pods and change their status", nil
}

// referenced allows reading single objects that the node's pods refer to.
func (n *Nodes) referenced(ctx context.Context, node string, i *request.Info) (Decision, string, error) {
	if i.Subresource != "" || !isRead(i.Verb) {
		return NoOpinion, fmt.Sprintf("a node can only read %s", i.Resource.Plural), nil
	}
	name := i.Name
	if name == "" {
		name = selected(i.FieldSelector, "metadata.name")
	}
	if name == "" || i.Namespace == "" {
		return NoOpinion, fmt.Sprintf("a node can only read single %s, by name", i.Resource.Plural), nil
	}
	return n.uses(ctx, node, i.Resource.Plural, i.Namespace, name)
}

// token allows requests for tokens of the accounts of the node's pods.
func (n *Nodes) token(ctx context.Context, node string, i *request.Info) (Decision, string, error) {
	if i.Subresource != "token" || i.Verb != "create" || i.Name == "" {
		return NoOpinion, "a node can only create tokens of service accounts", nil
	}
	return n.uses(ctx, node, i.Resource.Plural, i.Namespace, i.Name)
}

func (n *Nodes) uses(ctx context.Context, node, resource, namespace, name string) (Decision, string, error) {
	ok, err := n.Graph.NodeUses(ctx, node, resource, namespace, name)
	if err != nil {
		return NoOpinion, "", fmt.Errorf("look up whether node %q uses %s %s/%s: %w", node, resource, namespace, name, err)
	}
	if !ok {
		return NoOpinion, fmt.Sprintf(unrelated, node), nil
	}
	return Allow, "", nil
}

func events(i *request.Info) (Decision, string, error) {
	if i.Subresource == "" && slices.Contains([]string{"create", "update", "patch"}, i.Verb) {
		return Allow, "", nil
	}
	return NoOpinion, "a node can only create and update events", nil
}

// selects reports whether the field selector lets pass only objects with the
// value.
func selects(selector, label, value string) bool {
	return value != "" && selected(selector, label) == value
}

// selected returns the value that the selector demands of a field, or "".
func selected(selector, label string) string {
	s, err := fields.ParseSelector(selector)
	if err != nil {
		return ""
	}
	v, ok := s.RequiresExactMatch(label)
	if !ok {
		return ""
	}
	return v
}
