package scheduling

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"

	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/httpapi/client/event"
	"github.com/proa-project/proa/informers"
	"github.com/proa-project/proa/scheduling/framework"
	"github.com/proa-project/proa/scheduling/queue"
)

// Config is what a Scheduler needs. REST and Factory are required.
type Config struct {
	REST    *client.REST
	Factory *informers.Factory
	Log     zerolog.Logger
	// Metrics is where metrics are registered; nil keeps them to itself.
	Metrics prometheus.Registerer
	// Identity names this process in events.
	Identity string
	// Profiles are what pods may name in spec.schedulerName, default
	// DefaultProfile. Pods that name none of them are left alone.
	Profiles []*framework.Profile
	// Extra are plugins that come and go; nil is none.
	Extra Extra
	// Workers is how many bindings and status writes may be under way at one
	// time, default 32.
	Workers int
	// Queue changes the waits of the queue; its functions are not used.
	Queue queue.Config
}

// A Scheduler binds pods to nodes.
type Scheduler struct {
	cfg      Config
	log      zerolog.Logger
	profiles atomic.Pointer[profiles]
	pods     *informers.Informer[*corev1.Pod]
	nodes    *informers.Informer[*corev1.Node]
	client   *client.Client[*corev1.Pod]
	events   *event.Recorder
	cache    *cache
	queue    *queue.Queue
	metrics  *metrics
	jobs     chan func()
	waiting  sync.WaitGroup // for a Permit plugin

	snapshot framework.Snapshot  // of the loop
	work     framework.Workspace // of the loop
}

const (
	// bindTimeout ends a request that the API does not answer.
	bindTimeout = 30 * time.Second
	// bindGrace is what a binding under way gets when the scheduler stops.
	bindGrace = 3 * time.Second
	// confirmTimeout is after what time the API is asked about a binding that
	// the watch has not shown.
	confirmTimeout = 30 * time.Second
)

// New checks the configuration and returns a Scheduler, which does nothing
// before Run.
func New(cfg Config) (*Scheduler, error) {
	if cfg.REST == nil || cfg.Factory == nil {
		return nil, errors.New("scheduler: REST and Factory are required")
	}
	if cfg.Workers <= 0 {
		cfg.Workers = 32
	}
	if len(cfg.Profiles) == 0 {
		cfg.Profiles = []*framework.Profile{DefaultProfile()}
	}
	s := &Scheduler{
		cfg:    cfg,
		log:    cfg.Log,
		pods:   informers.For[*corev1.Pod](cfg.Factory),
		nodes:  informers.For[*corev1.Node](cfg.Factory),
		client: client.For[*corev1.Pod](cfg.REST),
		events: event.NewRecorder(cfg.REST, DefaultName, cfg.Identity, cfg.Log),
		cache:  newCache(),
		jobs:   make(chan func(), cfg.Workers),
	}
	seen := make(map[string]bool)
	for _, p := range cfg.Profiles {
		if seen[p.Name] {
			return nil, fmt.Errorf("scheduler: profile %q is there twice", p.Name)
		}
		seen[p.Name] = true
	}
	s.profiles.Store(s.makeProfiles(nil, nil))
	var err error
	if s.metrics, err = newMetrics(cfg.Metrics, func() *queue.Queue { return s.queue }, s.cache); err != nil {
		return nil, fmt.Errorf("scheduler: register metrics: %w", err)
	}
	// A profile may go while its pods are in the queue; an attempt then drops
	// them.
	cfg.Queue.Admit = func(pod *corev1.Pod) (*framework.Rejection, string) {
		if p := s.profileOf(pod); p != nil {
			return p.Admit(pod)
		}
		return nil, ""
	}
	cfg.Queue.Helps = func(pod *framework.PodInfo, by []string, c framework.Change) bool {
		p := s.profileOf(pod.Pod)
		return p == nil || p.Helps(pod, by, c)
	}
	cfg.Queue.Moved = func(to queue.Place, event string) {
		if to != queue.Gone {
			s.metrics.incoming.WithLabelValues(to.String(), event).Inc()
		}
	}
	s.queue = queue.New(cfg.Queue)
	return s, nil
}

// profileOf returns the profile of a pod, nil if it is another scheduler's.
func (s *Scheduler) profileOf(pod *corev1.Pod) *framework.Profile {
	return s.profiles.Load().byName[schedulerName(pod)]
}

func schedulerName(pod *corev1.Pod) string { return cmp.Or(pod.Spec.SchedulerName, DefaultName) }

// Run schedules until ctx is done, waits for all that it has begun, and returns
// ctx's error. It can be called once. The factory must be running, or be run
// meanwhile.
func (s *Scheduler) Run(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	if s.cfg.Extra != nil {
		defer s.cfg.Extra.Subscribe(func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		})()
		if err := s.cfg.Extra.WaitSynced(ctx); err != nil {
			return err
		}
		s.profiles.Store(s.makeProfiles(s.cfg.Extra.Plugins(), nil))
	}
	nodes := s.nodes.AddHandler(s.nodeHandler())
	defer nodes.Remove()
	if err := nodes.WaitForSync(ctx); err != nil {
		return err
	}
	pods := s.pods.AddHandler(s.podHandler())
	defer pods.Remove()
	if err := pods.WaitForSync(ctx); err != nil {
		return err
	}
	var wg sync.WaitGroup
	for range s.cfg.Workers {
		wg.Go(func() { s.worker(ctx) })
	}
	wg.Go(func() { s.events.Run(ctx) }) //nolint:errcheck // ends with ctx only
	wg.Go(func() { s.confirm(ctx) })
	wg.Go(func() { s.follow(ctx, changed) })
	s.log.Debug().Msg("scheduler started")
	for {
		e, err := s.queue.Pop(ctx)
		if err != nil {
			break
		}
		s.attempt(ctx, e)
	}
	s.waiting.Wait()
	wg.Wait()
	return ctx.Err()
}

// worker does jobs that wait for the API.
func (s *Scheduler) worker(ctx context.Context) {
	for {
		select {
		case job := <-s.jobs:
			job()
		case <-ctx.Done():
			return
		}
	}
}

// submit hands a job to the workers, and waits if all are busy: that is what
// keeps the loop from running ahead of the API.
func (s *Scheduler) submit(ctx context.Context, job func()) {
	select {
	case s.jobs <- job:
	case <-ctx.Done():
	}
}

// Explain returns what every plugin says about every node for a pod, as things
// are now; for a bound pod, as if it were to be placed again. It returns false
// for a pod that is not known or not ours.
func (s *Scheduler) Explain(namespace, name string) (*framework.Explanation, bool, error) {
	pod, ok := s.pods.Get(namespace, name)
	if !ok {
		return nil, false, nil
	}
	profile := s.profileOf(pod)
	if profile == nil {
		return nil, false, nil
	}
	var snapshot framework.Snapshot
	s.cache.copyTo(&snapshot, pod.UID)
	free := *pod
	free.Spec.NodeName = ""
	e, err := framework.Explain(&snapshot, framework.NewPodInfo(&free), profile)
	return e, true, err
}
