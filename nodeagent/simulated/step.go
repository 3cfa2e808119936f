package simulated

import (
	"hash/fnv"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// stage is how far a pod has come on its node.
type stage uint8

const (
	unseen       stage = iota // nothing has been done for it
	accepted                  // its containers are being created
	initializing              // its init containers run
	running
	waiting // for the next start after an exit
	ended   // its containers have exited for good
	refused // the node has no room
	stopping
	stopped // only the object is left
)

// pod is what a node knows of a pod. It is a value: step returns the next.
type pod struct {
	stage stage
	since time.Time // when the stage began

	accepted time.Time // when the node took it
	begun    time.Time // when the first (init) container was started
	initDone int       // init containers that have completed
	started  time.Time // of the containers' present or last run
	finished time.Time // of their last exit; zero in the first run
	previous time.Time // when the run began that ended at finished
	restarts int32
	exit     int32 // code of the last exit

	reason, message string // of a refusal
}

// behaviour is what a pod is told to do.
type behaviour struct {
	start   time.Duration // latency of the containers and of each init container
	run     time.Duration // below 0: for ever
	exit    int32
	inits   int // init containers that run to completion
	restart corev1.RestartPolicy
}

// behaviourOf reads a pod's annotations; those that cannot be read count as not
// there.
func behaviourOf(p *corev1.Pod, latency, jitter time.Duration) behaviour {
	b := behaviour{start: latency, run: -1, restart: p.Spec.RestartPolicy}
	if jitter > 0 {
		h := fnv.New32a()
		h.Write([]byte(p.UID)) // it never fails
		b.start += time.Duration(uint64(h.Sum32()) * uint64(jitter) >> 32)
	}
	if d, ok := seconds(p.Annotations[AnnotationStartSeconds]); ok {
		b.start = d
	}
	if d, ok := seconds(p.Annotations[AnnotationRunSeconds]); ok {
		b.run = d
	}
	if n, err := strconv.ParseUint(p.Annotations[AnnotationExitCode], 10, 8); err == nil {
		b.exit = int32(n)
	}
	for i := range p.Spec.InitContainers {
		if !isSidecar(&p.Spec.InitContainers[i]) {
			b.inits++
		}
	}
	return b
}

// seconds reads a number of seconds, at most a year.
func seconds(s string) (time.Duration, bool) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 0 && f <= 366*24*3600) {
		return 0, false
	}
	return time.Duration(f * float64(time.Second)), true
}

func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// An action is what is to be done before the state is the next.
type action uint8

const (
	nothing action = iota
	write          // write the status that the next state has
	remove         // delete the object
)

// never is the wait of a pod that only an update can move.
const never = time.Duration(-1)

// step moves a pod by at most one stage. It returns the next state, what must
// be done for it, and, if nothing is to be done now, the time until something
// will be.
func step(s pod, b behaviour, deleting bool, grace time.Duration, now time.Time) (pod, action, time.Duration) {
	if deleting {
		return stop(s, b, grace, now)
	}
	due := func(d time.Duration) time.Duration { return max(s.since.Add(d).Sub(now), 0) }
	switch s.stage {
	case unseen:
		s.accepted = now
		return s.to(accepted, now), write, 0
	case accepted:
		if d := due(b.start); d > 0 {
			return s, nothing, d
		}
		s.begun = now
		if b.inits > 0 {
			return s.to(initializing, now), write, 0
		}
		return s.run(now), write, 0
	case initializing:
		if d := due(b.start); d > 0 {
			return s, nothing, d
		}
		if s.initDone++; s.initDone < b.inits {
			return s.to(initializing, now), write, 0
		}
		return s.run(now), write, 0
	case running:
		if b.run < 0 {
			return s, nothing, never
		}
		if d := due(b.run); d > 0 {
			return s, nothing, d
		}
		return s.exited(b, now), write, 0
	case waiting:
		if d := due(backoff(s.restarts)); d > 0 {
			return s, nothing, d
		}
		s.restarts++
		return s.run(now), write, 0
	default:
		return s, nothing, never
	}
}

// stop ends a pod that is being deleted.
func stop(s pod, b behaviour, grace time.Duration, now time.Time) (pod, action, time.Duration) {
	switch s.stage {
	case unseen, ended, refused, stopped:
		return s.to(stopped, now), remove, 0
	case stopping:
		if d := s.since.Add(min(b.start, grace)).Sub(now); d > 0 {
			return s, nothing, d
		}
		if s.stage = stopped; !s.started.IsZero() && s.started.After(s.finished) {
			s.exit, s.finished, s.previous = 0, now, s.started
		}
		return s.to(stopped, now), write, 0
	default:
		s = s.to(stopping, now)
		return s, nothing, max(min(b.start, grace), 0)
	}
}

func (s pod) to(next stage, now time.Time) pod {
	s.stage, s.since = next, now
	return s
}

func (s pod) run(now time.Time) pod {
	s.started = now
	return s.to(running, now)
}

// exited is the state after the containers have run to their end.
func (s pod) exited(b behaviour, now time.Time) pod {
	s.exit, s.finished, s.previous = b.exit, now, s.started
	again := b.restart == corev1.RestartPolicyAlways || b.restart == "" ||
		b.restart == corev1.RestartPolicyOnFailure && b.exit != 0
	if again {
		return s.to(waiting, now)
	}
	return s.to(ended, now)
}

// backoff is the wait before the start after the given number of restarts: none
// before the first, then 10 s, doubling up to 5 minutes.
func backoff(restarts int32) time.Duration {
	if restarts == 0 {
		return 0
	}
	return min(10*time.Second<<min(restarts-1, 5), 5*time.Minute)
}

// adopt returns the state of a pod that has been on its node before this
// process began, as its status tells it.
func adopt(p *corev1.Pod) pod {
	s := pod{stage: unseen}
	if p.Status.StartTime != nil {
		s.accepted = p.Status.StartTime.Time
	}
	switch p.Status.Phase {
	case corev1.PodSucceeded, corev1.PodFailed:
		s.stage = ended
		return s
	case corev1.PodRunning:
	default:
		return s // its start can be made again
	}
	for i := range p.Status.ContainerStatuses {
		c := &p.Status.ContainerStatuses[i]
		s.restarts = max(s.restarts, c.RestartCount)
		if t := c.LastTerminationState.Terminated; t != nil {
			s.exit, s.finished, s.previous = t.ExitCode, t.FinishedAt.Time, t.StartedAt.Time
		}
		switch {
		case c.State.Running != nil:
			s.stage, s.since, s.started = running, c.State.Running.StartedAt.Time, c.State.Running.StartedAt.Time
		case c.State.Waiting != nil && s.stage == unseen:
			s.stage, s.since, s.started = waiting, s.finished, s.previous
		}
	}
	if s.stage == unseen {
		return pod{accepted: s.accepted} // nothing says what its containers do
	}
	for i := range p.Spec.InitContainers {
		if !isSidecar(&p.Spec.InitContainers[i]) {
			s.initDone++
		}
	}
	s.begun = s.accepted
	return s
}
