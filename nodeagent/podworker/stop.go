package podworker

import (
	"slices"
	"time"
)

// stop returns the next action for a pod that is to end: its containers, then
// its sidecars from the last to the first, then its sandboxes, then what after
// returns.
func (v *view) stop(after func() Action) Action {
	var ids []string
	for _, c := range v.o.Containers {
		if live(c.State) && !v.isSidecar(c.Name) {
			ids = append(ids, c.ID)
		}
	}
	if len(ids) > 0 {
		slices.Sort(ids)
		return Action{Do: StopContainers, IDs: ids, Grace: v.grace()}
	}
	for _, v0 := range slices.Backward(v.pod.Spec.InitContainers) {
		name := v0.Name
		for _, c := range v.o.instances(name) {
			if live(c.State) {
				return Action{Do: StopContainers, Container: name, IDs: []string{c.ID}, Grace: v.grace()}
			}
		}
	}
	for _, s := range v.o.Sandboxes {
		if s.Ready {
			return Action{Do: StopSandbox, ID: s.ID}
		}
	}
	return after()
}

// remove returns the next action for a pod of which nothing runs and nothing
// is to stay.
func (v *view) remove() Action {
	for _, s := range v.o.Sandboxes {
		return Action{Do: RemoveSandbox, ID: s.ID}
	}
	for _, c := range v.o.Containers {
		return Action{Do: RemoveContainer, Container: c.Name, ID: c.ID}
	}
	return Action{Do: Done}
}

// grace returns how long the containers of an ending pod have from now on.
func (v *view) grace() time.Duration {
	pod := v.pod
	if pod.DeletionTimestamp == nil {
		if v.o.Gone { // taken out of the API by force
			return time.Second
		}
		return v.podGrace()
	}
	whole := time.Second
	if s := pod.DeletionGracePeriodSeconds; s != nil && *s > 1 {
		whole = time.Duration(*s) * time.Second
	}
	// deletionTimestamp is when the pod should be gone; the clocks of node and
	// API may differ, so it can only shorten the time.
	return min(whole, max(pod.DeletionTimestamp.Sub(v.now), time.Second)).Round(time.Second)
}

// podGrace returns the grace period that the pod asks for.
func (v *view) podGrace() time.Duration {
	if s := v.pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return 30 * time.Second
}
