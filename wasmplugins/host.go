package wasmplugins

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/proa-project/proa/httpapi/admission/celpolicy"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/httpapi/client/event"
	"github.com/proa-project/proa/informers"
	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/wasmplugins/access"
	"github.com/proa-project/proa/wasmplugins/admit"
	"github.com/proa-project/proa/wasmplugins/convert"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/library"
	"github.com/proa-project/proa/wasmplugins/reconcile"
	"github.com/proa-project/proa/wasmplugins/runner"
	"github.com/proa-project/proa/wasmplugins/scan"
	"github.com/proa-project/proa/wasmplugins/schedule"
	"github.com/proa-project/proa/wasmplugins/virtual"
)

// Config configures a Host. REST, Factory and Store are required.
type Config struct {
	// REST reads and writes the host's objects. It must be allowed to get the
	// kinds of plugins.proa.io and namespaces, to update the former and their
	// status, and to create events.
	REST *client.REST
	// Factory shares the informers. Its Run is the caller's.
	Factory *informers.Factory
	// Store keeps the code of modules, below /proa/wasm/.
	Store storage.Store
	// CacheDir keeps compiled code over restarts; "" keeps none.
	CacheDir string
	Log      zerolog.Logger
	Metrics  prometheus.Registerer // nil registers nowhere
	// Instance names the process in events, such as its host.
	Instance string

	// Keys are trusted. With any, modules must be signed by one of them.
	Keys []library.Key
	// Record is how many of the latest writes are kept to ask plugins about;
	// the default is 1,000.
	Record int
	// Kinds is where virtual APIs are announced; without it there are none.
	Kinds virtual.Table
	// Audiences are those of the API server, for authentication plugins.
	Audiences []string
	// Authorize is for the variable authorizer of match conditions; nil knows
	// no rights.
	Authorize celpolicy.Authorize
	// Grant decides on host calls; nil grants none.
	Grant runner.Grant
	// Lead calls its argument while this process leads among those that share
	// the storage: only the leader reconciles. Nil says that it is alone.
	Lead func(ctx context.Context, lead func(context.Context) error) error
	// Breaker says when plugins that fail are no longer called.
	Breaker runner.Breaker

	// CompileTimeout bounds the compilation of one module. Default 30 s.
	CompileTimeout time.Duration
	// StartupWait is how long a write waits for the first copy of the plugins
	// after the start of the process. Default 10 s.
	StartupWait time.Duration
	// StatusInterval is the least time between two writes of one plugin's
	// failures. Default 5 s.
	StatusInterval time.Duration
	// OrphanGrace is how long uploaded code that no module names is kept.
	// Default 10 minutes.
	OrphanGrace time.Duration
}

func (c *Config) setDefaults() error {
	if c.REST == nil || c.Factory == nil || c.Store == nil {
		return errors.New("plugin host: REST, Factory and Store are required")
	}
	c.CompileTimeout = cmp.Or(c.CompileTimeout, 30*time.Second)
	if c.Metrics == nil {
		c.Metrics = prometheus.NewRegistry()
	}
	return nil
}

// A Host runs the plugins of a control plane.
type Host struct {
	// Admission is the extension point of admission, a policy.Source.
	Admission *admit.Point
	// Authorization has authorizers for before and after RBAC.
	Authorization *access.Authorization
	// Authentication is an authn.TokenVerifier.
	Authentication *access.Authentication
	// Recording keeps the latest writes. It is a policy.Recorder, and serves
	// what it has.
	Recording *scan.Recording
	// Conversion converts custom resources.
	Conversion *convert.Point
	// Scheduling is a scheduling.Extra.
	Scheduling *schedule.Point
	// Reconcile calls modules with the objects of a kind.
	Reconcile *reconcile.Point

	c          Config
	engine     *engine.Engine
	library    *library.Library
	runner     runner.Config
	namespaces *informers.Informer[*corev1.Namespace]
	nsAPI      *client.Client[*corev1.Namespace]
	points     []func(context.Context) error
}

// New returns a Host, which does nothing before Run.
func New(c Config) (*Host, error) {
	if err := c.setDefaults(); err != nil {
		return nil, err
	}
	eng, err := engine.New(engine.Config{CacheDir: c.CacheDir, Log: c.Log, CompileTimeout: c.CompileTimeout})
	if err != nil {
		return nil, fmt.Errorf("start the plugin engine: %w", err)
	}
	h := &Host{
		c: c, engine: eng,
		namespaces: informers.For[*corev1.Namespace](c.Factory),
		nsAPI:      client.For[*corev1.Namespace](c.REST),
	}
	if err := h.build(); err != nil {
		return nil, errors.Join(err, eng.Close())
	}
	return h, nil
}

// build makes the library and the points.
func (h *Host) build() error {
	c := h.c
	var err error
	h.library, err = library.New(library.Config{
		REST: c.REST, Factory: c.Factory, Store: c.Store, Engine: h.engine, Log: c.Log, Metrics: c.Metrics,
		Keys: c.Keys, OrphanGrace: c.OrphanGrace,
	})
	if err != nil {
		return err
	}
	metrics, err := runner.NewMetrics(c.Metrics)
	if err != nil {
		return err
	}
	h.runner = runner.Config{
		REST: c.REST, Factory: c.Factory, Modules: h.library, Grant: c.Grant,
		Events: event.NewRecorder(c.REST, "plugin-host", c.Instance, c.Log), Metrics: metrics, Log: c.Log,
		StatusInterval: c.StatusInterval, Breaker: c.Breaker,
	}
	answers, err := admit.NewMetrics(c.Metrics)
	if err != nil {
		return err
	}
	h.Admission = admit.New(admit.Config{
		Runner: h.runner, Engine: h.engine, NamespaceLabels: h.namespaceLabels, StartupWait: c.StartupWait, Metrics: answers,
		Authorize: c.Authorize,
	})
	h.Authorization = access.NewAuthorization(h.runner, h.engine)
	h.Authentication = access.NewAuthentication(h.runner, h.engine, c.Audiences)
	h.Conversion = convert.New(h.runner, h.engine)
	h.Scheduling = schedule.New(schedule.Config{Runner: h.runner, Engine: h.engine})
	h.Reconcile = reconcile.New(reconcile.Config{Runner: h.runner, Engine: h.engine, Lead: c.Lead})
	h.Recording = scan.NewRecording(c.Record)
	h.points = []func(context.Context) error{
		h.library.Run,
		h.runner.Events.Run,
		h.Admission.Run,
		h.Authorization.Run,
		h.Authentication.Run,
		h.Conversion.Run,
		h.Scheduling.Run,
		h.Reconcile.Run,
		scan.New(scan.Config{REST: c.REST, Factory: c.Factory, Plugins: h.Admission, Recording: h.Recording, Log: c.Log}).Run,
	}
	if c.Kinds != nil {
		h.points = append(h.points, virtual.New(virtual.Config{Runner: h.runner, Engine: h.engine, Table: c.Kinds}).Run)
	}
	return nil
}

// Run keeps the plugins as the API has them until ctx is done, then closes them
// all and returns the error of ctx. It can be called once.
func (h *Host) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, run := range h.points {
		wg.Go(func() { _ = run(ctx) }) // all end with ctx
	}
	<-ctx.Done()
	wg.Wait()
	if err := h.engine.Close(); err != nil {
		h.c.Log.Warn().Err(err).Msg("cannot close the plugin engine")
	}
	return ctx.Err()
}

// WaitReady waits until the plugins that were there at the start run, or are
// known to fail, or returns the error of ctx. An API server that serves nobody
// before has no moment without its plugins.
func (h *Host) WaitReady(ctx context.Context) error {
	for _, wait := range []func(context.Context) error{h.Admission.WaitReady, h.Authorization.WaitReady, h.Authentication.WaitReady} {
		if err := wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Ready returns runner.ErrNotReady until WaitReady would return.
func (h *Host) Ready() error {
	return cmp.Or(h.Admission.Ready(), h.Authorization.Ready(), h.Authentication.Ready())
}

// ContentHandler serves the content subresource of WasmModules, see
// library.Library.
func (h *Host) ContentHandler() http.Handler { return h.library.ContentHandler() }

// namespaceLabels asks the copy first, and the API for a namespace so new that
// the copy does not have it.
func (h *Host) namespaceLabels(ctx context.Context, name string) (labels.Set, error) {
	if ns, ok := h.namespaces.Get("", name); ok {
		return ns.Labels, nil
	}
	ns, err := h.nsAPI.Get(ctx, "", name)
	if apierrors.IsNotFound(err) {
		return nil, nil // the write itself will be told
	}
	if err != nil {
		return nil, err
	}
	return ns.Labels, nil
}
