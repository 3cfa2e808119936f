package schedulinggates

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestPreEnqueue(t *testing.T) {
	pod := &corev1.Pod{}
	if r := (&Plugin{}).PreEnqueue(pod); r != nil {
		t.Errorf("without gates: got %v", r)
	}
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/a"}, {Name: "example.com/b"}}
	r := (&Plugin{}).PreEnqueue(pod)
	if r == nil {
		t.Fatal("with gates: let in")
	}
	if want := "waiting for scheduling gates: [example.com/a example.com/b]"; r.Reasons[0] != want {
		t.Errorf("got %q, want %q", r.Reasons[0], want)
	}
}
