package nodename

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/scheduling/framework"
)

func TestFilter(t *testing.T) {
	var s framework.Snapshot
	for _, name := range []string{"a", "b", "c"} {
		s.Set(&framework.NodeInfo{Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}})
	}
	profile, err := framework.NewProfile("p", framework.Enabled{Plugin: &Plugin{}})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, nodeName, want, message string
	}{
		{name: "the node that is named", nodeName: "b", want: "b"},
		{name: "no name leaves all", want: "a"},
		{name: "a node that is not there", nodeName: "z", message: "0/3 nodes are available: 3 node(s) didn't match the requested node name."},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			pod := framework.NewPodInfo(&corev1.Pod{Spec: corev1.PodSpec{NodeName: test.nodeName}})
			got, d, err := framework.Schedule(&s, pod, profile, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got.Node != test.want {
				t.Errorf("got %q, want %q", got.Node, test.want)
			}
			if d != nil && d.Message() != test.message {
				t.Errorf("got %q, want %q", d.Message(), test.message)
			}
		})
	}
}
