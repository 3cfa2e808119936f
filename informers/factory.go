package informers

import (
	"context"
	"errors"
	"reflect"
	"sync"

	"github.com/rs/zerolog"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/client"
)

// Config is what a Factory needs. REST is required.
type Config struct {
	REST *client.REST
	Log  zerolog.Logger
}

// A Factory shares one Informer per kind, over all namespaces, between
// everything in a process.
type Factory struct {
	cfg Config

	mu        sync.Mutex // guards the fields below
	informers map[reflect.Type]runner
	ctx       context.Context //nolint:containedctx // of Run; nil before it
	ended     bool
	wg        sync.WaitGroup // added to with mu held and !ended
}

type runner interface {
	Run(ctx context.Context) error
	WaitForSync(ctx context.Context) error
}

// ErrFactoryRunning is returned by Run when it was called before.
var ErrFactoryRunning = errors.New("factory has been run already")

// NewFactory returns a Factory without informers.
func NewFactory(cfg Config) *Factory {
	return &Factory{cfg: cfg, informers: map[reflect.Type]runner{}}
}

// For returns the shared informer of the kind T. It begins to run with the
// factory, at once if that runs already. It panics if T is not in the table of
// kinds.
func For[T api.Object](f *Factory) *Informer[T] {
	t := reflect.TypeFor[T]()
	f.mu.Lock()
	defer f.mu.Unlock()
	if have, ok := f.informers[t]; ok {
		return have.(*Informer[T]) //nolint:errcheck // the map is keyed by the type
	}
	c := client.For[T](f.cfg.REST)
	i := New(Options[T]{Client: c, Log: f.cfg.Log.With().Str("resource", c.Resource().Plural).Logger()})
	f.informers[t] = i
	if f.ctx != nil {
		f.start(i)
	}
	return i
}

// start needs mu.
func (f *Factory) start(i runner) {
	if f.ended {
		return
	}
	ctx := f.ctx
	f.wg.Go(func() { i.Run(ctx) }) //nolint:errcheck // ends with ctx only
}

// Run runs the informers until ctx is done, waits for all of them, and returns
// the error of ctx. It can be called once.
func (f *Factory) Run(ctx context.Context) error {
	f.mu.Lock()
	if f.ctx != nil {
		f.mu.Unlock()
		return ErrFactoryRunning
	}
	f.ctx = ctx
	for _, i := range f.informers {
		f.start(i)
	}
	f.mu.Unlock()
	<-ctx.Done()
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	f.wg.Wait()
	return ctx.Err()
}

// WaitForSync waits until the informers that there are at the call have made
// their first copy, or returns the error of ctx.
func (f *Factory) WaitForSync(ctx context.Context) error {
	f.mu.Lock()
	all := make([]runner, 0, len(f.informers))
	for _, i := range f.informers {
		all = append(all, i)
	}
	f.mu.Unlock()
	for _, i := range all {
		if err := i.WaitForSync(ctx); err != nil {
			return err
		}
	}
	return nil
}
