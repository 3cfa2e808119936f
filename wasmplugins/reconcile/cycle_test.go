package reconcile

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/informers"
)

// TestPace slows down an object that wakes itself up, and no other.
func TestPace(t *testing.T) {
	c := &cycle{
		paces:   map[informers.Key]pace{},
		l:       &loop{p: &Point{}},
		primary: &kind{copy: informers.New(informers.Options[object]{Source: &source{}})},
	}
	busy, other := informers.Key{Name: "busy"}, informers.Key{Name: "other"}
	now := time.Unix(1000, 0)
	calls := func(k informers.Key, span time.Duration) (n int) {
		for end := now.Add(span); now.Before(end); now = now.Add(10 * time.Millisecond) {
			if c.pace(k, now) == 0 {
				n++
			}
		}
		return n
	}
	if n := calls(busy, 500*time.Millisecond); n != 50 {
		t.Errorf("%d calls in the first half second", n)
	}
	if n := calls(busy, 9*time.Second); n < 8 || n > 10 {
		t.Errorf("%d calls in the nine seconds after", n)
	}
	if n := calls(other, 100*time.Millisecond); n != 10 {
		t.Errorf("%d calls of another object", n)
	}
	now = now.Add(paceWindow)
	if n := calls(busy, 100*time.Millisecond); n != 10 {
		t.Errorf("%d calls after a rest", n)
	}
}

func TestFinalizerOf(t *testing.T) {
	if got := finalizerOf("website"); got != "reconcilers.plugins.proa.io/website" {
		t.Error(got)
	}
	long := strings.Repeat("x", 200)
	a, b := finalizerOf(long+"a"), finalizerOf(long+"b")
	_, name, _ := strings.Cut(a, "/")
	if len(name) != 63 || a == b {
		t.Errorf("%q, %q", a, b)
	}
}

// TestSpoiledNote shows that an annotation that somebody has spoiled takes
// nothing away.
func TestSpoiledNote(t *testing.T) {
	w := &wanted{object: map[string]any{"metadata": map[string]any{"name": "x"}, "data": map[string]any{"a": "1"}}}
	current := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "x", "annotations": map[string]any{namedAnnotation: `{"data":`}},
		"data":     map[string]any{"a": "1", "b": "2"},
	}}
	next, err := w.next(current)
	if err != nil || next == nil || next.Object["data"].(map[string]any)["b"] != "2" {
		t.Fatalf("%v, %v", next, err)
	}
	if again, err := w.next(next); again != nil || err != nil {
		t.Errorf("it is not settled: %v, %v", again, err)
	}
}

// FuzzAnswer checks what holds for every reply that is accepted.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"objects":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"a":"b"}},"data":{"a":null}}],"status":{"a":1}}`))
	f.Add([]byte(`{"objects":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"shop"}},{"apiVersion":"v1","kind":"ConfigMap","metadata":7}]}`))
	f.Add([]byte(`{"objects":[null,[],{}]}`))
	row := func(plural, kind string) *api.Resource {
		return &api.Resource{Version: "v1", Kind: kind, Plural: plural, Namespaced: true}
	}
	c := &cycle{
		primary: &kind{row: row("sites", "Site"), selector: labels.Everything()},
		owned:   []*kind{{row: row("configmaps", "ConfigMap"), selector: labels.Everything()}},
	}
	owner := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Site", "metadata": map[string]any{"name": "s", "namespace": "shop", "uid": "u"},
	}}
	f.Fuzz(func(t *testing.T, reply []byte) {
		a, err := c.parse(reply, owner)
		if err != nil {
			return
		}
		for i := range a.objects {
			w := &a.objects[i]
			made, err := w.fresh(owner)
			if err != nil {
				t.Fatal(err)
			}
			if made.GetNamespace() != "shop" || made.GetName() == "" || made.GetKind() != "ConfigMap" || !metav1.IsControlledBy(made, owner) || len(made.GetFinalizers()) > 0 {
				t.Errorf("%v", made)
			}
			if next, err := w.next(made); next != nil || err != nil {
				t.Errorf("%v is not settled: %v, %v", made, next, err)
			}
		}
	})
}
