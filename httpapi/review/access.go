package review

import (
	"context"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/proa-project/proa/httpapi/authz"
	"github.com/proa-project/proa/httpapi/request"
)

// subject returns the user that a review is about.
func subject(s *authorizationv1.SubjectAccessReviewSpec) *request.User {
	u := &request.User{Name: s.User, UID: s.UID, Groups: s.Groups}
	if len(s.Extra) > 0 {
		u.Extra = make(map[string][]string, len(s.Extra))
		for k, v := range s.Extra {
			u.Extra[strings.ToLower(k)] = v
		}
	}
	return u
}

// access answers whether a user may do something. That an authorizer fails is
// part of the answer.
func (v *Reviewer) access(ctx context.Context, u *request.User, r *authorizationv1.ResourceAttributes,
	path *authorizationv1.NonResourceAttributes, out *authorizationv1.SubjectAccessReviewStatus,
) error {
	info := request.Info{}
	switch {
	case r != nil:
		info = request.Info{
			Verb: r.Verb, Resource: authz.Named(r.Group, r.Version, r.Resource), Subresource: r.Subresource,
			Namespace: r.Namespace, Name: r.Name,
			FieldSelector: fieldSelector(r.FieldSelector), LabelSelector: labelSelector(r.LabelSelector),
		}
	case path != nil:
		info = request.Info{Verb: path.Verb, Path: path.Path}
	}
	d, reason, err := v.cfg.Authorizer.Authorize(ctx, u, &info)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	*out = authorizationv1.SubjectAccessReviewStatus{Allowed: d == authz.Allow, Denied: d == authz.Deny, Reason: reason}
	if err != nil {
		out.EvaluationError = err.Error()
	}
	return nil
}

// fieldSelector returns a selection as a client would have written it. One that
// cannot be understood is none, so that nobody is allowed more for it.
func fieldSelector(s *authorizationv1.FieldSelectorAttributes) string {
	if s == nil {
		return ""
	}
	if s.RawSelector != "" {
		return s.RawSelector
	}
	var parts []string
	for _, r := range s.Requirements {
		if len(r.Values) != 1 {
			continue
		}
		switch r.Operator {
		case metav1.FieldSelectorOpIn:
			parts = append(parts, r.Key+"="+r.Values[0])
		case metav1.FieldSelectorOpNotIn:
			parts = append(parts, r.Key+"!="+r.Values[0])
		default: // exists; no server can select by it
		}
	}
	return strings.Join(parts, ",")
}

// labelSelector is fieldSelector for labels.
func labelSelector(s *authorizationv1.LabelSelectorAttributes) string {
	if s == nil {
		return ""
	}
	if s.RawSelector != "" {
		return s.RawSelector
	}
	ops := map[metav1.LabelSelectorOperator]selection.Operator{
		metav1.LabelSelectorOpIn: selection.In, metav1.LabelSelectorOpNotIn: selection.NotIn,
		metav1.LabelSelectorOpExists: selection.Exists, metav1.LabelSelectorOpDoesNotExist: selection.DoesNotExist,
	}
	sel := labels.NewSelector()
	for _, r := range s.Requirements {
		if req, err := labels.NewRequirement(r.Key, ops[r.Operator], r.Values); err == nil {
			sel = sel.Add(*req)
		}
	}
	return sel.String()
}

// rules answers with all that a user may do in a namespace.
func (v *Reviewer) rules(ctx context.Context, u *request.User, o *authorizationv1.SelfSubjectRulesReview) error {
	if o.Spec.Namespace == "" {
		return apierrors.NewBadRequest("no namespace on request")
	}
	out := authorizationv1.SubjectRulesReviewStatus{
		ResourceRules: []authorizationv1.ResourceRule{}, NonResourceRules: []authorizationv1.NonResourceRule{},
	}
	resolver, ok := v.cfg.Authorizer.(authz.RuleResolver)
	if !ok {
		out.Incomplete, out.EvaluationError = true, "the authorizer does not support user rule resolution"
		o.Status = out
		return nil
	}
	rules, err := resolver.RulesFor(ctx, u, o.Spec.Namespace)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		out.Incomplete, out.EvaluationError = true, err.Error()
	}
	for i := range rules {
		r := &rules[i]
		if len(r.Resources) > 0 {
			out.ResourceRules = append(out.ResourceRules, authorizationv1.ResourceRule{
				Verbs: slices.Clone(r.Verbs), APIGroups: slices.Clone(r.APIGroups),
				Resources: slices.Clone(r.Resources), ResourceNames: slices.Clone(r.ResourceNames),
			})
		}
		if len(r.NonResourceURLs) > 0 {
			out.NonResourceRules = append(out.NonResourceRules, authorizationv1.NonResourceRule{
				Verbs: slices.Clone(r.Verbs), NonResourceURLs: slices.Clone(r.NonResourceURLs),
			})
		}
	}
	o.Status = out
	return nil
}
