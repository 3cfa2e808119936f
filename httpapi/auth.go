package httpapi

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/proa-project/proa/httpapi/authn"
	"github.com/proa-project/proa/httpapi/authz"
	"github.com/proa-project/proa/httpapi/request"
)

// authenticate finds out who asks.
func (s *Server) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, err := s.cfg.Authenticator.Authenticate(r)
		switch {
		case errors.Is(err, authn.ErrUnauthenticated):
			s.cfg.Log.Debug().Err(err).Str("remote", r.RemoteAddr).Msg("credential refused")
			s.fail(w, r, errUnauthorized)
			return
		case err != nil:
			s.fail(w, r, fmt.Errorf("authenticate: %w", err))
			return
		case user == nil:
			user = request.Anonymous
		}
		exchangeOf(w).state.User = user
		next.ServeHTTP(w, r)
	})
}

// authorize finds out whether the user may do what the request asks for.
func (s *Server) authorize(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := exchangeOf(w)
		if err := s.allowed(r, x.state.User, &x.state.Info); err != nil {
			s.fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// allowed returns nil if the user may do something, and else the answer.
func (s *Server) allowed(r *http.Request, user *request.User, info *request.Info) error {
	decision, reason, err := s.cfg.Authorizer.Authorize(r.Context(), user, info)
	switch {
	case err != nil:
		return fmt.Errorf("authorize: %w", err)
	case decision == authz.Allow:
		return nil
	case user == request.Anonymous:
		return errUnauthorized // a credential may help
	default:
		return forbidden(user, info, reason)
	}
}
