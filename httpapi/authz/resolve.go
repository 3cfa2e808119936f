package authz

import (
	"context"
	"errors"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/proa-project/proa/httpapi/request"
)

// A RuleResolver is an Authorizer that can tell everything that it allows a
// user, not only answer for one request.
type RuleResolver interface {
	// RulesFor returns the rules that count for the user in a namespace, or
	// outside of all with "". The rules are shared: nobody changes them. The
	// error says why they may be incomplete.
	RulesFor(ctx context.Context, u *request.User, namespace string) ([]rbacv1.PolicyRule, error)
}

// RulesFor returns what all members of the chain tell. Those that cannot tell
// make it incomplete.
func (c Chain) RulesFor(ctx context.Context, u *request.User, namespace string) ([]rbacv1.PolicyRule, error) {
	var rules []rbacv1.PolicyRule
	var errs []error
	for _, a := range c {
		r, ok := a.(RuleResolver)
		if !ok {
			errs = append(errs, errUnresolved)
			continue
		}
		some, err := r.RulesFor(ctx, u, namespace)
		rules = append(rules, some...)
		if err != nil {
			errs = append(errs, err)
		}
	}
	return rules, errors.Join(errs...)
}

var (
	errUnresolved = errors.New("an authorizer does not support user rule resolution")
	errNodeRules  = errors.New("node authorizer does not support user rule resolution")
)

// RulesFor tells nothing: the bootstrap role cluster-admin says the same.
func (Masters) RulesFor(context.Context, *request.User, string) ([]rbacv1.PolicyRule, error) {
	return nil, nil
}

// RulesFor tells nothing but what the bootstrap roles do not.
func (Health) RulesFor(context.Context, *request.User, string) ([]rbacv1.PolicyRule, error) {
	return []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/cacerts"}}}, nil
}

// RulesFor tells who may join.
func (Join) RulesFor(_ context.Context, u *request.User, _ string) ([]rbacv1.PolicyRule, error) {
	if !u.InGroup(request.Bootstrappers) && !u.InGroup(request.Nodes) {
		return nil, nil
	}
	return []rbacv1.PolicyRule{{Verbs: []string{"post"}, NonResourceURLs: []string{joinPath}}}, nil
}

// RulesFor cannot tell of a node: what it may do hangs on its pods.
func (*Nodes) RulesFor(_ context.Context, u *request.User, _ string) ([]rbacv1.PolicyRule, error) {
	if _, ok := u.NodeName(); ok {
		return nil, errNodeRules
	}
	return nil, nil
}
