package garbagecollector

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/proa-project/proa/api"
)

func TestJudge(t *testing.T) {
	two := []owner{{uid: "1"}, {uid: "2"}}
	const (
		orphan     = metav1.FinalizerOrphanDependents
		foreground = metav1.FinalizerDeleteDependents
	)
	for _, tc := range []struct {
		name       string
		owners     []owner
		states     []ownerState
		finalizers []string
		dependents bool
		inFront    bool
		want       verdict
	}{
		{name: "nobody owns it"},
		{name: "both are there", owners: two, states: []ownerState{solid, solid}},
		{name: "one is gone", owners: two, states: []ownerState{solid, dangling}, want: verdict{release: []types.UID{"2"}}},
		{name: "one waits for it", owners: two, states: []ownerState{waiting, solid}, want: verdict{release: []types.UID{"1"}}},
		{name: "one cannot be told", owners: two, states: []ownerState{dangling, unknown}, want: verdict{release: []types.UID{"1"}}},
		{name: "both are gone", owners: two, states: []ownerState{dangling, dangling}, want: verdict{remove: metav1.DeletePropagationBackground}},
		{name: "both are gone, foreground", owners: two, states: []ownerState{dangling, dangling}, finalizers: []string{foreground}, want: verdict{remove: metav1.DeletePropagationForeground}},
		{name: "both are gone, orphan", owners: two, states: []ownerState{dangling, dangling}, finalizers: []string{"x", orphan}, want: verdict{remove: metav1.DeletePropagationOrphan}},
		{name: "one waits, one is gone", owners: two, states: []ownerState{dangling, waiting}, want: verdict{remove: metav1.DeletePropagationBackground}},
		{name: "the foreground goes on", owners: two, states: []ownerState{dangling, waiting}, dependents: true, want: verdict{remove: metav1.DeletePropagationForeground}},
		{name: "a circle", owners: two, states: []ownerState{dangling, waiting}, dependents: true, inFront: true, want: verdict{unblock: true, remove: metav1.DeletePropagationForeground}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := judge(tc.owners, tc.states, tc.finalizers, tc.dependents, tc.inFront)
			if got.remove != tc.want.remove || got.unblock != tc.want.unblock || !slices.Equal(got.release, tc.want.release) {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

// TestGraph_property feeds a graph with objects of several namespaces in any
// order, as watches of different kinds do, and checks that whoever loses its
// owner is looked at.
func TestGraph_property(t *testing.T) {
	row := api.ByType(&corev1.ConfigMap{})
	rapid.Check(t, func(t *rapid.T) {
		g := newGraph()
		live := map[types.UID]*corev1.ConfigMap{}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			n := rapid.IntRange(0, 9).Draw(t, "object")
			uid := types.UID(fmt.Sprint(n))
			if live[uid] != nil && rapid.Bool().Draw(t, "delete") {
				var dependents []types.UID
				for _, o := range live {
					if slices.ContainsFunc(o.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == uid }) {
						dependents = append(dependents, o.UID)
					}
				}
				delete(live, uid)
				got := g.gone(uid)
				for _, d := range dependents {
					if d != uid && !slices.Contains(got.remove, d) {
						t.Fatalf("%s has lost its owner %s and is not looked at", d, uid)
					}
				}
			} else {
				obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint(n % 2), Name: fmt.Sprint("o", n), UID: uid}}
				for _, o := range rapid.SliceOfNDistinct(rapid.IntRange(0, 9), 0, 3, rapid.ID[int]).Draw(t, "owners") {
					if o != n {
						obj.OwnerReferences = append(obj.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: fmt.Sprint("o", o), UID: types.UID(fmt.Sprint(o))})
					}
				}
				live[uid] = obj
				g.observe(row, obj)
				for _, r := range obj.OwnerReferences {
					p := g.nodes[r.UID]
					_, linked := p.dependents[g.nodes[uid]]
					if !linked {
						t.Fatalf("%s is no dependent of %s", uid, r.UID)
					}
				}
			}
			check(t, g, live)
		}
	})
}

// check compares the graph with the objects that there are.
func check(t *rapid.T, g *graph, live map[types.UID]*corev1.ConfigMap) {
	for uid, obj := range live {
		n := g.nodes[uid]
		if n == nil || n.virtual || len(n.owners) != len(obj.OwnerReferences) || n.namespace != obj.Namespace {
			t.Fatalf("node %s is %+v for %+v", uid, n, obj)
		}
	}
	for uid, n := range g.nodes {
		if live[uid] == nil && (!n.virtual || len(n.dependents) == 0) {
			t.Fatalf("node %s stays for nothing: %+v", uid, n)
		}
		for d := range n.dependents {
			if live[d.uid] == nil || !slices.ContainsFunc(d.owners, func(o owner) bool { return o.uid == uid }) {
				t.Fatalf("%s is a dependent of %s without reason", d.uid, uid)
			}
		}
	}
}
