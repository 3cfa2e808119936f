package schedule

import (
	"testing"

	"github.com/proa-project/proa/scheduling/framework"
)

func TestNative(t *testing.T) {
	f := newFixture(t)
	r := f.plugin("by-zone", byZone(`{"reasons":[{"reason":"node(s) were in the first zone"}]}`))
	var c cluster
	c.set("a", inZone("z1"))
	c.set("b", inZone("z2"))
	c.set("c", inZone("z2"))
	c.set("d", inZone("z1"))
	pod := newPod("p")
	c.book("c", newPod("other"))
	got, said := f.schedule(&c, pod)
	if said != "scheduled" || got.Node != "b" && got.Node != "c" || got.Feasible != 2 {
		t.Fatalf("got %+v, %s", got, said)
	}
	e, err := framework.Explain(&c.Snapshot, pod, f.profile())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range e.Nodes {
		switch n.Node {
		case "a", "d":
			if len(n.Vetoes) != 1 || n.Vetoes[0].Plugin != "by-zone" || n.Vetoes[0].Reasons[0] != "node(s) were in the first zone" {
				t.Errorf("%+v", n)
			}
		case "c":
			if n.Total != 100 {
				t.Errorf("%+v", n)
			}
		case "b":
			if n.Total != 0 || len(n.Scores) != 1 {
				t.Errorf("%+v", n)
			}
		}
	}
	if got.Node != "c" {
		t.Errorf("chose %s", got.Node)
	}
	// The table follows the nodes.
	c.set("b", inZone("z1"))
	c.remove("c")
	if _, said := f.schedule(&c, pod); said != "0/3 nodes are available: 3 node(s) were in the first zone." {
		t.Error(said)
	}
	c.set("e")
	if got, said := f.schedule(&c, pod); got.Node != "e" {
		t.Errorf("got %+v, %s", got, said)
	}
	if r.fails.Load() != 0 || r.last.Load().Fuel == 0 {
		t.Errorf("%d failures, last usage %+v", r.fails.Load(), r.last.Load())
	}
}
