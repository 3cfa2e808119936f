// Package reconcile is the extension point of reconciliation: a module is
// called with each object of a kind, and what it answers is made true. It is an
// operator without a pod.
//
// A Reconciler is called for an object whenever the object, or one that it owns,
// has changed, when the module or its settings have, and when the time has come
// that the last answer named. It looks at state, never at what happened, and is
// never called twice at once for one object. What fails is tried again, ever
// more slowly, and said in an event of the object and in the status of the
// Reconciler.
//
// Everything is read and written as the Reconciler's ServiceAccount, over the
// API: its rights and admission hold as for anybody else. It needs get, list
// and watch of the kind and of the kinds that it owns, create, update and
// delete of the latter, patch of the status if it answers with one, and patch of
// the object itself if it wants to be called before that is deleted.
//
// # What becomes of an answer
//
// An object of the answer is created, with a controller reference to the object
// that it is for. If it is there, what the answer names of it is put in place of
// what is there, and everything else is left alone: defaults, what controllers
// write, what somebody has added. What an earlier answer has named and this one
// does not is taken away again. For that the names, though not the values, are
// kept in an annotation of the object. So it is a three-way merge like that of
// kubectl apply, with two differences. Lists are merged without knowing the
// kind, because a kind may have come into being a minute ago: elements that all
// have a name are told apart by that, other lists are replaced as a whole unless
// the wanted elements are there but for defaults. And no values are kept,
// because an annotation is no place for those of a Secret. Server-side apply
// would need schemas of all kinds, and would leave what is no longer named to
// the managers of fields.
//
// An object is never taken over from somebody else: one that is there without
// the reference is a failure. Objects with the reference that are missing from
// the answer are deleted, if their kind is one of those that the Reconciler
// owns.
package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/rs/zerolog"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/httpapi/client/event"
	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/native"
	"github.com/proa-project/proa/wasmplugins/runner"
)

// Config configures a Point. Runner and Engine are required.
type Config struct {
	// Runner has, as REST, a client that may impersonate ServiceAccounts.
	Runner runner.Config
	Engine *engine.Engine
	// Lead calls its argument while this process leads among those that share
	// the storage. Nil says that it is alone.
	Lead func(ctx context.Context, lead func(context.Context) error) error
	// Workers is how many objects of one Reconciler are reconciled at once.
	// Default 2.
	Workers int
	// BaseDelay and MaxDelay bound the time after which a failure is tried
	// again. Default 50 ms and 5 min.
	BaseDelay, MaxDelay time.Duration
	// Discover is how long a kind that is not served is looked for again.
	// Default 5 s.
	Discover time.Duration
}

// A guest is a module that runs.
type guest struct {
	*native.Plugin
	finalizer bool // the module wants to be called before deletion
}

type handle = runner.Handle[*pluginsv1.Reconciler, *guest]

// A Point is all Reconcilers.
type Point struct {
	c       Config
	rest    *client.REST
	events  *event.Recorder
	log     zerolog.Logger
	runner  *runner.Runner[*pluginsv1.Reconciler, *guest]
	changes chan struct{} // something may have changed; one at most

	mu    sync.Mutex // guards the field below
	loops map[string]*loop
}

// New returns a Point, which does nothing before Run.
func New(c Config) *Point {
	c.Workers = cmp.Or(c.Workers, 2)
	c.BaseDelay = cmp.Or(c.BaseDelay, 50*time.Millisecond)
	c.MaxDelay = cmp.Or(c.MaxDelay, 5*time.Minute)
	c.Discover = cmp.Or(c.Discover, 5*time.Second)
	if c.Lead == nil {
		c.Lead = func(ctx context.Context, lead func(context.Context) error) error { return lead(ctx) }
	}
	p := &Point{
		c: c, rest: c.Runner.REST, events: c.Runner.Events, log: c.Runner.Log,
		changes: make(chan struct{}, 1), loops: map[string]*loop{},
	}
	p.runner = runner.New(c.Runner, runner.Point[*pluginsv1.Reconciler, *guest]{
		Kind: "Reconciler", Start: p.start, Changed: p.changed, Amend: p.amend,
		// Nobody waits for an answer.
		Limits: engine.Limits{Timeout: time.Second, Fuel: 200_000_000},
	})
	return p
}

// start starts a module.
func (p *Point) start(ctx context.Context, _ *pluginsv1.Reconciler, code runner.Code, c runner.GuestConfig) (*guest, error) {
	if code.ABI != abi.Native {
		return nil, fmt.Errorf("%w: a module with the ABI %s cannot reconcile", runner.ErrABI, cmp.Or(code.ABI, "unknown"))
	}
	n, err := native.Start(ctx, p.c.Engine, code.Code, native.Config{
		Name: c.Name, Export: abi.ExportReconcile, Limits: c.Limits, Settings: c.Settings, Capability: c.Capability, Log: c.Log,
		Instances: p.c.Workers,
	})
	if err != nil {
		return nil, err
	}
	return &guest{Plugin: n, finalizer: code.Manifest.Finalizer}, nil
}

// Run reconciles until ctx is done, and returns its error. Modules are kept
// ready even while another process leads.
func (p *Point) Run(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- p.runner.Run(ctx) }()
	for {
		err := p.c.Lead(ctx, p.lead)
		if ctx.Err() != nil {
			break
		}
		p.log.Error().Err(err).Msg("reconcilers stopped, starting them again")
		pause(ctx, time.Second)
	}
	<-done
	return ctx.Err()
}

// WaitReady waits until the modules of the start run, or are known to fail, or
// returns the error of ctx.
func (p *Point) WaitReady(ctx context.Context) error { return p.runner.WaitReady(ctx) }

func (p *Point) changed() {
	select {
	case p.changes <- struct{}{}:
	default:
	}
}

// lead keeps a loop for each Reconciler until ctx is done.
func (p *Point) lead(ctx context.Context) error {
	if err := p.runner.WaitSynced(ctx); err != nil {
		return err
	}
	defer p.stopAll()
	for {
		p.sync(ctx)
		select {
		case <-p.changes:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// sync starts and ends loops, and tells them of new modules.
func (p *Point) sync(ctx context.Context) {
	handles := map[string]*handle{}
	for _, h := range p.runner.Handles() {
		handles[h.Name()] = h
	}
	for name, l := range p.snapshot() {
		if h := handles[name]; h == nil || h != l.handle || l.work != workOf(h.Object()) {
			l.stop()
			p.set(name, nil)
		}
	}
	for name, h := range handles {
		l := p.get(name)
		if l == nil {
			l = newLoop(p, h)
			p.set(name, l)
			l.start(ctx)
			continue
		}
		l.check()
	}
}

func (p *Point) get(name string) *loop {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.loops[name]
}

func (p *Point) set(name string, l *loop) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l == nil {
		delete(p.loops, name)
	} else {
		p.loops[name] = l
	}
}

func (p *Point) snapshot() map[string]*loop {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.loops)
}

func (p *Point) stopAll() {
	for name, l := range p.snapshot() {
		l.stop()
		p.set(name, nil)
	}
}

// pause waits, at most until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

var (
	// errUnserved says that a kind is not there.
	errUnserved = errors.New("is not served")
	errDeleted  = errors.New("the reconciler is being deleted")
	errNobody   = errors.New("the reconciler has no serviceAccount")
)

func isUnserved(err error) bool { return errors.Is(err, errUnserved) }
