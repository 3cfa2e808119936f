package wasmplugins_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"

	"github.com/proa-project/proa/api"
	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/admission/policy"
	"github.com/proa-project/proa/httpapi/authz"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/httpapi/dynamic"
	"github.com/proa-project/proa/httpapi/request"
	"github.com/proa-project/proa/informers"
	"github.com/proa-project/proa/openapi"
	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/storage/memory"
	"github.com/proa-project/proa/storage/watchcache"
	"github.com/proa-project/proa/wasmplugins"
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

// testBudget is what all plugins together may take.
const testBudget = 2 * time.Second

// A fixture is an API server with plugins, in this process.
type fixture struct {
	t       testing.TB
	store   storage.Store
	handler http.Handler
	host    *wasmplugins.Host
	metrics *prometheus.Registry

	rest       *client.REST
	modules    *client.Client[*pluginsv1.WasmModule]
	plugins    *client.Client[*pluginsv1.AdmissionPlugin]
	pods       *client.Client[*corev1.Pod]
	configMaps *client.Client[*corev1.ConfigMap]
	namespaces *client.Client[*corev1.Namespace]

	traces   *policy.Traces
	policies *policy.Chain
	off      atomic.Bool // breaks the glass

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

// A backing is what survives a restart of the server.
type backing struct {
	store storage.Store
	cache string
}

func newFixture(t testing.TB, change ...func(*wasmplugins.Config)) *fixture {
	t.Helper()
	store := memory.New(memory.Config{})
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return startFixture(t, backing{store: store, cache: compiled}, change...)
}

// unclosed leaves the store to the test.
type unclosed struct{ storage.Store }

func (unclosed) Close() error { return nil }

func startFixture(t testing.TB, b backing, change ...func(*wasmplugins.Config)) *fixture {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	log := zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.ErrorLevel)
	f := &fixture{t: t, metrics: prometheus.NewRegistry()}
	cache, err := watchcache.New(ctx, watchcache.Config{
		Store: unclosed{b.store}, Prefix: "/registry/", Decorate: api.SetRevision,
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
	f.store = cache
	handler := &late{}
	f.handler = handler
	f.rest, err = client.New(client.Config{Transport: client.InProcess(handler)})
	must(err)
	factory := informers.NewFactory(informers.Config{REST: f.rest, Log: log})
	kinds := dynamic.New(dynamic.Config{})
	config := wasmplugins.Config{
		REST: f.rest, Factory: factory, Store: cache, CacheDir: b.cache, Log: log, Metrics: f.metrics,
		Kinds: kinds, StatusInterval: 10 * time.Millisecond, CompileTimeout: 5 * time.Minute,
	}
	for _, c := range change {
		c(&config)
	}
	f.host, err = wasmplugins.New(config)
	must(err)
	f.traces = policy.NewTraces(0)
	f.policies = policy.New(policy.Config{Sources: []policy.Source{f.host.Admission}, Traces: f.traces, Recorder: f.host.Recording, Budget: testBudget, Off: f.off.Load, ExemptNamespaces: []string{"kube-system"}})
	info := version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.0+proa"}
	documents, err := openapi.Build(api.Resources(), &info)
	must(err)
	server, err := httpapi.New(httpapi.Config{
		Store: cache, Resources: api.Resources(), Documents: documents, Authenticator: everybody{}, Authorizer: everybody{},
		Admission: &admission.Chain{
			Mutators:   append(httpapi.BuiltinMutators(cache), f.policies.Mutator()),
			Validators: []admission.Validator{f.policies.Validator()},
		},
		Dynamic: kinds,
		Raw:     map[string]http.Handler{"wasmmodules.plugins.proa.io/content": f.host.ContentHandler()},
		Version: info, Log: log,
	})
	must(err)
	handler.h = server
	done := make(chan struct{}, 2)
	go func() { _ = factory.Run(ctx); done <- struct{}{} }() // ends with ctx
	go func() { _ = f.host.Run(ctx); done <- struct{}{} }()  // ends with ctx
	f.stop = sync.OnceFunc(func() {
		cancel()
		<-done
		<-done
		server.Stop()
		if err := cache.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(f.stop)
	must(server.Bootstrap(ctx))
	must(f.host.WaitReady(ctx))

	f.modules, f.plugins = client.For[*pluginsv1.WasmModule](f.rest), client.For[*pluginsv1.AdmissionPlugin](f.rest)
	f.pods, f.configMaps, f.namespaces = client.For[*corev1.Pod](f.rest), client.For[*corev1.ConfigMap](f.rest), client.For[*corev1.Namespace](f.rest)
	return f
}

// until polls until f is true.
func (f *fixture) until(what string, ok func() bool) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
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

// module makes a module with inline code, or changes it.
func (f *fixture) module(name string, wasm []byte) {
	f.t.Helper()
	m := &pluginsv1.WasmModule{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: pluginsv1.WasmModuleSpec{Code: wasm}}
	old, err := f.modules.Get(f.t.Context(), "", name)
	if err == nil {
		old.Spec = m.Spec
		_, err = f.modules.Update(f.t.Context(), old)
	} else {
		_, err = f.modules.Create(f.t.Context(), m)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// upload makes a module and puts its content.
func (f *fixture) upload(name string, wasm []byte) {
	f.t.Helper()
	m := &pluginsv1.WasmModule{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := f.modules.Get(f.t.Context(), "", name); err != nil {
		if _, err := f.modules.Create(f.t.Context(), m); err != nil {
			f.t.Fatal(err)
		}
	}
	if _, err := f.put(name, wasm); err != nil {
		f.t.Fatal(err)
	}
}

func contentPath(name string) string {
	return "/apis/plugins.proa.io/v1/wasmmodules/" + name + "/content"
}

func (f *fixture) put(name string, wasm []byte) (*http.Response, error) {
	resp, err := f.rest.Do(f.t.Context(), client.Request{Method: http.MethodPut, Path: contentPath(name), ContentType: "application/wasm", Body: wasm})
	if err == nil {
		_ = resp.Body.Close() // in memory
	}
	return resp, err
}

// rule matches an operation on a core resource.
func rule(resource string, ops ...admissionregistrationv1.OperationType) admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: ops,
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{resource}},
	}
}

// plugin makes a plugin that judges the creation of ConfigMaps, unless change
// says otherwise, and waits until its condition Ready has the status want.
func (f *fixture) plugin(name string, want metav1.ConditionStatus, change ...func(*pluginsv1.AdmissionPlugin)) *pluginsv1.AdmissionPlugin {
	f.t.Helper()
	p := &pluginsv1.AdmissionPlugin{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: pluginsv1.AdmissionPluginSpec{
			Common: pluginsv1.Common{Module: name}, Phases: []pluginsv1.Phase{pluginsv1.PhaseValidate},
			Rules: []admissionregistrationv1.RuleWithOperations{rule("configmaps", admissionregistrationv1.Create)},
		},
	}
	for _, c := range change {
		c(p)
	}
	if _, err := f.plugins.Create(f.t.Context(), p); err != nil {
		f.t.Fatal(err)
	}
	return f.waitPlugin(name, want)
}

func (f *fixture) waitPlugin(name string, want metav1.ConditionStatus) (p *pluginsv1.AdmissionPlugin) {
	f.t.Helper()
	f.until("plugin "+name+" is Ready="+string(want), func() bool {
		var err error
		p, err = f.plugins.Get(f.t.Context(), "", name)
		return err == nil && p.Status.ObservedGeneration == p.Generation && meta.IsStatusConditionPresentAndEqual(p.Status.Conditions, "Ready", want)
	})
	return p
}

// change changes a plugin's object.
func (f *fixture) change(name string, change func(*pluginsv1.AdmissionPlugin)) {
	f.t.Helper()
	f.until("plugin "+name+" is changed", func() bool {
		p, err := f.plugins.Get(f.t.Context(), "", name)
		if err != nil {
			f.t.Fatal(err)
		}
		change(p)
		_, err = f.plugins.Update(f.t.Context(), p)
		if err != nil && !apierrors.IsConflict(err) {
			f.t.Fatal(err)
		}
		return err == nil
	})
}

// create makes a ConfigMap with a generated name.
func (f *fixture) create(labels map[string]string) (*corev1.ConfigMap, error) {
	return f.configMaps.Create(f.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "c-", Namespace: "default", Labels: labels}})
}

func mutating(p *pluginsv1.AdmissionPlugin) { p.Spec.Phases = []pluginsv1.Phase{pluginsv1.PhaseMutate} }

func ignoring(p *pluginsv1.AdmissionPlugin) { p.Spec.FailurePolicy = admissionregistrationv1.Ignore }

// exchange makes a request with a JSON body and returns the status and body of
// the answer, whatever it is.
func (f *fixture) exchange(method, path, body string) (int, string) {
	f.t.Helper()
	r := httptest.NewRequestWithContext(f.t.Context(), method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}
