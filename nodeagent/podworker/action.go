package podworker

import (
	"fmt"
	"strings"
	"time"
)

// A Verb is what an Action does.
type Verb int

// The verbs, in about the order of a pod's life.
const (
	// Nothing is to be done until something changes or the wake time comes.
	Nothing Verb = iota
	// PrepareVolumes puts the pod's directories, log folder and volumes in place.
	PrepareVolumes
	// CreateSandbox makes a sandbox with the number Attempt.
	CreateSandbox
	// EnsureImage sees to the image of Container by its pull policy; the
	// reference goes to Observed.Attempts.
	EnsureImage
	// CreateContainer makes an instance in the sandbox ID.
	CreateContainer
	// StartContainer starts the instance ID.
	StartContainer
	// StopContainers stops the instances IDs, all at once, each within Grace.
	StopContainers
	// StopSandbox stops the sandbox ID.
	StopSandbox
	// RemoveContainer removes the instance ID, which does not run.
	RemoveContainer
	// RemoveSandbox removes the sandbox ID and what is left in it.
	RemoveSandbox
	// Finish writes the last status, releases the volumes, and takes the pod
	// out of the API: nothing of it runs any more.
	Finish
	// Done means that nothing is left, in the API or on the node.
	Done
)

var verbs = [...]string{ //nolint:gochecknoglobals // a constant table
	"nothing", "prepare-volumes", "create-sandbox", "ensure-image", "create-container", "start-container",
	"stop-containers", "stop-sandbox", "remove-container", "remove-sandbox", "finish", "done",
}

func (v Verb) String() string { return verbs[v] }

// An Action is the one thing to do next.
type Action struct {
	Do        Verb
	Container string        // name, of verbs about one container
	ID        string        // of the container or sandbox
	IDs       []string      // of StopContainers
	Attempt   int           // number of the new sandbox or container
	Streak    int           // of the new container
	ImageRef  string        // of CreateContainer
	Grace     time.Duration // of StopContainers
	// Reason is why containers are stopped, as an event says it; "" if the
	// pod ends.
	Reason string
}

func (a Action) String() string {
	var b strings.Builder
	b.WriteString(a.Do.String())
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, " %s=%s", name, value)
		}
	}
	field("container", a.Container)
	field("id", a.ID)
	field("ids", strings.Join(a.IDs, ","))
	if a.Do == CreateSandbox || a.Do == CreateContainer || a.Do == EnsureImage {
		fmt.Fprintf(&b, " attempt=%d", a.Attempt)
	}
	if a.Streak > 0 {
		fmt.Fprintf(&b, " streak=%d", a.Streak)
	}
	field("image", a.ImageRef)
	if a.Do == StopContainers {
		fmt.Fprintf(&b, " grace=%v", a.Grace)
	}
	if a.Reason != "" {
		fmt.Fprintf(&b, " reason=%q", a.Reason)
	}
	return b.String()
}
