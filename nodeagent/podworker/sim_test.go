package podworker

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A sim is a runtime and an agent's memory, for one pod, without any doing.
type sim struct {
	pod   *corev1.Pod
	o     Observed
	now   time.Time
	ids   int
	fails map[Verb][]string // "reason: message", the next first
	done  bool
}

func newSim(pod *corev1.Pod) *sim {
	if pod.Name == "" {
		pod.Namespace, pod.Name, pod.UID = "default", "pod", "uid"
	}
	return &sim{
		pod: pod, now: time.Unix(1_000_000, 0).UTC(), fails: map[Verb][]string{},
		o: Observed{
			Runtime: "sim", HostIPs: []string{"172.30.0.1"}, Attempts: map[string]Attempt{}, Probes: map[string]Probe{},
		},
	}
}

func (s *sim) id(kind string) string {
	s.ids++
	return fmt.Sprintf("%s%d", kind, s.ids)
}

func (s *sim) container(id string) *Container {
	for i := range s.o.Containers {
		if s.o.Containers[i].ID == id {
			return &s.o.Containers[i]
		}
	}
	return nil
}

func (s *sim) sandbox(id string) *Sandbox {
	for i := range s.o.Sandboxes {
		if s.o.Sandboxes[i].ID == id {
			return &s.o.Sandboxes[i]
		}
	}
	return nil
}

func (s *sim) spec(name string) *corev1.Container {
	for _, list := range [][]corev1.Container{s.pod.Spec.InitContainers, s.pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// end ends a container as its program would.
func (s *sim) end(c *Container, code int32) {
	c.State, c.ExitCode, c.FinishedAt = Exited, code, s.now
}

// do does an action, or lets it fail if that was asked for. It returns an
// error if the action makes no sense.
func (s *sim) do(a Action) error {
	s.now = s.now.Add(time.Millisecond)
	var reason, message string
	if q := s.fails[a.Do]; len(q) > 0 {
		reason, message, _ = strings.Cut(q[0], ": ")
		s.fails[a.Do] = q[1:]
	}
	failed := reason != ""
	attempt := s.o.Attempts[a.Container]
	switch a.Do {
	case PrepareVolumes:
		if failed {
			s.o.Volumes.Failure = s.o.Volumes.Failure.Add(s.now, reason, message)
			return nil
		}
		s.o.Volumes = Volumes{Ready: true}
	case CreateSandbox:
		if failed {
			s.o.SandboxFailure = s.o.SandboxFailure.Add(s.now, reason, message)
			return nil
		}
		for _, b := range s.o.Sandboxes {
			if b.Ready {
				return fmt.Errorf("sandbox %s is ready", b.ID)
			}
		}
		s.o.SandboxFailure = Failure{}
		s.o.Sandboxes = append(s.o.Sandboxes, Sandbox{
			ID: s.id("s"), Attempt: a.Attempt, Ready: true, IPs: []string{"10.0.0.1"}, CreatedAt: s.now,
		})
	case EnsureImage:
		if attempt.Number != a.Attempt || attempt.Image != s.spec(a.Container).Image {
			attempt = Attempt{Number: a.Attempt, Image: s.spec(a.Container).Image}
		}
		if failed {
			attempt.Failure = attempt.Failure.Add(s.now, reason, message)
		} else {
			attempt.ImageRef, attempt.Failure = "ref-"+attempt.Image, Failure{}
		}
		s.o.Attempts[a.Container] = attempt
	case CreateContainer:
		b := s.sandbox(a.ID)
		if b == nil || !b.Ready {
			return fmt.Errorf("no ready sandbox %q", a.ID)
		}
		for _, c := range s.o.Containers {
			if c.Name == a.Container && (c.Attempt == a.Attempt || c.State == Running) {
				return fmt.Errorf("container %s is there as %+v", a.Container, c)
			}
		}
		if failed {
			attempt.Failure = attempt.Failure.Add(s.now, reason, message)
			s.o.Attempts[a.Container] = attempt
			return nil
		}
		c := s.spec(a.Container)
		s.o.Containers = append(s.o.Containers, Container{
			ID: s.id("c"), Name: c.Name, SandboxID: b.ID, Attempt: a.Attempt, Streak: a.Streak, Hash: Hash(c),
			Image: c.Image, ImageID: a.ImageRef, CreatedAt: s.now,
		})
	case StartContainer:
		c := s.container(a.ID)
		if c == nil || c.State != Created {
			return fmt.Errorf("no created container %q", a.ID)
		}
		if failed {
			attempt.Failure, attempt.NotStarted = attempt.Failure.Add(s.now, reason, message), a.ID
			s.o.Attempts[a.Container] = attempt
			return nil
		}
		c.State, c.StartedAt = Running, s.now
	case StopContainers:
		for _, id := range a.IDs {
			c := s.container(id)
			if c == nil || c.State != Running && c.State != Unknown {
				return fmt.Errorf("no running container %q", id)
			}
			s.end(c, 143)
		}
	case StopSandbox:
		b := s.sandbox(a.ID)
		if b == nil || !b.Ready {
			return fmt.Errorf("no ready sandbox %q", a.ID)
		}
		b.Ready = false
	case RemoveContainer:
		if c := s.container(a.ID); c == nil || c.State == Running {
			return fmt.Errorf("cannot remove container %q", a.ID)
		}
		s.o.Containers = slices.DeleteFunc(s.o.Containers, func(c Container) bool { return c.ID == a.ID })
	case RemoveSandbox:
		if b := s.sandbox(a.ID); b == nil || b.Ready {
			return fmt.Errorf("cannot remove sandbox %q", a.ID)
		}
		s.o.Sandboxes = slices.DeleteFunc(s.o.Sandboxes, func(b Sandbox) bool { return b.ID == a.ID })
		s.o.Containers = slices.DeleteFunc(s.o.Containers, func(c Container) bool { return c.SandboxID == a.ID })
	case Finish:
		s.o.Gone = true
	case Done:
		s.done = true
	default:
	}
	return nil
}

// step asks for one action, and does it.
func (s *sim) step() (Action, time.Time, error) {
	s.pod.Status = Status(s.pod, s.o, s.now)
	a, wake := Step(s.pod, s.o, s.now)
	err := s.do(a)
	s.pod.Status = Status(s.pod, s.o, s.now)
	return a, wake, err
}

func testPod(policy corev1.RestartPolicy, init, containers []string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "default", UID: "uid"}}
	pod.Spec.RestartPolicy = policy
	for _, name := range init {
		c := corev1.Container{Name: strings.TrimPrefix(name, "+"), Image: "image-" + strings.TrimPrefix(name, "+")}
		if strings.HasPrefix(name, "+") {
			always := corev1.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	for _, name := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name, Image: "image-" + name})
	}
	return pod
}
