package framework

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// A snapshot that was brought up to date step by step is the same as one made
// of the final state, but for the indices; and an index stays with its node.
func TestSnapshot_twin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Snapshot
		current := map[string]*NodeInfo{}
		indices := map[string]int32{}
		for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
			name := fmt.Sprintf("n%d", rapid.IntRange(0, 5).Draw(t, "node"))
			n := current[name]
			switch op := rapid.IntRange(0, 3).Draw(t, "op"); {
			case n == nil || op == 0:
				next := &NodeInfo{}
				if n != nil {
					*next = *n
				}
				next.SetNode(drawNode(t, name))
				current[name] = next
			case op == 1:
				delete(current, name)
				delete(indices, name)
				s.Remove(name)
				continue
			case op == 2:
				n.AddPod(drawPod(t, step))
			case len(n.Pods) > 0:
				if !n.RemovePod(n.Pods[rapid.IntRange(0, len(n.Pods)-1).Draw(t, "pod")].Pod.UID) {
					t.Fatal("the pod is not there")
				}
			}
			i := s.Set(current[name])
			if old, ok := indices[name]; ok && old != i {
				t.Fatalf("node %q went from index %d to %d", name, old, i)
			}
			indices[name] = i
		}
		var twin Snapshot
		for _, n := range current {
			fresh := &NodeInfo{}
			fresh.SetNode(n.Node)
			for _, p := range n.Pods {
				fresh.AddPod(p)
			}
			twin.Set(fresh)
		}
		if diff := cmp.Diff(dump(&twin), dump(&s)); diff != "" {
			t.Fatal(diff)
		}
	})
}

// dump writes down what a snapshot says, without its indices.
func dump(s *Snapshot) []string {
	var lines []string
	for _, i := range s.Indices() {
		n := s.Node(i)
		ports := slices.Clone(n.Ports)
		slices.SortFunc(ports, func(a, b HostPort) int { return int(a.Port) - int(b.Port) })
		row := make([]int64, 0, 10)
		for _, c := range s.columns() {
			row = append(row, (*c)[i])
		}
		lines = append(lines, fmt.Sprint(s.Name(i), row, s.Flags[i], ports, n.Images, n.Requested, n.NonZero, len(n.Pods)))
	}
	slices.Sort(lines)
	return append(lines, fmt.Sprint(s.Len(), s.count, s.images))
}

func drawNode(t *rapid.T, name string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Spec.Unschedulable = rapid.Bool().Draw(t, "cordoned")
	for _, effect := range []corev1.TaintEffect{"NoSchedule", "PreferNoSchedule"} {
		if rapid.Bool().Draw(t, "taint") {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "k", Effect: effect})
		}
	}
	n.Status.Allocatable = corev1.ResourceList{
		"cpu": *resource.NewQuantity(rapid.Int64Range(0, 8).Draw(t, "cpu"), resource.DecimalSI), "pods": resource.MustParse("10"),
	}
	for _, image := range []string{"x:1", "y:1"} {
		if rapid.Bool().Draw(t, "image") {
			n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{image}, SizeBytes: 5})
		}
	}
	return n
}

func drawPod(t *rapid.T, step int) *PodInfo {
	c := container("cpu", "1", "example.com/gpu", fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "gpu")))
	if rapid.Bool().Draw(t, "port") {
		c.Ports = []corev1.ContainerPort{{HostPort: int32(rapid.IntRange(1, 3).Draw(t, "number"))}}
	}
	return NewPodInfo(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint(step))},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{c}},
	})
}

// What a snapshot has shown stays as it was while the cache goes on.
func TestSnapshot_isolation(t *testing.T) {
	n := &NodeInfo{}
	n.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	pod := func(uid string) *PodInfo {
		return NewPodInfo(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}, Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Ports: []corev1.ContainerPort{{HostPort: 1}}},
		}}})
	}
	n.AddPod(pod("a"))
	n.AddPod(pod("b"))
	var s Snapshot
	i := s.Set(n)
	n.RemovePod("a")
	n.AddPod(pod("c"))
	n.AddPod(pod("d"))
	got := s.Node(i)
	if len(got.Pods) != 2 || got.Pods[0].Pod.UID != "a" || got.Pods[1].Pod.UID != "b" || len(got.Ports) != 2 {
		t.Errorf("got pods %v, ports %v", got.Pods, got.Ports)
	}
}
