package controlplane

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/proa-project/proa/httpapi/authz"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/httpapi/request"
	"github.com/proa-project/proa/wasmplugins/capability"
)

// capabilities returns what answers the host calls of plugins, which closes
// its connections with the control plane.
func (cp *ControlPlane) capabilities(config Config, rest *client.REST) (*capability.Broker, error) {
	broker, err := capability.New(capability.Config{REST: rest, Authorize: cp.authorizer.Authorize, Hosts: config.PluginHosts})
	if err != nil {
		return nil, err
	}
	cp.group.Go(func() error {
		<-cp.ctx.Done()
		broker.Close()
		return nil
	})
	return broker, nil
}

// A lateAuthorizer is the server's authorizer, for those who are made before
// the server. Until then it fails.
type lateAuthorizer struct {
	authorizer atomic.Pointer[authz.Authorizer]
}

// is says what the authorizer is, and returns it.
func (l *lateAuthorizer) is(a authz.Authorizer) authz.Authorizer {
	l.authorizer.Store(&a)
	return a
}

var errNoAuthorizer = errors.New("the server is starting")

// Authorize asks the server's authorizer.
func (l *lateAuthorizer) Authorize(ctx context.Context, u *request.User, i *request.Info) (authz.Decision, string, error) {
	a := l.authorizer.Load()
	if a == nil {
		return authz.NoOpinion, "", errNoAuthorizer
	}
	return (*a).Authorize(ctx, u, i)
}
