package framework

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNodeChange(t *testing.T) {
	base := func() *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": "1"}},
			Status:     corev1.NodeStatus{Allocatable: quantities("cpu", "1", "pods", "10")},
		}
	}
	tests := []struct {
		name   string
		change func(*corev1.Node)
		want   Event
	}{
		{"nothing", func(*corev1.Node) {}, 0},
		{"a heartbeat", func(n *corev1.Node) { n.Status.Conditions = []corev1.NodeCondition{{Type: "Ready"}} }, 0},
		{"the same amount in another form", func(n *corev1.Node) { n.Status.Allocatable = quantities("cpu", "1000m", "pods", "10") }, 0},
		{"allocatable", func(n *corev1.Node) { n.Status.Allocatable = quantities("cpu", "2", "pods", "10") }, NodeAllocatable},
		{"a resource more", func(n *corev1.Node) { n.Status.Allocatable["example.com/gpu"] = quantities("x", "1")["x"] }, NodeAllocatable},
		{"a label", func(n *corev1.Node) { n.Labels["a"] = "2" }, NodeLabels},
		{"another label instead", func(n *corev1.Node) { n.Labels = map[string]string{"b": "1"} }, NodeLabels},
		{"a taint", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "k"}} }, NodeTaints},
		{"cordoned", func(n *corev1.Node) { n.Spec.Unschedulable = true }, NodeTaints},
		{"two at once", func(n *corev1.Node) { n.Spec.Unschedulable, n.Labels = true, nil }, NodeTaints | NodeLabels},
	}
	for _, test := range tests {
		node := base()
		test.change(node)
		if got := NodeChange(base(), node).Event; got != test.want {
			t.Errorf("%s: got %b, want %b", test.name, got, test.want)
		}
	}
}

func TestPodChange(t *testing.T) {
	mk := func(label string, cpu string) *PodInfo {
		p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{container("cpu", cpu)}}}
		p.Labels = map[string]string{"l": label}
		return NewPodInfo(p)
	}
	if got := PodChange(mk("a", "2"), mk("a", "2")).Event; got != 0 {
		t.Errorf("nothing: got %b", got)
	}
	if got := PodChange(mk("a", "2"), mk("b", "1")).Event; got != PodLabels|PodShrunk {
		t.Errorf("label and request: got %b", got)
	}
	if got := PodChange(mk("a", "1"), mk("a", "2")).Event; got != 0 {
		t.Errorf("a pod that asks for more helps nobody: got %b", got)
	}
}

// hinting is a filter that knows what helps it.
type hinting struct {
	fake
	helps bool
}

func (*hinting) Events() Event                 { return NodeTaints }
func (h *hinting) Helps(*PodInfo, Change) bool { return h.helps }

func TestHelps(t *testing.T) {
	p := newProfile(t,
		Enabled{Plugin: &hinting{fake: fake{name: "yes"}, helps: true}},
		Enabled{Plugin: &hinting{fake: fake{name: "no"}}},
	)
	pod := NewPodInfo(&corev1.Pod{})
	tests := []struct {
		name  string
		by    []string
		event Event
		want  bool
	}{
		{"the plugin says yes", []string{"yes"}, NodeTaints, true},
		{"the plugin says no", []string{"no"}, NodeTaints, false},
		{"one of two says yes", []string{"no", "yes"}, NodeTaints, true},
		{"it does not care about the event", []string{"yes"}, NodeLabels, false},
		{"time has gone by", []string{"no"}, AnyEvent, true},
		{"a plugin that does not say", []string{"other"}, NodeLabels, true},
		{"no plugin was asked", nil, NodeAdded, true},
	}
	for _, test := range tests {
		if got := p.Helps(pod, test.by, Change{Event: test.event}); got != test.want {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
	if got := p.Interest(); got != NodeTaints {
		t.Errorf("interest: got %b", got)
	}
	if got := newProfile(t, Enabled{Plugin: &fake{name: "silent"}}).Interest(); got&NodeLabels == 0 || got&PodAdded == 0 {
		t.Errorf("a filter that does not say wants all: got %b", got)
	}
}
