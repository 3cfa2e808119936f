package nodeagent

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/proa-project/proa/nodeagent/podworker"
)

// probes checks the running containers of one pod. Each instance with probes
// has a goroutine per probe, for as long as it runs.
type probes struct {
	worker *worker
	group  sync.WaitGroup

	mu    sync.Mutex // guards the fields below
	known map[string]*probed
}

type probed struct {
	result podworker.Probe
	cancel context.CancelFunc
}

func newProbes(w *worker) *probes { return &probes{worker: w, known: map[string]*probed{}} }

// results returns what the probes say, by container ID.
func (p *probes) results() map[string]podworker.Probe {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := make(map[string]podworker.Probe, len(p.known))
	for id, k := range p.known {
		m[id] = k.result
	}
	return m
}

// follow starts the probes of instances that have come to run and ends those
// of instances that do not any more.
func (p *probes) follow(ctx context.Context, pod *corev1.Pod, o *podworker.Observed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	running := map[string]bool{}
	for i := range o.Containers {
		c := &o.Containers[i]
		if c.State != podworker.Running {
			continue
		}
		running[c.ID] = true
		spec := container(pod, c.Name)
		if p.known[c.ID] != nil || spec == nil || spec.StartupProbe == nil && spec.ReadinessProbe == nil && spec.LivenessProbe == nil {
			continue
		}
		p.start(ctx, pod, spec, c, o)
	}
	for id, k := range p.known {
		if !running[id] {
			k.cancel()
			delete(p.known, id)
		}
	}
}

// stopAll ends all probes and waits for them.
func (p *probes) stopAll() {
	p.mu.Lock()
	for id, k := range p.known {
		k.cancel()
		delete(p.known, id)
	}
	p.mu.Unlock()
	p.group.Wait()
}

// start starts the probes of an instance; p.mu is held.
func (p *probes) start(ctx context.Context, pod *corev1.Pod, c *corev1.Container, i *podworker.Container, o *podworker.Observed) {
	ctx, cancel := context.WithCancel(ctx)
	k := &probed{cancel: cancel, result: podworker.Probe{Started: c.StartupProbe == nil}}
	for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for _, s := range list {
			if s.Name == c.Name && s.ContainerID == o.Runtime+"://"+i.ID { // adopted: what was true stays so until a probe says otherwise
				k.result.Started = k.result.Started || s.Started != nil && *s.Started
				k.result.Ready = s.Ready
			}
		}
	}
	p.known[i.ID] = k
	r := &probeRun{probes: p, pod: pod, startedAt: i.StartedAt, target: target{container: c, id: i.ID, ip: address(pod, o)}}
	started := make(chan struct{})
	if k.result.Started {
		close(started)
	} else {
		p.group.Go(func() {
			if r.startup(ctx, c.StartupProbe) {
				close(started)
			}
		})
	}
	after := func(spec *corev1.Probe, check func(context.Context, *corev1.Probe)) {
		if spec == nil {
			return
		}
		p.group.Go(func() {
			select {
			case <-ctx.Done():
			case <-started:
				check(ctx, spec)
			}
		})
	}
	after(c.ReadinessProbe, r.readiness)
	after(c.LivenessProbe, r.liveness)
}

// address returns where the pod's containers listen.
func address(pod *corev1.Pod, o *podworker.Observed) string {
	if pod.Spec.HostNetwork && len(o.HostIPs) > 0 {
		return o.HostIPs[0]
	}
	return pod.Status.PodIP
}

// set changes what is known of an instance and wakes the worker.
func (p *probes) set(id string, change func(*podworker.Probe)) {
	p.mu.Lock()
	k := p.known[id]
	if k == nil {
		p.mu.Unlock()
		return
	}
	before := k.result
	change(&k.result)
	news := k.result != before
	p.mu.Unlock()
	if news {
		p.worker.poke()
	}
}

// A probeRun is the probing of one instance of a container.
type probeRun struct {
	probes    *probes
	pod       *corev1.Pod
	startedAt time.Time
	target
}

// soonest is the pause after the first check of something that need not be
// true yet; the pause doubles until it is the probe's period. So what comes up
// in a moment is seen to be up in a moment.
const soonest = 20 * time.Millisecond

func period(p *corev1.Probe) time.Duration {
	return time.Duration(max(p.PeriodSeconds, 1)) * time.Second
}

func (r *probeRun) check(ctx context.Context, p *corev1.Probe) error {
	return r.probes.worker.probe(ctx, r.target, &p.ProbeHandler, time.Duration(max(p.TimeoutSeconds, 1))*time.Second)
}

// pause waits; it returns false if ctx is done.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// delay waits for a probe's initial delay, counted from the container's start.
func (r *probeRun) delay(ctx context.Context, p *corev1.Probe) bool {
	return pause(ctx, time.Until(r.startedAt.Add(time.Duration(p.InitialDelaySeconds)*time.Second)))
}

// startup returns true when the container has started, false if that failed or
// ctx is done.
func (r *probeRun) startup(ctx context.Context, p *corev1.Probe) bool {
	if !r.delay(ctx, p) {
		return false
	}
	begun, wait, failures := time.Now(), soonest, 0
	for {
		err := r.check(ctx, p)
		if ctx.Err() != nil {
			return false
		}
		if err == nil {
			r.probes.set(r.id, func(b *podworker.Probe) { b.Started = true })
			return true
		}
		// a failure counts once a period, however often it was looked
		if n := int(time.Since(begun)/period(p)) + 1; n > failures {
			failures = n
			r.unhealthy("Startup", err)
		}
		if failures >= threshold(p.FailureThreshold, 3) && time.Since(begun) >= time.Duration(threshold(p.FailureThreshold, 3)-1)*period(p) {
			r.fail("startup", p)
			return false
		}
		if !pause(ctx, wait) {
			return false
		}
		wait = min(2*wait, period(p))
	}
}

func threshold(n int32, def int) int {
	if n < 1 {
		return def
	}
	return int(n)
}

// liveness checks until the container must be restarted.
func (r *probeRun) liveness(ctx context.Context, p *corev1.Probe) {
	if !r.delay(ctx, p) {
		return
	}
	for failures := 0; ; {
		err := r.check(ctx, p)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			failures = 0
		} else {
			failures++
			r.unhealthy("Liveness", err)
		}
		if failures >= threshold(p.FailureThreshold, 3) {
			r.fail("liveness", p)
			return
		}
		if !pause(ctx, period(p)) {
			return
		}
	}
}

// readiness checks for ever, and says when the answer has changed for good.
func (r *probeRun) readiness(ctx context.Context, p *corev1.Probe) {
	if !r.delay(ctx, p) {
		return
	}
	ready := r.probes.results()[r.id].Ready
	successes, failures, wait, begun := 0, 0, soonest, time.Now()
	for {
		err := r.check(ctx, p)
		if ctx.Err() != nil {
			return
		}
		next := period(p)
		switch {
		case err == nil:
			successes, failures = successes+1, 0
			if !ready && successes >= threshold(p.SuccessThreshold, 1) {
				ready = true
				r.probes.set(r.id, func(b *podworker.Probe) { b.Ready = true })
			}
		case ready:
			successes, failures = 0, failures+1
			r.unhealthy("Readiness", err)
			if failures >= threshold(p.FailureThreshold, 3) {
				ready = false
				r.probes.set(r.id, func(b *podworker.Probe) { b.Ready = false })
			}
		default:
			successes = 0
			if time.Since(begun) >= period(p) { // before that it is no news
				r.unhealthy("Readiness", err)
			}
			next, wait = wait, min(2*wait, period(p))
		}
		if !pause(ctx, next) {
			return
		}
	}
}

// fail asks for the container to be restarted.
func (r *probeRun) fail(kind string, p *corev1.Probe) {
	r.probes.set(r.id, func(b *podworker.Probe) {
		b.Failed = fmt.Sprintf("Container %s failed %s probe, will be restarted", r.container.Name, kind)
		b.Grace = p.TerminationGracePeriodSeconds
	})
}

func (r *probeRun) unhealthy(kind string, err error) {
	r.probes.worker.containerEvent(r.pod, r.container.Name, corev1.EventTypeWarning, "Unhealthy", fmt.Sprintf("%s probe failed: %v", kind, err))
}
