package simulated

import (
	"context"
	"math/bits"
	"sync"
	"time"

	"github.com/rs/zerolog"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/informers"
	"github.com/proa-project/proa/informers/workqueue"
)

// A Cluster is a number of simulated nodes.
type Cluster struct {
	cfg      Config
	log      zerolog.Logger
	capacity amounts
	block    uint32 // pod addresses of each node
	nodes    []*node
	byName   map[string]int

	pods      *informers.Informer[*corev1.Pod]
	nodeInfos *informers.Informer[*corev1.Node]
	podAPI    *client.Client[*corev1.Pod]
	nodeAPI   *client.Client[*corev1.Node]
	leases    *client.Client[*coordinationv1.Lease]
	podQueue  *workqueue.Queue[types.NamespacedName]
	nodeQueue *workqueue.Queue[int]

	mu     sync.Mutex // guards states
	states map[types.NamespacedName]*entry
}

// entry is a pod and what its node knows of it. The fields belong to the worker
// that has the pod's key.
type entry struct {
	uid   types.UID
	node  int
	state pod
	ip    string
	slot  uint32 // of ip in the node's block
}

// New checks the configuration and returns the nodes, which do nothing before
// Run.
func New(cfg Config) (*Cluster, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	c := &Cluster{
		cfg: cfg, log: cfg.Log,
		capacity: amountsOf(cfg.Capacity),
		nodes:    make([]*node, cfg.Count), byName: make(map[string]int, cfg.Count),
		podAPI:    client.For[*corev1.Pod](cfg.REST),
		nodeAPI:   client.For[*corev1.Node](cfg.REST),
		leases:    client.For[*coordinationv1.Lease](cfg.REST),
		podQueue:  workqueue.New[types.NamespacedName](workqueue.Config{Name: "simulated_pods", BaseDelay: 20 * time.Millisecond, MaxDelay: 10 * time.Second}),
		nodeQueue: workqueue.New[int](workqueue.Config{Name: "simulated_nodes", BaseDelay: 100 * time.Millisecond, MaxDelay: 10 * time.Second}),
		states:    make(map[types.NamespacedName]*entry),
	}
	// A node's block holds its pods and as many that are on their way out.
	c.block = 1 << bits.Len32(uint32(max(min(2*c.capacity.pods, 1<<16), 1))-1)
	for i := range c.nodes {
		n := &node{name: cfg.NamePrefix + itoa(i), addr: nth(cfg.NodeNetwork, uint32(i)+1)}
		c.nodes[i], c.byName[n.name] = n, i
	}
	if cfg.Factory != nil {
		c.pods, c.nodeInfos = informers.For[*corev1.Pod](cfg.Factory), informers.For[*corev1.Node](cfg.Factory)
	} else {
		c.pods = informers.New(informers.Options[*corev1.Pod]{Client: c.podAPI, FieldSelector: "spec.nodeName!=", Log: cfg.Log})
		c.nodeInfos = informers.New(informers.Options[*corev1.Node]{Client: c.nodeAPI, LabelSelector: labelType + "=" + labelValue, Log: cfg.Log})
	}
	return c, nil
}

// Run registers the nodes and runs pods on them until ctx is done. The Node
// objects stay; their leases run out. It returns ctx's error and can be called
// once.
func (c *Cluster) Run(ctx context.Context) error {
	if len(c.nodes) == 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	var wg sync.WaitGroup
	if c.cfg.Factory == nil {
		wg.Go(func() { c.pods.Run(ctx) })      //nolint:errcheck // ends with ctx only
		wg.Go(func() { c.nodeInfos.Run(ctx) }) //nolint:errcheck // ends with ctx only
	}
	nodes := c.nodeInfos.AddHandler(c.nodeHandler())
	defer nodes.Remove()
	if err := nodes.WaitForSync(ctx); err == nil {
		pods := c.pods.AddHandler(c.podHandler())
		defer pods.Remove()
		for i := range c.nodes {
			c.nodeQueue.Add(i)
		}
		for range min(c.cfg.Workers, 8) {
			wg.Go(func() { work(ctx, c.nodeQueue, c.register) })
		}
		for range c.cfg.Workers {
			wg.Go(func() { work(ctx, c.podQueue, c.process) })
		}
		wg.Go(func() { c.renewLeases(ctx) })
		c.log.Debug().Int("nodes", len(c.nodes)).Msg("simulated nodes started")
	}
	<-ctx.Done()
	c.podQueue.ShutDown()
	c.nodeQueue.ShutDown()
	wg.Wait()
	return ctx.Err()
}

// work hands keys to f, and hands those that fail again later.
func work[K comparable](ctx context.Context, q *workqueue.Queue[K], f func(context.Context, K) error) {
	for {
		k, ok := q.Get(ctx)
		if !ok {
			return
		}
		if err := f(ctx, k); err != nil {
			q.AddRateLimited(k)
		} else {
			q.Forget(k)
		}
		q.Done(k)
	}
}

// nodeHandler looks after the Node objects: what is not ready, or was deleted.
func (c *Cluster) nodeHandler() informers.Handler[*corev1.Node] {
	seen := func(n *corev1.Node) {
		i, ok := c.byName[n.Name]
		if !ok {
			return
		}
		mine := c.nodes[i]
		mine.mu.Lock()
		again := mine.gone && mine.uid != n.UID // somebody has made it anew
		if again {
			mine.gone, mine.uid, mine.lease = false, "", ""
		}
		mine.mu.Unlock()
		if again || !healthy(n) {
			c.nodeQueue.Add(i)
		}
	}
	return informers.Handler[*corev1.Node]{
		Add:    func(n *corev1.Node, _ bool) { seen(n) },
		Update: func(_, n *corev1.Node) { seen(n) },
		Delete: func(n *corev1.Node) {
			i, ok := c.byName[n.Name]
			if !ok {
				return
			}
			mine := c.nodes[i]
			mine.mu.Lock()
			defer mine.mu.Unlock()
			// A node does not come back by itself, as on a real machine.
			mine.gone = mine.gone || mine.uid == n.UID
		},
	}
}

// register makes the Node object, or brings it back to health.
func (c *Cluster) register(ctx context.Context, i int) error {
	mine := c.nodes[i]
	mine.mu.Lock()
	registered, gone := mine.uid != "", mine.gone
	mine.mu.Unlock()
	if gone {
		return nil
	}
	want := c.nodeObject(i, time.Now())
	have, ok := c.nodeInfos.Get("", mine.name)
	if !ok && registered {
		return nil // the copy has not seen it yet
	}
	var err error
	if !ok {
		have, err = c.nodeAPI.Create(ctx, want)
		if apierrors.IsAlreadyExists(err) {
			have, err = c.nodeAPI.Get(ctx, "", mine.name)
		}
	}
	if err == nil && (!healthy(have) || !registered && ok) {
		fixed := have.DeepCopy()
		want.Status.Conditions = conditions(have.Status.Conditions, time.Now())
		want.Status.Images = have.Status.Images
		fixed.Status = want.Status
		have, err = c.nodeAPI.UpdateStatus(ctx, fixed)
	}
	if err != nil {
		if ctx.Err() == nil {
			c.log.Debug().Err(err).Str("node", mine.name).Msg("cannot register node")
		}
		return err
	}
	mine.mu.Lock()
	mine.uid = have.UID
	renew := mine.lease == ""
	mine.mu.Unlock()
	if renew {
		return c.renew(ctx, mine)
	}
	return nil
}
