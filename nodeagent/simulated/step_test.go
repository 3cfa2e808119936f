package simulated

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (s stage) String() string {
	return [...]string{"unseen", "accepted", "initializing", "running", "waiting", "ended", "refused", "stopping", "stopped"}[s]
}

// walk lets a pod live and writes down what happens at which time. It is
// deleted at the given time, if that is not negative.
func walk(b behaviour, deletedAt, until time.Duration) []string {
	var s pod
	var log []string
	now := epoch
	for {
		at := now.Sub(epoch)
		deleting := deletedAt >= 0 && at >= deletedAt
		next, act, wait := step(s, b, deleting, 30*time.Second, now)
		switch act {
		case write:
			log = append(log, fmt.Sprintf("%v %v", at, next.stage))
		case remove:
			return append(log, fmt.Sprintf("%v removed", at))
		case nothing:
		}
		s = next
		if act != nothing {
			continue
		}
		target := now.Add(time.Hour)
		if wait != never {
			target = now.Add(wait)
		}
		if d := epoch.Add(deletedAt); deletedAt >= 0 && now.Before(d) && d.Before(target) {
			target = d
		}
		if target.Sub(epoch) > until {
			return log
		}
		now = target
	}
}

func TestStep(t *testing.T) {
	ms := time.Millisecond
	forever := behaviour{start: 50 * ms, run: -1, restart: corev1.RestartPolicyAlways}
	tests := []struct {
		name      string
		b         behaviour
		deletedAt time.Duration
		until     time.Duration
		want      string
	}{
		{"runs for ever", forever, -1, time.Hour, "0s accepted, 50ms running"},
		{"stops gracefully", forever, time.Second, time.Hour, "0s accepted, 50ms running, 1.05s stopped, 1.05s removed"},
		{"is deleted while it starts", forever, 20 * ms, time.Hour, "0s accepted, 70ms stopped, 70ms removed"},
		{"is deleted before it is seen", forever, 0, time.Hour, "0s removed"},
		{
			"runs init containers in order",
			behaviour{start: 50 * ms, run: -1, inits: 2},
			-1, time.Hour,
			"0s accepted, 50ms initializing, 100ms initializing, 150ms running",
		},
		{
			"a job succeeds",
			behaviour{start: 50 * ms, run: time.Second, restart: corev1.RestartPolicyNever},
			-1, time.Hour,
			"0s accepted, 50ms running, 1.05s ended",
		},
		{
			"a job that failed is not tried again",
			behaviour{start: 50 * ms, run: time.Second, exit: 1, restart: corev1.RestartPolicyNever},
			-1, time.Hour,
			"0s accepted, 50ms running, 1.05s ended",
		},
		{
			"OnFailure ends with success",
			behaviour{start: 50 * ms, run: time.Second, restart: corev1.RestartPolicyOnFailure},
			-1, time.Hour,
			"0s accepted, 50ms running, 1.05s ended",
		},
		{
			"OnFailure tries again, with back-off",
			behaviour{run: time.Second, exit: 1, restart: corev1.RestartPolicyOnFailure},
			-1, 14 * time.Second,
			"0s accepted, 0s running, 1s waiting, 1s running, 2s waiting, 12s running, 13s waiting",
		},
		{
			"Always restarts after success too",
			behaviour{run: time.Second, restart: corev1.RestartPolicyAlways},
			-1, 3 * time.Second,
			"0s accepted, 0s running, 1s waiting, 1s running, 2s waiting",
		},
		{
			"is deleted in back-off",
			behaviour{start: 50 * ms, run: time.Second, exit: 1, restart: corev1.RestartPolicyAlways},
			5 * time.Second, time.Hour,
			"0s accepted, 50ms running, 1.05s waiting, 1.05s running, 2.05s waiting, 5.05s stopped, 5.05s removed",
		},
		{
			"is deleted after it has ended",
			behaviour{run: time.Second, restart: corev1.RestartPolicyNever},
			5 * time.Second, time.Hour,
			"0s accepted, 0s running, 1s ended, 5s removed",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := strings.Join(walk(test.b, test.deletedAt, test.until), ", ")
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestBackoffOfContainers(t *testing.T) {
	var got []time.Duration
	for n := range int32(9) {
		got = append(got, backoff(n)/time.Second)
	}
	if diff := cmp.Diff([]time.Duration{0, 10, 20, 40, 80, 160, 300, 300, 300}, got); diff != "" {
		t.Error(diff)
	}
}

// Whatever a pod is told to do, its life ends once it is deleted, time never
// goes back, and each state leads to a status without contradictions.
func TestStep_properties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u", Generation: 3}}
		for i := range rapid.IntRange(0, 3).Draw(t, "inits") {
			c := corev1.Container{Name: fmt.Sprint("i", i)}
			if rapid.Bool().Draw(t, "sidecar") {
				always := corev1.ContainerRestartPolicyAlways
				c.RestartPolicy = &always
			}
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		}
		for i := range rapid.IntRange(1, 2).Draw(t, "containers") {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", i)})
		}
		p.Spec.RestartPolicy = rapid.SampledFrom([]corev1.RestartPolicy{"Always", "OnFailure", "Never"}).Draw(t, "policy")
		b := behaviourOf(p, time.Duration(rapid.IntRange(0, 3).Draw(t, "latency"))*time.Second, 0)
		b.run = rapid.SampledFrom([]time.Duration{-1, 0, time.Second}).Draw(t, "run")
		b.exit = rapid.Int32Range(0, 1).Draw(t, "exit")
		steps := rapid.IntRange(0, 30).Draw(t, "steps")
		var s pod
		now := epoch
		for n := 0; ; n++ {
			if n > steps+10 {
				t.Fatalf("deleted pod is still %v", s.stage)
			}
			next, act, wait := step(s, b, n >= steps, 30*time.Second, now)
			if act == remove {
				return
			}
			if act == write {
				p.Status = status(p, next, b, place{"10.0.0.1", "10.0.0.2"}, now)
				checkStatus(t, p, next)
			}
			if wait > 0 {
				now = now.Add(wait)
			}
			s = next
		}
	})
}

func checkStatus(t *rapid.T, p *corev1.Pod, s pod) {
	st := &p.Status
	states := append(append([]corev1.ContainerStatus{}, st.InitContainerStatuses...), st.ContainerStatuses...)
	if len(st.ContainerStatuses) != len(p.Spec.Containers) || len(st.InitContainerStatuses) != len(p.Spec.InitContainers) {
		t.Fatalf("%v: a container has no status", s.stage)
	}
	for _, c := range states {
		n := 0
		for _, is := range []bool{c.State.Waiting != nil, c.State.Running != nil, c.State.Terminated != nil} {
			if is {
				n++
			}
		}
		if n != 1 {
			t.Fatalf("%v: container %q has %d states", s.stage, c.Name, n)
		}
		if d := c.State.Terminated; d != nil && !d.StartedAt.IsZero() && d.FinishedAt.Before(&d.StartedAt) {
			t.Fatalf("%v: container %q ended before it began: %v %v", s.stage, c.Name, d.StartedAt, d.FinishedAt)
		}
		over := st.Phase == corev1.PodSucceeded || st.Phase == corev1.PodFailed
		if over && c.State.Running != nil {
			t.Fatalf("%v: container %q runs in a pod that is over", s.stage, c.Name)
		}
	}
	types := map[corev1.PodConditionType]corev1.ConditionStatus{}
	for _, c := range st.Conditions {
		if _, twice := types[c.Type]; twice {
			t.Fatalf("condition %q is there twice", c.Type)
		}
		types[c.Type] = c.Status
		if c.ObservedGeneration != 3 || c.LastTransitionTime.IsZero() {
			t.Fatalf("condition %+v", c)
		}
	}
	if len(types) != 5 {
		t.Fatalf("%v: conditions %v", s.stage, types)
	}
	ready := s.stage == running
	if got := types[corev1.PodReady] == corev1.ConditionTrue; got != ready {
		t.Fatalf("%v: ready is %v", s.stage, got)
	}
	if ready && (types[corev1.PodInitialized] != corev1.ConditionTrue || types[corev1.PodReadyToStartContainers] != corev1.ConditionTrue || st.PodIP == "") {
		t.Fatalf("ready, with %v and address %q", types, st.PodIP)
	}
}
