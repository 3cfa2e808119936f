package library_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/wasmplugins/engine"
)

func TestInlineAndUploaded(t *testing.T) {
	f := newFixture(t)
	f.problem("inline", "", "ModuleNotFound")
	f.module("inline", code(guest(1)))
	m := f.wait("inline", "Compiled")
	if m.Status.Digest != engine.Digest(guest(1)) || m.Status.ABI != "proa/v1" || m.Status.SizeBytes != int64(len(guest(1))) || m.Status.CompileMillis < 1 {
		t.Errorf("status %+v", m.Status)
	}
	if ref := f.get("inline", ""); ref.Digest != m.Status.Digest || ref.Module != "inline" || ref.ABI != "proa/v1" {
		t.Errorf("got %+v", ref)
	}
	f.module("empty", func(*pluginsv1.WasmModuleSpec) {})
	f.wait("empty", "NoContent")
	f.problem("empty", "", "ModuleNotReady")
	if err := f.upload("empty", guest(2)); err != nil {
		t.Fatal(err)
	}
	f.wait("empty", "Compiled")
	if ref := f.get("empty", ""); ref.Digest != engine.Digest(guest(2)) {
		t.Errorf("got %s", ref.Digest)
	}
}

// TestDeleted: a module that is gone serves nobody any more, and who follows it
// is told.
func TestDeleted(t *testing.T) {
	f := newFixture(t)
	f.module("a", code(guest(1)))
	f.wait("a", "Compiled")
	ref := f.get("a", "")
	if err := f.modules.Delete(t.Context(), "", "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for {
		<-f.told
		ref, err := f.lib.Get(t.Context(), "a", "")
		if err != nil {
			break
		}
		ref.Release()
	}
	f.problem("a", "", "ModuleNotFound")
	f.problem("a", ref.Digest, "ModuleNotFound")
}
