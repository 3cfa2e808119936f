package access

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/proa-project/proa/httpapi/request"
)

// RulesFor implements authz.RuleResolver: plugins answer for one request and
// cannot tell all that they allow, so it fails if there is one that is asked
// about the user.
func (c *chain) RulesFor(_ context.Context, u *request.User, _ string) ([]rbacv1.PolicyRule, error) {
	for _, z := range *c.of.Load() {
		if spec := &z.h.Object().Spec; about(spec.Users, spec.Groups, u) {
			return nil, fmt.Errorf("authorization plugin %q does not support user rule resolution", z.h.Name())
		}
	}
	return nil, nil
}
