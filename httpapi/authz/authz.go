// Package authz decides who may do what.
package authz

import (
	"context"

	"github.com/proa-project/proa/httpapi/request"
)

// A Decision is what an Authorizer says.
type Decision int

// The decisions. The first that is not NoOpinion counts; NoOpinion of all is
// a denial.
const (
	NoOpinion Decision = iota
	Allow
	Deny
)

// An Authorizer decides on one request. The reason goes into the answer to a
// denied one.
type Authorizer interface {
	Authorize(ctx context.Context, user *request.User, info *request.Info) (Decision, string, error)
}

// A Chain asks one Authorizer after the other.
type Chain []Authorizer

// Authorize returns the first decision that is not NoOpinion.
func (c Chain) Authorize(ctx context.Context, user *request.User, info *request.Info) (Decision, string, error) {
	var reason string
	for _, a := range c {
		d, why, err := a.Authorize(ctx, user, info)
		if d != NoOpinion || err != nil {
			return d, why, err
		}
		if why != "" {
			reason = why
		}
	}
	return NoOpinion, reason, nil
}
