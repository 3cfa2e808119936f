package reconcile_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"

	"github.com/proa-project/proa/api"
	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/authz"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/httpapi/client/event"
	"github.com/proa-project/proa/httpapi/dynamic"
	"github.com/proa-project/proa/httpapi/request"
	"github.com/proa-project/proa/informers"
	"github.com/proa-project/proa/openapi"
	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/storage/memory"
	"github.com/proa-project/proa/storage/watchcache"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/library"
	"github.com/proa-project/proa/wasmplugins/reconcile"
	"github.com/proa-project/proa/wasmplugins/runner"
	"github.com/proa-project/proa/wasmplugins/toolchain"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

// compiled keeps compiled code for all tests: a Go guest takes seconds.
var compiled string

func TestMain(m *testing.M) {
	var err error
	if compiled, err = os.MkdirTemp("", "proa-plugins-"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(compiled) // is in a directory for such files
		os.Exit(code)
	}))
}

const account = "system:serviceaccount:default:operator"

// A fixture is an API server with reconcilers, in this process.
type fixture struct {
	t     testing.TB
	rest  *client.REST
	kinds *dynamic.Table
	point *reconcile.Point

	modules     *client.Client[*pluginsv1.WasmModule]
	reconcilers *client.Client[*pluginsv1.Reconciler]
	configMaps  *client.Client[*corev1.ConfigMap]
	deployments *client.Client[*appsv1.Deployment]
	events      *client.Client[*corev1.Event]

	mu     sync.Mutex // guards the fields below
	denied []string   // of the account, as "verb resource/subresource"
	asked  map[string]int
}

// Authenticate takes everybody for an administrator.
func (f *fixture) Authenticate(*http.Request) (*request.User, error) {
	return &request.User{Name: "admin", Groups: []string{request.Masters, request.Authenticated}}, nil
}

// Authorize counts what the account asks for, and denies it what is denied.
func (f *fixture) Authorize(_ context.Context, u *request.User, i *request.Info) (authz.Decision, string, error) {
	if u.InGroup(request.Masters) {
		return authz.Allow, "", nil
	}
	if u.Name != account || !u.InGroup("system:serviceaccounts:default") || i.Resource == nil {
		return authz.NoOpinion, "", nil
	}
	what := i.Verb + " " + i.Resource.Plural
	if i.Subresource != "" {
		what += "/" + i.Subresource
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked[what]++
	if slices.Contains(f.denied, what) {
		return authz.NoOpinion, "", nil
	}
	return authz.Allow, "", nil
}

func (f *fixture) deny(what ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.denied = what
}

// times returns how often the account has done something.
func (f *fixture) times(what string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[what]
}

// late is a handler that is made after those who call it.
type late struct{ h http.Handler }

func (l *late) ServeHTTP(w http.ResponseWriter, r *http.Request) { l.h.ServeHTTP(w, r) }

func newFixture(t testing.TB, change ...func(*reconcile.Config)) *fixture {
	t.Helper()
	f := &fixture{t: t, asked: map[string]int{}, kinds: dynamic.New(dynamic.Config{})}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	log := zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.ErrorLevel)
	store, err := watchcache.New(ctx, watchcache.Config{
		Store: memory.New(memory.Config{}), Prefix: "/registry/", Decorate: api.SetRevision,
		Extract: func(key string, value []byte) (storage.Fields, error) {
			for _, r := range api.Resources() {
				if r.Storage != "" && strings.HasPrefix(key, r.Storage) && r.StoredAs == nil {
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
	eng, err := engine.New(engine.Config{CacheDir: compiled, Log: log, CompileTimeout: 5 * time.Minute})
	must(err)
	factory := informers.NewFactory(informers.Config{REST: f.rest, Log: log})
	lib, err := library.New(library.Config{REST: f.rest, Factory: factory, Store: store, Engine: eng, Log: log, Metrics: prometheus.NewRegistry()})
	must(err)
	info := version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.0+proa"}
	documents, err := openapi.Build(api.Resources(), &info)
	must(err)
	server, err := httpapi.New(httpapi.Config{
		Store: store, Resources: api.Resources(), Documents: documents, Authenticator: f, Authorizer: f,
		Admission: &admission.Chain{Mutators: httpapi.BuiltinMutators(store)}, Dynamic: f.kinds, Version: info, Log: log,
		Raw: map[string]http.Handler{"wasmmodules.plugins.proa.io/content": lib.ContentHandler()},
	})
	must(err)
	handler.h = server
	must(server.Bootstrap(ctx))
	events := event.NewRecorder(f.rest, "plugin-host", "test", log)
	config := reconcile.Config{
		Runner: runner.Config{
			REST: f.rest, Factory: factory, Modules: lib, Events: events, Log: log, StatusInterval: 10 * time.Millisecond,
			Breaker: runner.Breaker{Pause: 50 * time.Millisecond, MaxPause: 50 * time.Millisecond},
		},
		Engine: eng, Discover: 10 * time.Millisecond, MaxDelay: 200 * time.Millisecond,
	}
	for _, c := range change {
		c(&config)
	}
	f.point = reconcile.New(config)
	var wg sync.WaitGroup
	for _, run := range []func(context.Context) error{factory.Run, lib.Run, events.Run, f.point.Run} {
		wg.Go(func() { _ = run(ctx) }) // ends with ctx
	}
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		server.Stop()
		if err := eng.Close(); err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	f.modules, f.reconcilers = client.For[*pluginsv1.WasmModule](f.rest), client.For[*pluginsv1.Reconciler](f.rest)
	f.configMaps, f.deployments = client.For[*corev1.ConfigMap](f.rest), client.For[*appsv1.Deployment](f.rest)
	f.events = client.For[*corev1.Event](f.rest)
	return f
}

// until polls until f is true.
func (f *fixture) until(what string, ok func() bool) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
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

// says is a module that gives one reply to everything; finalizer is what its
// manifest says.
func says(t testing.TB, reply string, finalizer bool) []byte {
	t.Helper()
	m := &Module{}
	Admission(m, reply)
	m.Func("proa_reconcile", []byte{I32, I32}, []byte{I64}, nil, Reply(ReplyAt, uint32(len(reply))))
	wasm, err := toolchain.WithManifest(m.Bytes(), fmt.Appendf(nil, `{"kinds":["reconcile"],"finalizer":%v}`, finalizer))
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

// traps is a module that fails always.
func traps() []byte {
	m := &Module{}
	Admission(m, "")
	m.Func("proa_reconcile", []byte{I32, I32}, []byte{I64}, nil, Unreachable)
	return m.Bytes()
}

// module makes a module with inline code, or changes it.
func (f *fixture) module(name string, wasm []byte) {
	f.t.Helper()
	f.until("module "+name, func() bool {
		m, err := f.modules.Get(f.t.Context(), "", name)
		if err == nil {
			m.Spec = pluginsv1.WasmModuleSpec{Code: wasm}
			_, err = f.modules.Update(f.t.Context(), m)
		} else {
			_, err = f.modules.Create(f.t.Context(), &pluginsv1.WasmModule{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: pluginsv1.WasmModuleSpec{Code: wasm}})
		}
		if err != nil && !apierrors.IsConflict(err) { // with a write of its status
			f.t.Fatal(err)
		}
		return err == nil
	})
}

// upload makes a module and puts its content.
func (f *fixture) upload(name string, wasm []byte) {
	f.t.Helper()
	if _, err := f.modules.Create(f.t.Context(), &pluginsv1.WasmModule{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		f.t.Fatal(err)
	}
	resp, err := f.rest.Do(f.t.Context(), client.Request{
		Method: http.MethodPut, Path: "/apis/plugins.proa.io/v1/wasmmodules/" + name + "/content", ContentType: "application/wasm", Body: wasm,
	})
	if err != nil {
		f.t.Fatal(err)
	}
	_ = resp.Body.Close() // in memory
}

var (
	configMaps  = pluginsv1.WatchedKind{Version: "v1", Resource: "configmaps"}                 // a constant in all but name
	deployments = pluginsv1.WatchedKind{Group: "apps", Version: "v1", Resource: "deployments"} // a constant in all but name
)

// labeled is the ConfigMaps that reconcilers of tests are for.
func labeled() pluginsv1.WatchedKind {
	k := configMaps
	k.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"for": "reconciler"}}
	return k
}

// reconciler makes a Reconciler of the module with its name, for ConfigMaps
// with the label, that owns ConfigMaps and Deployments.
func (f *fixture) reconciler(name string, change ...func(*pluginsv1.ReconcilerSpec)) {
	f.t.Helper()
	r := &pluginsv1.Reconciler{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: pluginsv1.ReconcilerSpec{
			Common: pluginsv1.Common{Module: name, ServiceAccount: &pluginsv1.ServiceAccountReference{Namespace: "default", Name: "operator"}},
			For:    labeled(), Owns: []pluginsv1.WatchedKind{configMaps, deployments},
		},
	}
	for _, c := range change {
		c(&r.Spec)
	}
	if _, err := f.reconcilers.Create(f.t.Context(), r); err != nil {
		f.t.Fatal(err)
	}
}

// object makes a ConfigMap with the label.
func (f *fixture) object(name string, data map[string]string) *corev1.ConfigMap {
	f.t.Helper()
	cm, err := f.configMaps.Create(f.t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{"for": "reconciler"}}, Data: data,
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return cm
}

// child waits until a ConfigMap is as wanted.
func (f *fixture) child(name string, ok func(*corev1.ConfigMap) bool) (cm *corev1.ConfigMap) {
	f.t.Helper()
	f.until("ConfigMap "+name, func() bool {
		var err error
		cm, err = f.configMaps.Get(f.t.Context(), "default", name)
		return err == nil && ok(cm)
	})
	return cm
}

func (f *fixture) goneChild(name string) {
	f.t.Helper()
	f.until("ConfigMap "+name+" is gone", func() bool {
		_, err := f.configMaps.Get(f.t.Context(), "default", name)
		return apierrors.IsNotFound(err)
	})
}

// change changes a ConfigMap as somebody else would.
func (f *fixture) change(name string, change func(*corev1.ConfigMap)) {
	f.t.Helper()
	f.until("ConfigMap "+name+" is changed", func() bool {
		cm, err := f.configMaps.Get(f.t.Context(), "default", name)
		if err != nil {
			f.t.Fatal(err)
		}
		change(cm)
		_, err = f.configMaps.Update(f.t.Context(), cm)
		if err != nil && !apierrors.IsConflict(err) {
			f.t.Fatal(err)
		}
		return err == nil
	})
}

// event waits for an event about an object.
func (f *fixture) event(name, reason, text string) {
	f.t.Helper()
	f.until(fmt.Sprintf("event %s of %s with %q", reason, name, text), func() bool {
		list, err := f.events.List(f.t.Context(), "", metav1.ListOptions{})
		if err != nil {
			f.t.Fatal(err)
		}
		return slices.ContainsFunc(list.Items, func(e *corev1.Event) bool {
			return e.InvolvedObject.Name == name && e.Reason == reason && strings.Contains(e.Message, text)
		})
	})
}

// status waits until a Reconciler's status is as wanted.
func (f *fixture) status(name, what string, ok func(*pluginsv1.ReconcilerStatus) bool) {
	f.t.Helper()
	var last pluginsv1.ReconcilerStatus
	defer func() {
		if f.t.Failed() {
			f.t.Logf("status of %s: %+v, last failure %+v", name, last, last.LastFailure)
		}
	}()
	f.until("status of "+name+": "+what, func() bool {
		r, err := f.reconcilers.Get(f.t.Context(), "", name)
		if err != nil {
			return false
		}
		last = r.Status
		return ok(&last)
	})
}

// condition reports whether a condition has a status, and a text in its message.
func condition(s *pluginsv1.ReconcilerStatus, typ string, want metav1.ConditionStatus, text string) bool {
	c := meta.FindStatusCondition(s.Conditions, typ)
	return c != nil && c.Status == want && strings.Contains(c.Message, text)
}

func settings(s string) func(*pluginsv1.ReconcilerSpec) {
	return func(spec *pluginsv1.ReconcilerSpec) { spec.Settings = &runtime.RawExtension{Raw: []byte(s)} }
}
