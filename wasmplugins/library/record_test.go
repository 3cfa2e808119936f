package library

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/storage/memory"
)

// TestRecordPull: of several servers that pull a tag the first decides what it
// is, until the object names another image or is another object.
func TestRecordPull(t *testing.T) {
	store := memory.New(memory.Config{})
	t.Cleanup(func() { _ = store.Close() })
	c := &chunkStore{store: store}
	m := &pluginsv1.WasmModule{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1"}}
	m.Spec.Image = &pluginsv1.ModuleImage{Reference: "example.test/a:b"}
	record := func(digest string, want error) {
		t.Helper()
		if err := c.recordPull(t.Context(), m, digest); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", digest, err, want)
		}
	}
	is := func(digest string) {
		t.Helper()
		p, _, err := c.pulled(t.Context(), "a")
		if err != nil || p.Digest != digest || !p.of(m) {
			t.Errorf("got %+v, %v", p, err)
		}
	}
	record("x", nil)
	record("x", nil)
	record("y", errElsewhere)
	is("x")
	m.Spec.Image = &pluginsv1.ModuleImage{Reference: "example.test/a:c"}
	record("y", nil)
	is("y")
	m.UID = "2"
	if p, _, _ := c.pulled(t.Context(), "a"); p.of(m) {
		t.Error("the record of another object is taken")
	}
	record("z", nil)
	if err := c.forgetPull(t.Context(), "a", "1"); err != nil {
		t.Error(err)
	}
	is("z")
	if err := c.forgetPull(t.Context(), "a", "2"); err != nil {
		t.Error(err)
	}
	if p, revision, err := c.pulled(t.Context(), "a"); err != nil || revision != 0 || p.of(m) {
		t.Errorf("got %+v, %v", p, err)
	}
}
