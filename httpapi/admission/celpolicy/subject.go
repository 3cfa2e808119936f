package celpolicy

import (
	"context"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/lazy"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/api/expression"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/admission/policy"
	"github.com/proa-project/proa/httpapi/request"
)

// A subject is what expressions see of one write. What costs something to make
// is made when an expression asks for it. It belongs to one goroutine.
type subject struct {
	ctx       context.Context //nolint:containedctx // of the one Judge that the subject is for
	write     *admission.Request
	row       *api.Resource // as which the write is shown
	object    map[string]any
	oldObject map[string]any
	params    map[string]any // nil is null
	namespace *corev1.Namespace
	authorize Authorize

	request   ref.Val
	variables *lazy.MapValue
	spent     uint64 // by variables, since it was last asked
}

// newSubject returns what expressions see of a write that is shown as row.
func newSubject(ctx context.Context, in *policy.Input, row *api.Resource, a Authorize) (*subject, error) {
	s := &subject{ctx: ctx, write: in.Request, row: row, authorize: a}
	var err error
	if s.object, err = in.Value(); err != nil {
		return nil, fmt.Errorf("failed to prepare object variable for evaluation: %w", err)
	}
	if s.oldObject, err = in.OldValue(); err != nil {
		return nil, fmt.Errorf("failed to prepare oldObject variable for evaluation: %w", err)
	}
	if row == in.Request.Resource {
		return s, nil
	}
	if s.object, err = as(row, in.Request.Resource, s.object); err != nil {
		return nil, fmt.Errorf("failed to convert object version: %w", err)
	}
	if s.oldObject, err = as(row, in.Request.Resource, s.oldObject); err != nil {
		return nil, fmt.Errorf("failed to convert object version: %w", err)
	}
	return s, nil
}

var _ cel.Activation = (*subject)(nil)

// Parent implements cel.Activation.
func (s *subject) Parent() cel.Activation { return nil }

// ResolveName implements cel.Activation.
func (s *subject) ResolveName(name string) (any, bool) {
	switch name {
	case expression.Object:
		return orNull(s.object), true
	case expression.OldObject:
		return orNull(s.oldObject), true
	case expression.Params:
		return orNull(s.params), true
	case expression.Request:
		if s.request == nil {
			s.request = types.DefaultTypeAdapter.NativeToValue(review(s.write, s.row))
		}
		return s.request, true
	case expression.Namespace:
		if s.namespace == nil {
			return types.NullValue, true
		}
		return common.SchemalessTypedToVal(s.namespace), true
	case expression.Authorizer:
		return library.NewAuthorizerVal(info(s.write.User), s), true
	case expression.ResourceAuthorizer:
		return library.NewResourceAuthorizerVal(info(s.write.User), s, target{s.write}), true
	case expression.VariablesName:
		return s.variables, s.variables != nil
	}
	return nil, false
}

// orNull keeps a nil map from being an empty one.
func orNull(m map[string]any) any {
	if m == nil {
		return types.NullValue
	}
	return m
}

// declare gives the subject a policy's variables. Each is evaluated once, when
// it is first asked for.
func (s *subject) declare(env *expression.Env, list []variable) {
	if len(list) == 0 {
		return
	}
	s.variables = lazy.NewMapValue(env.VariablesType())
	for i := range list {
		v := &list[i]
		s.variables.Append(v.name, func(*lazy.MapValue) ref.Val { return s.evaluate(v) })
	}
}

func (s *subject) evaluate(v *variable) ref.Val {
	if v.err != nil {
		return types.NewErr("composited variable %q fails to compile: %v", v.name, v.err)
	}
	val, details, err := s.run(v.Program)
	if details == nil || details.ActualCost() == nil {
		return types.NewErr("unable to calculate cost of variable %q", v.name)
	}
	s.spent += *details.ActualCost()
	if err != nil {
		return types.NewErr("composited variable %q fails to evaluate: %v", v.name, err)
	}
	return val
}

// review returns what expressions see of a request: an AdmissionRequest without
// the objects. What would be left out of its JSON is left out here.
func review(r *admission.Request, row *api.Resource) map[string]any {
	m := map[string]any{
		"kind": kindMap(Kind(r, row)), "resource": resourceMap(row),
		"requestKind": kindMap(Kind(r, r.Resource)), "requestResource": resourceMap(r.Resource),
		"operation": string(r.Operation), "userInfo": userMap(r.User), "dryRun": r.DryRun, "options": types.NullValue,
	}
	for key, value := range map[string]string{
		"subResource": r.Subresource, "requestSubResource": r.Subresource, "name": r.Name, "namespace": NamespaceOf(r),
	} {
		if value != "" {
			m[key] = value
		}
	}
	if r.Options != nil {
		m["options"] = common.SchemalessTypedToVal(r.Options)
	}
	return m
}

func kindMap(k metav1.GroupVersionKind) map[string]string {
	return map[string]string{"group": k.Group, "version": k.Version, "kind": k.Kind}
}

func resourceMap(r *api.Resource) map[string]string {
	return map[string]string{"group": r.Group, "version": r.Version, "resource": r.Plural}
}

func userMap(u *request.User) map[string]any {
	m := map[string]any{}
	if u == nil {
		return m
	}
	if u.Name != "" {
		m["username"] = u.Name
	}
	if u.UID != "" {
		m["uid"] = u.UID
	}
	if len(u.Groups) > 0 {
		m["groups"] = u.Groups
	}
	if len(u.Extra) > 0 {
		m["extra"] = u.Extra
	}
	return m
}

// NamespaceOf returns the namespace of a write; that of a Namespace is itself.
func NamespaceOf(r *admission.Request) string {
	if r.Resource.Group == "" && r.Resource.Plural == "namespaces" {
		return r.Name
	}
	return r.Namespace
}

// Kind returns the kind of what is written, as it is shown as row: the row's, or
// that of a subresource with a body of its own.
func Kind(r *admission.Request, row *api.Resource) metav1.GroupVersionKind {
	if r.Subresource != "" {
		if sub := row.Subresource(r.Subresource); sub != nil && sub.Kind != "" {
			return metav1.GroupVersionKind{Group: sub.Group, Version: sub.Version, Kind: sub.Kind}
		}
	}
	return metav1.GroupVersionKind(row.GVK())
}

// target is the write as the authorizer sees it.
type target struct{ r *admission.Request }

func (t target) GetName() string                          { return t.r.Name }
func (t target) GetNamespace() string                     { return t.r.Namespace }
func (t target) GetResource() schema.GroupVersionResource { return t.r.Resource.GVR() }
func (t target) GetSubresource() string                   { return t.r.Subresource }
