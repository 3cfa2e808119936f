package scan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/proa-project/proa/api"
	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/admission/match"
	"github.com/proa-project/proa/httpapi/admission/policy"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/informers"
	"github.com/proa-project/proa/informers/workqueue"
)

// Plugins answers for AdmissionPlugins; *admit.Point is one.
type Plugins interface {
	// Review asks a plugin, or its candidate, about a write in all its phases,
	// whatever its mode. A nil Verdict says that the plugin is not for such
	// writes; Object in it is the object as the plugin would leave it.
	Review(ctx context.Context, plugin string, candidate bool, r *admission.Request) (*policy.Verdict, error)
}

// Config configures a Scanner. REST, Factory, Plugins and Recording are
// required.
type Config struct {
	REST      *client.REST
	Factory   *informers.Factory
	Plugins   Plugins
	Recording *Recording
	// Kinds are those whose objects are scanned; nil is api.Resources.
	Kinds func() []*api.Resource
	Log   zerolog.Logger
}

// A Scanner does what PolicyScans say.
type Scanner struct {
	c       Config
	scans   *informers.Informer[*pluginsv1.PolicyScan]
	plugins *informers.Informer[*pluginsv1.AdmissionPlugin]
	spaces  *informers.Informer[*corev1.Namespace]
	api     *client.Client[*pluginsv1.PolicyScan]
	reports *client.Client[*pluginsv1.PolicyReport]
	work    *workqueue.Queue[string]
}

// New returns a Scanner, which does nothing before Run.
func New(c Config) *Scanner {
	if c.Kinds == nil {
		c.Kinds = api.Resources
	}
	return &Scanner{
		c:     c,
		scans: informers.For[*pluginsv1.PolicyScan](c.Factory), plugins: informers.For[*pluginsv1.AdmissionPlugin](c.Factory),
		spaces: informers.For[*corev1.Namespace](c.Factory),
		api:    client.For[*pluginsv1.PolicyScan](c.REST), reports: client.For[*pluginsv1.PolicyReport](c.REST),
		work: workqueue.New[string](workqueue.Config{Name: "policy-scans", BaseDelay: 200 * time.Millisecond, MaxDelay: time.Minute}),
	}
}

// Run scans until ctx is done, one scan at a time, and returns its error. It
// can be called once.
func (s *Scanner) Run(ctx context.Context) error {
	handler := s.scans.AddHandler(informers.Handler[*pluginsv1.PolicyScan]{
		Add:    func(o *pluginsv1.PolicyScan, _ bool) { s.work.Add(o.Name) },
		Update: func(_, o *pluginsv1.PolicyScan) { s.work.Add(o.Name) },
	})
	defer handler.Remove()
	for _, wait := range []func(context.Context) error{s.scans.WaitForSync, s.plugins.WaitForSync, s.spaces.WaitForSync} {
		if err := wait(ctx); err != nil {
			return err
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			name, ok := s.work.Get(ctx)
			if !ok {
				return
			}
			err := s.sync(ctx, name)
			s.work.Done(name)
			switch {
			case err == nil:
				s.work.Forget(name)
			case ctx.Err() == nil:
				s.c.Log.Debug().Err(err).Str("scan", name).Msg("policy scan is tried again")
				s.work.AddRateLimited(name)
			}
		}
	})
	<-ctx.Done()
	wg.Wait()
	s.work.ShutDown()
	return ctx.Err()
}

// The phases of a scan.
const (
	phaseDone   = "Done"
	phaseFailed = "Failed"
)

// sync does a scan, if it is due.
func (s *Scanner) sync(ctx context.Context, name string) error {
	o, ok := s.scans.Get("", name)
	if !ok || o.DeletionTimestamp != nil {
		return nil
	}
	now := time.Now()
	if wait, due := dueIn(o, now); !due {
		if wait > 0 {
			s.work.AddAfter(name, wait)
		}
		return nil
	}
	report, processed, err := s.scan(ctx, o)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	started, ended := metav1.NewTime(now.Truncate(time.Second)), metav1.NewTime(time.Now().Truncate(time.Second))
	status := pluginsv1.PolicyScanStatus{
		ObservedGeneration: o.Generation, Phase: phaseDone, StartedAt: &started, CompletedAt: &ended, Processed: processed, Conditions: o.Status.Conditions,
	}
	if err != nil {
		status.Phase, status.Message = phaseFailed, err.Error()
	} else if failed := s.publish(ctx, o, report); failed != nil {
		return fmt.Errorf("write report of scan %q: %w", name, failed)
	}
	o = o.DeepCopy()
	o.Status = status
	if _, failed := s.api.UpdateStatus(ctx, o); failed != nil && !apierrors.IsNotFound(failed) {
		return fmt.Errorf("write status of scan %q: %w", name, failed)
	}
	if _, later := errors.AsType[*unavailable](err); later {
		s.work.AddAfter(name, retrySoon) // a plugin that is not there yet
	}
	return nil
}

// retrySoon is when a scan that could not be made is tried again.
const retrySoon = 2 * time.Second

// dueIn reports whether a scan is to be made now, or when.
func dueIn(o *pluginsv1.PolicyScan, now time.Time) (time.Duration, bool) {
	done := o.Status.CompletedAt
	if done == nil || o.Status.ObservedGeneration != o.Generation {
		return 0, true
	}
	if o.Status.Phase == phaseFailed {
		wait := done.Add(retrySoon).Sub(now)
		return wait, wait <= 0
	}
	if o.Spec.IntervalSeconds == 0 {
		return 0, false
	}
	wait := done.Add(time.Duration(o.Spec.IntervalSeconds) * time.Second).Sub(now)
	return wait, wait <= 0
}

// unavailable says that a scan can be made later.
type unavailable struct{ error }

// scan asks the plugin and returns the report.
func (s *Scanner) scan(ctx context.Context, o *pluginsv1.PolicyScan) (*pluginsv1.PolicyReport, int32, error) {
	plugin, ok := s.plugins.Get("", o.Spec.Plugin)
	if !ok {
		return nil, 0, &unavailable{fmt.Errorf("there is no AdmissionPlugin %q", o.Spec.Plugin)}
	}
	if o.Spec.Candidate && plugin.Spec.Candidate == nil {
		return nil, 0, &unavailable{fmt.Errorf("the AdmissionPlugin %q has no candidate", o.Spec.Plugin)}
	}
	var selected labels.Selector
	if o.Spec.NamespaceSelector != nil {
		var err error
		if selected, err = metav1.LabelSelectorAsSelector(o.Spec.NamespaceSelector); err != nil {
			return nil, 0, fmt.Errorf("namespaceSelector: %w", err)
		}
	}
	w := &writer{plugin: o.Spec.Plugin}
	limit, n := cmp.Or(o.Spec.Limit, 10_000), int32(0)
	ask := func(q question) error {
		if n >= limit {
			return errEnough
		}
		in, err := match.SelectsNamespace(ctx, selected, q.request, s.labels)
		if err != nil || !in {
			return err
		}
		v, err := s.c.Plugins.Review(ctx, o.Spec.Plugin, o.Spec.Candidate, q.request)
		if err != nil && notReady(err) {
			return &unavailable{err}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if v != nil || err != nil {
			n++
		}
		w.add(q, v, err)
		return nil
	}
	source := s.c.Recording.questions
	if o.Spec.Source == pluginsv1.ScanExisting {
		source = func(ctx context.Context, ask func(question) error) error { return s.existing(ctx, plugin, ask) }
	}
	if err := source(ctx, ask); err != nil && !errors.Is(err, errEnough) {
		return nil, n, err
	}
	return w.report(), n, nil
}

// errEnough ends a scan at its limit.
var errEnough = errors.New("enough")

func notReady(err error) bool {
	var f *policy.Failure
	return errors.As(err, &f) && f.Retry
}

func (s *Scanner) labels(_ context.Context, name string) (labels.Set, error) {
	if ns, ok := s.spaces.Get("", name); ok {
		return ns.Labels, nil
	}
	return nil, nil
}

// publish writes the report of a scan, which belongs to it.
func (s *Scanner) publish(ctx context.Context, o *pluginsv1.PolicyScan, r *pluginsv1.PolicyReport) error {
	yes := true
	r.Name = o.Name
	r.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: pluginsv1.SchemeGroupVersion.String(), Kind: "PolicyScan", Name: o.Name, UID: o.UID, Controller: &yes,
	}}
	old, err := s.reports.Get(ctx, "", o.Name)
	if apierrors.IsNotFound(err) {
		_, err = s.reports.Create(ctx, r)
		return err
	}
	if err != nil {
		return err
	}
	r.ResourceVersion = old.ResourceVersion
	_, err = s.reports.Update(ctx, r)
	return err
}
