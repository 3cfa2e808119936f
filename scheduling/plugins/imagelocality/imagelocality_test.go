package imagelocality

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/scheduling/framework"
)

const mib = 1 << 20

func TestScore(t *testing.T) {
	var s framework.Snapshot
	set := func(name string, images ...corev1.ContainerImage) {
		n := &framework.NodeInfo{}
		n.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Images: images}})
		s.Set(n)
	}
	image := func(size int64, names ...string) corev1.ContainerImage {
		return corev1.ContainerImage{Names: names, SizeBytes: size}
	}
	set("a", image(900*mib, "reg.example:5000/big:latest"), image(10*mib, "small:v1"))
	set("b", image(900*mib, "reg.example:5000/big:latest", "reg.example:5000/big@sha256:aa"))
	set("c")
	profile, profileErr := framework.NewProfile("p", framework.Enabled{Plugin: &Plugin{}})
	if profileErr != nil {
		t.Fatal(profileErr)
	}
	pod := func(images ...string) *framework.PodInfo {
		p := &corev1.Pod{}
		for _, i := range images {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Image: i})
		}
		return framework.NewPodInfo(p)
	}
	tests := []struct {
		name string
		pod  *framework.PodInfo
		want map[string]int64
	}{
		// 900 MiB on two of three nodes count 600: (600-23)/(1000-23).
		{"a name without tag is latest", pod("reg.example:5000/big"), map[string]int64{"a": 59, "b": 59, "c": 0}},
		// 600 of the two containers' 2000: (600-23)/(2000-23).
		{"the scale grows with the containers", pod("reg.example:5000/big:latest", "elsewhere"), map[string]int64{"a": 29, "b": 29, "c": 0}},
		{"a small image does not matter", pod("small:v1"), map[string]int64{"a": 0, "b": 0, "c": 0}},
		{"an image that no node has", pod("unknown"), map[string]int64{"a": 0, "b": 0, "c": 0}},
		// 900/3 = 300: (300-23)/(1000-23).
		{"by digest", pod("reg.example:5000/big@sha256:aa"), map[string]int64{"a": 0, "b": 28, "c": 0}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e, err := framework.Explain(&s, test.pod, profile)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]int64{}
			for _, n := range e.Nodes {
				got[n.Node] = n.Total
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	// When a node loses its images, the others' count for less.
	set("a")
	after, err := framework.Explain(&s, tests[0].pod, profile)
	if err != nil {
		t.Fatal(err)
	}
	if got := after.Nodes[1].Total; got != 28 {
		t.Errorf("after node a lost the image: got %d, want 28", got)
	}
}
