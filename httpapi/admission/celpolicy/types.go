package celpolicy

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/spec3"

	"github.com/proa-project/proa/api"
)

// Types reads the schemas of kinds from a server's OpenAPI v3 documents, for
// Config.Types. It is safe for concurrent use.
type Types struct {
	documents http.Handler

	mu    sync.Mutex // guards the field below
	known map[schema.GroupVersion]*document
}

// A document is one version of a group. Those of the table never change; others
// are read again when they are old.
type document struct {
	types managedfields.TypeConverter
	read  time.Time
}

// staleAfter is how long a document counts that may change.
const staleAfter = 5 * time.Second

// NewTypes returns Types for what a handler serves below /openapi/v3.
func NewTypes(documents http.Handler) *Types {
	return &Types{documents: documents, known: map[schema.GroupVersion]*document{}}
}

// Converter returns what merges objects of a kind; nil for an unknown one.
func (t *Types) Converter(gvk schema.GroupVersionKind) (managedfields.TypeConverter, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	gv := gvk.GroupVersion()
	d := t.known[gv]
	if d != nil && (api.ByKind(gvk) != nil || time.Since(d.read) < staleAfter) {
		return d.types, nil
	}
	path := "/openapi/v3/apis/" + gv.String()
	if gv.Group == "" {
		path = "/openapi/v3/api/" + gv.Version
	}
	body, code := t.get(path)
	if code == http.StatusNotFound {
		delete(t.known, gv)
		return nil, nil
	}
	var spec spec3.OpenAPI
	if err := json.Unmarshal(body, &spec); err != nil || code != http.StatusOK || spec.Components == nil {
		return nil, fmt.Errorf("read the schema of %v: status %d: %w", gv, code, err)
	}
	types, err := managedfields.NewTypeConverter(spec.Components.Schemas, false)
	if err != nil {
		return nil, fmt.Errorf("read the schema of %v: %w", gv, err)
	}
	t.known[gv] = &document{types, time.Now()}
	return types, nil
}

// get asks the handler without a socket.
func (t *Types) get(path string) ([]byte, int) {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, path, nil)
	if err != nil {
		return nil, http.StatusBadRequest
	}
	w := &answer{header: http.Header{}, code: http.StatusOK}
	t.documents.ServeHTTP(w, r)
	return w.body, w.code
}

// An answer keeps what a handler writes.
type answer struct {
	header http.Header
	code   int
	body   []byte
}

func (a *answer) Header() http.Header  { return a.header }
func (a *answer) WriteHeader(code int) { a.code = code }

func (a *answer) Write(p []byte) (int, error) {
	a.body = append(a.body, p...)
	return len(p), nil
}
