package scheduling

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"
	"pgregory.net/rapid"

	"github.com/proa-project/proa/scheduling/framework"
)

// The default profile decides as a plain reading of the rules does, one node
// after the other, on random clusters.
func TestDefaultProfile_twin(t *testing.T) {
	profile := DefaultProfile()
	rapid.Check(t, func(t *rapid.T) {
		var s framework.Snapshot
		var cluster []twinNode
		for i := range rapid.IntRange(1, 6).Draw(t, "nodes") {
			n := twinNode{node: drawNode(t, i)}
			info := &framework.NodeInfo{}
			info.SetNode(n.node)
			for j := range rapid.IntRange(0, 3).Draw(t, "pods") {
				p := drawPod(t, fmt.Sprintf("%d-%d", i, j))
				n.pods = append(n.pods, p)
				info.AddPod(framework.NewPodInfo(p))
			}
			cluster = append(cluster, n)
			s.Set(info)
		}
		pod := drawPod(t, "new")
		message, best := decide(cluster, pod)
		w := framework.Workspace{Tie: rapid.Uint64().Draw(t, "tie")}
		r, d, err := framework.Schedule(&s, framework.NewPodInfo(pod), profile, &w)
		if err != nil {
			t.Fatal(err)
		}
		if d != nil {
			if d.Message() != message {
				t.Fatalf("got  %s\nwant %s", d.Message(), message)
			}
			return
		}
		if !slices.Contains(best, r.Node) {
			t.Fatalf("got node %q, want one of %q", r.Node, best)
		}
	})
}

type twinNode struct {
	node *corev1.Node
	pods []*corev1.Pod
}

// decide returns the message if no node fits, and otherwise the best nodes.
func decide(cluster []twinNode, pod *corev1.Pod) (message string, best []string) {
	reasons := map[string]int{}
	var feasible []twinNode
	for _, n := range cluster {
		why := n.vetoes(pod)
		for _, r := range why {
			reasons[r]++
		}
		if why == nil {
			feasible = append(feasible, n)
		}
	}
	if feasible == nil {
		var parts []string
		for r, n := range reasons {
			parts = append(parts, fmt.Sprintf("%d %s", n, r))
		}
		slices.Sort(parts)
		return fmt.Sprintf("0/%d nodes are available: %s.", len(cluster), strings.Join(parts, ", ")), nil
	}
	worstTaints, mostAffinity := int64(0), int64(0)
	for _, n := range feasible {
		worstTaints = max(worstTaints, n.softTaints(pod))
		mostAffinity = max(mostAffinity, n.preference(pod))
	}
	top := int64(-1)
	for _, n := range feasible {
		total := n.leastAllocated(pod) + n.balanced(pod) + n.images(cluster, pod)
		if worstTaints > 0 {
			total += 3 * (100 - 100*n.softTaints(pod)/worstTaints)
		}
		if mostAffinity > 0 {
			total += 2 * (100 * n.preference(pod) / mostAffinity)
		}
		if total > top {
			top, best = total, nil
		}
		if total == top {
			best = append(best, n.node.Name)
		}
	}
	return "", best
}

// vetoes are the reasons of the first filter that says no.
func (n twinNode) vetoes(pod *corev1.Pod) []string {
	tolerates := func(taint corev1.Taint) bool {
		return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
			return (t.Key == taint.Key || t.Key == "") && (t.Effect == "" || t.Effect == taint.Effect) &&
				(t.Operator == "Exists" || t.Value == taint.Value)
		})
	}
	if n.node.Spec.Unschedulable && !tolerates(corev1.Taint{Key: "node.kubernetes.io/unschedulable", Effect: "NoSchedule"}) {
		return []string{"node(s) were unschedulable"}
	}
	for _, taint := range n.node.Spec.Taints {
		if taint.Effect != "PreferNoSchedule" && !tolerates(taint) {
			return []string{"node(s) had untolerated taint(s)"}
		}
	}
	for k, v := range pod.Spec.NodeSelector {
		if n.node.Labels[k] != v {
			return []string{"node(s) didn't match Pod's node affinity/selector"}
		}
	}
	for _, other := range n.pods {
		for _, a := range pod.Spec.Containers[0].Ports {
			for _, b := range other.Spec.Containers[0].Ports {
				if a.HostPort == b.HostPort && (a.HostIP == b.HostIP || a.HostIP == "" || b.HostIP == "") {
					return []string{"node(s) didn't have free ports for the requested pod ports"}
				}
			}
		}
	}
	var short []string
	if int64(len(n.pods)) >= n.node.Status.Allocatable.Pods().Value() {
		short = append(short, "Too many pods")
	}
	for name, want := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
		free := n.node.Status.Allocatable[name].DeepCopy()
		for _, other := range n.pods {
			free.Sub(resourcehelper.PodRequests(other, resourcehelper.PodResourcesOptions{})[name])
		}
		if !want.IsZero() && want.Cmp(free) > 0 {
			short = append(short, "Insufficient "+string(name))
		}
	}
	return short
}

func (n twinNode) softTaints(pod *corev1.Pod) (count int64) {
	for _, taint := range n.node.Spec.Taints {
		tolerated := slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
			return (t.Key == taint.Key || t.Key == "") && (t.Effect == "" || t.Effect == taint.Effect)
		})
		if taint.Effect == "PreferNoSchedule" && !tolerated {
			count++
		}
	}
	return count
}

func (n twinNode) preference(pod *corev1.Pod) (sum int64) {
	if pod.Spec.Affinity == nil {
		return 0
	}
	for _, term := range pod.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
		r := term.Preference.MatchExpressions[0]
		if slices.Contains(r.Values, n.node.Labels[r.Key]) {
			sum += int64(term.Weight)
		}
	}
	return sum
}

// usage is what the node's pods ask for, with or without defaults.
func (n twinNode) usage(name corev1.ResourceName, pods []*corev1.Pod, defaults bool) (sum int64) {
	o := resourcehelper.PodResourcesOptions{}
	if defaults {
		o.NonMissingContainerRequests = corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("200Mi")}
	}
	for _, p := range pods {
		q := resourcehelper.PodRequests(p, o)[name]
		sum += amount(name, q)
	}
	return sum
}

func amount(name corev1.ResourceName, q resource.Quantity) int64 {
	if name == "cpu" {
		return q.MilliValue()
	}
	return q.Value()
}

func (n twinNode) leastAllocated(pod *corev1.Pod) int64 {
	var sum int64
	with := append(slices.Clone(n.pods), pod)
	for _, name := range []corev1.ResourceName{"cpu", "memory"} {
		alloc, used := amount(name, n.node.Status.Allocatable[name]), n.usage(name, with, true)
		if used <= alloc {
			sum += (alloc - used) * 100 / alloc
		}
	}
	return sum / 2
}

func (n twinNode) balanced(pod *corev1.Pod) int64 {
	asks := n.usage("cpu", []*corev1.Pod{pod}, false) + n.usage("memory", []*corev1.Pod{pod}, false)
	if asks == 0 {
		return 0
	}
	score := func(pods []*corev1.Pod) int64 {
		var part [2]float64
		for i, name := range []corev1.ResourceName{"cpu", "memory"} {
			part[i] = min(1, float64(n.usage(name, pods, false))/float64(amount(name, n.node.Status.Allocatable[name])))
		}
		return int64((1 - math.Abs(part[0]-part[1])/2) * 100)
	}
	return 50 + (50+score(append(slices.Clone(n.pods), pod))-score(n.pods))/2
}

func (n twinNode) images(cluster []twinNode, pod *corev1.Pod) int64 {
	has := func(n twinNode) int64 {
		for _, image := range n.node.Status.Images {
			if image.Names[0] == pod.Spec.Containers[0].Image {
				return image.SizeBytes
			}
		}
		return 0
	}
	count := 0
	for _, other := range cluster {
		if has(other) > 0 {
			count++
		}
	}
	const low, high = 23 << 20, 1000 << 20
	size := int64(float64(has(n)) * float64(count) / float64(len(cluster)))
	return 100 * (min(max(size, low), high) - low) / (high - low)
}

func drawNode(t *rapid.T, i int) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:   fmt.Sprintf("n%d", i),
		Labels: map[string]string{"zone": rapid.SampledFrom([]string{"a", "b"}).Draw(t, "zone")},
	}}
	n.Spec.Unschedulable = rapid.IntRange(0, 4).Draw(t, "cordoned") == 0
	for _, effect := range []corev1.TaintEffect{"NoSchedule", "NoExecute", "PreferNoSchedule"} {
		if rapid.IntRange(0, 3).Draw(t, "tainted") == 0 {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "key"), Effect: effect})
		}
	}
	n.Status.Allocatable = corev1.ResourceList{
		"cpu":    *resource.NewMilliQuantity(rapid.Int64Range(1, 4).Draw(t, "cpu")*500, resource.DecimalSI),
		"memory": *resource.NewQuantity(rapid.Int64Range(1, 4).Draw(t, "memory")<<29, resource.BinarySI),
		"pods":   *resource.NewQuantity(rapid.Int64Range(1, 4).Draw(t, "limit"), resource.DecimalSI),
	}
	if rapid.Bool().Draw(t, "gpu") {
		n.Status.Allocatable["example.com/gpu"] = *resource.NewQuantity(rapid.Int64Range(0, 3).Draw(t, "gpus"), resource.DecimalSI)
	}
	if rapid.Bool().Draw(t, "image") {
		n.Status.Images = []corev1.ContainerImage{{Names: []string{"img:1"}, SizeBytes: rapid.Int64Range(10, 2000).Draw(t, "size") << 20}}
	}
	return n
}

func drawPod(t *rapid.T, name string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name, UID: types.UID(name)}}
	c := corev1.Container{Image: "img:1", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}}}
	if rapid.Bool().Draw(t, "cpu") {
		c.Resources.Requests["cpu"] = *resource.NewMilliQuantity(rapid.Int64Range(0, 8).Draw(t, "millis")*125, resource.DecimalSI)
	}
	if rapid.Bool().Draw(t, "memory") {
		c.Resources.Requests["memory"] = *resource.NewQuantity(rapid.Int64Range(0, 8).Draw(t, "bytes")<<27, resource.BinarySI)
	}
	if rapid.IntRange(0, 3).Draw(t, "gpu") == 0 {
		c.Resources.Requests["example.com/gpu"] = *resource.NewQuantity(rapid.Int64Range(0, 2).Draw(t, "gpus"), resource.DecimalSI)
	}
	if rapid.IntRange(0, 2).Draw(t, "port") == 0 {
		c.Ports = []corev1.ContainerPort{{
			HostPort: int32(rapid.IntRange(1, 2).Draw(t, "number")), HostIP: rapid.SampledFrom([]string{"", "10.0.0.1", "10.0.0.2"}).Draw(t, "ip"),
		}}
	}
	p.Spec.Containers = []corev1.Container{c}
	if rapid.IntRange(0, 3).Draw(t, "selector") == 0 {
		p.Spec.NodeSelector = map[string]string{"zone": "a"}
	}
	if rapid.IntRange(0, 2).Draw(t, "prefers") == 0 {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
				Weight: int32(rapid.IntRange(1, 100).Draw(t, "weight")),
				Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: "zone", Operator: "In", Values: []string{"b"}},
				}},
			}},
		}}
	}
	if rapid.IntRange(0, 2).Draw(t, "tolerates") == 0 {
		p.Spec.Tolerations = []corev1.Toleration{{
			Key: rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "toleration"), Operator: "Exists",
			Effect: rapid.SampledFrom([]corev1.TaintEffect{"", "NoSchedule", "NoExecute", "PreferNoSchedule"}).Draw(t, "effect"),
		}}
	}
	return p
}
