// Package review answers questions to the server about itself: who somebody
// is, and what they may do. Nothing of them is stored.
package review

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/authn"
	"github.com/proa-project/proa/httpapi/authz"
	"github.com/proa-project/proa/httpapi/request"
)

// Config says who knows the answers. Both must be set.
type Config struct {
	Authenticator authn.Authenticator
	Authorizer    authz.Authorizer
	// Audiences are those of the API server: for whom a token is that says
	// nothing else. Empty is authn.DefaultIssuer.
	Audiences []string
}

// A Reviewer answers. It is safe for concurrent use.
type Reviewer struct {
	cfg Config
}

// New returns a Reviewer.
func New(cfg Config) *Reviewer {
	if len(cfg.Audiences) == 0 {
		cfg.Audiences = []string{authn.DefaultIssuer}
	}
	return &Reviewer{cfg: cfg}
}

// Answer fills in the status of a review that the user asks for, which has been
// defaulted and validated, and returns it. Errors are about the server, or
// *apierrors.StatusError for what the client did wrong.
func (v *Reviewer) Answer(ctx context.Context, user *request.User, obj api.Object) (api.Object, error) {
	switch o := obj.(type) {
	case *authorizationv1.SubjectAccessReview:
		return o, v.access(ctx, subject(&o.Spec), o.Spec.ResourceAttributes, o.Spec.NonResourceAttributes, &o.Status)
	case *authorizationv1.LocalSubjectAccessReview:
		return o, v.access(ctx, subject(&o.Spec), o.Spec.ResourceAttributes, o.Spec.NonResourceAttributes, &o.Status)
	case *authorizationv1.SelfSubjectAccessReview:
		return o, v.access(ctx, user, o.Spec.ResourceAttributes, o.Spec.NonResourceAttributes, &o.Status)
	case *authorizationv1.SelfSubjectRulesReview:
		return o, v.rules(ctx, user, o)
	case *authenticationv1.SelfSubjectReview:
		o.Status = authenticationv1.SelfSubjectReviewStatus{UserInfo: userInfo(user)}
		return o, nil
	case *authenticationv1.TokenReview:
		return o, v.token(ctx, o)
	default:
		return nil, fmt.Errorf("a %T is no review", obj)
	}
}

// userInfo returns a user in the form of the API.
func userInfo(u *request.User) authenticationv1.UserInfo {
	info := authenticationv1.UserInfo{Username: u.Name, UID: u.UID, Groups: u.Groups}
	if len(u.Extra) > 0 {
		info.Extra = make(map[string]authenticationv1.ExtraValue, len(u.Extra))
		for k, v := range u.Extra {
			info.Extra[k] = v
		}
	}
	return info
}
