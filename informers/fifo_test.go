package informers_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/proa-project/proa/informers"
)

func named(name, rv string) object {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, ResourceVersion: rv}}
}

// pop takes everything that waits.
func pop(f *informers.DeltaFIFO[object]) map[string][]informers.Delta[object] {
	out := map[string][]informers.Delta[object]{}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	f.Apply(watch.Added, named("end", ""))
	for f.Pop(ctx, func(k informers.Key, ds []informers.Delta[object], _ bool) {
		if k.Name == "end" {
			cancel()
			return
		}
		out[k.Name] = ds
	}) {
	}
	return out
}

func TestDeltaFIFO(t *testing.T) {
	x := informers.NewIndexer[object]()
	f := informers.NewDeltaFIFO[object](x)
	f.Apply(watch.Added, named("a", "1"))
	f.Apply(watch.Modified, named("a", "2"))
	f.Apply(watch.Deleted, named("a", "3"))
	f.Apply(watch.Deleted, named("a", "4"))
	f.Apply(watch.Added, named("b", "5"))
	if f.HasSynced() {
		t.Error("synced before the first Replace")
	}
	got := pop(f)
	if types := typesOf(got["a"]); types != "Added Updated Deleted" {
		t.Errorf("a: %s", types)
	}
	if types := typesOf(got["b"]); types != "Added" {
		t.Errorf("b: %s", types)
	}

	// A list that does not show what is known, or what waits, is a tombstone.
	x.Put(named("known", "1"))
	x.Put(named("stays", "1"))
	f.Apply(watch.Added, named("waits", "2"))
	f.Apply(watch.Deleted, named("known", "3"))
	f.Replace([]object{named("stays", "4")})
	got = pop(f)
	if types := typesOf(got["waits"]); types != "Added Deleted(tombstone)" {
		t.Errorf("waits: %s", types)
	}
	if types := typesOf(got["known"]); types != "Deleted" {
		t.Errorf("known: %s", types)
	}
	if types := typesOf(got["stays"]); types != "Replaced" {
		t.Errorf("stays: %s", types)
	}
	if !f.HasSynced() {
		t.Error("not synced after everything was popped")
	}
	f.Replace(nil)
	f.Apply(watch.Deleted, named("stays", "9"))
	if ds := pop(f)["stays"]; typesOf(ds) != "Deleted" || ds[0].Object.ResourceVersion != "9" {
		t.Errorf("the real deletion does not replace the tombstone: %s", typesOf(ds))
	}
	f.Resync()
	if types := typesOf(pop(f)["stays"]); types != "Sync" {
		t.Errorf("resync: %s", types)
	}
}

func typesOf(ds []informers.Delta[object]) string {
	s := ""
	for i, d := range ds {
		if i > 0 {
			s += " "
		}
		s += map[informers.DeltaType]string{
			informers.Added: "Added", informers.Updated: "Updated", informers.Deleted: "Deleted",
			informers.Replaced: "Replaced", informers.Sync: "Sync",
		}[d.Type]
		if d.Tombstone {
			s += "(tombstone)"
		}
	}
	return s
}
