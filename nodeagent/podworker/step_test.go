package podworker

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// TestStepConverges starts from any state that a runtime, an API and a
// forgetful agent can be in, and from there Step must reach its goal without
// ever doing something that makes no sense.
func TestStepConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := arbitrary(t)
		deleted := rapid.Bool().Draw(t, "deleted")
		if deleted {
			n := int64(rapid.IntRange(0, 60).Draw(t, "grace"))
			s.pod.DeletionGracePeriodSeconds = &n
			s.pod.DeletionTimestamp = &metav1.Time{Time: s.now.Add(time.Duration(n) * time.Second)}
		}
		s.o.Gone = rapid.IntRange(0, 5).Draw(t, "gone") == 0

		over := settle(t, s)
		switch {
		case deleted || s.o.Gone:
			if !s.done || len(s.o.Sandboxes)+len(s.o.Containers) > 0 {
				t.Fatalf("the pod is gone but this is left: %+v", s.o)
			}
		case over:
			for _, c := range s.o.Containers {
				if live(c.State) {
					t.Fatalf("the pod is over but this runs: %+v", c)
				}
			}
			if p := s.pod.Status.Phase; p != corev1.PodFailed && p != corev1.PodSucceeded {
				t.Fatalf("the pod is over but its phase is %s", p)
			}
		default:
			checkRunning(t, s)
		}
	})
}

// settle steps until nothing is left to do, and returns whether the pod is
// over.
func settle(t *rapid.T, s *sim) (over bool) {
	for range 500 {
		a, wake, err := s.step()
		if err != nil {
			t.Fatalf("%v: %v", a, err)
		}
		check(t, s)
		switch {
		case a.Do == Done:
			return true
		case a.Do != Nothing:
		case !wake.IsZero():
			if !wake.After(s.now.Add(-2 * time.Millisecond)) {
				t.Fatalf("wake at %v, which is past: it is %v", wake, s.now)
			}
			s.now = wake
		case endInit(s):
		default:
			v := view{pod: s.pod, o: &s.o, now: s.now}
			return v.finished() != notFinished
		}
	}
	t.Fatalf("it does not come to an end: %+v", s.o)
	return false
}

// check proves what must hold after every step.
func check(t *rapid.T, s *sim) {
	running := map[string]string{}
	for _, c := range s.o.Containers {
		if c.State == Running {
			if other := running[c.Name]; other != "" && c.SandboxID != "stray" {
				continue // an arbitrary start may have two; Step must end it, which checkRunning sees
			}
			running[c.Name] = c.ID
		}
	}
	if n := len(s.pod.Status.ContainerStatuses); n != len(s.pod.Spec.Containers) {
		t.Fatalf("%d statuses for %d containers", n, len(s.pod.Spec.Containers))
	}
	for _, c := range append(s.pod.Status.ContainerStatuses, s.pod.Status.InitContainerStatuses...) {
		states := 0
		for _, is := range []bool{c.State.Running != nil, c.State.Waiting != nil, c.State.Terminated != nil} {
			if is {
				states++
			}
		}
		if states != 1 {
			t.Fatalf("container %q is in %d states: %+v", c.Name, states, c.State)
		}
		if c.State.Waiting != nil && c.State.Waiting.Reason == "" {
			t.Fatalf("container %q waits for no reason", c.Name)
		}
	}
}

// checkRunning proves that all that should run does, once.
func checkRunning(t *rapid.T, s *sim) {
	ready := ""
	for _, b := range s.o.Sandboxes {
		if b.Ready {
			if ready != "" {
				t.Fatalf("two sandboxes are ready: %+v", s.o.Sandboxes)
			}
			ready = b.ID
		}
	}
	count := map[string]int{}
	for _, c := range s.o.Containers {
		if live(c.State) {
			count[c.Name]++
			if c.SandboxID != ready || c.State != Running {
				t.Fatalf("this should not run: %+v in %q", c, ready)
			}
		}
	}
	for _, c := range s.pod.Spec.Containers {
		last := s.o.instances(c.Name)
		done := len(last) > 0 && last[0].State == Exited && (last[0].ExitCode == 0 || s.pod.Spec.RestartPolicy == corev1.RestartPolicyNever) &&
			s.pod.Spec.RestartPolicy != corev1.RestartPolicyAlways
		if count[c.Name] != 1 && !done || count[c.Name] > 1 {
			t.Fatalf("container %q runs %d times: %+v", c.Name, count[c.Name], s.o.Containers)
		}
		if len(last) > 2 {
			t.Fatalf("container %q has %d instances", c.Name, len(last))
		}
	}
}

// endInit lets a running init container succeed.
func endInit(s *sim) bool {
	for i := range s.o.Containers {
		c := &s.o.Containers[i]
		if spec := s.spec(c.Name); c.State == Running && isInit(s.pod, c.Name) && !sidecar(spec) {
			s.end(c, 0)
			return true
		}
	}
	return false
}

func arbitrary(t *rapid.T) *sim {
	policy := rapid.SampledFrom([]corev1.RestartPolicy{
		corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever,
	}).Draw(t, "policy")
	init := rapid.SampledFrom([][]string{nil, {"i1"}, {"i1", "i2"}, {"+side", "i1"}}).Draw(t, "init")
	s := newSim(testPod(policy, init, []string{"a", "b"}[:rapid.IntRange(1, 2).Draw(t, "containers")]))
	s.now = s.now.Add(time.Hour)
	for n := range rapid.IntRange(0, 3).Draw(t, "sandboxes") {
		s.o.Sandboxes = append(s.o.Sandboxes, Sandbox{
			ID: s.id("s"), Attempt: n, Ready: rapid.Bool().Draw(t, "ready"),
			CreatedAt: s.now.Add(time.Duration(n-10) * time.Minute), IPs: []string{"10.0.0.1"},
		})
	}
	var names []string
	v := view{pod: s.pod}
	for c := range v.containers() {
		names = append(names, c.Name)
	}
	attempts := map[string]int{}
	if len(s.o.Sandboxes) > 0 {
		for range rapid.IntRange(0, 5).Draw(t, "instances") {
			b := rapid.SampledFrom(s.o.Sandboxes).Draw(t, "sandbox")
			name := rapid.SampledFrom(names).Draw(t, "name")
			c := Container{
				ID: s.id("c"), Name: name, SandboxID: b.ID, Attempt: attempts[name], Hash: Hash(s.spec(name)),
				Image: s.spec(name).Image, CreatedAt: b.CreatedAt.Add(time.Second), StartedAt: b.CreatedAt.Add(2 * time.Second),
				State:  rapid.SampledFrom([]ContainerState{Created, Running, Exited, Unknown}).Draw(t, "state"),
				Streak: rapid.IntRange(0, 3).Draw(t, "streak"),
			}
			if rapid.IntRange(0, 4).Draw(t, "changed") == 0 {
				c.Hash = "other"
			}
			attempts[name]++
			if c.State == Exited {
				c.ExitCode = int32(rapid.IntRange(0, 1).Draw(t, "code"))
				c.FinishedAt = s.now.Add(-time.Duration(rapid.IntRange(0, 60).Draw(t, "ago")) * time.Second)
			}
			s.o.Containers = append(s.o.Containers, c)
		}
	}
	for verb := PrepareVolumes; verb <= StartContainer; verb++ {
		for range rapid.IntRange(0, 2).Draw(t, fmt.Sprint("failures of ", verb)) {
			s.fails[verb] = append(s.fails[verb], "Reason: message")
		}
	}
	s.o.Volumes.Ready = rapid.Bool().Draw(t, "volumes")
	return s
}

func TestCrashDelay(t *testing.T) {
	for streak, want := range []time.Duration{0, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 300 * time.Second, 300 * time.Second} {
		if got := crashDelay(&Container{Streak: streak}); got != want {
			t.Errorf("after %d early ends: %v, want %v", streak, got, want)
		}
	}
	long := Container{Streak: 9, StartedAt: time.Unix(0, 0), FinishedAt: time.Unix(600, 0)}
	if got := crashDelay(&long); got != 0 {
		t.Errorf("after ten minutes of health: %v, want none", got)
	}
}

func TestQOS(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		l := corev1.ResourceList{}
		if cpu != "" {
			l[corev1.ResourceCPU] = resource.MustParse(cpu)
		}
		if memory != "" {
			l[corev1.ResourceMemory] = resource.MustParse(memory)
		}
		return l
	}
	r := func(requests, limits corev1.ResourceList) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: requests, Limits: limits}
	}
	tests := []struct {
		name       string
		containers []corev1.ResourceRequirements
		want       corev1.PodQOSClass
	}{
		{"nothing", []corev1.ResourceRequirements{{}}, corev1.PodQOSBestEffort},
		{"limits alone", []corev1.ResourceRequirements{r(nil, list("1", "1Gi"))}, corev1.PodQOSGuaranteed},
		{"equal", []corev1.ResourceRequirements{r(list("1", "1Gi"), list("1000m", "1Gi"))}, corev1.PodQOSGuaranteed},
		{"less asked", []corev1.ResourceRequirements{r(list("500m", "1Gi"), list("1", "1Gi"))}, corev1.PodQOSBurstable},
		{"only memory", []corev1.ResourceRequirements{r(nil, list("", "1Gi"))}, corev1.PodQOSBurstable},
		{"one of two", []corev1.ResourceRequirements{r(nil, list("1", "1Gi")), {}}, corev1.PodQOSBurstable},
		{"other resources", []corev1.ResourceRequirements{{Requests: corev1.ResourceList{"example.com/x": resource.MustParse("1")}}}, corev1.PodQOSBestEffort},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{}
			for _, res := range tt.containers {
				pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Resources: res})
			}
			if got := QOS(pod); got != tt.want {
				t.Errorf("QOS = %s, want %s", got, tt.want)
			}
		})
	}
}

func TestValidImage(t *testing.T) {
	for name, want := range map[string]bool{
		"web": true, "local.test/web:1": true, "127.0.0.1:5000/a/b:v1": true, "a@sha256:" + fmt.Sprintf("%064d", 1): true,
		"localhost/x": true, "host:80/x__y/z.w-v": true, "": false, "Web": false, "a b": false, "a:": false, "a//b": false,
		"local.test/NAME": false, "a:b:c": false, "-a": false,
	} {
		if got := ValidImage(name); got != want {
			t.Errorf("ValidImage(%q) = %v, want %v", name, got, want)
		}
	}
}

// TestStatusKeepsOthers proves that a status keeps what it is not about.
func TestStatusKeepsOthers(t *testing.T) {
	pod := testPod(corev1.RestartPolicyAlways, nil, []string{"main"})
	pod.Status.NominatedNodeName = "n"
	scheduled := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(5, 0)}
	gate := corev1.PodCondition{Type: "example.com/gate", Status: corev1.ConditionFalse}
	pod.Status.Conditions = []corev1.PodCondition{scheduled, gate}
	before := pod.DeepCopy()
	got := Status(pod, Observed{Runtime: "sim"}, time.Unix(10, 0))
	if d := cmp.Diff(before, pod); d != "" {
		t.Errorf("Status changed its argument:\n%s", d)
	}
	if got.NominatedNodeName != "n" || cmp.Diff(got.Conditions[:2], []corev1.PodCondition{scheduled, gate}) != "" {
		t.Errorf("others' fields were lost: %+v", got)
	}
	pod.Status = got
	again := Status(pod, Observed{Runtime: "sim"}, time.Unix(20, 0))
	if d := cmp.Diff(got, again); d != "" {
		t.Errorf("nothing changed, but the status did:\n%s", d)
	}
}
