package nodelifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/controllers/reconcile"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/httpapi/client/event"
	"github.com/proa-project/proa/informers"
	"github.com/proa-project/proa/informers/workqueue"
)

// byNode is the index of pods by the node that they are bound to.
const byNode = "nodelifecycle/node"

// Config is what the loop needs. REST, Factory and Recorder are required.
type Config struct {
	REST     *client.REST
	Factory  *informers.Factory
	Recorder *event.Recorder
	Metrics  *workqueue.Metrics
	Log      zerolog.Logger
	// Period is how often the signs of life are looked at; default 5 s.
	Period time.Duration
	// Grace is how long a node may be silent; default 40 s. StartupGrace is
	// the same for one that has never said anything; default 60 s.
	Grace, StartupGrace time.Duration
	// Sweep is how often pods without a node are looked for; default 20 s.
	// Quarantine is how long a node must be missing before its pods are
	// deleted; default 40 s.
	Sweep, Quarantine time.Duration
	// KeepFinished is how many finished pods are kept; default 12,500.
	KeepFinished int
	Workers      int // default 8
}

// A Controller is the loop.
type Controller struct {
	cfg    Config
	nodes  *informers.Informer[*corev1.Node]
	leases *informers.Informer[*coordinationv1.Lease]
	pods   *informers.Informer[*corev1.Pod]
	nodesC *client.Client[*corev1.Node]
	podsC  *client.Client[*corev1.Pod]
	queue  *workqueue.Queue[string]

	mu    sync.Mutex
	beats map[string]heartbeat // by node; guarded by mu
	evict bool                 // whether nodes may lose their pods; guarded by mu
}

// New returns the loop.
func New(cfg Config) *Controller {
	def := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	def(&cfg.Period, 5*time.Second)
	def(&cfg.Grace, 40*time.Second)
	def(&cfg.StartupGrace, 60*time.Second)
	def(&cfg.Sweep, 20*time.Second)
	def(&cfg.Quarantine, 40*time.Second)
	if cfg.KeepFinished <= 0 {
		cfg.KeepFinished = 12500
	}
	if cfg.Workers <= 0 {
		cfg.Workers = 8
	}
	return &Controller{
		cfg:   cfg,
		nodes: informers.For[*corev1.Node](cfg.Factory), leases: informers.For[*coordinationv1.Lease](cfg.Factory),
		pods:   informers.For[*corev1.Pod](cfg.Factory),
		nodesC: client.For[*corev1.Node](cfg.REST), podsC: client.For[*corev1.Pod](cfg.REST),
		queue: workqueue.New[string](workqueue.Config{Name: "node_lifecycle_controller", Metrics: cfg.Metrics}),
		beats: map[string]heartbeat{}, evict: true,
	}
}

// Scope declares the loop.
func (c *Controller) Scope() reconcile.Scope {
	return reconcile.Scope{
		Name:   "nodelifecycle",
		Reads:  []string{"nodes", "leases", "pods"},
		Writes: []string{"nodes/taints", "nodes/conditions-of-silent", "pods/of-lost-nodes", "pods/finished"},
	}
}

// Run works until ctx is done.
func (c *Controller) Run(ctx context.Context) error {
	c.pods.AddIndex(byNode, func(p *corev1.Pod) []string {
		if p.Spec.NodeName == "" {
			return nil
		}
		return []string{p.Spec.NodeName}
	})
	for _, r := range []*informers.Registration{c.watchNodes(), c.watchPods()} {
		defer r.Remove()
		if err := r.WaitForSync(ctx); err != nil {
			return err
		}
	}
	if err := c.leases.WaitForSync(ctx); err != nil {
		return err
	}
	c.monitor(ctx) // so that the first step knows whether nodes may lose their pods
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { reconcile.Every(ctx, c.cfg.Period, c.monitor) })
	sweeper := &sweeper{c: c, missing: map[string]time.Time{}}
	wg.Go(func() { reconcile.Every(ctx, c.cfg.Sweep, sweeper.sweep) })
	reconcile.Workers(ctx, c.cfg.Workers, c.queue, c.cfg.Log, c.sync)
	return ctx.Err()
}

func (c *Controller) watchNodes() *informers.Registration {
	return c.nodes.AddHandler(informers.Handler[*corev1.Node]{
		Add: func(n *corev1.Node, initial bool) {
			if !initial {
				c.cfg.Recorder.Eventf(n, corev1.EventTypeNormal, "RegisteredNode", "Node %s event: Registered Node %s in Controller", n.Name, n.Name)
			}
			c.queue.Add(n.Name)
		},
		Update: func(old, n *corev1.Node) {
			if !sameTaints(taints(n, true, time.Time{}), n.Spec.Taints) || readiness(old) != readiness(n) || !sameTaints(old.Spec.Taints, n.Spec.Taints) {
				c.queue.Add(n.Name)
			}
		},
		Delete: func(n *corev1.Node) {
			c.cfg.Recorder.Eventf(n, corev1.EventTypeNormal, "RemovingNode", "Node %s event: Removing Node %s from Controller", n.Name, n.Name)
			c.queue.Add(n.Name)
		},
	})
}

// watchPods looks at nodes again that get pods while they lose theirs.
func (c *Controller) watchPods() *informers.Registration {
	look := func(p *corev1.Pod) {
		if p.Spec.NodeName == "" {
			return
		}
		if n, ok := c.nodes.Get("", p.Spec.NodeName); ok && readiness(n) == corev1.ConditionUnknown || ok && hasNoExecute(n) {
			c.queue.Add(n.Name)
		}
	}
	return c.pods.AddHandler(informers.Handler[*corev1.Pod]{
		Add: func(p *corev1.Pod, initial bool) {
			if !initial {
				look(p)
			}
		},
		Update: func(_, p *corev1.Pod) { look(p) },
	})
}

func hasNoExecute(n *corev1.Node) bool {
	for i := range n.Spec.Taints {
		if n.Spec.Taints[i].Effect == corev1.TaintEffectNoExecute {
			return true
		}
	}
	return false
}

// monitor looks at the signs of life of all nodes.
func (c *Controller) monitor(_ context.Context) {
	now := time.Now()
	all := c.nodes.List(nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	ready := 0
	seen := make(map[string]struct{}, len(all))
	for _, n := range all {
		seen[n.Name] = struct{}{}
		if c.silent(n, now) {
			if silence(n, now) != nil {
				c.queue.Add(n.Name)
			}
			continue
		}
		if readiness(n) == corev1.ConditionTrue {
			ready++
		}
	}
	for name := range c.beats {
		if _, ok := seen[name]; !ok {
			delete(c.beats, name)
		}
	}
	// When no node at all is ready the fault is likely on this side: nothing
	// is gained by moving pods that have nowhere to go.
	evict := ready > 0 || len(all) < 2
	if evict != c.evict {
		c.evict = evict
		c.cfg.Log.Info().Bool("evict", evict).Int("nodes", len(all)).Int("ready", ready).Msg("eviction from nodes that are not ready has changed")
		for _, n := range all {
			c.queue.Add(n.Name)
		}
	}
}

// silent needs mu. It listens to the node, and tells whether it has been
// silent for too long.
func (c *Controller) silent(n *corev1.Node, now time.Time) bool {
	lease, _ := c.leases.Get(corev1.NamespaceNodeLease, n.Name)
	h := hear(c.beats[n.Name], n, lease, now)
	c.beats[n.Name] = h
	grace := c.cfg.Grace
	if condition(n, corev1.NodeReady) == nil && h.lease.IsZero() {
		grace = c.cfg.StartupGrace
	}
	return now.Sub(h.at) > grace
}

// sync brings one node, and the pods on it, a step further.
func (c *Controller) sync(ctx context.Context, name string) (time.Duration, error) {
	n, ok := c.nodes.Get("", name)
	if !ok {
		return 0, nil
	}
	now := time.Now()
	c.mu.Lock()
	silent, evict := c.silent(n, now), c.evict
	c.mu.Unlock()
	if silent {
		if conds := silence(n, now); conds != nil {
			was := readiness(n)
			up := n.DeepCopy()
			up.Status.Conditions = conds
			stored, err := c.nodesC.UpdateStatus(ctx, up)
			if err != nil {
				return 0, fmt.Errorf("mark silent node: %w", unlessGone(err))
			}
			n = stored
			if was == corev1.ConditionTrue {
				c.cfg.Recorder.Eventf(n, corev1.EventTypeNormal, "NodeNotReady", "Node %s status is now: NodeNotReady", n.Name)
			}
		}
	}
	if want := taints(n, evict, now); !sameTaints(want, n.Spec.Taints) {
		stored, err := c.taint(ctx, n, want)
		if err != nil {
			return 0, err
		}
		n = stored
	}
	return c.settlePods(ctx, n, now)
}

func unlessGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return reconcile.ErrLater
	}
	return err
}

func (c *Controller) taint(ctx context.Context, n *corev1.Node, want []corev1.Taint) (*corev1.Node, error) {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": n.UID, "resourceVersion": n.ResourceVersion},
		"spec":     map[string]any{"taints": want},
	})
	if err != nil {
		return nil, fmt.Errorf("encode taints: %w", err)
	}
	now, err := c.nodesC.Patch(ctx, "", n.Name, types.MergePatchType, patch)
	if err != nil {
		return nil, fmt.Errorf("taint node: %w", unlessGone(err))
	}
	return now, nil
}
