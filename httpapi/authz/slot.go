package authz

import (
	"context"
	"sync/atomic"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/proa-project/proa/httpapi/request"
)

// A Slot is a place in a Chain for somebody who comes later, such as the host
// of authorization plugins, which is itself a client of the server that has the
// chain. An empty one has no opinion. It is safe for concurrent use.
type Slot struct {
	filled atomic.Pointer[Authorizer]
}

// Fill puts an Authorizer into the slot, in place of the one before.
func (s *Slot) Fill(a Authorizer) { s.filled.Store(&a) }

// Authorize asks whoever is in the slot.
func (s *Slot) Authorize(ctx context.Context, u *request.User, i *request.Info) (Decision, string, error) {
	if a := s.filled.Load(); a != nil {
		return (*a).Authorize(ctx, u, i)
	}
	return NoOpinion, "", nil
}

// RulesFor asks whoever is in the slot.
func (s *Slot) RulesFor(ctx context.Context, u *request.User, namespace string) ([]rbacv1.PolicyRule, error) {
	a := s.filled.Load()
	if a == nil {
		return nil, nil
	}
	if r, ok := (*a).(RuleResolver); ok {
		return r.RulesFor(ctx, u, namespace)
	}
	return nil, errUnresolved
}
