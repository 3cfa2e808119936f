package celpolicy

import (
	"context"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/request"
)

// info returns a user as the library of CEL knows users.
func info(u *request.User) user.Info {
	if u == nil {
		u = request.Anonymous
	}
	return &user.DefaultInfo{Name: u.Name, UID: u.UID, Groups: u.Groups, Extra: u.Extra}
}

var _ authorizer.UnconditionalAuthorizer = (*subject)(nil)

// Authorize implements authorizer.UnconditionalAuthorizer, for the library of
// CEL. The library's context is none: that of the request counts.
func (s *subject) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if s.authorize == nil {
		return authorizer.DecisionNoOpinion, "there is no authorizer", nil
	}
	u := a.GetUser()
	who := &request.User{Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: u.GetExtra()}
	allowed, reason, err := s.authorize(s.ctx, who, what(a))
	switch {
	case err != nil:
		return authorizer.DecisionNoOpinion, reason, err
	case allowed:
		return authorizer.DecisionAllow, reason, nil
	default:
		return authorizer.DecisionDeny, reason, nil
	}
}

// what returns what is asked about, in the terms of authorization.
func what(a authorizer.Attributes) *request.Info {
	if !a.IsResourceRequest() {
		return &request.Info{Verb: a.GetVerb(), Path: a.GetPath()}
	}
	i := &request.Info{
		Verb: a.GetVerb(), Resource: rowOf(a.GetAPIGroup(), a.GetAPIVersion(), a.GetResource()),
		Subresource: a.GetSubresource(), Namespace: a.GetNamespace(), Name: a.GetName(),
	}
	if list, err := a.GetLabelSelector(); err == nil {
		for j, r := range list {
			if j > 0 {
				i.LabelSelector += ","
			}
			i.LabelSelector += r.String()
		}
	}
	if list, err := a.GetFieldSelector(); err == nil {
		for j, r := range list {
			if j > 0 {
				i.FieldSelector += ","
			}
			i.FieldSelector += r.Field + string(r.Operator) + r.Value
		}
	}
	return i
}

// rowOf returns the row of a resource, or a row that only names one that is not
// in the table.
func rowOf(group, version, plural string) *api.Resource {
	for _, r := range api.Resources() {
		if r.Group == group && r.Plural == plural && (version == "*" || version == r.Version) {
			return r
		}
	}
	return &api.Resource{Group: group, Version: version, Plural: plural}
}
