package clusterrole

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

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
	Workers int // default 2
}

// A Controller is the loop.
type Controller struct {
	cfg    Config
	roles  *informers.Informer[*rbacv1.ClusterRole]
	rolesC *client.Client[*rbacv1.ClusterRole]
	queue  *workqueue.Queue[string]
}

// New returns the loop.
func New(cfg Config) *Controller {
	if cfg.Workers <= 0 {
		cfg.Workers = 2
	}
	return &Controller{
		cfg: cfg, roles: informers.For[*rbacv1.ClusterRole](cfg.Factory), rolesC: client.For[*rbacv1.ClusterRole](cfg.REST),
		queue: workqueue.New[string](workqueue.Config{Name: "cluster_role_aggregation", MaxDelay: 5 * time.Second, Metrics: cfg.Metrics}),
	}
}

// Scope declares the loop.
func (c *Controller) Scope() reconcile.Scope {
	return reconcile.Scope{Name: "clusterroleaggregation", Reads: []string{"clusterroles"}, Writes: []string{"clusterroles/gathered"}}
}

// Run works until ctx is done.
func (c *Controller) Run(ctx context.Context) error {
	reg := c.roles.AddHandler(informers.Handler[*rbacv1.ClusterRole]{
		Add:    func(r *rbacv1.ClusterRole, initial bool) { c.changed(r, initial) },
		Update: func(_, r *rbacv1.ClusterRole) { c.changed(r, false) },
		Delete: func(r *rbacv1.ClusterRole) { c.changed(r, false) },
	})
	defer reg.Remove()
	if err := reg.WaitForSync(ctx); err != nil {
		return err
	}
	reconcile.Workers(ctx, c.cfg.Workers, c.queue, c.cfg.Log, c.sync)
	return ctx.Err()
}

// changed has all roles looked at that gather: any may select the one that has
// changed, or have done so before. There are few of them.
func (c *Controller) changed(r *rbacv1.ClusterRole, initial bool) {
	if initial { // each one that gathers comes by itself
		if r.AggregationRule != nil {
			c.queue.Add(r.Name)
		}
		return
	}
	for _, other := range c.roles.List(nil) {
		if other.AggregationRule != nil {
			c.queue.Add(other.Name)
		}
	}
}

// sync gives a role the rules that it should have.
func (c *Controller) sync(ctx context.Context, name string) (time.Duration, error) {
	r, ok := c.roles.Get("", name)
	if !ok || r.AggregationRule == nil || r.DeletionTimestamp != nil {
		return 0, nil
	}
	rules, err := gather(r, c.roles.List(nil))
	if err != nil {
		return 0, err
	}
	if equality.Semantic.DeepEqual(rules, r.Rules) {
		return 0, nil
	}
	next := r.DeepCopy()
	next.Rules = rules
	switch _, err = c.rolesC.Update(ctx, next); {
	case apierrors.IsNotFound(err):
		return 0, nil
	case apierrors.IsConflict(err):
		return 0, reconcile.ErrLater
	case err != nil:
		return 0, fmt.Errorf("gather rules of cluster role %q: %w", name, err)
	}
	return 0, nil
}
