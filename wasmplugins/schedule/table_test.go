package schedule

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/proa-project/proa/scheduling/framework"
	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
)

// seen is a node as a guest reads it.
type seen struct {
	Name, ZoneName   string
	Zone             uint32
	Flags            abi.NodeFlag
	Alloc, Requested [4]int64
	NonZero          [2]int64
	Labels           map[string]string
	Taints           []corev1.Taint
	Scalars          map[string][2]int64
}

// reader reads a table with nothing but the words of package abi's comment.
type reader []byte

func (r reader) u32(at uint32) uint32 { return binary.LittleEndian.Uint32(r[at:]) }
func (r reader) i64(at uint32) int64  { return int64(binary.LittleEndian.Uint64(r[at:])) }
func (r reader) text(at uint32) string {
	return string(r[r.u32(at):][:r.u32(at+4)])
}

func (r reader) node(i int) *seen {
	at := uint32(i * 128)
	if r.u32(at+12)&1 == 0 {
		if slices.ContainsFunc(r[at:at+128], func(b byte) bool { return b != 0 }) {
			return &seen{Name: "a record without a node is not zero"}
		}
		return nil
	}
	s := &seen{
		Name: r.text(at), Zone: r.u32(at + 8), Flags: abi.NodeFlag(r.u32(at + 12)), ZoneName: r.text(at + 120),
		NonZero: [2]int64{r.i64(at + 96), r.i64(at + 104)}, Labels: map[string]string{}, Scalars: map[string][2]int64{},
	}
	for k := range uint32(4) {
		s.Alloc[k], s.Requested[k] = r.i64(at+16+8*k), r.i64(at+48+8*k)
	}
	var keys []string
	for k := range r.u32(at + 92) {
		l := r.u32(at+88) + 16*k
		s.Labels[r.text(l)] = r.text(l + 8)
		keys = append(keys, r.text(l))
	}
	if !slices.IsSorted(keys) {
		s.Labels["keys are not sorted"] = ""
	}
	for k := range r.u32(at + 84) {
		t := r.u32(at+80) + 24*k
		effect := [...]corev1.TaintEffect{"", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}[r.u32(t+16)]
		s.Taints = append(s.Taints, corev1.Taint{Key: r.text(t), Value: r.text(t + 8), Effect: effect})
	}
	for k := range r.u32(at + 116) {
		c := r.u32(at+112) + 24*k
		s.Scalars[r.text(c)] = [2]int64{r.i64(c + 8), r.i64(c + 16)}
	}
	return s
}

// expected is what the guest should read, but for the zone's number.
func expected(n *framework.NodeInfo) *seen {
	s := &seen{
		Name: n.Node.Name, ZoneName: n.Node.Labels[corev1.LabelTopologyZone], Flags: abi.FlagPresent,
		Alloc:     [4]int64{n.Allocatable.MilliCPU, n.Allocatable.Memory, n.Allocatable.EphemeralStorage, n.Allocatable.Pods},
		Requested: [4]int64{n.Requested.MilliCPU, n.Requested.Memory, n.Requested.EphemeralStorage, int64(len(n.Pods))},
		NonZero:   [2]int64{n.NonZero.MilliCPU, n.NonZero.Memory},
		Labels:    n.Node.Labels, Taints: n.Node.Spec.Taints, Scalars: map[string][2]int64{},
	}
	for name, amount := range n.Allocatable.Scalar {
		s.Scalars[string(name)] = [2]int64{amount, n.Requested.Scalar[name]}
	}
	flag := func(f abi.NodeFlag, is bool) {
		if is {
			s.Flags |= f
		}
	}
	flag(abi.FlagReady, slices.ContainsFunc(n.Node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Status == corev1.ConditionTrue }))
	flag(abi.FlagUnschedulable, n.Node.Spec.Unschedulable)
	flag(abi.FlagHardTaint, slices.ContainsFunc(n.Node.Spec.Taints, func(t corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }))
	flag(abi.FlagSoftTaint, slices.ContainsFunc(n.Node.Spec.Taints, func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectPreferNoSchedule }))
	flag(abi.FlagHostPorts, len(n.Ports) > 0)
	return s
}

// TestTable_twin changes nodes at random, and reads the whole table after each
// change.
func TestTable_twin(t *testing.T) {
	e, err := engine.New(engine.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	n := &nodes{engine: e}
	defer n.close()
	r := rand.New(rand.NewPCG(1, 2))
	var c, other cluster
	other.set("of another snapshot", label("x", "y"))
	name := func() string { return fmt.Sprintf("node-%d", r.IntN(90)) }
	random := func(node *corev1.Node) {
		for range r.IntN(30) {
			node.Labels[fmt.Sprintf("example.test/key-%d", r.IntN(30))] = fmt.Sprint("value", r.IntN(1000))
		}
		if z := r.IntN(5); z > 0 {
			node.Labels[corev1.LabelTopologyZone] = fmt.Sprint("z", z)
		}
		for range r.IntN(3) {
			effects := []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: fmt.Sprint("t", r.IntN(5)), Value: fmt.Sprint(r.IntN(2)), Effect: effects[r.IntN(3)]})
		}
		for range r.IntN(3) {
			node.Status.Allocatable[corev1.ResourceName(fmt.Sprintf("example.test/gpu-%d", r.IntN(4)))] = resource.MustParse("8")
		}
		node.Spec.Unschedulable = r.IntN(4) == 0
		if r.IntN(3) == 0 {
			node.Status.Conditions = nil
		}
	}
	for step := range 500 {
		switch k := r.IntN(10); {
		case k < 3 || len(c.infos) == 0:
			c.set(name(), random)
		case k < 8:
			names := slices.Sorted(maps.Keys(c.infos))
			c.book(names[r.IntN(len(names))], newPod(fmt.Sprint("p", step), func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Requests["example.test/gpu-1"] = resource.MustParse("1")
				p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: int32(r.IntN(2) * (step + 1))}}
			}))
		case k < 9:
			c.remove(name())
		default:
			if err := n.sync(&other.Snapshot); err != nil {
				t.Fatal(err)
			}
		}
		if err := n.sync(&c.Snapshot); err != nil {
			t.Fatal(err)
		}
		read := reader(n.window.Bytes())
		zones := map[string]uint32{}
		for i := range n.table.records {
			got := read.node(i)
			var want *seen
			if i < c.Size() && c.Node(int32(i)).Node != nil {
				want = expected(c.Node(int32(i)))
				if zone, ok := zones[want.ZoneName]; want.ZoneName != "" && ok && got != nil && zone != got.Zone {
					t.Fatalf("step %d: zone %s has two numbers", step, want.ZoneName)
				}
				if got != nil {
					zones[want.ZoneName], want.Zone = got.Zone, got.Zone
				}
			}
			if !reflect.DeepEqual(want, got) && cmp.Diff(want, got) != "" {
				t.Fatalf("step %d, record %d: %s", step, i, cmp.Diff(want, got))
			}
		}
	}
}

// TestTable_onlyChangesAreWritten looks at what a sync touches.
func TestTable_onlyChangesAreWritten(t *testing.T) {
	c := bigCluster(200)
	b := make([]byte, 256*abi.NodeStride+256<<10)
	table := newTable(b, 256)
	if err := table.sync(&c.Snapshot); err != nil {
		t.Fatal(err)
	}
	gen, used := table.gen, table.used
	before := slices.Clone(b)
	if err := table.sync(&c.Snapshot); err != nil || table.gen != gen {
		t.Errorf("nothing has changed, but the generation: %v", err)
	}
	c.book("node-0007", newPod("p"))
	if err := table.sync(&c.Snapshot); err != nil || table.gen == gen || table.used != used {
		t.Errorf("a pod takes up %d bytes of the heap: %v", table.used-used, err)
	}
	i, _ := c.Index("node-0007")
	for at := range b {
		if b[at] != before[at] && at/abi.NodeStride != int(i) {
			t.Fatalf("byte %d was changed, which is not of record %d", at, i)
		}
	}
	if err := newTable(b, 100).sync(&c.Snapshot); err == nil {
		t.Error("200 nodes fit into 100 records")
	}
	if err := newTable(b[:100*abi.NodeStride+100], 100).sync(&bigCluster(99).Snapshot); err == nil {
		t.Error("99 nodes fit into 100 bytes")
	}
}
