package kubewarden

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
)

// hostCall answers a call of the host, whose eight parameters are the ranges of
// the binding, the namespace, the operation and the payload. Its errors are for
// the guest.
func (p *Plugin) hostCall(i *engine.Instance, s []uint64) ([]byte, error) {
	const longest = 256 // of the names
	name := func(n int) string { return string(i.Argument(s[n], min(s[n+1]&0xffffffff, longest))) }
	binding, namespace, operation := name(0), name(2), name(4)
	payload := i.Argument(s[6], s[7])
	if binding != "kubewarden" {
		return nil, fmt.Errorf("unknown binding %q", binding)
	}
	if namespace == "tracing" && operation == "log" {
		trace(i, payload)
		return nil, nil
	}
	if !p.declared(namespace + "/" + operation) {
		return nil, fmt.Errorf("%s/%s is not among the host capabilities of the policy's metadata", namespace, operation)
	}
	if namespace == "kubernetes" {
		switch operation {
		case "get_resource":
			return p.get(i, payload)
		case "list_resources_by_namespace", "list_resources_all":
			return p.list(i, payload, operation == "list_resources_by_namespace")
		case "can_i":
			return canI(i, payload)
		}
	}
	return nil, fmt.Errorf("%s/%s is not offered here", namespace, operation)
}

// declared reports whether the metadata allows a function of the host. Older
// policies say nothing about that.
func (p *Plugin) declared(function string) bool {
	if p.metadata == nil || p.metadata.HostCapabilities == nil {
		return true
	}
	for _, pattern := range p.metadata.HostCapabilities {
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok && strings.HasPrefix(function, prefix) || pattern == function {
			return true
		}
	}
	return false
}

// trace logs a line. The payload is an object with a level, a message and
// whatever the policy adds.
func trace(i *engine.Instance, payload []byte) {
	var w struct {
		Level string `json:"level"`
	}
	level := engine.Notice
	if json.Unmarshal(payload, &w) == nil {
		switch strings.ToLower(w.Level) {
		case "trace", "debug":
			level = engine.Debug
		case "warn", "warning":
			level = engine.Warn
		case "error":
			level = engine.Err
		}
	}
	i.Print(level, payload)
}

// A resourceRequest is what the functions that read objects are given.
type resourceRequest struct {
	APIVersion    string  `json:"api_version"`
	Kind          string  `json:"kind"`
	Name          string  `json:"name"`
	Namespace     *string `json:"namespace"`
	LabelSelector *string `json:"label_selector"`
	FieldSelector *string `json:"field_selector"`
}

// A query is the request of the capabilities kube.get and kube.list.
type query struct {
	Group         string `json:"group"`
	Version       string `json:"version"`
	Resource      string `json:"resource"`
	Kind          string `json:"kind"`
	Namespace     string `json:"namespace,omitempty"`
	Name          string `json:"name,omitempty"`
	LabelSelector string `json:"labelSelector,omitempty"`
	FieldSelector string `json:"fieldSelector,omitempty"`
}

// query checks a request against the metadata and makes a capability's of it.
func (p *Plugin) query(payload []byte) (*resourceRequest, *query, error) {
	r := &resourceRequest{}
	if err := json.Unmarshal(payload, r); err != nil {
		return nil, nil, fmt.Errorf("cannot read the request: %w", err)
	}
	if !p.metadata.MayRead(r.APIVersion, r.Kind) {
		return nil, nil, fmt.Errorf("the policy's metadata does not name %s %s among its contextAwareResources", r.APIVersion, r.Kind)
	}
	or := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	q := &query{Kind: r.Kind, Namespace: or(r.Namespace), LabelSelector: or(r.LabelSelector), FieldSelector: or(r.FieldSelector)}
	q.Group, q.Version = abi.SplitAPIVersion(r.APIVersion)
	plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Group: q.Group, Version: q.Version, Kind: r.Kind})
	q.Resource = plural.Resource
	return r, q, nil
}

func ask(i *engine.Instance, operation string, request any) ([]byte, error) {
	b, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	return i.Ask(operation, b)
}

func (p *Plugin) get(i *engine.Instance, payload []byte) ([]byte, error) {
	r, q, err := p.query(payload)
	if err != nil {
		return nil, err
	}
	if r.Name == "" {
		return nil, errors.New("the request names no object")
	}
	q.Name, q.LabelSelector, q.FieldSelector = r.Name, "", ""
	return ask(i, "kube.get", q)
}

// list answers with a list as the API has them.
func (p *Plugin) list(i *engine.Instance, payload []byte, namespaced bool) ([]byte, error) {
	r, q, err := p.query(payload)
	if err != nil {
		return nil, err
	}
	if namespaced && q.Namespace == "" {
		return nil, errors.New("the request names no namespace")
	}
	if !namespaced {
		q.Namespace = ""
	}
	b, err := ask(i, "kube.list", q)
	if err != nil {
		return nil, err
	}
	var reply struct {
		Items json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(b, &reply); err != nil {
		return nil, fmt.Errorf("cannot read the list: %w", err)
	}
	if len(bytes.TrimSpace(reply.Items)) == 0 || string(reply.Items) == "null" {
		reply.Items = json.RawMessage("[]")
	}
	return json.Marshal(struct {
		APIVersion string          `json:"apiVersion"`
		Kind       string          `json:"kind"`
		Metadata   struct{}        `json:"metadata"`
		Items      json.RawMessage `json:"items"`
	}{APIVersion: r.APIVersion, Kind: r.Kind + "List", Items: reply.Items})
}

// A review is the part of a SubjectAccessReview that can_i is given.
type review struct {
	Spec *struct {
		User       string   `json:"user"`
		Groups     []string `json:"groups"`
		Attributes *struct {
			Namespace   string `json:"namespace"`
			Verb        string `json:"verb"`
			Group       string `json:"group"`
			Resource    string `json:"resource"`
			Subresource string `json:"subresource"`
			Name        string `json:"name"`
		} `json:"resourceAttributes"`
	} `json:"spec"`
}

// canI answers with a SubjectAccessReviewStatus.
func canI(i *engine.Instance, payload []byte) ([]byte, error) {
	var r struct {
		review
		Inner review `json:"subject_access_review"`
	}
	if err := json.Unmarshal(payload, &r); err != nil {
		return nil, fmt.Errorf("cannot read the request: %w", err)
	}
	spec := r.Spec
	if spec == nil {
		spec = r.Inner.Spec
	}
	if spec == nil || spec.Attributes == nil {
		return nil, errors.New("the request has no resourceAttributes")
	}
	a := spec.Attributes
	b, err := ask(i, "authz.can_i", map[string]any{
		"verb": a.Verb, "group": a.Group, "resource": a.Resource, "subresource": a.Subresource, "namespace": a.Namespace, "name": a.Name,
		"user": spec.User, "groups": spec.Groups,
	})
	if err != nil {
		return nil, err
	}
	var status struct {
		Allowed bool   `json:"allowed"`
		Reason  string `json:"reason,omitempty"`
	}
	if err := json.Unmarshal(b, &status); err != nil {
		return nil, fmt.Errorf("cannot read the answer: %w", err)
	}
	return json.Marshal(status)
}
