package simulated

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/informers"
)

func keyOf(p *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
}

// podHandler is told of all pods, in the order in which they change. Room on a
// node is given back here, so that it is free before the next pod comes.
func (c *Cluster) podHandler() informers.Handler[*corev1.Pod] {
	seen := func(p *corev1.Pod) {
		if _, ok := c.byName[p.Spec.NodeName]; ok {
			c.podQueue.Add(keyOf(p))
		}
	}
	return informers.Handler[*corev1.Pod]{
		Add:    func(p *corev1.Pod, _ bool) { seen(p) },
		Update: func(_, p *corev1.Pod) { seen(p) },
		Delete: func(p *corev1.Pod) {
			if i, ok := c.byName[p.Spec.NodeName]; ok {
				c.nodes[i].leave(p.UID)
				c.podQueue.Add(keyOf(p))
			}
		},
	}
}

// process moves one pod as far as it can be moved now. An error means that it
// is to be called again.
func (c *Cluster) process(ctx context.Context, key types.NamespacedName) error {
	if err := c.advance(ctx, key); !errors.Is(err, errGone) {
		return err
	}
	return nil // the watch will tell of it
}

func (c *Cluster) advance(ctx context.Context, key types.NamespacedName) error {
	p, ok := c.pods.Get(key.Namespace, key.Name)
	i, mine := 0, false
	if ok {
		i, mine = c.byName[p.Spec.NodeName]
	}
	e := c.entry(key)
	if e != nil && (!mine || e.uid != p.UID) {
		c.drop(key, e)
		e = nil
	}
	if !mine {
		return nil
	}
	if e == nil {
		e = c.admit(key, p, i)
	}
	for {
		again, wait, err := c.move(ctx, e, p)
		if err != nil {
			return err
		}
		if !again {
			if wait != never {
				c.podQueue.AddAfter(key, wait)
			}
			return nil
		}
	}
}

// move does one step of a pod. It returns whether there may be another at once,
// and otherwise the time until there is.
func (c *Cluster) move(ctx context.Context, e *entry, p *corev1.Pod) (again bool, wait time.Duration, err error) {
	b := behaviourOf(p, c.cfg.StartLatency, c.cfg.StartJitter)
	now := time.Now()
	next, act, wait := step(e.state, b, p.DeletionTimestamp != nil, graceOf(p), now)
	switch act {
	case write:
		if e.state.stage == unseen {
			next = c.refuseIfFull(e.node, p, next)
		}
		if next.stage == ended || next.stage == stopped {
			c.nodes[e.node].leave(p.UID)
		}
		err, again = c.writeStatus(ctx, p, status(p, next, b, c.placeOf(e, p), now)), true
	case remove:
		err, wait = c.remove(ctx, p), never
	case nothing:
		if gatesMoved(p, next) {
			err = c.writeStatus(ctx, p, status(p, next, b, c.placeOf(e, p), now))
		}
	}
	if err == nil {
		e.state = next
	}
	return again, wait, err
}

func (c *Cluster) entry(key types.NamespacedName) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.states[key]
}

// admit makes the entry of a pod that this process sees for the first time.
func (c *Cluster) admit(key types.NamespacedName, p *corev1.Pod, i int) *entry {
	e := &entry{uid: p.UID, node: i, state: adopt(p)}
	n := c.nodes[i]
	if e.state.stage != unseen && e.state.stage != ended {
		n.take(p, c.capacity, true)
	}
	n.mu.Lock()
	e.slot = n.free.get(c.block)
	n.mu.Unlock()
	if e.ip = p.Status.PodIP; e.ip == "" {
		e.ip = nth(c.cfg.PodNetwork, uint32(i)*c.block+e.slot+1) //nolint:gosec // wraps only if the network is too small
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.states[key] = e
	return e
}

// drop forgets a pod that is gone.
func (c *Cluster) drop(key types.NamespacedName, e *entry) {
	n := c.nodes[e.node]
	n.leave(e.uid)
	n.mu.Lock()
	n.free.freed = append(n.free.freed, e.slot)
	n.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.states, key)
}

func (c *Cluster) refuseIfFull(i int, p *corev1.Pod, next pod) pod {
	if reason, message := c.nodes[i].take(p, c.capacity, false); reason != "" {
		next.stage, next.reason, next.message = refused, reason, message
	}
	return next
}

func (c *Cluster) placeOf(e *entry, p *corev1.Pod) place {
	at := place{host: c.nodes[e.node].addr, ip: e.ip}
	if p.Spec.HostNetwork {
		at.ip = at.host
	}
	return at
}

func graceOf(p *corev1.Pod) time.Duration {
	if p.DeletionGracePeriodSeconds == nil {
		return 0
	}
	return time.Duration(*p.DeletionGracePeriodSeconds) * time.Second
}

// gatesMoved reports whether the readiness gates of a running pod want another
// Ready condition than it has.
func gatesMoved(p *corev1.Pod, s pod) bool {
	if len(p.Spec.ReadinessGates) == 0 || s.stage != running {
		return false
	}
	i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	if i < 0 {
		return false
	}
	open := openGates(p) == ""
	return open != (p.Status.Conditions[i].Status == corev1.ConditionTrue)
}

// writeStatus replaces the pod's status. The answer is not read: the watch
// brings it.
func (c *Cluster) writeStatus(ctx context.Context, p *corev1.Pod, s corev1.PodStatus) error {
	out := *p
	out.Status = s
	body, err := api.Encode(&out)
	if err != nil {
		return err
	}
	path := client.Path(c.podAPI.Resource(), p.Namespace, p.Name, "status")
	resp, err := c.cfg.REST.Do(ctx, client.Request{Method: http.MethodPut, Path: path, Body: body})
	if err != nil {
		return c.failed(ctx, p, err)
	}
	resp.Body.Close() //nolint:errcheck // it is not read
	return nil
}

// remove deletes the object of a pod that has stopped.
func (c *Cluster) remove(ctx context.Context, p *corev1.Pod) error {
	now := int64(0)
	err := c.podAPI.Delete(ctx, p.Namespace, p.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &p.UID},
	})
	return c.failed(ctx, p, err)
}

// errGone is the end of the work on a pod whose object is gone.
var errGone = errors.New("pod is gone")

// failed turns the error of a write into what process makes of it: a conflict
// means that the copy is old, and is tried again.
func (c *Cluster) failed(ctx context.Context, p *corev1.Pod, err error) error {
	if err == nil {
		return nil
	}
	if apierrors.IsNotFound(err) {
		return errGone
	}
	if !apierrors.IsConflict(err) && ctx.Err() == nil {
		c.log.Debug().Err(err).Str("namespace", p.Namespace).Str("pod", p.Name).Msg("cannot write pod")
	}
	return err
}
