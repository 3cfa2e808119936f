package podworker

import (
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Observed is everything that is known about a pod on its node.
type Observed struct {
	// Runtime is the name of the container runtime, the scheme of container
	// IDs in the status: "containerd".
	Runtime string
	// HostIPs are the addresses of the node.
	HostIPs []string
	// Gone is true when the pod is no longer in the API. Everything that is
	// left of it is removed.
	Gone bool

	Sandboxes  []Sandbox
	Containers []Container

	Volumes        Volumes
	SandboxFailure Failure
	// Attempts is what was done towards the next instance of a container, by
	// the container's name.
	Attempts map[string]Attempt
	// Probes are the results of probes, by container ID.
	Probes map[string]Probe
}

// A Sandbox is the runtime's environment of a pod.
type Sandbox struct {
	ID        string
	Attempt   int
	Ready     bool
	IPs       []string // none if it uses the host's network
	CreatedAt time.Time
}

// A ContainerState is one of the states that CRI has.
type ContainerState int

// The states of a container.
const (
	Created ContainerState = iota
	Running
	Exited
	Unknown
)

func (s ContainerState) String() string {
	switch s {
	case Created:
		return "created"
	case Running:
		return "running"
	case Exited:
		return "exited"
	default:
		return "unknown"
	}
}

// A Container is one instance of a container of the pod.
type Container struct {
	ID, Name, SandboxID string
	State               ContainerState
	// Attempt counts the instances from 0; it is the restart count.
	Attempt int
	// Streak is how many instances in a row, this one not counted, ended
	// before they had run long enough to be called healthy.
	Streak int
	// Hash is Hash of the container it was made from.
	Hash string

	Image   string // as the user wrote it
	ImageID string

	CreatedAt, StartedAt, FinishedAt time.Time

	ExitCode        int32
	Reason, Message string
}

// Volumes says whether the pod's volumes are in place.
type Volumes struct {
	Ready   bool
	Failure Failure
}

// An Attempt is the way to one instance of a container.
type Attempt struct {
	Number int    // the restart count of that instance
	Image  string // the name that ImageRef and Failure are about
	// ImageRef is what the runtime calls the image, "" until it is there.
	ImageRef string
	// NotStarted is the ID of the instance that was made but did not start.
	NotStarted string
	Failure    Failure
}

// A Failure counts what went wrong in a row. The zero value is none.
type Failure struct {
	Count           int
	At              time.Time
	Reason, Message string
}

// Add returns f with one more failure.
func (f Failure) Add(now time.Time, reason, message string) Failure {
	return Failure{Count: f.Count + 1, At: now, Reason: reason, Message: message}
}

// retryAt returns when to try again: base after the first failure, twice that
// after the second, never more than limit.
func (f Failure) retryAt(base, limit time.Duration) time.Time {
	if f.Count == 0 {
		return time.Time{}
	}
	return f.At.Add(doubling(f.Count, base, limit))
}

// A Probe is what the probes of one instance of a container say. A container
// without a probe of a kind counts as started, ready and alive.
type Probe struct {
	Started bool
	Ready   bool
	// Failed is why the container must be restarted, "" if it need not be:
	// the event message of a failed liveness or startup probe.
	Failed string
	// Grace overrides the pod's grace period for that restart.
	Grace *int64
}

// Hash changes when a container must be made anew because its definition did.
func Hash(c *corev1.Container) string {
	h := fnv.New32a()
	fmt.Fprintf(h, "%s\x00%s", c.Name, c.Image) // a hash does not fail
	return fmt.Sprintf("%x", h.Sum32())
}

// instances returns the instances of a container, the newest first.
func (o *Observed) instances(name string) []Container {
	var is []Container
	for _, c := range o.Containers {
		if c.Name == name {
			is = append(is, c)
		}
	}
	slices.SortFunc(is, func(a, b Container) int {
		if a.Attempt != b.Attempt {
			return b.Attempt - a.Attempt
		}
		return b.CreatedAt.Compare(a.CreatedAt)
	})
	return is
}

// newestSandbox returns the sandbox made last, nil if there is none.
func (o *Observed) newestSandbox() *Sandbox {
	var newest *Sandbox
	for i := range o.Sandboxes {
		s := &o.Sandboxes[i]
		if newest == nil || s.CreatedAt.After(newest.CreatedAt) ||
			s.CreatedAt.Equal(newest.CreatedAt) && s.Attempt > newest.Attempt {
			newest = s
		}
	}
	return newest
}
