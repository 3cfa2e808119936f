package controlplane

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/proa-project/proa/controllers/election"
	"github.com/proa-project/proa/informers"
	"github.com/proa-project/proa/scheduling"
)

// schedulerLease is the Lease in kube-system by which servers agree whose
// scheduler runs.
const schedulerLease = "proa-scheduler"

// scheduler returns what runs the scheduler: at once if this server is alone,
// and while it leads if there may be others.
func (cp *ControlPlane) scheduler(config Config, name string, metrics *prometheus.Registry, factory *informers.Factory, plugins scheduling.Extra) (func(context.Context) error, error) {
	rest, err := cp.InProcess("scheduler")
	if err != nil {
		return nil, err
	}
	log := component(config.Log, "scheduler")
	terms := &termMetrics{Registerer: metrics}
	create := func() (*scheduling.Scheduler, error) {
		return scheduling.New(scheduling.Config{REST: rest, Factory: factory, Log: log, Metrics: terms, Identity: name, Extra: plugins})
	}
	// The first is made now, so that its informers are asked for before the
	// factory runs and a configuration that is wrong is found out at the start.
	next, err := create()
	if err != nil {
		return nil, err
	}
	if !config.shared() {
		return next.Run, nil
	}
	elect, err := election.New(election.Config{REST: rest, Log: log, Lease: schedulerLease, Identity: name})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		return elect.Run(ctx, func(ctx context.Context) error {
			s := next
			if s == nil {
				if s, err = create(); err != nil {
					return err
				}
			}
			next = nil
			defer terms.end()
			return s.Run(ctx)
		})
	}, nil
}

// termMetrics registers the metrics of a component that is made anew for every
// term in which this server leads. A counter that starts again at 0 is what a
// restart looks like to those who read it.
type termMetrics struct {
	prometheus.Registerer
	of []prometheus.Collector
}

// Register implements prometheus.Registerer.
func (t *termMetrics) Register(c prometheus.Collector) error {
	if err := t.Registerer.Register(c); err != nil {
		return err
	}
	t.of = append(t.of, c)
	return nil
}

// MustRegister implements prometheus.Registerer.
func (t *termMetrics) MustRegister(cs ...prometheus.Collector) {
	var err error
	for _, c := range cs {
		err = errors.Join(err, t.Register(c))
	}
	if err != nil {
		panic(err)
	}
}

// end takes the metrics of a term away.
func (t *termMetrics) end() {
	for _, c := range t.of {
		t.Unregister(c)
	}
	t.of = nil
}
