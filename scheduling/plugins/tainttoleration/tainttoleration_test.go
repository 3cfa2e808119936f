package tainttoleration

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/scheduling/framework"
)

func taint(key, value string, effect corev1.TaintEffect) corev1.Taint {
	return corev1.Taint{Key: key, Value: value, Effect: effect}
}

func snapshot(taints ...[]corev1.Taint) *framework.Snapshot {
	var s framework.Snapshot
	for i, list := range taints {
		s.Set(&framework.NodeInfo{Node: &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: string(rune('a' + i))},
			Spec:       corev1.NodeSpec{Taints: list},
		}})
	}
	return &s
}

func profile(t *testing.T) *framework.Profile {
	t.Helper()
	p, err := framework.NewProfile("p", framework.Enabled{Plugin: &Plugin{}, Weight: 3})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestFilter(t *testing.T) {
	tests := []struct {
		name       string
		taint      corev1.Taint
		toleration corev1.Toleration
		veto       bool
	}{
		{"equal", taint("k", "v", "NoSchedule"), corev1.Toleration{Key: "k", Operator: "Equal", Value: "v", Effect: "NoSchedule"}, false},
		{"no operator means equal", taint("k", "v", "NoSchedule"), corev1.Toleration{Key: "k", Value: "v"}, false},
		{"another value", taint("k", "v", "NoSchedule"), corev1.Toleration{Key: "k", Value: "w"}, true},
		{"exists", taint("k", "v", "NoExecute"), corev1.Toleration{Key: "k", Operator: "Exists"}, false},
		{"another effect", taint("k", "v", "NoExecute"), corev1.Toleration{Key: "k", Operator: "Exists", Effect: "NoSchedule"}, true},
		{"another key", taint("k", "v", "NoSchedule"), corev1.Toleration{Key: "l", Operator: "Exists"}, true},
		{"any key", taint("k", "v", "NoSchedule"), corev1.Toleration{Operator: "Exists"}, false},
		{"prefer does not veto", taint("k", "v", "PreferNoSchedule"), corev1.Toleration{}, false},
		{"less than", taint("load", "3", "NoSchedule"), corev1.Toleration{Key: "load", Operator: "Lt", Value: "5"}, false},
		{"not less than", taint("load", "5", "NoSchedule"), corev1.Toleration{Key: "load", Operator: "Lt", Value: "5"}, true},
		{"greater than", taint("load", "7", "NoSchedule"), corev1.Toleration{Key: "load", Operator: "Gt", Value: "5"}, false},
		{"not a number", taint("load", "high", "NoSchedule"), corev1.Toleration{Key: "load", Operator: "Gt", Value: "5"}, true},
		{"unknown operator", taint("k", "v", "NoSchedule"), corev1.Toleration{Key: "k", Operator: "Like", Value: "v"}, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := snapshot([]corev1.Taint{test.taint})
			pod := framework.NewPodInfo(&corev1.Pod{Spec: corev1.PodSpec{Tolerations: []corev1.Toleration{test.toleration}}})
			_, d, err := framework.Schedule(s, pod, profile(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			if (d != nil) != test.veto {
				t.Fatalf("veto: got %v, want %v", d != nil, test.veto)
			}
			if want := "0/1 nodes are available: 1 node(s) had untolerated taint(s)."; d != nil && d.Message() != want {
				t.Errorf("got %q, want %q", d.Message(), want)
			}
			if got := (&Plugin{}).Helps(pod, framework.Change{Node: s.Node(0).Node}); got == test.veto {
				t.Errorf("Helps: got %v", got)
			}
		})
	}
}

func TestScore(t *testing.T) {
	s := snapshot(
		[]corev1.Taint{taint("a", "", "PreferNoSchedule"), taint("b", "", "PreferNoSchedule")},
		[]corev1.Taint{taint("a", "", "PreferNoSchedule"), taint("c", "", "PreferNoSchedule")},
		nil,
	)
	tests := []struct {
		name        string
		tolerations []corev1.Toleration
		want        []int64 // weighted
	}{
		{"every taint counts", nil, []int64{0, 0, 300}},
		{"tolerated ones do not", []corev1.Toleration{{Key: "b", Operator: "Exists"}}, []int64{150, 0, 300}},
		{"a toleration of another effect is none", []corev1.Toleration{{Key: "b", Operator: "Exists", Effect: "NoSchedule"}}, []int64{0, 0, 300}},
		{"all tolerated: all equal", []corev1.Toleration{{Operator: "Exists"}}, []int64{300, 300, 300}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			pod := framework.NewPodInfo(&corev1.Pod{Spec: corev1.PodSpec{Tolerations: test.tolerations}})
			e, err := framework.Explain(s, pod, profile(t))
			if err != nil {
				t.Fatal(err)
			}
			var got []int64
			for _, n := range e.Nodes {
				got = append(got, n.Total)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
