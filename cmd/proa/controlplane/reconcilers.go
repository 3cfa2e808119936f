package controlplane

import (
	"context"

	"github.com/proa-project/proa/controllers/election"
	"github.com/proa-project/proa/httpapi/client"
)

// reconcilersLease is the Lease in kube-system by which servers agree whose
// plugins reconcile.
const reconcilersLease = "proa-reconcilers"

// reconcilerLead returns how it is found out which server's plugins reconcile:
// nil if this server is alone.
func (cp *ControlPlane) reconcilerLead(config Config, rest *client.REST) (func(context.Context, func(context.Context) error) error, error) {
	if !config.shared() {
		return nil, nil //nolint:nilnil // nobody else leads
	}
	elect, err := election.New(election.Config{REST: rest, Log: component(config.Log, "plugins"), Lease: reconcilersLease, Identity: identity()})
	if err != nil {
		return nil, err
	}
	return elect.Run, nil
}
