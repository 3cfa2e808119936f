package library_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/library"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
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
	f.problem("empty", "", "NoContent")
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

// TestCompileTimeout: code that took too long to compile is tried again, for the
// machine may have been busy.
func TestCompileTimeout(t *testing.T) {
	eng, err := engine.New(engine.Config{CompileTimeout: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	f := newFixture(t, func(c *library.Config) { c.Engine = eng })
	m := &Module{}
	Admission(m, "")
	var body [][]byte
	for range 2000 {
		body = append(body, Const32(1), Const32(2), Add32, Drop)
	}
	for range 50 {
		m.Func("", nil, nil, nil, body...)
	}
	if err := f.upload("slow", m.Bytes()); err != nil {
		t.Fatal(err)
	}
	f.wait("slow", "CompileTimeout")
	for range 3 {
		<-f.told
	}
	if p := f.problem("slow", "", "CompileTimeout"); !strings.Contains(p.Message, "compiling took longer than 1ms") {
		t.Error(p.Message)
	}
}

func TestUnsupported(t *testing.T) {
	f := newFixture(t)
	m := &Module{}
	m.Func("run", nil, nil, nil)
	f.module("a", code(m.Bytes()))
	status := f.wait("a", "UnsupportedABI").Status
	for _, c := range status.Conditions {
		if c.Type == "Compiled" && c.Status != metav1.ConditionTrue {
			t.Errorf("condition %+v", c)
		}
	}
	f.problem("a", "", "UnsupportedABI")
	if len(status.Versions) > 0 {
		t.Errorf("versions %+v", status.Versions)
	}
}

func TestManifest(t *testing.T) {
	with := func(manifest string) []byte {
		m := &Module{}
		Admission(m, "")
		m.Custom("proa.manifest", []byte(manifest))
		return m.Bytes()
	}
	f := newFixture(t)
	f.module("a", code(with(`{"name":"n","version":"1.2","kinds":["admit"],"capabilities":["kube.get"]}`)))
	got := f.wait("a", "Compiled").Status.Manifest
	if got == nil || got.Name != "n" || got.Version != "1.2" || !slices.Equal(got.Points, []string{"admit"}) || !slices.Equal(got.Capabilities, []string{"kube.get"}) {
		t.Errorf("manifest %+v", got)
	}
	if ref := f.get("a", ""); ref.Manifest.Version != "1.2" {
		t.Errorf("manifest %+v", ref.Manifest)
	}
	f.module("a", code(with(`{`)))
	if m := f.wait("a", "InvalidModule"); m.Status.Manifest != nil || !strings.Contains(conditionText(m), "proa.manifest") {
		t.Errorf("status %+v", m.Status)
	}
}

// series returns the values of a metric by its module and further labels.
func (f *fixture) series(name string) map[string]float64 {
	f.t.Helper()
	families, err := f.metrics.Gather()
	if err != nil {
		f.t.Fatal(err)
	}
	out := map[string]float64{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			var key []string
			for _, l := range m.GetLabel() {
				key = append(key, l.GetValue())
			}
			out[strings.Join(key, " ")] = value(m)
		}
	}
	return out
}

func value(m *dto.Metric) float64 {
	if c := m.GetCounter(); c != nil {
		return c.GetValue()
	}
	return m.GetGauge().GetValue()
}

func TestMetrics(t *testing.T) {
	eng, err := engine.New(engine.Config{CacheDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	own := func(c *library.Config) { c.Engine = eng }
	f := newFixture(t, own)
	f.module("a", code(guest(1)))
	f.wait("a", "Compiled")
	if got := f.series("proa_plugin_module_size_bytes"); got["a"] != float64(len(guest(1))) {
		t.Errorf("sizes %v", got)
	}
	if got := f.series("proa_plugin_module_compilations_total"); got["false a"] != 1 || len(got) != 1 {
		t.Errorf("compilations %v", got)
	}
	if got := f.series("proa_plugin_module_compile_seconds"); got["a"] <= 0 {
		t.Errorf("compile times %v", got)
	}
	f = f.restart(own)
	if got := f.series("proa_plugin_module_compilations_total"); got["true a"] != 1 || len(got) != 1 {
		t.Errorf("compilations %v", got)
	}
	if err := f.modules.Delete(t.Context(), "", "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.until("the series are gone", func() bool { return len(f.series("proa_plugin_module_size_bytes")) == 0 })
}
