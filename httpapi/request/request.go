// Package request is what the filters learn about a request: who asks, and
// for what.
package request

import (
	"context"
	"net/http"
	"slices"

	"github.com/proa-project/proa/api"
)

// A User is who asks: the outcome of authentication.
type User struct {
	Name   string
	UID    string
	Groups []string
	Extra  map[string][]string
}

// Anonymous is who asks without any credential.
var Anonymous = &User{Name: "system:anonymous", Groups: []string{"system:unauthenticated"}} //nolint:gochecknoglobals // a constant in all but name

// InGroup reports whether the user is in the group.
func (u *User) InGroup(group string) bool {
	return slices.Contains(u.Groups, group)
}

// Info is what a request asks for, in the terms of authorization.
type Info struct {
	// Verb is get, list, watch, create, update, patch, delete,
	// deletecollection, or the lower-case HTTP method of a path that is no
	// resource.
	Verb string
	Path string

	// The fields below are set when the request is for a resource.
	Resource    *api.Resource
	Subresource string
	Namespace   string
	Name        string
	// The selectors as the client wrote them, for authorizers that look.
	LabelSelector, FieldSelector string
}

// State travels with a request's context. The filters fill it in.
type State struct {
	Info    Info
	User    *User
	AuditID string
}

type stateKey struct{}

// With returns a context that carries the state.
func With(ctx context.Context, s *State) context.Context {
	return context.WithValue(ctx, stateKey{}, s)
}

// From returns the state that the context carries, or nil.
func From(ctx context.Context) *State {
	s, _ := ctx.Value(stateKey{}).(*State) // nil is the answer
	return s
}

// Of returns the state of an HTTP request, or nil.
func Of(r *http.Request) *State { return From(r.Context()) }
