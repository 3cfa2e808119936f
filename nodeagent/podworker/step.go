package podworker

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Step returns what to do next for a pod. If that is Nothing, the time tells
// when to ask again even if nothing changes; zero is never.
func Step(pod *corev1.Pod, o Observed, now time.Time) (Action, time.Time) {
	v := view{pod: pod, o: &o, now: now}
	var a Action
	switch {
	case o.Gone:
		a = v.stop(func() Action { return v.remove() })
	case pod.DeletionTimestamp != nil:
		a = v.stop(func() Action { return Action{Do: Finish} })
	case v.finished() != notFinished:
		a = v.stop(func() Action { return Action{} })
	default:
		a = v.run()
		v.wakeAt(v.deadline())
	}
	if a.Do != Nothing {
		return a, time.Time{}
	}
	return a, v.wake
}

// A view is one call's look at the pod.
type view struct {
	pod  *corev1.Pod
	o    *Observed
	now  time.Time
	wake time.Time
}

// wakeAt asks for another look at t.
func (v *view) wakeAt(t time.Time) {
	if !t.IsZero() && t.After(v.now) && (v.wake.IsZero() || t.Before(v.wake)) {
		v.wake = t
	}
}

// due tells whether t has come, and if not asks to be woken then.
func (v *view) due(t time.Time) bool {
	if t.After(v.now) {
		v.wakeAt(t)
		return false
	}
	return true
}

// run returns the next action for a pod that is meant to run.
func (v *view) run() Action {
	if !v.o.Volumes.Ready && v.o.Volumes.Failure.Count == 0 {
		return Action{Do: PrepareVolumes}
	}
	current := v.o.newestSandbox()
	if a := v.leaveOldSandboxes(current); a.Do != Nothing {
		return a
	}
	if current == nil || !current.Ready {
		return v.createSandbox(current)
	}
	if a := v.stopBroken(); a.Do != Nothing {
		return a
	}
	a, initialized := v.runInit(current)
	if a.Do != Nothing || !initialized {
		return a
	}
	for i := range v.pod.Spec.Containers {
		if a := v.runContainer(&v.pod.Spec.Containers[i], current); a.Do != Nothing {
			return a
		}
	}
	return v.collect(current)
}

// leaveOldSandboxes stops what still runs outside the sandbox that counts.
func (v *view) leaveOldSandboxes(current *Sandbox) Action {
	var stray []string
	for _, c := range v.o.Containers {
		if live(c.State) && (current == nil || !current.Ready || c.SandboxID != current.ID) {
			stray = append(stray, c.ID)
		}
	}
	if len(stray) > 0 {
		slices.Sort(stray)
		return Action{Do: StopContainers, IDs: stray, Grace: v.podGrace(), Reason: sandboxChanged}
	}
	for _, s := range v.o.Sandboxes {
		if s.Ready && s.ID != current.ID {
			return Action{Do: StopSandbox, ID: s.ID}
		}
	}
	return Action{}
}

const sandboxChanged = "Pod sandbox changed, it will be killed and re-created."

func (v *view) createSandbox(last *Sandbox) Action {
	if !v.due(v.o.SandboxFailure.retryAt(sandboxBase, sandboxLimit)) {
		return Action{}
	}
	if a, ready := v.volumes(); !ready {
		return a
	}
	attempt := 0
	if last != nil {
		attempt = last.Attempt + 1
	}
	return Action{Do: CreateSandbox, Attempt: attempt}
}

// volumes returns the action, if it is time for one, that volumes which are
// not ready need.
func (v *view) volumes() (a Action, ready bool) {
	if v.o.Volumes.Ready {
		return Action{}, true
	}
	if v.due(v.o.Volumes.Failure.retryAt(volumeBase, volumeLimit)) {
		return Action{Do: PrepareVolumes}, false
	}
	return Action{}, false
}

// stopBroken stops a container that runs and should not as it is.
func (v *view) stopBroken() Action {
	for c := range v.containers() {
		for n, i := range v.o.instances(c.Name) {
			if !live(i.State) {
				continue
			}
			var reason string
			grace := v.podGrace()
			p := v.o.Probes[i.ID]
			switch {
			case n > 0:
				reason = "Container " + c.Name + " has a newer instance"
			case p.Failed != "":
				reason = p.Failed
				if p.Grace != nil {
					grace = time.Duration(*p.Grace) * time.Second
				}
			case i.Hash != "" && i.Hash != Hash(c):
				reason = "Container " + c.Name + " definition changed, will be restarted"
			case i.State == Unknown:
				reason = "Container " + c.Name + " is in unknown state, try killing it before restart"
			default:
				continue
			}
			return Action{Do: StopContainers, Container: c.Name, IDs: []string{i.ID}, Grace: grace, Reason: reason}
		}
	}
	return Action{}
}

// runInit returns the next action for the init containers, and whether the
// others may start.
func (v *view) runInit(current *Sandbox) (Action, bool) {
	begun := v.begun(current)
	for i := range v.pod.Spec.InitContainers {
		c := &v.pod.Spec.InitContainers[i]
		if sidecar(c) {
			a := v.runContainer(c, current)
			if a.Do != Nothing {
				return a, false
			}
			if !begun && !v.started(c, current) {
				return Action{}, false
			}
			continue
		}
		if begun {
			continue
		}
		last := v.latestIn(c.Name, current)
		if last != nil && last.State == Exited && last.ExitCode == 0 {
			continue
		}
		return v.runContainer(c, current), false
	}
	return Action{}, true
}

// begun tells whether a container that is not an init container was made in
// the sandbox: then the init containers are through, even if they are no
// longer there to see.
func (v *view) begun(current *Sandbox) bool {
	for i := range v.pod.Spec.Containers {
		if v.latestIn(v.pod.Spec.Containers[i].Name, current) != nil {
			return true
		}
	}
	return false
}

// runContainer returns the next action to have an instance of c running.
func (v *view) runContainer(c *corev1.Container, current *Sandbox) Action {
	all := v.o.instances(c.Name)
	var last *Container
	if len(all) > 0 {
		last = &all[0]
	}
	here := last != nil && last.SandboxID == current.ID
	attempt := v.o.Attempts[c.Name]
	if last != nil {
		switch last.State {
		case Running, Unknown:
			return Action{}
		case Created:
			switch {
			case !here:
			case attempt.NotStarted == last.ID:
				// it did not start and cannot be started again
				if !v.due(attempt.retryAt()) {
					return Action{}
				}
				return Action{Do: RemoveContainer, Container: c.Name, ID: last.ID}
			default:
				return Action{Do: StartContainer, Container: c.Name, ID: last.ID}
			}
		case Exited:
			if here && !v.restarts(c, last) {
				return Action{}
			}
			if !here && !isInit(v.pod, c.Name) && !v.restarts(c, last) {
				return Action{}
			}
			if here && !v.due(last.FinishedAt.Add(crashDelay(last))) {
				return Action{}
			}
		}
	}
	return v.create(c, last, attempt, current)
}

// create returns the next action towards a new instance of c.
func (v *view) create(c *corev1.Container, last *Container, attempt Attempt, current *Sandbox) Action {
	number := v.nextNumber(c.Name, last)
	if attempt.Number != number || attempt.Image != c.Image {
		attempt = Attempt{}
	}
	if !v.due(attempt.retryAt()) {
		v.wakeAt(attempt.Failure.At.Add(showError))
		return Action{}
	}
	if a, ready := v.volumes(); !ready {
		return a
	}
	if attempt.ImageRef == "" {
		return Action{Do: EnsureImage, Container: c.Name, Attempt: number}
	}
	streak := 0
	if last != nil {
		streak = nextStreak(last)
	}
	return Action{
		Do: CreateContainer, Container: c.Name, ID: current.ID, Attempt: number,
		Streak: streak, ImageRef: attempt.ImageRef,
	}
}

// nextNumber returns the restart count of the instance after last. If the
// runtime has lost all instances, the status in the API tells.
func (v *view) nextNumber(name string, last *Container) int {
	if last != nil {
		return last.Attempt + 1
	}
	if s := statusOf(v.pod, name); s != nil && s.ContainerID != "" {
		return int(s.RestartCount) + 1
	}
	return 0
}

// retryAt returns when to go on after the attempt's failure.
func (a Attempt) retryAt() time.Time {
	if a.ImageRef == "" && a.Failure.Reason != ImageInspectError {
		return a.Failure.retryAt(pullBase, pullLimit)
	}
	return a.Failure.retryAt(createBase, createLimit)
}

// collect removes what is no longer of use: all but the two newest instances
// of a container, and old sandboxes without any.
func (v *view) collect(current *Sandbox) Action {
	used := map[string]bool{current.ID: true}
	for c := range v.containers() {
		for n, i := range v.o.instances(c.Name) {
			if n >= 2 && !live(i.State) {
				return Action{Do: RemoveContainer, Container: c.Name, ID: i.ID}
			}
			used[i.SandboxID] = true
		}
	}
	for _, s := range v.o.Sandboxes {
		if !used[s.ID] {
			return Action{Do: RemoveSandbox, ID: s.ID}
		}
	}
	return Action{}
}
