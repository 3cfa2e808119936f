// Package apiserver gives tests an API server over a store in memory.
package apiserver

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/version"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/authn"
	"github.com/proa-project/proa/httpapi/authz"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/httpapi/request"
	"github.com/proa-project/proa/openapi"
	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/storage/memory"
	"github.com/proa-project/proa/storage/watchcache"
)

// A Server is an API server of which everybody may ask everything. It ends
// with its test.
type Server struct {
	*httpapi.Server
	Store storage.Store
	// REST calls the server's handler.
	REST *client.REST
	t    testing.TB
}

// New starts a server with an empty store.
func New(t testing.TB) *Server {
	t.Helper()
	v := version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.2+proa-test"}
	docs, err := openapi.Build(api.Resources(), &v)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cache, err := watchcache.New(ctx, watchcache.Config{
		Store: memory.New(memory.Config{}), Decorate: api.SetRevision, Extract: extract,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if cerr := cache.Close(); cerr != nil {
			t.Errorf("close store: %v", cerr)
		}
	})
	s := &Server{Store: cache, t: t}
	s.Server, err = httpapi.New(httpapi.Config{
		Store: cache, Resources: api.Resources(), Documents: docs,
		Authenticator: everybody{}, Authorizer: everything{},
		Admission: &admission.Chain{Mutators: httpapi.BuiltinMutators(cache)},
		Version:   v, Log: zerolog.Nop(), MaxReads: -1, MaxWrites: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err = s.Bootstrap(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	if s.REST, err = client.New(client.Config{Transport: client.InProcess(s), UserAgent: "test"}); err != nil {
		t.Fatal(err)
	}
	return s
}

// Through returns a client whose requests go through the handler that wrap
// makes of the server's: to fail some of them.
func (s *Server) Through(wrap func(http.Handler) http.Handler) *client.REST {
	s.t.Helper()
	c, err := client.New(client.Config{Transport: client.InProcess(wrap(s)), UserAgent: "test"})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// Listen serves over TLS and HTTP/2 on the loopback interface and returns a
// client and the server's address.
func (s *Server) Listen() (*client.REST, *httptest.Server) {
	s.t.Helper()
	h := httptest.NewUnstartedServer(s)
	h.EnableHTTP2 = true
	h.StartTLS()
	s.t.Cleanup(func() {
		s.Stop()
		h.CloseClientConnections()
		h.Close()
	})
	c, err := client.New(client.Config{URL: h.URL, Transport: h.Client().Transport, UserAgent: "test"})
	if err != nil {
		s.t.Fatal(err)
	}
	return c, h
}

func extract(key string, value []byte) (storage.Fields, error) {
	for _, row := range api.Resources() {
		if strings.HasPrefix(key, row.Storage) {
			labels, fields, err := row.Extract(value)
			return storage.Fields{Labels: labels, Fields: fields}, err
		}
	}
	return storage.Fields{}, nil
}

type everybody struct{}

func (everybody) Authenticate(*http.Request) (*request.User, error) {
	return &request.User{Name: "test", Groups: []string{request.Masters}}, nil
}

var _ authn.Authenticator = everybody{}

type everything struct{}

func (everything) Authorize(context.Context, *request.User, *request.Info) (authz.Decision, string, error) {
	return authz.Allow, "", nil
}
