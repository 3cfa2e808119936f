package nodeports

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/scheduling/framework"
)

func pod(uid string, ip string, protocol corev1.Protocol, port int32) *framework.PodInfo {
	return framework.NewPodInfo(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Ports: []corev1.ContainerPort{{HostIP: ip, Protocol: protocol, HostPort: port, ContainerPort: 80}},
		}}},
	})
}

func TestFilter(t *testing.T) {
	profile, err := framework.NewProfile("p", framework.Enabled{Plugin: &Plugin{}})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name       string
		used, want *framework.PodInfo
		veto       bool
	}{
		{"the same port", pod("a", "", "TCP", 80), pod("b", "", "TCP", 80), true},
		{"no protocol means TCP", pod("a", "", "", 80), pod("b", "", "TCP", 80), true},
		{"another port", pod("a", "", "TCP", 80), pod("b", "", "TCP", 81), false},
		{"another protocol", pod("a", "", "TCP", 80), pod("b", "", "UDP", 80), false},
		{"two addresses", pod("a", "10.0.0.1", "TCP", 80), pod("b", "10.0.0.2", "TCP", 80), false},
		{"one address", pod("a", "10.0.0.1", "TCP", 80), pod("b", "10.0.0.1", "TCP", 80), true},
		{"every address is in use", pod("a", "0.0.0.0", "TCP", 80), pod("b", "10.0.0.2", "TCP", 80), true},
		{"every address is wanted", pod("a", "10.0.0.1", "TCP", 80), pod("b", "", "TCP", 80), true},
		{"no host port", pod("a", "", "TCP", 0), pod("b", "", "TCP", 0), false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var s framework.Snapshot
			n := &framework.NodeInfo{Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}}
			n.AddPod(test.used)
			s.Set(n)
			_, d, err := framework.Schedule(&s, test.want, profile, nil)
			if err != nil {
				t.Fatal(err)
			}
			if (d != nil) != test.veto {
				t.Fatalf("veto: got %v, want %v", d != nil, test.veto)
			}
			if want := "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."; d != nil && d.Message() != want {
				t.Errorf("got %q, want %q", d.Message(), want)
			}
			if got := (&Plugin{}).Helps(test.want, framework.Change{OldPod: test.used}); got != test.veto {
				t.Errorf("Helps: got %v, want %v", got, test.veto)
			}
			n.RemovePod(test.used.Pod.UID)
			s.Set(n)
			if _, d, _ := framework.Schedule(&s, test.want, profile, nil); d != nil {
				t.Errorf("after the pod has gone: %s", d.Message())
			}
		})
	}
}
