package nodeunschedulable

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/scheduling/framework"
)

func TestFilter(t *testing.T) {
	var s framework.Snapshot
	s.Set(&framework.NodeInfo{Node: node("open", false)})
	s.Set(&framework.NodeInfo{Node: node("cordoned", true)})
	profile, err := framework.NewProfile("p", framework.Enabled{Plugin: &Plugin{}})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name        string
		tolerations []corev1.Toleration
		want        int // vetoes of the cordoned node
	}{
		{"a pod without tolerations is kept off", nil, 1},
		{"the taint by its name is tolerated", []corev1.Toleration{{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists}}, 0},
		{"everything is tolerated", []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, 0},
		{"another effect is not enough", []corev1.Toleration{{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			pod := framework.NewPodInfo(&corev1.Pod{Spec: corev1.PodSpec{Tolerations: test.tolerations}})
			e, err := framework.Explain(&s, pod, profile)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(e.Nodes[0].Vetoes); n != 0 {
				t.Errorf("open node: got %d vetoes, want 0", n)
			}
			v := e.Nodes[1].Vetoes
			if len(v) != test.want {
				t.Fatalf("cordoned node: got %v, want %d vetoes", v, test.want)
			}
			if len(v) > 0 && (v[0].Reasons[0] != "node(s) were unschedulable" || !v[0].Unresolvable) {
				t.Errorf("got %+v", v[0])
			}
			helps := (&Plugin{}).Helps(pod, framework.Change{Node: node("cordoned", true)})
			if helps != (test.want == 0) {
				t.Errorf("Helps of a cordoned node: got %v", helps)
			}
		})
	}
}

func node(name string, cordoned bool) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Unschedulable: cordoned}}
}
