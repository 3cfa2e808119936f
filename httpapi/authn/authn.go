// Package authn finds out who asks.
package authn

import (
	"errors"
	"net/http"

	"github.com/proa-project/proa/httpapi/request"
)

// ErrUnauthenticated is a credential that was given and is no good.
var ErrUnauthenticated = errors.New("unauthenticated")

// An Authenticator tells who makes a request. It returns nil and no error if
// it finds no credential of its kind, and an error that wraps
// ErrUnauthenticated if it finds a bad one.
type Authenticator interface {
	Authenticate(r *http.Request) (*request.User, error)
}

// A Chain asks one Authenticator after the other; the first user wins, and a
// bad credential ends the search.
type Chain []Authenticator

// Authenticate returns nil if nobody knows who asks.
func (c Chain) Authenticate(r *http.Request) (*request.User, error) {
	for _, a := range c {
		u, err := a.Authenticate(r)
		if u != nil || err != nil {
			return u, err
		}
	}
	return nil, nil
}
