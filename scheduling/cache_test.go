package scheduling

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/proa-project/proa/scheduling/framework"
)

func cachePod(uid, node string, millis int64) *framework.PodInfo {
	return framework.NewPodInfo(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid)},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": *resource.NewMilliQuantity(millis, resource.DecimalSI)},
		}}}},
	})
}

func cacheNode(name, cpu string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{"cpu": resource.MustParse(cpu), "pods": resource.MustParse("10")}},
	}
}

// Whatever happens in whatever order, a snapshot that is refreshed now and then
// shows what a list of all pods and nodes adds up to.
func TestCache_twin(t *testing.T) {
	type where struct {
		node    string
		millis  int64
		assumed bool
	}
	rapid.Check(t, func(t *rapid.T) {
		c := newCache()
		var s framework.Snapshot
		nodes, pods := map[string]string{}, map[string]where{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			node := rapid.SampledFrom([]string{"n1", "n2", "n3"}).Draw(t, "node")
			uid := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "pod")
			millis := rapid.Int64Range(0, 5).Draw(t, "millis")
			old, known := pods[uid]
			switch rapid.SampledFrom([]string{"node", "nodeGone", "pod", "podGone", "assume", "forget", "finish", "refresh"}).Draw(t, "op") {
			case "node":
				nodes[node] = fmt.Sprint(rapid.IntRange(1, 4).Draw(t, "cpu"))
				c.setNode(cacheNode(node, nodes[node]))
			case "nodeGone":
				delete(nodes, node)
				c.removeNode(node)
			case "pod":
				pods[uid] = where{node: node, millis: millis}
				if got := c.setPod(cachePod(uid, node, millis)); (got != nil) != known {
					t.Fatalf("setPod returned %v, known %v", got, known)
				}
			case "podGone":
				delete(pods, uid)
				if got := c.removePod(types.UID(uid)); (got != nil) != known {
					t.Fatalf("removePod returned %v, known %v", got, known)
				}
			case "assume":
				err := c.assume(cachePod(uid, "", millis), node)
				if errors.Is(err, errPlaced) != known {
					t.Fatalf("assume returned %v, known %v", err, known)
				}
				if !known {
					pods[uid] = where{node, millis, true}
				}
			case "forget":
				if got := c.forget(types.UID(uid)); got != (known && old.assumed) {
					t.Fatalf("forget returned %v for %+v", got, old)
				}
				if old.assumed {
					delete(pods, uid)
				}
			case "finish":
				c.finish(types.UID(uid), time.Now())
			case "refresh":
				c.refresh(&s)
			}
		}
		c.refresh(&s)
		var want []string
		assumed := 0
		for name, cpu := range nodes {
			var count, millis int64
			for _, p := range pods {
				if p.node == name {
					count++
					millis += p.millis
				}
			}
			want = append(want, fmt.Sprint(name, cpu, "000m: ", count, " pods ", millis))
		}
		for _, p := range pods {
			if p.assumed {
				assumed++
			}
		}
		slices.Sort(want)
		for name, snapshot := range map[string]*framework.Snapshot{"refreshed": &s, "copied": copied(c)} {
			var got []string
			for _, i := range snapshot.Indices() {
				got = append(got, fmt.Sprint(snapshot.Name(i), snapshot.AllocCPU[i], "m: ", snapshot.UsedPods[i], " pods ", snapshot.UsedCPU[i]))
			}
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s: %s", name, diff)
			}
		}
		if _, n, a := c.sizes(); n != len(pods) || a != assumed {
			t.Fatalf("got %d pods, %d assumed; want %d, %d", n, a, len(pods), assumed)
		}
	})
}

func copied(c *cache) *framework.Snapshot {
	var s framework.Snapshot
	c.copyTo(&s, "")
	return &s
}

func TestCache_overdue(t *testing.T) {
	c := newCache()
	start := time.Now()
	for _, uid := range []string{"binding", "bound", "confirmed"} {
		if err := c.assume(cachePod(uid, "", 1), "n"); err != nil {
			t.Fatal(err)
		}
	}
	c.finish("bound", start)
	c.finish("confirmed", start)
	c.setPod(cachePod("confirmed", "n", 1))
	if got := c.overdue(start); len(got) != 0 {
		t.Errorf("too early: got %d", len(got))
	}
	got := c.overdue(start.Add(time.Second))
	if len(got) != 1 || got[0].Pod.UID != "bound" {
		t.Errorf("got %v, want the pod whose binding is done and not shown", got)
	}
}
