package scheduling

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/scheduling/framework"
)

// BenchmarkSchedule chooses a node for one small pod after another and books
// each: the work of the loop without the API. The pods are alike, as those of a
// Deployment, or all different.
func BenchmarkSchedule(b *testing.B) {
	for _, alike := range []bool{true, false} {
		for _, nodes := range []int{100, 1000, 5000} {
			b.Run(fmt.Sprintf("alike=%v/nodes=%d", alike, nodes), func(b *testing.B) { benchmarkSchedule(b, alike, nodes) })
		}
	}
}

func benchmarkSchedule(b *testing.B, alike bool, nodes int) {
	b.Helper()
	var s framework.Snapshot
	infos := make([]framework.NodeInfo, nodes)
	generation := int64(0)
	set := func(n *framework.NodeInfo) {
		generation++
		n.Generation = generation
		s.Set(n)
	}
	for i := range infos {
		infos[i].SetNode(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i)},
			Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
				"cpu": resource.MustParse("800"), "memory": resource.MustParse("3200Gi"), "pods": resource.MustParse("1000000"),
			}},
		})
		set(&infos[i])
	}
	profile := DefaultProfile()
	kinds := make([]*framework.PodInfo, 1000)
	for i := range kinds {
		kinds[i] = framework.NewPodInfo(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{UID: types.UID("u")},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse(fmt.Sprintf("%dm", i%100)), "memory": resource.MustParse(fmt.Sprintf("%dMi", i))},
			}}}},
		})
	}
	var w framework.Workspace
	b.ReportAllocs()
	for b.Loop() {
		w.Tie++
		pod := kinds[7]
		if !alike {
			pod = kinds[w.Tie%uint64(len(kinds))]
		}
		r, d, err := framework.Schedule(&s, pod, profile, &w)
		if err != nil || d != nil {
			b.Fatal(err, d)
		}
		n := &infos[r.Index]
		if len(n.Pods) > 1000 {
			n.Pods = nil
		}
		n.AddPod(pod)
		set(n)
	}
}
