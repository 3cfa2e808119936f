package access

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/authn"
	"github.com/proa-project/proa/httpapi/request"
	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/native"
	"github.com/proa-project/proa/wasmplugins/runner"
)

type authnHandle = runner.Handle[*pluginsv1.AuthenticationPlugin, *native.Plugin]

// An Authentication is all AuthenticationPlugins. It is an
// authn.TokenVerifier.
type Authentication struct {
	*runner.Runner[*pluginsv1.AuthenticationPlugin, *native.Plugin]

	audiences []string
	list      atomic.Pointer[[]*verifier]
	mu        sync.Mutex // guards the field below
	known     map[string]*verifier
}

// A verifier is one plugin.
type verifier struct {
	h     *authnHandle
	users cache[[sha256.Size]byte, *request.User]
}

// NewAuthentication returns the point, which does nothing before Run. The
// audiences are those of the API server.
func NewAuthentication(c runner.Config, e *engine.Engine, audiences []string) *Authentication {
	a := &Authentication{audiences: audiences, known: map[string]*verifier{}}
	a.list.Store(&[]*verifier{})
	a.Runner = runner.New(c, runner.Point[*pluginsv1.AuthenticationPlugin, *native.Plugin]{
		Kind: "AuthenticationPlugin", Changed: a.changed,
		Start: func(ctx context.Context, _ *pluginsv1.AuthenticationPlugin, code runner.Code, c runner.GuestConfig) (*native.Plugin, error) {
			return start(ctx, e, abi.ExportAuthenticate, code, c)
		},
	})
	return a
}

// changed sorts the plugins anew.
func (a *Authentication) changed() {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, list := map[string]*verifier{}, []*verifier{}
	for _, h := range a.Handles() {
		one := a.known[h.Name()]
		if one == nil || one.h != h {
			one = &verifier{h: h}
		}
		known[h.Name()] = one
		list = append(list, one)
	}
	a.known = known
	slices.SortStableFunc(list, func(x, y *verifier) int {
		return cmp.Compare(x.h.Object().Spec.Order, y.h.Object().Spec.Order)
	})
	a.list.Store(&list)
}

// VerifyToken asks the plugins in order; the first that knows the token counts.
// It returns nil for a token that none knows.
func (a *Authentication) VerifyToken(ctx context.Context, token string) (*request.User, error) {
	for _, v := range *a.list.Load() {
		if !strings.HasPrefix(token, v.h.Object().Spec.TokenPrefix) {
			continue
		}
		u, err := v.verify(ctx, token, a.audiences)
		if u != nil || err != nil {
			return u, err
		}
	}
	return nil, nil
}

func (v *verifier) verify(ctx context.Context, token string, audiences []string) (*request.User, error) {
	spec := &v.h.Object().Spec
	var life time.Duration
	if spec.CacheSeconds != nil {
		life = time.Duration(*spec.CacheSeconds) * time.Second
	}
	key, digest := sha256.Sum256([]byte(token)), v.h.Digest()
	if life > 0 {
		if u, ok := v.users.get(key, digest, time.Now()); ok {
			return u, nil
		}
	}
	input, err := abi.AuthenticateInput(token, audiences)
	if err != nil {
		return nil, fmt.Errorf("authentication plugin %q: %w", v.h.Name(), err)
	}
	var user *request.User
	_, err = v.h.Use(ctx, func(g *native.Plugin) (engine.Usage, error) {
		return g.Ask(ctx, engine.Call{}, input, func(reply []byte) error {
			info, bad := abi.ParseAuthenticateReply(reply)
			if bad != nil || info == nil {
				return bad
			}
			user = &request.User{Name: info.Username, UID: info.UID, Groups: append(slices.Clone(info.Groups), request.Authenticated)}
			for k, values := range info.Extra {
				if user.Extra == nil {
					user.Extra = map[string][]string{}
				}
				user.Extra[k] = values
			}
			return nil
		})
	})
	switch {
	case errors.Is(err, runner.ErrRemoved):
		return nil, nil
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil && spec.FailurePolicy == admissionregistrationv1.Ignore:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%w: authentication plugin %q failed: %s", authn.ErrUnauthenticated, v.h.Name(), engine.ReasonOf(err))
	}
	if user != nil && life > 0 {
		v.users.put(key, user, digest, time.Now(), life)
	}
	return user, nil
}
