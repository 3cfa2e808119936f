package httpapi

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/authz"
	"github.com/proa-project/proa/httpapi/request"
)

// The headers by which a user acts as another.
const (
	impersonateUser  = "Impersonate-User"
	impersonateUID   = "Impersonate-Uid"
	impersonateGroup = "Impersonate-Group"
	impersonateExtra = "Impersonate-Extra-"
)

// errNobody is an impersonation that does not say of whom. It is what upstream
// answers, with the status of a fault of the server.
var errNobody = errors.New("impersonation headers are set, but none names the user: requested without impersonating a user")

// impersonate puts another user in the place of the one who asks, if the
// request has the headers for that and the user may.
func (s *Server) impersonate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !impersonates(r.Header) {
			next.ServeHTTP(w, r)
			return
		}
		x := exchangeOf(w)
		want, err := impersonated(r.Header)
		if err == nil {
			err = s.mayImpersonate(r, x.state.User, want)
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		for name := range r.Header { // so that nothing behind acts on them again
			if isImpersonation(name) {
				r.Header.Del(name)
			}
		}
		x.state.User = want.complete()
		next.ServeHTTP(w, r)
	})
}

func isImpersonation(name string) bool {
	return name == impersonateUser || name == impersonateUID || name == impersonateGroup || strings.HasPrefix(name, impersonateExtra)
}

func impersonates(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, "Impersonate-") && isImpersonation(name) {
			return true
		}
	}
	return false
}

// An impersonation is the user that a request is to be made as, as its headers
// say.
type impersonation struct {
	user               request.User
	namespace, account string // of a service account
}

// impersonated reads the headers.
func impersonated(h http.Header) (*impersonation, error) {
	want := &impersonation{user: request.User{Name: h.Get(impersonateUser), UID: h.Get(impersonateUID), Groups: slices.Clone(h[impersonateGroup])}}
	for name, values := range h {
		key, ok := strings.CutPrefix(name, impersonateExtra)
		if !ok {
			continue
		}
		key = strings.ToLower(key)
		if plain, err := url.PathUnescape(key); err == nil {
			key = plain
		}
		if want.user.Extra == nil {
			want.user.Extra = map[string][]string{}
		}
		want.user.Extra[key] = append(want.user.Extra[key], values...)
	}
	if want.user.Name == "" {
		return nil, errNobody
	}
	want.namespace, want.account, _ = request.ServiceAccountOf(want.user.Name)
	return want, nil
}

// mayImpersonate returns nil if a user may act as another: each part of the
// other's identity is asked for by itself.
func (s *Server) mayImpersonate(r *http.Request, user *request.User, want *impersonation) error {
	for _, info := range want.asks() {
		if err := s.allowed(r, user, &info); err != nil {
			return err
		}
	}
	return nil
}

const authenticationGroup = "authentication.k8s.io"

// asks returns what has to be allowed, in upstream's order.
func (i *impersonation) asks() []request.Info {
	var list []request.Info
	ask := func(row *api.Resource, sub, namespace, name string) {
		list = append(list, request.Info{Verb: "impersonate", Resource: row, Subresource: sub, Namespace: namespace, Name: name})
	}
	if i.account != "" {
		ask(authz.Named("", "v1", "serviceaccounts"), "", i.namespace, i.account)
	} else {
		ask(authz.Named("", "v1", "users"), "", "", i.user.Name)
	}
	for _, g := range i.user.Groups {
		ask(authz.Named("", "v1", "groups"), "", "", g)
	}
	keys := make([]string, 0, len(i.user.Extra))
	for k := range i.user.Extra {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		for _, v := range i.user.Extra[k] {
			ask(authz.Named(authenticationGroup, "v1", "userextras"), k, "", v)
		}
	}
	if i.user.UID != "" {
		ask(authz.Named(authenticationGroup, "v1", "uids"), "", "", i.user.UID)
	}
	return list
}

// complete returns the user with the groups that such a user always has.
func (i *impersonation) complete() *request.User {
	u := i.user
	if i.account != "" && len(u.Groups) == 0 {
		u.Groups = []string{request.ServiceAccounts, request.ServiceAccounts + ":" + i.namespace}
	}
	unauthenticated := request.Anonymous.Groups[0]
	switch {
	case u.Name == request.Anonymous.Name:
		if !u.InGroup(unauthenticated) {
			u.Groups = append(u.Groups, unauthenticated)
		}
	case !u.InGroup(request.Authenticated) && !u.InGroup(unauthenticated):
		u.Groups = append(u.Groups, request.Authenticated)
	}
	return &u
}
