// Package rbac keeps users, in admission, from giving what they do not have:
// by a role with more rules than they have themselves, or by a binding to such
// a role.
package rbac

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-helpers/auth/rbac/validation"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/request"
)

// Rules tells of roles and who has them.
type Rules interface {
	// RulesFor returns the rules that count for a user in a namespace, or
	// outside of all with "". The error says why they may be incomplete.
	RulesFor(ctx context.Context, u *request.User, namespace string) ([]rbacv1.PolicyRule, error)
	// RoleRules returns the rules of the role that a binding in the namespace
	// refers to, and ok false if there is none.
	RoleRules(ctx context.Context, ref rbacv1.RoleRef, namespace string) (rules []rbacv1.PolicyRule, ok bool, err error)
}

// Validator refuses roles and bindings that give more than their writer has.
// Who may escalate a role, or bind one, is free, and so are request.Masters.
type Validator struct {
	Rules Rules
	// May reports whether a user may do something, by all authorizers.
	May func(ctx context.Context, u *request.User, info *request.Info) (bool, error)
}

// Validate returns an *admission.Denial for what would give too much.
func (v *Validator) Validate(ctx context.Context, r *admission.Request) error {
	if r.Resource.Group != rbacv1.GroupName || r.Subresource != "" || r.User == nil || r.User.InGroup(request.Masters) {
		return nil
	}
	if r.Operation != admission.Create && r.Operation != admission.Update {
		return nil
	}
	if onlyLets(r) {
		return nil
	}
	switch o := r.Object.(type) {
	case *rbacv1.Role:
		old, _ := r.OldObject.(*rbacv1.Role) // nil for a create
		if old != nil && equality.Semantic.DeepEqual(o.Rules, old.Rules) {
			return nil
		}
		return v.role(ctx, r, o.Name, o.Rules, false)
	case *rbacv1.ClusterRole:
		old, _ := r.OldObject.(*rbacv1.ClusterRole) // nil for a create
		if old != nil && equality.Semantic.DeepEqual(o.Rules, old.Rules) && equality.Semantic.DeepEqual(o.AggregationRule, old.AggregationRule) {
			return nil
		}
		return v.role(ctx, r, o.Name, o.Rules, aggregates(o) || old != nil && aggregates(old))
	case *rbacv1.RoleBinding:
		return v.binding(ctx, r, o.Name, o.RoleRef)
	case *rbacv1.ClusterRoleBinding:
		return v.binding(ctx, r, o.Name, o.RoleRef)
	}
	return nil
}

// onlyLets reports whether an update changes nothing but what the garbage
// collector needs to change to let go of an object.
func onlyLets(r *admission.Request) bool {
	obj, ok := r.Object.(api.Object)
	old, was := r.OldObject.(api.Object)
	if !ok || !was {
		return false
	}
	same, ok := obj.DeepCopyObject().(api.Object)
	if !ok {
		return false
	}
	same.SetOwnerReferences(old.GetOwnerReferences())
	same.SetFinalizers(old.GetFinalizers())
	same.SetManagedFields(old.GetManagedFields())
	same.SetResourceVersion(old.GetResourceVersion())
	same.GetObjectKind().SetGroupVersionKind(old.GetObjectKind().GroupVersionKind())
	return equality.Semantic.DeepEqual(same, old)
}

func aggregates(r *rbacv1.ClusterRole) bool {
	return r.AggregationRule != nil && len(r.AggregationRule.ClusterRoleSelectors) > 0
}

// role checks the rules of a role. Who has others' roles gathered can get
// anything, and take away what others are to have, so that takes all rights.
func (v *Validator) role(ctx context.Context, r *admission.Request, name string, rules []rbacv1.PolicyRule, gathers bool) error {
	info := request.Info{Verb: "escalate", Resource: r.Resource, Namespace: r.Namespace}
	if r.Operation == admission.Update {
		info.Name = r.Name
	}
	if ok, err := v.May(ctx, r.User, &info); ok || err != nil {
		return err
	}
	if err := v.covers(ctx, r, rules); err != nil {
		return forbid(r, name, err)
	}
	if gathers {
		everything := []rbacv1.PolicyRule{
			{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
			{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}},
		}
		if err := v.covers(ctx, r, everything); err != nil {
			return forbid(r, name, errors.New("must have cluster-admin privileges to use an aggregationRule"))
		}
	}
	return nil
}

// binding checks the role that a binding gives.
func (v *Validator) binding(ctx context.Context, r *admission.Request, name string, ref rbacv1.RoleRef) error {
	resource := map[string]string{"Role": "roles", "ClusterRole": "clusterroles"}[ref.Kind]
	row := api.ByGVR(rbacv1.GroupName, "v1", resource)
	if row == nil {
		return nil // validation has said so
	}
	info := request.Info{Verb: "bind", Resource: row, Namespace: r.Namespace, Name: ref.Name}
	if ok, err := v.May(ctx, r.User, &info); ok || err != nil {
		return err
	}
	rules, ok, err := v.Rules.RoleRules(ctx, ref, r.Namespace)
	if err != nil {
		return err
	}
	if !ok {
		gr := schema.GroupResource{Group: rbacv1.GroupName, Resource: resource}
		return &admission.Denial{Status: apierrors.NewNotFound(gr, ref.Name).ErrStatus}
	}
	if err := v.covers(ctx, r, rules); err != nil {
		return forbid(r, name, err)
	}
	return nil
}

// covers returns an error that names the rules which the user does not have.
func (v *Validator) covers(ctx context.Context, r *admission.Request, rules []rbacv1.PolicyRule) error {
	have, incomplete := v.Rules.RulesFor(ctx, r.User, r.Namespace)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	ok, missing := validation.Covers(have, rules)
	if ok {
		return nil
	}
	var texts []string
	for _, m := range compact(missing) {
		texts = append(texts, describe(&m))
	}
	slices.Sort(texts)
	text := fmt.Sprintf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s",
		r.User.Name, r.User.Groups, strings.Join(slices.Compact(texts), "\n"))
	if incomplete != nil {
		text += fmt.Sprintf("; resolution errors: [%v]", incomplete)
	}
	return errors.New(text)
}

// forbid makes the refusal, unless it is not one but the end of the context.
func forbid(r *admission.Request, name string, why error) error {
	if errors.Is(why, context.Canceled) || errors.Is(why, context.DeadlineExceeded) {
		return why
	}
	st := apierrors.NewForbidden(r.Resource.GR(), name, why).ErrStatus
	st.Status = metav1.StatusFailure
	return &admission.Denial{Status: st}
}
