package wasmplugins

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/informers"
	"github.com/proa-project/proa/informers/workqueue"
	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/wasmplugins/engine"
)

// Config configures a Host. REST, Factory and Store are required.
type Config struct {
	// REST reads and writes the host's objects. It must be allowed to get
	// WasmModules, AdmissionPlugins and namespaces, and to update the former
	// two and their status.
	REST *client.REST
	// Factory shares the informers. Its Run is the caller's.
	Factory *informers.Factory
	// Store keeps uploaded code, below /proa/wasm/.
	Store storage.Store
	// CacheDir keeps compiled code over restarts; "" keeps none.
	CacheDir string
	Log      zerolog.Logger
	Metrics  prometheus.Registerer // nil registers nowhere

	// Budget is how long all plugins together may take in each phase of a
	// request. Default 2 s.
	Budget time.Duration
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
		return errors.New("wasmplugins: REST, Factory and Store are required")
	}
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&c.Budget, 2*time.Second)
	def(&c.StartupWait, 10*time.Second)
	def(&c.StatusInterval, 5*time.Second)
	def(&c.OrphanGrace, 10*time.Minute)
	return nil
}

// A Host runs the plugins of an API server.
type Host struct {
	c       Config
	engine  *engine.Engine
	metrics *hostMetrics
	chunks  *chunkStore

	modules    *informers.Informer[*pluginsv1.WasmModule]
	plugins    *informers.Informer[*pluginsv1.AdmissionPlugin]
	namespaces *informers.Informer[*corev1.Namespace]
	moduleAPI  *client.Client[*pluginsv1.WasmModule]
	pluginAPI  *client.Client[*pluginsv1.AdmissionPlugin]
	nsAPI      *client.Client[*corev1.Namespace]

	work   *workqueue.Queue[key] // what may differ from its object
	status *workqueue.Queue[key] // whose status may have to be written

	table  atomic.Pointer[table]
	synced chan struct{} // closed when the table shows the API's plugins
	ready  chan struct{} // closed when the plugins of the start are compiled

	mu     sync.Mutex // guards the fields below
	code   map[string]*moduleState
	loaded map[string]*pluginState
}

// A key names an object of one of the two kinds.
type key struct {
	module bool
	name   string
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
		c: c, engine: eng, chunks: &chunkStore{store: c.Store},
		modules:    informers.For[*pluginsv1.WasmModule](c.Factory),
		plugins:    informers.For[*pluginsv1.AdmissionPlugin](c.Factory),
		namespaces: informers.For[*corev1.Namespace](c.Factory),
		moduleAPI:  client.For[*pluginsv1.WasmModule](c.REST),
		pluginAPI:  client.For[*pluginsv1.AdmissionPlugin](c.REST),
		nsAPI:      client.For[*corev1.Namespace](c.REST),
		work:       workqueue.New[key](workqueue.Config{Name: "plugins", MaxDelay: time.Minute}),
		status:     workqueue.New[key](workqueue.Config{Name: "plugin-status", BaseDelay: 100 * time.Millisecond, MaxDelay: time.Minute}),
		synced:     make(chan struct{}), ready: make(chan struct{}),
		code: map[string]*moduleState{}, loaded: map[string]*pluginState{},
	}
	if h.metrics, err = newMetrics(c.Metrics); err != nil {
		return nil, errors.Join(err, eng.Close())
	}
	h.table.Store(&table{})
	return h, nil
}

// Run keeps the plugins as the API has them until ctx is done, then closes them
// all and returns the error of ctx. It can be called once.
func (h *Host) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer func() {
		wg.Wait()
		h.closeAll()
	}()
	modules := h.modules.AddHandler(informers.Handler[*pluginsv1.WasmModule]{
		Add:    func(m *pluginsv1.WasmModule, _ bool) { h.work.Add(key{true, m.Name}) },
		Update: func(_, m *pluginsv1.WasmModule) { h.work.Add(key{true, m.Name}) },
		Delete: func(m *pluginsv1.WasmModule) { h.work.Add(key{true, m.Name}) },
	})
	plugins := h.plugins.AddHandler(informers.Handler[*pluginsv1.AdmissionPlugin]{
		Add:    func(p *pluginsv1.AdmissionPlugin, _ bool) { h.work.Add(key{false, p.Name}) },
		Update: func(_, p *pluginsv1.AdmissionPlugin) { h.work.Add(key{false, p.Name}) },
		Delete: func(p *pluginsv1.AdmissionPlugin) { h.work.Add(key{false, p.Name}) },
	})
	defer modules.Remove()
	defer plugins.Remove()
	for _, wait := range []func(context.Context) error{h.modules.WaitForSync, h.plugins.WaitForSync, h.namespaces.WaitForSync} {
		if err := wait(ctx); err != nil {
			return err
		}
	}
	h.first(ctx)
	close(h.ready)

	for range 2 {
		wg.Go(func() { h.drain(ctx, h.work, h.sync) })
	}
	wg.Go(func() { h.drain(ctx, h.status, h.writeStatus) })
	wg.Go(func() { h.collect(ctx) })
	<-ctx.Done()
	return ctx.Err()
}

// drain works on a queue until ctx is done.
func (h *Host) drain(ctx context.Context, q *workqueue.Queue[key], f func(context.Context, key) error) {
	for {
		k, ok := q.Get(ctx)
		if !ok {
			return
		}
		err := f(ctx, k)
		q.Done(k)
		switch {
		case err == nil:
			q.Forget(k)
		case ctx.Err() == nil:
			h.c.Log.Debug().Err(err).Str("object", k.name).Bool("module", k.module).Msg("plugin work is tried again")
			q.AddRateLimited(k)
		}
	}
}

// WaitReady waits until the plugins that were there at the start are compiled,
// or known to fail, or returns the error of ctx. An API server that serves
// nobody before has no moment without its plugins.
func (h *Host) WaitReady(ctx context.Context) error {
	select {
	case <-h.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ErrNotReady is returned by Ready.
var ErrNotReady = errors.New("plugins are being loaded")

// Ready returns ErrNotReady until WaitReady would return.
func (h *Host) Ready() error {
	select {
	case <-h.ready:
		return nil
	default:
		return ErrNotReady
	}
}

// Mutator returns the part of admission that changes objects.
func (h *Host) Mutator() admission.Mutator { return mutator{h} }

// Validator returns the part of admission that only refuses.
func (h *Host) Validator() admission.Validator { return validator{h} }

type mutator struct{ h *Host }

func (m mutator) Mutate(ctx context.Context, r *admission.Request) error { return m.h.mutate(ctx, r) }

type validator struct{ h *Host }

func (v validator) Validate(ctx context.Context, r *admission.Request) error {
	return v.h.validate(ctx, r)
}
