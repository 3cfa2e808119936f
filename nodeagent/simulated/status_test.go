package simulated

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// life returns a pod's status after each write of its life.
func life(t *testing.T, p *corev1.Pod, until time.Duration) []corev1.PodStatus {
	t.Helper()
	b := behaviourOf(p, 50*time.Millisecond, 0)
	var s pod
	var list []corev1.PodStatus
	now := epoch
	for now.Sub(epoch) <= until {
		next, act, wait := step(s, b, false, 0, now)
		s = next
		if act == write {
			p.Status = status(p, s, b, place{"100.64.0.1", "10.128.0.5"}, now)
			list = append(list, p.Status)
			continue
		}
		if wait == never {
			break
		}
		now = now.Add(wait)
	}
	return list
}

func conditionsOf(s corev1.PodStatus) map[corev1.PodConditionType]string {
	m := map[corev1.PodConditionType]string{}
	for _, c := range s.Conditions {
		m[c.Type] = string(c.Status)
		if c.Reason != "" {
			m[c.Type] += " " + c.Reason + ": " + c.Message
		}
	}
	return m
}

func TestStatus_start(t *testing.T) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "web", UID: "u1"}, Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyAlways,
		Containers:    []corev1.Container{{Name: "a", Image: "img"}, {Name: "b", Image: "img"}},
	}}
	p.Status.QOSClass = corev1.PodQOSBestEffort
	p.Status.Conditions = []corev1.PodCondition{{Type: "example.com/own", Status: "True"}, {Type: corev1.PodScheduled, Status: "True"}}
	got := life(t, p, time.Minute)
	if len(got) != 2 {
		t.Fatalf("got %d writes, want 2", len(got))
	}
	pending, run := got[0], got[1]
	want := map[corev1.PodConditionType]string{
		"PodReadyToStartContainers": "False", "Initialized": "True", "PodScheduled": "True", "example.com/own": "True",
		"Ready":           "False ContainersNotReady: containers with unready status: [a b]",
		"ContainersReady": "False ContainersNotReady: containers with unready status: [a b]",
	}
	if diff := cmp.Diff(want, conditionsOf(pending)); diff != "" {
		t.Error(diff)
	}
	if pending.Phase != corev1.PodPending || pending.PodIP != "" || pending.HostIP != "100.64.0.1" || pending.StartTime == nil ||
		pending.ContainerStatuses[0].State.Waiting.Reason != "ContainerCreating" {
		t.Errorf("pending: %+v", pending)
	}
	want = map[corev1.PodConditionType]string{
		"PodReadyToStartContainers": "True", "Initialized": "True", "PodScheduled": "True", "example.com/own": "True",
		"Ready": "True", "ContainersReady": "True",
	}
	if diff := cmp.Diff(want, conditionsOf(run)); diff != "" {
		t.Error(diff)
	}
	if run.Phase != corev1.PodRunning || run.PodIP != "10.128.0.5" || run.PodIPs[0].IP != run.PodIP || run.QOSClass != corev1.PodQOSBestEffort {
		t.Errorf("running: %+v", run)
	}
	up := true
	wantContainer := corev1.ContainerStatus{
		Name: "a", Image: "img", ImageID: "simulated://img", ContainerID: "simulated://u1/a", Ready: true, Started: &up,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(epoch.Add(50 * time.Millisecond))}},
	}
	if diff := cmp.Diff(wantContainer, run.ContainerStatuses[0]); diff != "" {
		t.Error(diff)
	}
	// What was so before keeps the time of its transition.
	for _, c := range run.Conditions {
		if c.Type == corev1.PodInitialized && !c.LastTransitionTime.Time.Equal(epoch) {
			t.Errorf("Initialized has changed at %v", c.LastTransitionTime)
		}
	}
}

func TestStatus_job(t *testing.T) {
	tests := []struct {
		name, exit string
		policy     corev1.RestartPolicy
		phase      corev1.PodPhase
		ready      string
		reason     string
	}{
		{"succeeds", "0", "Never", corev1.PodSucceeded, "False PodCompleted: ", "Completed"},
		{"fails", "3", "Never", corev1.PodFailed, "False PodFailed: ", "Error"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: test.policy, Containers: []corev1.Container{{Name: "a"}}}}
			p.Annotations = map[string]string{AnnotationRunSeconds: "1.5", AnnotationExitCode: test.exit}
			got := life(t, p, time.Minute)
			last := got[len(got)-1]
			if len(got) != 3 || last.Phase != test.phase {
				t.Fatalf("got %d writes, phase %v", len(got), last.Phase)
			}
			if c := conditionsOf(last)[corev1.PodReady]; c != test.ready {
				t.Errorf("ready: got %q, want %q", c, test.ready)
			}
			end := last.ContainerStatuses[0].State.Terminated
			if end == nil || end.Reason != test.reason || end.FinishedAt.Sub(end.StartedAt.Time) != 1500*time.Millisecond {
				t.Errorf("got %+v", end)
			}
		})
	}
}

func TestStatus_restarts(t *testing.T) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "d", UID: "u"}, Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{{Name: "a"}},
	}}
	p.Annotations = map[string]string{AnnotationRunSeconds: "1", AnnotationExitCode: "2", AnnotationStartSeconds: "0"}
	got := life(t, p, 13*time.Second)
	var shows []string
	for _, s := range got {
		c := s.ContainerStatuses[0]
		line := string(s.Phase) + " " + itoa(c.RestartCount)
		if w := c.State.Waiting; w != nil {
			line += " " + w.Reason
		}
		if l := c.LastTerminationState.Terminated; l != nil {
			line += " last " + itoa(l.ExitCode)
		}
		shows = append(shows, line)
	}
	want := []string{
		"Pending 0 ContainerCreating", "Running 0", "Running 0 CrashLoopBackOff last 2", "Running 1 last 2",
		"Running 1 CrashLoopBackOff last 2", "Running 2 last 2", "Running 2 CrashLoopBackOff last 2",
	}
	if diff := cmp.Diff(want, shows); diff != "" {
		t.Error(diff)
	}
	// Another process takes the pod over as it is.
	a := adopt(p)
	if a.stage != waiting || a.restarts != 2 || !a.since.Equal(epoch.Add(13*time.Second)) || a.exit != 2 {
		t.Errorf("adopted in back-off: %+v", a)
	}
	p.Status = got[5]
	if a := adopt(p); a.stage != running || a.restarts != 2 || !a.started.Equal(epoch.Add(12*time.Second)) {
		t.Errorf("adopted while running: %+v", a)
	}
	p.Status = got[0]
	if a := adopt(p); a.stage != unseen {
		t.Errorf("adopted while starting: %+v", a)
	}
}

func TestStatus_readinessGates(t *testing.T) {
	p := &corev1.Pod{Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "a"}}, ReadinessGates: []corev1.PodReadinessGate{{ConditionType: "example.com/lb"}},
	}}
	got := life(t, p, time.Second)
	c := conditionsOf(got[1])
	want := `False ReadinessGatesNotReady: corresponding condition of pod readiness gate "example.com/lb" does not exist.`
	if c[corev1.PodReady] != want || c[corev1.ContainersReady] != "True" {
		t.Errorf("got %v", c)
	}
	s := pod{stage: running}
	if gatesMoved(p, s) {
		t.Error("nothing has moved")
	}
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: "example.com/lb", Status: corev1.ConditionTrue})
	if !gatesMoved(p, s) {
		t.Error("the gate is open now")
	}
}

func TestBehaviour(t *testing.T) {
	p := &corev1.Pod{}
	p.UID = "some-uid"
	for value, want := range map[string]time.Duration{"": -1, "0.25": 250 * time.Millisecond, "x": -1, "-1": -1, "1e300": -1, "NaN": -1} {
		p.Annotations = map[string]string{AnnotationRunSeconds: value}
		if got := behaviourOf(p, 0, 0).run; got != want {
			t.Errorf("run-seconds %q: got %v, want %v", value, got, want)
		}
	}
	b := behaviourOf(p, time.Second, time.Minute)
	if b.start < time.Second || b.start > time.Minute+time.Second {
		t.Errorf("jitter: got %v", b.start)
	}
	if again := behaviourOf(p, time.Second, time.Minute); again != b {
		t.Error("a pod's jitter is not always the same")
	}
}

func TestRoom(t *testing.T) {
	n := &node{}
	capacity := amounts{cpu: 2000, memory: 1 << 30, pods: 2}
	mk := func(uid types.UID, cpu, memory string) *corev1.Pod {
		p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)},
		}}}}}
		p.UID = uid
		return p
	}
	if reason, _ := n.take(mk("a", "1500m", "1"), capacity, false); reason != "" {
		t.Fatal(reason)
	}
	if reason, _ := n.take(mk("a", "1500m", "1"), capacity, false); reason != "" {
		t.Errorf("the same pod again: %s", reason)
	}
	reason, message := n.take(mk("b", "1", "1"), capacity, false)
	want := "Pod was rejected: Node didn't have enough resource: cpu, requested: 1000, used: 1500, capacity: 2000"
	if reason != "OutOfcpu" || message != want {
		t.Errorf("got %s, %s", reason, message)
	}
	if reason, _ := n.take(mk("b", "0", "2Gi"), capacity, false); reason != "OutOfmemory" {
		t.Errorf("got %q", reason)
	}
	if reason, _ := n.take(mk("b", "1", "1"), capacity, true); reason != "" {
		t.Errorf("a pod that runs is refused: %s", reason)
	}
	if reason, _ := n.take(mk("c", "0", "0"), capacity, false); reason != "OutOfpods" {
		t.Errorf("got %q", reason)
	}
	n.leave("a")
	n.leave("a")
	n.leave("b")
	if n.used != (amounts{}) {
		t.Errorf("an empty node uses %+v", n.used)
	}
}

func TestAddresses(t *testing.T) {
	if got := nth(netip.MustParsePrefix("10.128.0.0/9"), 256*3+4); got != "10.128.3.4" {
		t.Errorf("got %s", got)
	}
	var a addresses
	first, second := a.get(256), a.get(256)
	if first == second {
		t.Errorf("got %d twice", first)
	}
	a.freed = append(a.freed, first)
	if got := a.get(256); got != first {
		t.Errorf("got %d, want the one that is free again", got)
	}
}
