package authn

import (
	"context"
	"fmt"
	"slices"

	"github.com/proa-project/proa/httpapi/request"
)

// An AudienceVerifier knows for whom tokens are meant. Authenticators and
// TokenVerifiers that do not are for the API server's own audiences.
type AudienceVerifier interface {
	// VerifyTokenFor returns the user that the token stands for if it is
	// meant for one of the wanted audiences, and for which of them it is. Own
	// are the API server's audiences. It returns no user and no error if the
	// token is not of its kind, and an error that wraps ErrUnauthenticated if
	// it is no good, or meant for others.
	VerifyTokenFor(ctx context.Context, token string, wanted, own []string) (u *request.User, audiences []string, err error)
}

// VerifyTokenFor asks the members that look at tokens.
func (c Chain) VerifyTokenFor(ctx context.Context, token string, wanted, own []string) (*request.User, []string, error) {
	for _, a := range c {
		v, ok := a.(AudienceVerifier)
		if !ok {
			continue
		}
		if u, audiences, err := v.VerifyTokenFor(ctx, token, wanted, own); u != nil || err != nil {
			return u, audiences, err
		}
	}
	return nil, nil, nil
}

// VerifyTokenFor asks one verifier after the other.
func (b Bearer) VerifyTokenFor(ctx context.Context, token string, wanted, own []string) (*request.User, []string, error) {
	for _, v := range b {
		var (
			u         *request.User
			audiences []string
			err       error
		)
		if a, ok := v.(AudienceVerifier); ok {
			u, audiences, err = a.VerifyTokenFor(ctx, token, wanted, own)
		} else if u, err = v.VerifyToken(ctx, token); u != nil && err == nil {
			if audiences = common(wanted, own); len(audiences) == 0 {
				return nil, nil, otherAudience(own, wanted)
			}
		}
		if u != nil || err != nil {
			return u, audiences, err
		}
	}
	return nil, nil, fmt.Errorf("%w: unknown bearer token", ErrUnauthenticated)
}

// VerifyTokenFor implements AudienceVerifier.
func (s *ServiceAccounts) VerifyTokenFor(ctx context.Context, token string, wanted, _ []string) (*request.User, []string, error) {
	if !s.isOurs(token) {
		return nil, nil, nil
	}
	claims, err := s.parseAny(token)
	if err != nil {
		return nil, nil, err
	}
	audiences := common(wanted, claims.Audience)
	if len(audiences) == 0 {
		return nil, nil, otherAudience(claims.Audience, wanted)
	}
	if err := s.check(ctx, claims); err != nil {
		return nil, nil, err
	}
	return claims.user(), audiences, nil
}

func otherAudience(have, wanted []string) error {
	return fmt.Errorf("%w: token audiences %q is invalid for the target audiences %q", ErrUnauthenticated, have, wanted)
}

// common returns what of a is in b.
func common(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return !slices.Contains(b, s) })
}
