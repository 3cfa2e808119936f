package nodeagent

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/nodeagent/podworker"
	"github.com/proa-project/proa/nodeagent/volume"
)

// A worker is the loop of one pod.
type worker struct {
	agent *Agent
	uid   types.UID
	log   zerolog.Logger
	wake  chan struct{} // news for run
	dirty chan struct{} // news for writeStatuses
	group sync.WaitGroup

	mu          sync.Mutex  // guards the fields below
	pod         *corev1.Pod // as the API has it, as far as is known
	gone        bool        // the API has it no longer
	news        bool        // pod or gone have changed since run looked
	staleSince  time.Time   // when the runtime last did something
	interrupt   context.CancelFunc
	want        *corev1.PodStatus // to be written
	containers  []podworker.Container
	sandboxes   []podworker.Sandbox
	looked      bool // containers and sandboxes are from the runtime
	writeLocked sync.Mutex

	// the rest belongs to run

	observed  podworker.Observed
	askedAt   time.Time // when observed was asked for
	status    *corev1.PodStatus
	volumes   volume.Set
	refreshed time.Time // when the volumes were compared with the API
	probes    *probes
	logDir    string
}

func newWorker(a *Agent, pod *corev1.Pod) *worker {
	w := &worker{
		agent: a, uid: pod.UID, pod: pod, news: true,
		wake: make(chan struct{}, 1), dirty: make(chan struct{}, 1),
		log: a.Log.With().Str("namespace", pod.Namespace).Str("pod", pod.Name).Logger(),
		observed: podworker.Observed{
			Runtime: a.version.Name, HostIPs: a.NodeIPs, Attempts: map[string]podworker.Attempt{},
		},
	}
	w.volumes = volume.Set{Dir: filepath.Join(w.dir(), "volumes"), Sources: a.sources}
	w.logDir = filepath.Join(a.RootDir, "log", "pods", pod.Namespace+"_"+pod.Name+"_"+string(pod.UID))
	w.probes = newProbes(w)
	return w
}

// dir returns the pod's folder.
func (w *worker) dir() string { return filepath.Join(w.agent.RootDir, "pods", string(w.uid)) }

// update brings the pod as the API has it, and breaks off an action that has
// lost its sense.
func (w *worker) update(pod *corev1.Pod, gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	old := w.pod
	if !gone && old != pod && older(pod, old) {
		return // a write of our own has brought a newer one
	}
	if w.interrupt != nil && (gone && !w.gone || hurries(old, pod)) {
		w.interrupt()
	}
	w.pod, w.gone, w.news = pod, w.gone || gone, true
	w.poke()
}

// hurries tells whether a pod is to end sooner than before, or differently.
func hurries(old, pod *corev1.Pod) bool {
	if pod.DeletionTimestamp == nil {
		return false
	}
	if old.DeletionTimestamp == nil {
		return true
	}
	a, b := old.DeletionGracePeriodSeconds, pod.DeletionGracePeriodSeconds
	return b != nil && (a == nil || *b < *a)
}

// poke lets run look again; w.mu may be held.
func (w *worker) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// changed says that the runtime did something to the pod.
func (w *worker) changed(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at.After(w.staleSince) {
		w.staleSince = at
	}
	w.poke()
}

// latest returns the pod, which must not be changed, and whether it is gone
// from the API.
func (w *worker) latest() (*corev1.Pod, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pod, w.gone
}

// idle tells whether there is no news.
func (w *worker) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.news
}

// run works until nothing is left of the pod, or ctx is done.
func (w *worker) run(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	w.group.Go(func() { w.writeStatuses(ctx) })
	defer func() {
		stop()
		w.probes.stopAll()
		w.group.Wait()
	}()
	for ctx.Err() == nil {
		wake, done := w.step(ctx)
		if done && w.agent.workers.done(w) {
			return
		}
		if done || wake == nil {
			continue
		}
		w.sleep(ctx, *wake)
	}
}

// sleep waits for news, or for a time that is not zero.
func (w *worker) sleep(ctx context.Context, until time.Time) {
	var alarm <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		alarm = timer.C
	}
	select {
	case <-ctx.Done():
	case <-w.wake:
	case <-alarm:
	}
}

// step looks at the pod and does at most one thing. If there was nothing to do
// it returns until when to wait; done means that nothing is left of the pod.
func (w *worker) step(ctx context.Context) (wake *time.Time, done bool) {
	if err := w.look(ctx); err != nil {
		if ctx.Err() == nil {
			w.log.Debug().Err(err).Msg("cannot see the pod in the runtime")
		}
		later := time.Now().Add(200 * time.Millisecond)
		return &later, false
	}
	w.mu.Lock()
	pod, gone := w.pod, w.gone
	w.news = false
	w.mu.Unlock()
	w.observed.Gone = w.observed.Gone || gone
	pod = w.withStatus(pod)
	w.probes.follow(ctx, pod, &w.observed)
	w.observed.Probes = w.probes.results()

	now := time.Now()
	status := podworker.Status(pod, w.observed, now)
	w.announce(pod, &status)
	w.status = &status
	if !w.observed.Gone {
		w.publish(&status)
	}
	pod.Status = status

	action, at := podworker.Step(pod, w.observed, now)
	switch action.Do {
	case podworker.Done:
		w.cleanUp()
		return nil, true
	case podworker.Nothing:
		if due := w.refreshed.Add(w.agent.Refresh); w.observed.Volumes.Ready && !w.observed.Gone {
			if !now.Before(due) {
				w.refresh(ctx, pod)
				due = time.Now().Add(w.agent.Refresh)
			}
			if at.IsZero() || due.Before(at) {
				at = due
			}
		}
		return &at, false
	default:
		w.log.Debug().Stringer("action", action).Msg("acting")
		w.act(ctx, pod, action)
		return nil, false
	}
}

// look brings observed up to date with the runtime if something happened there.
func (w *worker) look(ctx context.Context) error {
	w.mu.Lock()
	stale := w.askedAt.IsZero() || w.staleSince.After(w.askedAt)
	w.mu.Unlock()
	if !stale {
		return nil
	}
	asked := time.Now()
	p, err := w.agent.Runtime.Pod(ctx, w.uid)
	if err != nil {
		return err
	}
	for i := range p.Containers {
		w.readMessage(&p.Containers[i])
	}
	w.askedAt = asked
	w.observed.Sandboxes, w.observed.Containers = p.Sandboxes, p.Containers
	w.mu.Lock()
	w.sandboxes, w.containers, w.looked = p.Sandboxes, p.Containers, true
	w.mu.Unlock()
	return nil
}

// withStatus returns a copy of the pod with what this worker knows of its
// status over what the API has.
func (w *worker) withStatus(pod *corev1.Pod) *corev1.Pod {
	c := *pod
	if w.status != nil {
		c.Status = merge(&pod.Status, w.status)
		if p := pod.Status.Phase; p == corev1.PodFailed || p == corev1.PodSucceeded {
			c.Status.Phase, c.Status.Reason, c.Status.Message = p, pod.Status.Reason, pod.Status.Message
		}
	}
	return &c
}

// act does an action. What comes of it, good or bad, is in observed.
func (w *worker) act(ctx context.Context, pod *corev1.Pod, a podworker.Action) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	switch a.Do {
	case podworker.PrepareVolumes, podworker.EnsureImage, podworker.StopContainers:
		w.mu.Lock()
		w.interrupt = cancel
		if w.news && (w.gone && !w.observed.Gone || hurries(pod, w.pod)) {
			cancel()
		}
		w.mu.Unlock()
		defer func() {
			w.mu.Lock()
			w.interrupt = nil
			w.mu.Unlock()
		}()
	default: // done before anybody could care
	}
	err := w.do(ctx, pod, a)
	if a.Do != podworker.PrepareVolumes && a.Do != podworker.EnsureImage {
		w.askedAt = time.Time{} // look at what came of it
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		w.log.Debug().Err(err).Stringer("action", a).Msg("action failed")
	}
}

// snapshot returns what was last seen of the pod in the runtime.
func (w *worker) snapshot() (pod *corev1.Pod, o podworker.Observed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pod, podworker.Observed{Sandboxes: w.sandboxes, Containers: w.containers}
}

// attempt changes what is known of the way to a container's next instance.
func (w *worker) attempt(name string, change func(*podworker.Attempt)) {
	attempts := maps.Clone(w.observed.Attempts)
	a := attempts[name]
	change(&a)
	attempts[name] = a
	w.observed.Attempts = attempts
}
