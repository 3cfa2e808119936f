package controlplane

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/admission/rbac"
	"github.com/proa-project/proa/httpapi/authz"
	"github.com/proa-project/proa/httpapi/request"
	"github.com/proa-project/proa/wasmplugins/access"
)

// Authorizer returns who decides what users may do: all authorizers of the
// server, in order. Before the server is made it fails.
func (cp *ControlPlane) Authorizer() authz.Authorizer { return &cp.authorizer }

// authorizers is the order of authorization. What the server cannot be without
// comes first, so that neither a role that is lost nor a plugin that denies
// everything locks anybody out of repairing it. Plugins with a negative order
// come before RBAC, to deny what roles allow; the others after it, to allow what
// they do not.
func (cp *ControlPlane) authorizers(look lookup, plugins *access.Authorization) authz.Chain {
	return authz.Chain{
		authz.Masters{},
		authz.Health{},
		authz.Join{},
		&authz.Nodes{Graph: look},
		plugins.Before(),
		cp.roles.rbac,
		plugins.After(),
	}
}

// escalation returns what keeps users from giving more than they have.
func (cp *ControlPlane) escalation() admission.Validator {
	return &rbac.Validator{
		Rules: cp.roles.rbac,
		May: func(ctx context.Context, u *request.User, info *request.Info) (bool, error) {
			d, _, err := cp.authorizer.Authorize(ctx, u, info)
			return d == authz.Allow, err
		},
	}
}

// roles is what the server knows of roles and bindings.
type roles struct {
	rbac *authz.RBAC
	made atomic.Bool // those of the start are there
}

func newRoles() *roles { return &roles{rbac: &authz.RBAC{Roles: authz.NewRoleIndex()}} }

// ready is a check for /readyz.
func (r *roles) ready(context.Context) error {
	if !r.rbac.Roles.IsLoaded() {
		return errors.New("roles and bindings are not loaded yet")
	}
	if !r.made.Load() {
		return errors.New("the first roles and bindings are not there yet")
	}
	return nil
}

// followRoles has the index of roles follow the storage.
func (cp *ControlPlane) followRoles(config Config) {
	f := &roleFeed{store: cp.store, index: cp.roles.rbac.Roles, log: component(config.Log, "rbac")}
	cp.group.Go(func() error { return ignoreCanceled(f.run(cp.ctx)) })
}

// bootstrapRoles returns what sees to it that the roles and bindings are there
// that every cluster has. It ends when they are.
func (cp *ControlPlane) bootstrapRoles(config Config) (func(context.Context) error, error) {
	rest, err := cp.InProcess("roles")
	if err != nil {
		return nil, err
	}
	b := newRoleBootstrap(rest, component(config.Log, "rbac"))
	return func(ctx context.Context) error {
		if err := b.run(ctx); err != nil {
			return fmt.Errorf("make the first roles and bindings: %w", err)
		}
		cp.roles.made.Store(true)
		return nil
	}, nil
}
