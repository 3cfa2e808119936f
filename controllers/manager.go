// Package controllers runs the loops that bring the cluster to the state that
// its objects ask for, in one process of several at a time.
package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/proa-project/proa/controllers/clusterrole"
	"github.com/proa-project/proa/controllers/deployment"
	"github.com/proa-project/proa/controllers/election"
	"github.com/proa-project/proa/controllers/garbagecollector"
	"github.com/proa-project/proa/controllers/namespace"
	"github.com/proa-project/proa/controllers/nodelifecycle"
	"github.com/proa-project/proa/controllers/policystatus"
	"github.com/proa-project/proa/controllers/reconcile"
	"github.com/proa-project/proa/controllers/replicaset"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/httpapi/client/event"
	"github.com/proa-project/proa/informers"
	"github.com/proa-project/proa/informers/workqueue"
)

// Config is what a Manager needs. REST and Factory are required.
type Config struct {
	REST    *client.REST
	Factory *informers.Factory // run by the caller
	Log     zerolog.Logger
	// Identity names this process among those that want to lead. It is
	// required with LeaderElect. A process that comes back under the identity
	// of the leader leads at once.
	Identity string
	// Names are the loops to run, of Names(); empty is all. "-name" leaves
	// one out, and "*" stands for the others.
	Names []string
	// LeaderElect runs the loops only while this process holds the Lease
	// kube-system/proa-controllers.
	LeaderElect bool
	// LeaseDuration is how long others wait for a leader that is silent,
	// default 15 s. RenewDeadline is when a leader that cannot renew stops,
	// default 10 s. RetryPeriod is the time between tries, default 2 s.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// RootCA is the PEM that every namespace gets as kube-root-ca.crt.
	RootCA []byte
	// Metrics takes the series of the work queues; nil is none.
	Metrics prometheus.Registerer
	// NodeGrace is how long a node may be silent, NodePeriod how often that
	// is looked at; defaults 40 s and 5 s.
	NodeGrace, NodePeriod time.Duration
}

// LeaseName is the Lease in kube-system by which processes agree whose loops
// run.
const LeaseName = "proa-controllers"

// A Manager runs loops.
type Manager struct {
	cfg      Config
	election *election.Election // nil without LeaderElect
	makers   []maker
	metrics  *workqueue.Metrics
	recorder []*event.Recorder
	first    []reconcile.Loop // for the first term
}

// A maker makes a loop: anew each time that the process becomes the leader.
type maker struct {
	name string
	make func(m *Manager) reconcile.Loop
	// recorder is the name under which the loop records events.
	recorder string
	events   *event.Recorder
}

// makers are the loops that there are, in the order in which they start.
func makers() []maker {
	return []maker{
		{name: "namespace", make: (*Manager).namespace},
		{name: "replicaset", recorder: "replicaset-controller", make: (*Manager).replicaset},
		{name: "deployment", recorder: "deployment-controller", make: (*Manager).deployment},
		{name: "garbagecollector", recorder: "garbage-collector-controller", make: (*Manager).garbagecollector},
		{name: "nodelifecycle", recorder: "node-controller", make: (*Manager).nodelifecycle},
		{name: "policystatus", make: (*Manager).policystatus},
		{name: "clusterroleaggregation", make: (*Manager).clusterroleaggregation},
	}
}

// Names returns the names of the loops.
func Names() []string {
	var out []string
	for _, m := range makers() {
		out = append(out, m.name)
	}
	return out
}

// The errors of NewManager.
var (
	ErrUnknownLoop  = errors.New("no such controller")
	ErrSecondWriter = errors.New("two controllers write the same")
	ErrNoIdentity   = errors.New("leader election needs an identity")
)

// NewManager returns a Manager. It returns ErrUnknownLoop, ErrNoIdentity, or
// ErrSecondWriter if two of the loops declare to write the same.
func NewManager(cfg Config) (*Manager, error) {
	if cfg.LeaderElect && cfg.Identity == "" {
		return nil, ErrNoIdentity
	}
	m := &Manager{cfg: cfg}
	var err error
	if cfg.LeaderElect {
		m.election, err = election.New(election.Config{
			REST: cfg.REST, Log: cfg.Log, Lease: LeaseName, Identity: cfg.Identity,
			Duration: cfg.LeaseDuration, RenewDeadline: cfg.RenewDeadline, RetryPeriod: cfg.RetryPeriod,
		})
		if err != nil {
			return nil, err
		}
	}
	if m.makers, err = choose(makers(), cfg.Names); err != nil {
		return nil, err
	}
	if cfg.Metrics != nil {
		if m.metrics, err = workqueue.NewMetrics(cfg.Metrics); err != nil {
			return nil, fmt.Errorf("register metrics of controllers: %w", err)
		}
	}
	for i := range m.makers {
		mk := &m.makers[i]
		if mk.recorder != "" {
			mk.events = event.NewRecorder(cfg.REST, mk.recorder, cfg.Identity, cfg.Log)
			m.recorder = append(m.recorder, mk.events)
		}
	}
	// The loops are made once here, so that their informers are asked for
	// before the factory runs and a second writer is found out at the start.
	m.first = m.loops()
	scopes := make([]reconcile.Scope, 0, len(m.first))
	for _, l := range m.first {
		scopes = append(scopes, l.Scope())
	}
	if err := checkWriters(scopes); err != nil {
		return nil, err
	}
	return m, nil
}

// choose picks the loops with the names.
func choose(all []maker, names []string) ([]maker, error) {
	known := func(name string) bool {
		return slices.ContainsFunc(all, func(m maker) bool { return m.name == name })
	}
	star := len(names) == 0
	on, off := map[string]bool{}, map[string]bool{}
	for _, n := range names {
		name, minus := strings.CutPrefix(n, "-")
		switch {
		case n == "*":
			star = true
		case !known(name):
			return nil, fmt.Errorf("%w: %q", ErrUnknownLoop, name)
		case minus:
			off[name] = true
		default:
			on[name] = true
		}
	}
	var out []maker
	for _, m := range all {
		if (star || on[m.name]) && !off[m.name] {
			out = append(out, m)
		}
	}
	return out, nil
}

// checkWriters refuses scopes that write the same.
func checkWriters(scopes []reconcile.Scope) error {
	by := map[string]string{}
	for _, s := range scopes {
		for _, w := range s.Writes {
			if other, taken := by[w]; taken {
				return fmt.Errorf("%w: %q and %q write %s", ErrSecondWriter, other, s.Name, w)
			}
			by[w] = s.Name
		}
	}
	return nil
}

func (m *Manager) loops() []reconcile.Loop {
	if l := m.first; l != nil {
		m.first = nil
		return l
	}
	out := make([]reconcile.Loop, 0, len(m.makers))
	for _, mk := range m.makers {
		out = append(out, mk.make(m))
	}
	return out
}

// Run runs the loops until ctx is done, or, with LeaderElect, whenever this
// process leads, and returns when everything has ended.
func (m *Manager) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel() // before the wait
	for _, r := range m.recorder {
		wg.Go(func() { r.Run(ctx) }) //nolint:errcheck // ends with ctx only
	}
	if m.election == nil {
		return m.lead(ctx)
	}
	return m.election.Run(ctx, m.lead)
}

// lead runs the loops once.
func (m *Manager) lead(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		first error
	)
	for _, l := range m.loops() {
		name := l.Scope().Name
		wg.Go(func() {
			err := l.Run(ctx)
			if err == nil || ctx.Err() != nil {
				return
			}
			mu.Lock()
			if first == nil {
				first = fmt.Errorf("controller %q: %w", name, err)
			}
			mu.Unlock()
			cancel()
		})
	}
	wg.Wait()
	if first != nil {
		return first
	}
	return ctx.Err()
}

func (m *Manager) log(name string) zerolog.Logger {
	return m.cfg.Log.With().Str("controller", name).Logger()
}

// events returns the recorder of a loop.
func (m *Manager) events(name string) *event.Recorder {
	for _, mk := range m.makers {
		if mk.name == name {
			return mk.events
		}
	}
	return nil
}

func (m *Manager) namespace() reconcile.Loop {
	return namespace.New(namespace.Config{
		REST: m.cfg.REST, Factory: m.cfg.Factory, Metrics: m.metrics, Log: m.log("namespace"), RootCA: string(m.cfg.RootCA),
	})
}

func (m *Manager) replicaset() reconcile.Loop {
	return replicaset.New(replicaset.Config{
		REST: m.cfg.REST, Factory: m.cfg.Factory, Metrics: m.metrics, Log: m.log("replicaset"), Recorder: m.events("replicaset"),
	})
}

func (m *Manager) deployment() reconcile.Loop {
	return deployment.New(deployment.Config{
		REST: m.cfg.REST, Factory: m.cfg.Factory, Metrics: m.metrics, Log: m.log("deployment"), Recorder: m.events("deployment"),
	})
}

func (m *Manager) garbagecollector() reconcile.Loop {
	return garbagecollector.New(garbagecollector.Config{
		REST: m.cfg.REST, Factory: m.cfg.Factory, Metrics: m.metrics, Log: m.log("garbagecollector"), Recorder: m.events("garbagecollector"),
	})
}

func (m *Manager) nodelifecycle() reconcile.Loop {
	return nodelifecycle.New(nodelifecycle.Config{
		REST: m.cfg.REST, Factory: m.cfg.Factory, Metrics: m.metrics, Log: m.log("nodelifecycle"), Recorder: m.events("nodelifecycle"),
		Grace: m.cfg.NodeGrace, Period: m.cfg.NodePeriod,
	})
}

func (m *Manager) policystatus() reconcile.Loop {
	return policystatus.New(policystatus.Config{REST: m.cfg.REST, Factory: m.cfg.Factory, Metrics: m.metrics, Log: m.log("policystatus")})
}

func (m *Manager) clusterroleaggregation() reconcile.Loop {
	return clusterrole.New(clusterrole.Config{
		REST: m.cfg.REST, Factory: m.cfg.Factory, Metrics: m.metrics, Log: m.log("clusterroleaggregation"),
	})
}
