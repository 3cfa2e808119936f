package celpolicy

import (
	"context"
	"errors"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/proa-project/proa/api"
)

// A misconfiguration keeps a policy or a binding from judging at all.
type misconfiguration struct {
	policy bool // it is the policy's fault, not the binding's
	err    error
}

func (m *misconfiguration) Error() string {
	if m.policy {
		return "failed to configure policy: " + m.err.Error()
	}
	return "failed to configure binding: " + m.err.Error()
}

func (m *misconfiguration) Unwrap() error { return m.err }

// parameters returns what a write is judged with, one after the other: nil
// stands for no parameter. None at all means that there is nothing to judge.
func (b *bound) parameters(ctx context.Context, namespace string) ([]map[string]any, error) {
	if b.rule.kind == nil {
		return []map[string]any{nil}, nil
	}
	gv, err := schema.ParseGroupVersion(b.rule.kind.APIVersion)
	if err != nil {
		return nil, &misconfiguration{true, err}
	}
	gvk := gv.WithKind(b.rule.kind.Kind)
	var row *api.Resource
	if b.rule.c.Params != nil {
		row = b.rule.c.Params.Kind(gvk)
	}
	if row == nil {
		return nil, &misconfiguration{true, fmt.Errorf("failed to find resource referenced by paramKind: '%v'", gvk)}
	}
	if b.params == nil {
		return []map[string]any{nil}, nil
	}
	list, err := b.read(ctx, row, namespace)
	if err != nil {
		return nil, &misconfiguration{false, err}
	}
	if a := b.params.ParameterNotFoundAction; len(list) == 0 && a != nil && *a == admissionregistrationv1.DenyAction {
		return nil, &misconfiguration{false, errors.New("no params found for policy binding with `Deny` parameterNotFoundAction")}
	}
	return list, nil
}

func (b *bound) read(ctx context.Context, row *api.Resource, namespace string) ([]map[string]any, error) {
	ref, params := b.params, b.rule.c.Params
	switch {
	case !row.Namespaced && ref.Namespace != "":
		return nil, errors.New("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
	case !row.Namespaced:
		namespace = ""
	case ref.Namespace != "":
		namespace = ref.Namespace
	case namespace == "":
		return nil, errors.New("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
	}
	if ref.Name != "" {
		obj, err := params.Get(ctx, row, namespace, ref.Name)
		if obj == nil || err != nil {
			return nil, err
		}
		return []map[string]any{obj}, nil
	}
	if ref.Selector == nil {
		return nil, errors.New("one of name or selector must be provided")
	}
	selector, err := metav1.LabelSelectorAsSelector(ref.Selector)
	if err != nil {
		return nil, err
	}
	return params.List(ctx, row, namespace, selector)
}
