package scheduling

import (
	"fmt"
	"hash/fnv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/proa-project/proa/scheduling/framework"
)

// A workspace that has seen many pods decides as one that has seen none,
// whatever has happened to the nodes in between.
func TestSchedule_remembers(t *testing.T) {
	profile := DefaultProfile()
	t.Run("all sign", func(t *testing.T) { testRemembers(t, profile) })
	with, err := profile.With("p", framework.Enabled{Plugin: &moody{"m1"}, Weight: 3}, framework.Enabled{Plugin: &moody{"m2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("some do not", func(t *testing.T) { testRemembers(t, with) })
}

// moody is a plugin that does not sign: what it says of a node depends on the
// pod and on all nodes.
type moody struct{ name string }

func (m *moody) Name() string { return m.name }

func (m *moody) mood(c *framework.Cycle, i int32) int64 {
	h := fnv.New32a()
	fmt.Fprint(h, m.name, c.Pod.Pod.Name, c.Snapshot.Name(i), c.Snapshot.Len(), len(c.Snapshot.Node(i).Pods))
	return int64(h.Sum32() % 101)
}

func (m *moody) Filter(c *framework.Cycle, nodes []int32, v *framework.Verdicts) error {
	for _, i := range nodes {
		if mood := m.mood(c, i); mood < 30 {
			v.Codes[i] = v.Code(framework.Rejection{Reasons: []string{fmt.Sprintf("node(s) were in mood %d of %s", mood/10, m.name)}, Unresolvable: mood%2 == 0})
		}
	}
	return nil
}

func (m *moody) Score(c *framework.Cycle, nodes []int32, scores []int64) error {
	for k, i := range nodes {
		scores[k] = m.mood(c, i)
	}
	return nil
}

func testRemembers(t *testing.T, profile *framework.Profile) {
	t.Helper()
	rapid.Check(t, func(t *rapid.T) {
		var s framework.Snapshot
		var w framework.Workspace
		generation := int64(0)
		infos := map[string]*framework.NodeInfo{}
		set := func(n *framework.NodeInfo) {
			generation++
			n.Generation = generation
			s.Set(n)
		}
		var kinds []*framework.PodInfo
		for i := range rapid.IntRange(1, 12).Draw(t, "kinds") {
			kinds = append(kinds, framework.NewPodInfo(drawPod(t, fmt.Sprint("kind-", i))))
		}
		for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
			name := fmt.Sprintf("n%d", rapid.IntRange(0, 5).Draw(t, "node"))
			switch rapid.SampledFrom([]string{"set", "update", "remove", "leave", "schedule", "schedule", "schedule"}).Draw(t, "op") {
			case "set", "update":
				n := infos[name]
				if n == nil {
					n = &framework.NodeInfo{}
					infos[name] = n
				}
				node := drawNode(t, 0)
				node.Name = name
				n.SetNode(node)
				set(n)
			case "remove":
				if infos[name] != nil {
					delete(infos, name)
					s.Remove(name)
				}
			case "leave":
				if n := infos[name]; n != nil && len(n.Pods) > 0 {
					n.RemovePod(n.Pods[0].Pod.UID)
					set(n)
				}
			case "schedule":
				pod := rapid.SampledFrom(kinds).Draw(t, "kind")
				w.Tie = rapid.Uint64().Draw(t, "tie")
				got, gotD, err := framework.Schedule(&s, pod, profile, &w)
				if err != nil {
					t.Fatal(err)
				}
				want, wantD, err := framework.Schedule(&s, pod, profile, &framework.Workspace{Tie: w.Tie})
				if err != nil {
					t.Fatal(err)
				}
				if got != want || (gotD == nil) != (wantD == nil) {
					t.Fatalf("step %d: got %+v, %v; want %+v, %v", step, got, gotD, want, wantD)
				}
				if gotD != nil {
					if gotD.Message() != wantD.Message() {
						t.Fatalf("step %d: got %s, want %s", step, gotD.Message(), wantD.Message())
					}
					if diff := cmp.Diff(wantD.Resolvable(), gotD.Resolvable()); diff != "" {
						t.Fatal(diff)
					}
					continue
				}
				booked := *pod.Pod
				booked.UID = types.UID(fmt.Sprint("booked-", step))
				n := infos[got.Node]
				n.AddPod(framework.NewPodInfo(&booked))
				set(n)
			}
		}
	})
}
