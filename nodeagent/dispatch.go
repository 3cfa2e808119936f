package nodeagent

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/nodeagent/cri"
)

// A dispatcher has a worker for each pod of the node, and hands on what
// changes.
type dispatcher struct {
	ctx   context.Context //nolint:containedctx // the workers' life
	agent *Agent
	group sync.WaitGroup

	mu    sync.Mutex // guards the fields below
	pods  map[types.UID]*worker
	marks map[types.UID]string // what the runtime had of each at the last look
}

func newDispatcher(ctx context.Context, a *Agent) *dispatcher {
	return &dispatcher{ctx: ctx, agent: a, pods: map[types.UID]*worker{}, marks: map[types.UID]string{}}
}

// wait waits for all workers to end, after the context has.
func (d *dispatcher) wait() { d.group.Wait() }

// update brings a pod's worker the pod as the API has it now.
func (d *dispatcher) update(pod *corev1.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.get(pod).update(pod, false)
}

// remove tells a pod's worker that the API has the pod no longer.
func (d *dispatcher) remove(pod *corev1.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.get(pod).update(pod, true)
}

// get returns the pod's worker, a new one if it has none; d.mu is held.
func (d *dispatcher) get(pod *corev1.Pod) *worker {
	if w := d.pods[pod.UID]; w != nil {
		return w
	}
	w := newWorker(d.agent, pod)
	d.pods[pod.UID] = w
	if d.ctx.Err() == nil {
		d.group.Go(func() { w.run(d.ctx) })
	}
	return w
}

// changed tells a pod's worker that the runtime did something at a time.
func (d *dispatcher) changed(uid types.UID, at time.Time) {
	d.mu.Lock()
	w := d.pods[uid]
	d.mu.Unlock()
	if w != nil {
		w.changed(at)
	}
}

// done takes out a worker that has nothing left to do. It returns false if
// there is news for it after all.
func (d *dispatcher) done(w *worker) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !w.idle() {
		return false
	}
	delete(d.pods, w.uid)
	delete(d.marks, w.uid)
	return true
}

// find returns the worker of a pod by its name, nil if there is none. If there
// are several it is that of a pod that is still in the API.
func (d *dispatcher) find(namespace, name string) *worker {
	d.mu.Lock()
	defer d.mu.Unlock()
	var found *worker
	for _, w := range d.pods {
		if pod, gone := w.latest(); pod.Namespace == namespace && pod.Name == name && (found == nil || !gone) {
			found = w
		}
	}
	return found
}

// list returns all pods.
func (d *dispatcher) list() []*corev1.Pod {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []*corev1.Pod
	for _, w := range d.pods {
		if pod, gone := w.latest(); !gone {
			list = append(list, pod)
		}
	}
	return list
}

// reconcile compares what the runtime has with the workers: those whose pod
// has changed look again, and a pod without a worker gets one, to remove it.
func (d *dispatcher) reconcile(ctx context.Context, pods []cri.Pod) error {
	marks, err := d.agent.Runtime.States(ctx)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range pods {
		if d.pods[p.UID] != nil {
			continue
		}
		if pod, ok := d.agent.informer.Get(p.Namespace, p.Name); ok && pod.UID == p.UID {
			continue // its worker is about to come
		}
		d.agent.Log.Info().Str("namespace", p.Namespace).Str("pod", p.Name).Msg("removing a pod that the API does not have")
		tombstone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID}}
		d.get(tombstone).update(tombstone, true)
	}
	for uid, w := range d.pods {
		if mark := marks[uid]; mark != d.marks[uid] {
			d.marks[uid] = mark
			w.changed(time.Now())
		}
	}
	return nil
}
