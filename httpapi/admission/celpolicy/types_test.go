package celpolicy_test

import (
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/proa-project/proa/httpapi/admission/celpolicy"
)

// Schemas of the table are read once; what is not served has none; what cannot
// be read is an error.
func TestTypes(t *testing.T) {
	asked := map[string]int{}
	types := celpolicy.NewTypes(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked[r.URL.Path]++
		switch r.URL.Path {
		case "/openapi/v3/api/v1", "/openapi/v3/apis/example.test/v1":
			_, _ = w.Write([]byte(`{"openapi":"3.0.0","components":{"schemas":{"a":{"type":"object","x-kubernetes-group-version-kind":[{"group":"","version":"v1","kind":"Pod"}]}}}}`)) // it is kept in memory
		case "/openapi/v3/apis/odd.test/v1":
			_, _ = w.Write([]byte(`odd`)) // it is kept in memory
		default:
			http.NotFound(w, r)
		}
	}))
	pod := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	for range 3 {
		if c, err := types.Converter(pod); c == nil || err != nil {
			t.Fatal(c, err)
		}
	}
	if n := asked["/openapi/v3/api/v1"]; n != 1 {
		t.Errorf("read %d times", n)
	}
	if c, err := types.Converter(schema.GroupVersionKind{Group: "example.test", Version: "v1", Kind: "A"}); c == nil || err != nil {
		t.Error(c, err)
	}
	if c, err := types.Converter(schema.GroupVersionKind{Group: "gone.test", Version: "v1", Kind: "A"}); c != nil || err != nil {
		t.Error(c, err)
	}
	if _, err := types.Converter(schema.GroupVersionKind{Group: "odd.test", Version: "v1", Kind: "A"}); err == nil || !strings.Contains(err.Error(), "read the schema of odd.test/v1") {
		t.Error(err)
	}
}
