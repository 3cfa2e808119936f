package review

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/proa-project/proa/httpapi/authn"
	"github.com/proa-project/proa/httpapi/request"
)

// token answers whose a token is. That it is nobody's is part of the answer.
func (v *Reviewer) token(ctx context.Context, o *authenticationv1.TokenReview) error {
	wanted := o.Spec.Audiences
	if len(wanted) == 0 {
		wanted = v.cfg.Audiences
	}
	u, audiences, err := v.verify(ctx, o.Spec.Token, wanted)
	switch {
	case errors.Is(err, authn.ErrUnauthenticated):
		o.Status = authenticationv1.TokenReviewStatus{Error: err.Error()}
	case err != nil:
		return fmt.Errorf("review token: %w", err)
	case u == nil:
		o.Status = authenticationv1.TokenReviewStatus{}
	default:
		o.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: userInfo(u)}
		if len(o.Spec.Audiences) > 0 {
			o.Status.Audiences = audiences
		}
	}
	return nil
}

// verify returns the user that a token stands for, and for which of the
// audiences it is meant.
func (v *Reviewer) verify(ctx context.Context, token string, wanted []string) (*request.User, []string, error) {
	if a, ok := v.cfg.Authenticator.(authn.AudienceVerifier); ok {
		return a.VerifyTokenFor(ctx, token, wanted, v.cfg.Audiences)
	}
	ours := slices.DeleteFunc(slices.Clone(wanted), func(a string) bool { return !slices.Contains(v.cfg.Audiences, a) })
	if len(ours) == 0 {
		return nil, nil, nil
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	if err != nil {
		return nil, nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	u, err := v.cfg.Authenticator.Authenticate(r)
	return u, ours, err
}
