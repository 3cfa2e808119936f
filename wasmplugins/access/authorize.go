package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/authz"
	"github.com/proa-project/proa/httpapi/request"
	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/native"
	"github.com/proa-project/proa/wasmplugins/runner"
)

type authzHandle = runner.Handle[*pluginsv1.AuthorizationPlugin, *native.Plugin]

// An Authorization is all AuthorizationPlugins.
type Authorization struct {
	*runner.Runner[*pluginsv1.AuthorizationPlugin, *native.Plugin]

	before, after atomic.Pointer[[]*authorizer]
	mu            sync.Mutex // guards the field below
	known         map[string]*authorizer
}

// An authorizer is one plugin.
type authorizer struct {
	h       *authzHandle
	answers cache[string, answer]
}

type answer struct {
	decision authz.Decision
	reason   string
}

// NewAuthorization returns the point, which does nothing before Run.
func NewAuthorization(c runner.Config, e *engine.Engine) *Authorization {
	a := &Authorization{known: map[string]*authorizer{}}
	a.before.Store(&[]*authorizer{})
	a.after.Store(&[]*authorizer{})
	a.Runner = runner.New(c, runner.Point[*pluginsv1.AuthorizationPlugin, *native.Plugin]{
		Kind: "AuthorizationPlugin", Changed: a.changed,
		Start: func(ctx context.Context, _ *pluginsv1.AuthorizationPlugin, code runner.Code, c runner.GuestConfig) (*native.Plugin, error) {
			return start(ctx, e, abi.ExportAuthorize, code, c)
		},
	})
	return a
}

// changed sorts the plugins anew.
func (a *Authorization) changed() {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, list := map[string]*authorizer{}, []*authorizer{}
	for _, h := range a.Handles() {
		one := a.known[h.Name()]
		if one == nil || one.h != h {
			one = &authorizer{h: h}
		}
		known[h.Name()] = one
		list = append(list, one)
	}
	a.known = known
	slices.SortStableFunc(list, func(x, y *authorizer) int { return cmp.Compare(x.order(), y.order()) })
	n, _ := slices.BinarySearchFunc(list, int32(0), func(x *authorizer, zero int32) int { return cmp.Compare(x.order(), zero) })
	before, after := list[:n:n], list[n:]
	a.before.Store(&before)
	a.after.Store(&after)
}

func (z *authorizer) order() int32 { return z.h.Object().Spec.Order }

// Before returns the authorizer for the place before RBAC: the plugins with a
// negative order.
func (a *Authorization) Before() authz.Authorizer { return &chain{&a.before} }

// After returns the authorizer for the place after RBAC: all other plugins.
func (a *Authorization) After() authz.Authorizer { return &chain{&a.after} }

type chain struct {
	of *atomic.Pointer[[]*authorizer]
}

// Authorize asks the plugins in order; the first with an opinion counts.
func (c *chain) Authorize(ctx context.Context, u *request.User, i *request.Info) (authz.Decision, string, error) {
	for _, z := range *c.of.Load() {
		d, reason, err := z.authorize(ctx, u, i)
		if err != nil || d != authz.NoOpinion {
			return d, reason, err
		}
	}
	return authz.NoOpinion, "", nil
}

func (z *authorizer) authorize(ctx context.Context, u *request.User, i *request.Info) (authz.Decision, string, error) {
	spec := &z.h.Object().Spec
	if !about(spec.Users, spec.Groups, u) {
		return authz.NoOpinion, "", nil
	}
	input, err := abi.AuthorizeInput(review(u, i))
	if err != nil {
		return authz.NoOpinion, "", fmt.Errorf("authorization plugin %q: %w", z.h.Name(), err)
	}
	life := time.Duration(spec.CacheSeconds) * time.Second
	digest := z.h.Digest()
	if life > 0 {
		if a, ok := z.answers.get(string(input), digest, time.Now()); ok {
			return a.decision, a.reason, nil
		}
	}
	var a answer
	_, err = z.h.Use(ctx, func(g *native.Plugin) (engine.Usage, error) {
		return g.Ask(ctx, engine.Call{}, input, func(reply []byte) error {
			decision, reason, bad := abi.ParseAuthorizeReply(reply)
			a = answer{decisionOf(decision), reason}
			return bad
		})
	})
	switch {
	case errors.Is(err, runner.ErrRemoved):
		return authz.NoOpinion, "", nil
	case err != nil && ctx.Err() != nil:
		return authz.NoOpinion, "", ctx.Err()
	case err != nil && spec.FailurePolicy == admissionregistrationv1.Ignore:
		return authz.NoOpinion, "", nil
	case err != nil:
		return authz.Deny, fmt.Sprintf("authorization plugin %q failed: %s", z.h.Name(), engine.ReasonOf(err)), nil
	}
	if life > 0 {
		z.answers.put(string(input), a, digest, time.Now(), life)
	}
	return a.decision, a.reason, nil
}

func decisionOf(s string) authz.Decision {
	switch s {
	case abi.DecisionAllow:
		return authz.Allow
	case abi.DecisionDeny:
		return authz.Deny
	}
	return authz.NoOpinion
}

// about reports whether a user is one that a plugin is asked about.
func about(users, groups []string, u *request.User) bool {
	if len(users) == 0 && len(groups) == 0 {
		return true
	}
	return named(users, u.Name) || slices.ContainsFunc(u.Groups, func(g string) bool { return named(groups, g) })
}

func named(list []string, name string) bool {
	return slices.ContainsFunc(list, func(s string) bool {
		prefix, open := strings.CutSuffix(s, "*")
		return s == name || open && strings.HasPrefix(name, prefix)
	})
}

// review puts a request into the words of a SubjectAccessReview.
func review(u *request.User, i *request.Info) *authorizationv1.SubjectAccessReviewSpec {
	s := &authorizationv1.SubjectAccessReviewSpec{User: u.Name, UID: u.UID, Groups: u.Groups}
	for k, v := range u.Extra {
		if s.Extra == nil {
			s.Extra = map[string]authorizationv1.ExtraValue{}
		}
		s.Extra[k] = v
	}
	if i.Resource == nil {
		s.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: i.Path, Verb: i.Verb}
		return s
	}
	s.ResourceAttributes = &authorizationv1.ResourceAttributes{
		Verb: i.Verb, Group: i.Resource.Group, Version: i.Resource.Version, Resource: i.Resource.Plural,
		Subresource: i.Subresource, Namespace: i.Namespace, Name: i.Name,
	}
	return s
}
