package library_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"

	"github.com/proa-project/proa/api"
	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi"
	"github.com/proa-project/proa/httpapi/authz"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/httpapi/request"
	"github.com/proa-project/proa/informers"
	"github.com/proa-project/proa/openapi"
	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/storage/memory"
	"github.com/proa-project/proa/storage/watchcache"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/library"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

// compiled keeps compiled code for all tests.
var compiled string

func TestMain(m *testing.M) {
	var err error
	if compiled, err = os.MkdirTemp("", "proa-library-"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(compiled) // is in a directory for such files
		os.Exit(code)
	}))
}

// A fixture is an API server with a library, in this process.
type fixture struct {
	t       testing.TB
	store   storage.Store // what survives a restart
	lib     *library.Library
	engine  *engine.Engine
	metrics *prometheus.Registry

	rest    *client.REST
	modules *client.Client[*pluginsv1.WasmModule]
	told    chan string // modules that the library told of

	stop func()
}

type everybody struct{}

func (everybody) Authenticate(*http.Request) (*request.User, error) {
	return &request.User{Name: "alice", Groups: []string{"system:masters", "system:authenticated"}}, nil
}

func (everybody) Authorize(context.Context, *request.User, *request.Info) (authz.Decision, string, error) {
	return authz.Allow, "", nil
}

// late is a handler that is made after those who call it.
type late struct{ h http.Handler }

func (l *late) ServeHTTP(w http.ResponseWriter, r *http.Request) { l.h.ServeHTTP(w, r) }

func newFixture(t testing.TB, change ...func(*library.Config)) *fixture {
	t.Helper()
	store := memory.New(memory.Config{})
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return startFixture(t, store, change...)
}

// unclosed leaves the store to the test.
type unclosed struct{ storage.Store }

func (unclosed) Close() error { return nil }

func startFixture(t testing.TB, store storage.Store, change ...func(*library.Config)) *fixture {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	log := zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.ErrorLevel)
	f := &fixture{t: t, store: store, metrics: prometheus.NewRegistry(), told: make(chan string, 1000)}
	cache, err := watchcache.New(ctx, watchcache.Config{
		Store: unclosed{store}, Prefix: "/registry/", Decorate: api.SetRevision,
		Extract: func(key string, value []byte) (storage.Fields, error) {
			for _, r := range api.Resources() {
				if strings.HasPrefix(key, r.Storage) && r.StoredAs == nil {
					labels, fields, err := r.Extract(value)
					return storage.Fields{Labels: labels, Fields: fields}, err
				}
			}
			return storage.Fields{}, nil
		},
	})
	must(err)
	handler := &late{}
	f.rest, err = client.New(client.Config{Transport: client.InProcess(handler)})
	must(err)
	factory := informers.NewFactory(informers.Config{REST: f.rest, Log: log})
	f.engine, err = engine.New(engine.Config{CacheDir: compiled, Log: log})
	must(err)
	config := library.Config{REST: f.rest, Factory: factory, Store: cache, Engine: f.engine, Log: log, Metrics: f.metrics}
	for _, c := range change {
		c(&config)
	}
	f.lib, err = library.New(config)
	must(err)
	f.lib.Subscribe(func(name string) {
		select {
		case f.told <- name:
		default:
		}
	})
	info := version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.0+proa"}
	documents, err := openapi.Build(api.Resources(), &info)
	must(err)
	server, err := httpapi.New(httpapi.Config{
		Store: cache, Resources: api.Resources(), Documents: documents, Authenticator: everybody{}, Authorizer: everybody{},
		Raw:     map[string]http.Handler{"wasmmodules.plugins.proa.io/content": f.lib.ContentHandler()},
		Version: info, Log: log,
	})
	must(err)
	handler.h = server
	done := make(chan struct{}, 2)
	go func() { _ = factory.Run(ctx); done <- struct{}{} }() // ends with ctx
	go func() { _ = f.lib.Run(ctx); done <- struct{}{} }()   // ends with ctx
	f.stop = sync.OnceFunc(func() {
		cancel()
		<-done
		<-done
		server.Stop()
		if err := errors.Join(cache.Close(), f.engine.Close()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(f.stop)
	must(server.Bootstrap(ctx))
	must(f.lib.WaitReady(ctx))
	f.modules = client.For[*pluginsv1.WasmModule](f.rest)
	return f
}

// restart starts another server on the same store.
func (f *fixture) restart(change ...func(*library.Config)) *fixture {
	f.t.Helper()
	f.stop()
	return startFixture(f.t, f.store, change...)
}

// until polls until f is true.
func (f *fixture) until(what string, ok func() bool) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			f.t.Fatalf("%s: did not come true", what)
		case <-tick.C:
		}
	}
}

// module makes a module, or changes its spec.
func (f *fixture) module(name string, change func(*pluginsv1.WasmModuleSpec)) {
	f.t.Helper()
	f.until("module "+name+" is written", func() bool {
		m, err := f.modules.Get(f.t.Context(), "", name)
		if apierrors.IsNotFound(err) {
			m = &pluginsv1.WasmModule{ObjectMeta: metav1.ObjectMeta{Name: name}}
			change(&m.Spec)
			_, err = f.modules.Create(f.t.Context(), m)
		} else if err == nil {
			change(&m.Spec)
			_, err = f.modules.Update(f.t.Context(), m)
		}
		if err != nil && !apierrors.IsConflict(err) {
			f.t.Fatal(err)
		}
		return err == nil
	})
}

func code(wasm []byte) func(*pluginsv1.WasmModuleSpec) {
	return func(s *pluginsv1.WasmModuleSpec) { s.Code, s.Digest = wasm, "" }
}

// wait waits until the library has looked at a module's object and the
// condition Ready has the reason.
func (f *fixture) wait(name, reason string) (m *pluginsv1.WasmModule) {
	f.t.Helper()
	var last string
	ok := func() bool {
		var err error
		m, err = f.modules.Get(f.t.Context(), "", name)
		if err != nil {
			f.t.Fatal(err)
		}
		c := meta.FindStatusCondition(m.Status.Conditions, "Ready")
		if c == nil {
			return false
		}
		last = c.Reason + ": " + c.Message
		return m.Status.ObservedGeneration == m.Generation && c.Reason == reason && (c.Status == metav1.ConditionTrue) == (reason == "Compiled")
	}
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			f.t.Fatalf("module %s: want %s, is %s", name, reason, last)
		case <-tick.C:
		}
	}
	return m
}

// upload puts a module's content, and makes the module if it is not there.
func (f *fixture) upload(name string, wasm []byte, query ...string) error {
	f.t.Helper()
	if _, err := f.modules.Get(f.t.Context(), "", name); apierrors.IsNotFound(err) {
		f.module(name, func(*pluginsv1.WasmModuleSpec) {})
	}
	q := url.Values{}
	for pair := range slices.Chunk(query, 2) {
		q.Set(pair[0], pair[1])
	}
	resp, err := f.rest.Do(f.t.Context(), client.Request{Method: http.MethodPut, Path: contentPath(name), Query: q, ContentType: "application/wasm", Body: wasm})
	if err == nil {
		_ = resp.Body.Close() // in memory
	}
	return err
}

func contentPath(name string) string {
	return "/apis/plugins.proa.io/v1/wasmmodules/" + name + "/content"
}

// get takes the code of a version, or fails the test.
func (f *fixture) get(name, digest string) *library.Ref {
	f.t.Helper()
	ref, err := f.lib.Get(f.t.Context(), name, digest)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(ref.Release)
	return ref
}

// problem demands that code cannot be had, for a reason.
func (f *fixture) problem(name, digest, reason string) *library.Problem {
	f.t.Helper()
	ref, err := f.lib.Get(f.t.Context(), name, digest)
	if err == nil {
		ref.Release()
		f.t.Fatalf("%s %s: got code, want %s", name, digest, reason)
	}
	var p *library.Problem
	if !errors.As(err, &p) || p.Reason != reason {
		f.t.Fatalf("%s %s: %v, want %s", name, digest, err, reason)
	}
	return p
}

// guest is a module that no other number makes.
func guest(n byte) []byte {
	return Fixed(`{"allowed":true,"status":{"message":"` + string('a'+rune(n)) + `"}}`)
}

func digestsOf(m *pluginsv1.WasmModule) []string {
	var out []string
	for _, v := range m.Status.Versions {
		out = append(out, v.Digest)
	}
	return out
}
