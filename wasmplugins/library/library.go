// Package library keeps the code of WasmModules: fetched, verified, metered,
// compiled, and kept for rollback.
//
// A module's bytes are inline in its object, were uploaded to its content
// subresource, or are pulled from a registry. Whichever it is, the library
// stores them by their digest once they have proved good, so that later starts
// need nobody else and earlier versions stay at hand. If the operator has named
// trusted keys, bytes that none of them has signed are never compiled.
//
// Plugins ask for code by the module's name, with or without a digest, and are
// told when a module has changed:
//
//	lib.Subscribe(func(module string) { ... })
//	ref, err := lib.Get(ctx, "my-policy", "")
//	defer ref.Release()
package library

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/labels"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/informers"
	"github.com/proa-project/proa/informers/workqueue"
	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/wasmplugins/engine"
)

// Config configures a Library. REST, Factory, Store and Engine are required.
type Config struct {
	// REST must be allowed to get and update WasmModules and their status, to
	// list all kinds of plugins (for the digests that they pin), and to get
	// the Secrets that modules name for pulling.
	REST *client.REST
	// Factory shares the informers. Its Run is the caller's.
	Factory *informers.Factory
	// Store keeps code, below /proa/wasm/.
	Store storage.Store
	// Engine compiles. Its Close is the caller's, after all Refs are released.
	Engine  *engine.Engine
	Log     zerolog.Logger
	Metrics prometheus.Registerer // nil registers nowhere

	// Keys are trusted. With any, code must be signed by one of them.
	Keys []Key
	// OrphanGrace is how long stored code that nothing names is kept. Default
	// 10 minutes.
	OrphanGrace time.Duration
	// PullTimeout bounds one attempt to pull an image. Default 60 s.
	PullTimeout time.Duration
	// HTTP carries pulls; nil is a transport of the library's own, with the
	// system's roots and proxies.
	HTTP *http.Transport
}

func (c *Config) setDefaults() error {
	if c.REST == nil || c.Factory == nil || c.Store == nil || c.Engine == nil {
		return errors.New("library: REST, Factory, Store and Engine are required")
	}
	if c.OrphanGrace == 0 {
		c.OrphanGrace = 10 * time.Minute
	}
	if c.PullTimeout == 0 {
		c.PullTimeout = time.Minute
	}
	return checkKeys(c.Keys)
}

// workers is how many modules are fetched at once. The engine compiles one at a
// time.
const workers = 4

// A Library keeps the code of all WasmModules. It is safe for concurrent use.
type Library struct {
	c       Config
	chunks  *chunkStore
	metrics *metrics
	puller  *puller

	modules *informers.Informer[*pluginsv1.WasmModule]
	api     *client.Client[*pluginsv1.WasmModule]

	work   *workqueue.Queue[string] // modules that may differ from their objects
	status *workqueue.Queue[string] // modules whose status may have to be written
	ready  chan struct{}            // closed when the modules of the start are loaded

	subscribers []func(module string) // not changed after Run

	mu      sync.Mutex // guards the fields below
	known   map[string]*module
	shared  map[string]*shared       // compiled, by digest
	loading map[string]chan struct{} // digests that somebody compiles; closed at the end
	recent  []recent
}

// New returns a Library, which does nothing before Run.
func New(c Config) (*Library, error) {
	if err := c.setDefaults(); err != nil {
		return nil, err
	}
	m, err := newMetrics(c.Metrics)
	if err != nil {
		return nil, err
	}
	return &Library{
		c: c, chunks: &chunkStore{store: c.Store}, metrics: m, puller: newPuller(&c),
		modules: informers.For[*pluginsv1.WasmModule](c.Factory),
		api:     client.For[*pluginsv1.WasmModule](c.REST),
		work:    workqueue.New[string](workqueue.Config{Name: "wasm-modules", BaseDelay: 100 * time.Millisecond, MaxDelay: time.Minute}),
		status:  workqueue.New[string](workqueue.Config{Name: "wasm-module-status", BaseDelay: 100 * time.Millisecond, MaxDelay: time.Minute}),
		ready:   make(chan struct{}),
		known:   map[string]*module{}, shared: map[string]*shared{}, loading: map[string]chan struct{}{},
	}, nil
}

// Subscribe has f called, from goroutines of Run, after a module's code, its
// versions or what is wrong with it has changed. It must be called before Run,
// and f must not block: it queues.
func (l *Library) Subscribe(f func(module string)) { l.subscribers = append(l.subscribers, f) }

func (l *Library) tell(name string) {
	for _, f := range l.subscribers {
		f(name)
	}
}

// Run keeps the code as the API has it until ctx is done, and returns the error
// of ctx. It can be called once. Refs stay valid.
func (l *Library) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer func() {
		wg.Wait()
		l.closeAll()
	}()
	r := l.modules.AddHandler(informers.Handler[*pluginsv1.WasmModule]{
		Add:    func(m *pluginsv1.WasmModule, _ bool) { l.work.Add(m.Name) },
		Update: func(_, m *pluginsv1.WasmModule) { l.work.Add(m.Name) },
		Delete: func(m *pluginsv1.WasmModule) { l.work.Add(m.Name) },
	})
	defer r.Remove()
	if err := l.modules.WaitForSync(ctx); err != nil {
		return err
	}
	l.first(ctx)
	close(l.ready)
	for range workers {
		wg.Go(func() {
			l.drain(ctx, l.work, func(ctx context.Context, name string) error { return l.sync(ctx, name, true) })
		})
	}
	wg.Go(func() { l.drain(ctx, l.status, l.writeStatus) })
	wg.Go(func() { l.collect(ctx) })
	<-ctx.Done()
	return ctx.Err()
}

// first loads what is there at the start, but for what would have to be pulled:
// a registry that is down must not hold up the API server.
func (l *Library) first(ctx context.Context) {
	for _, m := range l.modules.List(labels.Everything()) {
		if err := l.sync(ctx, m.Name, false); err != nil && ctx.Err() == nil {
			l.work.Add(m.Name)
		}
	}
}

// drain works on a queue until ctx is done.
func (l *Library) drain(ctx context.Context, q *workqueue.Queue[string], f func(context.Context, string) error) {
	for {
		name, ok := q.Get(ctx)
		if !ok {
			return
		}
		err := f(ctx, name)
		q.Done(name)
		switch {
		case err == nil:
			q.Forget(name)
		case ctx.Err() == nil:
			l.c.Log.Debug().Err(err).Str("module", name).Msg("module work is tried again")
			q.AddRateLimited(name)
		}
	}
}

// WaitReady waits until the modules that were there at the start are loaded or
// known to fail, or returns the error of ctx. One that has yet to be pulled
// from a registry counts as failing.
func (l *Library) WaitReady(ctx context.Context) error {
	select {
	case <-l.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// closeAll lets go of everything. Nothing syncs any more.
func (l *Library) closeAll() {
	l.work.ShutDown()
	l.status.ShutDown()
	l.puller.close()
	l.forgetOld(true)
	l.mu.Lock()
	all := l.known
	l.known = map[string]*module{}
	l.mu.Unlock()
	for _, m := range all {
		l.release(m.code)
	}
}
