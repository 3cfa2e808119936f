package noderesources

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/scheduling/framework"
)

func list(kv ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(kv); i += 2 {
		l[corev1.ResourceName(kv[i])] = resource.MustParse(kv[i+1])
	}
	return l
}

func pod(kv ...string) *framework.PodInfo {
	return framework.NewPodInfo(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Resources: corev1.ResourceRequirements{Requests: list(kv...)}},
	}}})
}

func node(alloc corev1.ResourceList, pods ...*framework.PodInfo) *framework.NodeInfo {
	n := &framework.NodeInfo{}
	n.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Allocatable: alloc}})
	for _, p := range pods {
		n.AddPod(p)
	}
	return n
}

func profile(t *testing.T, p framework.Plugin) *framework.Profile {
	t.Helper()
	profile, err := framework.NewProfile("p", framework.Enabled{Plugin: p})
	if err != nil {
		t.Fatal(err)
	}
	return profile
}

func TestFit(t *testing.T) {
	alloc := list("cpu", "4", "memory", "8Gi", "ephemeral-storage", "10Gi", "pods", "2", "example.com/gpu", "2")
	tests := []struct {
		name         string
		used         []*framework.PodInfo
		want         *framework.PodInfo
		reasons      []string
		unresolvable bool
	}{
		{
			name: "to the last bit", used: []*framework.PodInfo{pod("cpu", "3", "memory", "6Gi")},
			want: pod("cpu", "1", "memory", "2Gi", "ephemeral-storage", "10Gi", "example.com/gpu", "2"),
		},
		{name: "too little CPU", used: []*framework.PodInfo{pod("cpu", "3001m")}, want: pod("cpu", "1"), reasons: []string{"Insufficient cpu"}},
		{name: "more than the node has", want: pod("cpu", "5"), reasons: []string{"Insufficient cpu"}, unresolvable: true},
		{
			name: "several at once", used: []*framework.PodInfo{pod("cpu", "4", "memory", "8Gi", "example.com/gpu", "1")},
			want:    pod("cpu", "1m", "memory", "1", "example.com/gpu", "2"),
			reasons: []string{"Insufficient cpu", "Insufficient example.com/gpu", "Insufficient memory"},
		},
		{name: "pods", used: []*framework.PodInfo{pod(), pod()}, want: pod(), reasons: []string{"Too many pods"}},
		{
			name: "pods and CPU", used: []*framework.PodInfo{pod("cpu", "4"), pod()}, want: pod("cpu", "1"),
			reasons: []string{"Insufficient cpu", "Too many pods"},
		},
		{name: "what is not asked for is never short", used: []*framework.PodInfo{pod("cpu", "9", "memory", "99Gi")}, want: pod("ephemeral-storage", "1")},
		{name: "a resource that the node does not have", want: pod("example.com/fpga", "1"), reasons: []string{"Insufficient example.com/fpga"}, unresolvable: true},
		{name: "zero of a resource that the node does not have", want: pod("example.com/fpga", "0")},
		{name: "ephemeral storage", want: pod("ephemeral-storage", "11Gi"), reasons: []string{"Insufficient ephemeral-storage"}, unresolvable: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var s framework.Snapshot
			s.Set(node(alloc, test.used...))
			_, d, err := framework.Schedule(&s, test.want, profile(t, &Fit{}), nil)
			if err != nil {
				t.Fatal(err)
			}
			if d == nil {
				if test.reasons != nil {
					t.Fatal("fits")
				}
				return
			}
			v, _ := d.Veto(0)
			if diff := cmp.Diff(test.reasons, v.Reasons); diff != "" {
				t.Error(diff)
			}
			if v.Unresolvable != test.unresolvable {
				t.Errorf("unresolvable: got %v", v.Unresolvable)
			}
		})
	}
}

func TestScores(t *testing.T) {
	alloc := list("cpu", "4", "memory", "4Gi", "pods", "110")
	tests := []struct {
		name   string
		plugin framework.Plugin
		node   *framework.NodeInfo
		pod    *framework.PodInfo
		want   int64
	}{
		// (75 + 50) / 2
		{"least allocated", &Fit{}, node(alloc), pod("cpu", "1", "memory", "2Gi"), 62},
		// (4000-100)/4000 = 97, (4096-200)/4096 = 95
		{"without requests the defaults count", &Fit{}, node(alloc), pod(), 96},
		{"a full node", &Fit{}, node(alloc, pod("cpu", "4", "memory", "4Gi")), pod("cpu", "1", "memory", "1Gi"), 0},
		{"a node without memory", &Fit{}, node(list("cpu", "4")), pod("cpu", "1", "memory", "2Gi"), 75},
		{"a node with nothing", &Fit{}, node(nil), pod("cpu", "1"), 0},
		{"balanced stays so", &Balanced{}, node(alloc), pod("cpu", "1", "memory", "1Gi"), 75},
		// 100 -> 1-(1-0)/2 = 50: 50 + (50+50-100)/2
		{"worst", &Balanced{}, node(alloc), pod("cpu", "4"), 50},
		{"best", &Balanced{}, node(alloc, pod("memory", "4Gi")), pod("cpu", "4"), 100},
		{"asks for nothing", &Balanced{}, node(alloc), pod(), 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var s framework.Snapshot
			s.Set(test.node)
			c := &framework.Cycle{Snapshot: &s, Pod: test.pod}
			got := []int64{0}
			if pre, ok := test.plugin.(framework.PreScorePlugin); ok {
				if skip, err := pre.PreScore(c, s.Indices()); err != nil || skip {
					if test.want != 0 {
						t.Fatalf("skip %v, error %v", skip, err)
					}
					return
				}
			}
			if err := test.plugin.(framework.ScorePlugin).Score(c, s.Indices(), got); err != nil {
				t.Fatal(err)
			}
			if got[0] != test.want {
				t.Errorf("got %d, want %d", got[0], test.want)
			}
		})
	}
}

func TestFitHelps(t *testing.T) {
	alloc := list("cpu", "4", "memory", "4Gi", "pods", "10")
	small := node(alloc).Node
	if !(&Fit{}).Helps(pod("cpu", "4"), framework.Change{Node: small}) {
		t.Error("a node that the pod fits does not help")
	}
	if (&Fit{}).Helps(pod("cpu", "5"), framework.Change{Node: small}) {
		t.Error("a node that is too small helps")
	}
	if !(&Fit{}).Helps(pod("cpu", "5"), framework.Change{OldPod: pod("cpu", "1")}) {
		t.Error("a pod that has gone does not help")
	}
}
