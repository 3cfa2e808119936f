// Package policystatus is the loop that checks the expressions of
// ValidatingAdmissionPolicies against the types of the objects that they are
// about, and reports in their status what cannot work.
package policystatus

import (
	"context"
	"time"

	"github.com/rs/zerolog"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/proa-project/proa/api/expression"
	"github.com/proa-project/proa/controllers/reconcile"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/informers"
	"github.com/proa-project/proa/informers/workqueue"
)

// Config is what the loop needs. REST and Factory are required.
type Config struct {
	REST    *client.REST
	Factory *informers.Factory
	Metrics *workqueue.Metrics
	Log     zerolog.Logger
}

// A Controller is the loop.
type Controller struct {
	cfg      Config
	policies *informers.Informer[*admissionregistrationv1.ValidatingAdmissionPolicy]
	client   *client.Client[*admissionregistrationv1.ValidatingAdmissionPolicy]
	queue    *workqueue.Queue[informers.Key]
}

// New returns the loop.
func New(cfg Config) *Controller {
	return &Controller{
		cfg: cfg, policies: informers.For[*admissionregistrationv1.ValidatingAdmissionPolicy](cfg.Factory),
		client: client.For[*admissionregistrationv1.ValidatingAdmissionPolicy](cfg.REST),
		queue:  workqueue.New[informers.Key](workqueue.Config{Name: "policystatus", Metrics: cfg.Metrics}),
	}
}

// Scope declares the loop.
func (c *Controller) Scope() reconcile.Scope {
	return reconcile.Scope{
		Name: "policystatus", Reads: []string{"validatingadmissionpolicies"}, Writes: []string{"validatingadmissionpolicies/status"},
	}
}

// Run works until ctx is done.
func (c *Controller) Run(ctx context.Context) error {
	add := func(p *admissionregistrationv1.ValidatingAdmissionPolicy) { c.queue.Add(informers.KeyOf(p)) }
	r := c.policies.AddHandler(informers.Handler[*admissionregistrationv1.ValidatingAdmissionPolicy]{
		Add:    func(p *admissionregistrationv1.ValidatingAdmissionPolicy, _ bool) { add(p) },
		Update: func(_, p *admissionregistrationv1.ValidatingAdmissionPolicy) { add(p) },
	})
	defer r.Remove()
	if err := r.WaitForSync(ctx); err != nil {
		return err
	}
	reconcile.Workers(ctx, 1, c.queue, c.cfg.Log, c.sync)
	return ctx.Err()
}

// sync checks one policy, once for each generation.
func (c *Controller) sync(ctx context.Context, k informers.Key) (time.Duration, error) {
	p, ok := c.policies.Get(k.Namespace, k.Name)
	if !ok || p.Generation <= p.Status.ObservedGeneration {
		return 0, nil
	}
	s := schemas{rest: c.cfg.REST}
	kinds, params, err := s.of(ctx, p)
	if err != nil {
		return 0, err
	}
	p = p.DeepCopy()
	p.Status.ObservedGeneration = p.Generation
	p.Status.TypeChecking = &admissionregistrationv1.TypeChecking{ExpressionWarnings: expression.Check(p, kinds, params)}
	_, err = c.client.UpdateStatus(ctx, p)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return 0, nil // the change that is in the way comes along
	}
	return 0, err
}
