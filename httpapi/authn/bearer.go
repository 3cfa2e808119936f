package authn

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/proa-project/proa/httpapi/request"
)

// A TokenVerifier knows users by bearer tokens. It returns nil and no error if
// the token is not of its kind, and an error that wraps ErrUnauthenticated if
// it is and is no good. The user that it returns is shared: nobody changes it.
type TokenVerifier interface {
	VerifyToken(ctx context.Context, token string) (*request.User, error)
}

// Bearer knows users by the token in the Authorization header or, for
// browsers' WebSockets, in a subprotocol. A token that no verifier knows is
// ErrUnauthenticated, so Bearer comes last of what looks at tokens.
type Bearer []TokenVerifier

// Authenticate returns nil if the request has no bearer token. When the token
// is good it is removed from the request, so that nothing behind the API
// server learns it.
func (b Bearer) Authenticate(r *http.Request) (*request.User, error) {
	if auth := r.Header.Get("Authorization"); auth != "" {
		scheme, token, _ := strings.Cut(auth, " ")
		token = strings.TrimSpace(token)
		if !strings.EqualFold(scheme, "bearer") || token == "" {
			return nil, nil
		}
		u, err := b.verify(r.Context(), token)
		if u != nil {
			r.Header.Del("Authorization")
		}
		return u, err
	}
	if _, ok := r.Header["Sec-Websocket-Protocol"]; ok {
		return b.websocket(r)
	}
	return nil, nil
}

func (b Bearer) verify(ctx context.Context, token string) (*request.User, error) {
	for _, v := range b {
		u, err := v.VerifyToken(ctx, token)
		if u != nil || err != nil {
			return u, err
		}
	}
	return nil, fmt.Errorf("%w: unknown bearer token", ErrUnauthenticated)
}

// protocolPrefix comes before the token, in unpadded base64url, in the
// subprotocol that a browser sends.
const protocolPrefix = "base64url.bearer.authorization.k8s.io."

// websocket finds the token among the subprotocols. It must not be the only
// one, because the server has to answer with another.
func (b Bearer) websocket(r *http.Request) (*request.User, error) {
	var token string
	var rest []string
	for _, line := range r.Header["Sec-Websocket-Protocol"] {
		for p := range strings.SplitSeq(line, ",") {
			p = strings.TrimSpace(p)
			encoded, ok := strings.CutPrefix(p, protocolPrefix)
			if !ok {
				rest = append(rest, p)
				continue
			}
			raw, err := base64.RawURLEncoding.DecodeString(encoded)
			if err != nil || !utf8.Valid(raw) || token != "" {
				return nil, fmt.Errorf("%w: malformed token in WebSocket subprotocol", ErrUnauthenticated)
			}
			token = string(raw)
		}
	}
	if token == "" {
		return nil, nil
	}
	if len(rest) == 0 {
		return nil, fmt.Errorf("%w: missing additional WebSocket subprotocol", ErrUnauthenticated)
	}
	u, err := b.verify(r.Context(), token)
	if u != nil {
		r.Header.Set("Sec-Websocket-Protocol", strings.Join(rest, ","))
	}
	return u, err
}

// Static knows a fixed set of tokens: those of components in this process.
type Static struct {
	// users is keyed by hash, so that the time of a look-up tells nothing
	// about the tokens.
	users map[[sha256.Size]byte]*request.User
}

// NewStatic returns a verifier of the tokens in the map. The users join
// request.Authenticated.
func NewStatic(tokens map[string]*request.User) *Static {
	s := &Static{users: make(map[[sha256.Size]byte]*request.User, len(tokens))}
	for t, u := range tokens {
		own := *u
		own.Groups = withAuthenticated(u.Groups)
		s.users[sha256.Sum256([]byte(t))] = &own
	}
	return s
}

// VerifyToken returns nil for a token that is not in the set.
func (s *Static) VerifyToken(_ context.Context, token string) (*request.User, error) {
	return s.users[sha256.Sum256([]byte(token))], nil
}
