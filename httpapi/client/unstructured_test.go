package client_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/client"
)

// TestUnstructured reads and writes a kind that is in no table, as another user.
func TestUnstructured(t *testing.T) {
	var asked []string
	c := client.Unstructured(rest(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, fmt.Sprintf("%s %s as %q", r.Method, r.URL.Path, r.Header.Get("Impersonate-User")))
		switch {
		case r.URL.Query().Has("watch"):
			fmt.Fprintln(w, `{"type":"ADDED","object":{"apiVersion":"example.test/v1","kind":"Site","metadata":{"name":"a","resourceVersion":"8"},"spec":{"size":3}}}`)
		case r.Method == http.MethodGet && r.URL.Path == "/apis/example.test/v1/sites":
			fmt.Fprint(w, `{"metadata":{"resourceVersion":"7","continue":"x"},"items":[{"metadata":{"name":"a"},"spec":{"size":3,"part":0.5}}]}`)
		default:
			fmt.Fprint(w, `{"metadata":{"name":"a"}}`)
		}
	}).Impersonate("bob"), &api.Resource{Group: "example.test", Version: "v1", Kind: "Site", Plural: "sites", Namespaced: true})
	list, err := c.List(t.Context(), "", metav1.ListOptions{})
	if err != nil || list.ResourceVersion != "7" || list.Continue != "x" || len(list.Items) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	want := map[string]any{
		"apiVersion": "example.test/v1", "kind": "Site", "metadata": map[string]any{"name": "a"},
		"spec": map[string]any{"size": int64(3), "part": 0.5},
	}
	if diff := cmp.Diff(want, list.Items[0].Object); diff != "" {
		t.Error(diff)
	}
	w, err := c.Watch(t.Context(), "", metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if ev, err := w.Next(t.Context()); err != nil || ev.ResourceVersion != "8" || ev.Object.GetKind() != "Site" {
		t.Errorf("%+v, %v", ev, err)
	}
	site := list.Items[0]
	site.SetNamespace("shop")
	if _, err := c.Create(t.Context(), site); err != nil {
		t.Error(err)
	}
	if _, err := c.Patch(t.Context(), "shop", "a", types.MergePatchType, []byte(`{}`), "status"); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{
		`GET /apis/example.test/v1/sites as "bob"`, `GET /apis/example.test/v1/sites as "bob"`,
		`POST /apis/example.test/v1/namespaces/shop/sites as "bob"`, `PATCH /apis/example.test/v1/namespaces/shop/sites/a/status as "bob"`,
	}, asked); diff != "" {
		t.Error(diff)
	}
}
