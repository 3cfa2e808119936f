package api_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/proa-project/proa/api"
)

// A row that contradicts the scheme, or another row, breaks all layers at once.
func TestTable(t *testing.T) {
	storage := map[string]string{}
	for _, r := range api.Resources() {
		t.Run(r.GVR().String(), func(t *testing.T) {
			if api.ByGVR(r.Group, r.Version, r.Plural) != r || api.ByKind(r.GVK()) != r || api.ByType(r.New()) != r {
				t.Error("the row is not found by resource, kind or type")
			}
			objects := []runtime.Object{r.New()}
			if !r.CreateOnly {
				objects = append(objects, r.NewList())
			}
			for _, obj := range objects {
				gvks, _, err := api.Scheme().ObjectKinds(obj)
				if err != nil {
					t.Fatal(err)
				}
				if got := gvks[0].GroupVersion(); got != r.GroupVersion() {
					t.Errorf("%T is of %s in the scheme", obj, got)
				}
			}
			if r.CreateOnly {
				if r.Storage != "" || r.NewList != nil || !slices.Equal(r.Verbs, []string{"create"}) {
					t.Errorf("something is stored or listed: %+v", r)
				}
				return
			}
			if !strings.HasPrefix(r.Storage, "/registry/") || !strings.HasSuffix(r.Storage, "/") {
				t.Errorf("storage prefix %q", r.Storage)
			}
			if r.StoredAs == nil {
				if other, ok := storage[r.Storage]; ok {
					t.Errorf("%s is stored at %s, too", other, r.Storage)
				}
				storage[r.Storage] = r.Plural
			} else {
				for _, f := range r.Fields {
					if !slices.Contains(r.StoredAs.Fields, r.StoredFields[f]) {
						t.Errorf("field %s is stored nowhere", f)
					}
				}
			}
			for _, s := range r.Subresources {
				if s.New != nil && s.Kind == "" {
					t.Errorf("%s has a body without a kind", s.Name)
				}
			}
		})
	}
}

// Events have two forms and one storage: nothing may get lost between them.
func TestEventForms(t *testing.T) {
	events := api.ByGVR("events.k8s.io", "v1", "events")
	in := &corev1.Event{}
	if err := api.DecodeStored(testdata(t, "event.json"), in); err != nil {
		t.Fatal(err)
	}
	v1, err := events.FromStored(in)
	if err != nil {
		t.Fatal(err)
	}
	out, err := events.ToStored(v1)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(in, out); diff != "" {
		t.Errorf("there and back (-before +after):\n%s", diff)
	}
	if _, err := events.ToStored(in); err == nil {
		t.Error("a core event passes for an events.k8s.io event")
	}
	if _, err := events.FromStored(v1); err == nil {
		t.Error("an events.k8s.io event passes for a core event")
	}
}

func testdata(tb testing.TB, name string) []byte {
	tb.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}
