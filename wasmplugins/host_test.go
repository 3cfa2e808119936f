package wasmplugins_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/storage/memory"
	"github.com/proa-project/proa/wasmplugins"
	"github.com/proa-project/proa/wasmplugins/engine"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

const (
	allow = `{"allowed":true}`
	deny  = `{"allowed":false,"status":{"message":"not today"}}`
)

func label(key, value string) string {
	return fmt.Sprintf(`{"allowed":true,"patch":[{"op":"add","path":"/metadata/labels/%s","value":%q}]}`, key, value)
}

func TestDenial(t *testing.T) {
	f := newFixture(t)
	f.module("no", Fixed(deny))
	f.plugin("no", metav1.ConditionTrue)
	_, err := f.create(nil)
	if !apierrors.IsForbidden(err) || err.Error() != `admission plugin "no" denied the request: not today` {
		t.Errorf("%v", err)
	}
	// Other kinds and operations are none of its business.
	if _, err := f.namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}); err != nil {
		t.Error(err)
	}
	// Without the plugin it passes.
	if err := f.plugins.Delete(t.Context(), "", "no", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.until("a ConfigMap is created", func() bool { _, err := f.create(nil); return err == nil })
}

func TestDenialWithCode(t *testing.T) {
	f := newFixture(t)
	f.module("no", Fixed(`{"allowed":false,"warnings":["mind the gap"],"status":{"code":422}}`))
	f.plugin("no", metav1.ConditionTrue)
	_, err := f.create(nil)
	if !apierrors.IsInvalid(err) || err.Error() != `admission plugin "no" denied the request without explanation` {
		t.Errorf("%v", err)
	}
}

func TestMutationInOrder(t *testing.T) {
	f := newFixture(t)
	for n, order := range map[string]int32{"c": -1, "a": 1, "b": 1} {
		f.module(n, Fixed(label("last", n)))
		f.plugin(n, metav1.ConditionTrue, mutating, func(p *pluginsv1.AdmissionPlugin) { p.Spec.Order = order })
	}
	cm, err := f.create(map[string]string{"x": "y"})
	if err != nil || cm.Labels["last"] != "b" || cm.Labels["x"] != "y" {
		t.Errorf("%v %v, want the label of b, the last by order and name", cm.Labels, err)
	}
}

func TestMutationOfWholeObject(t *testing.T) {
	f := newFixture(t)
	f.module("whole", Fixed(`{"allowed":true,"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"fixed","namespace":"default"},"data":{"a":"b"}}}`))
	f.plugin("whole", metav1.ConditionTrue, mutating)
	cm, err := f.configMaps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "fixed", Namespace: "default"}})
	if err != nil || cm.Data["a"] != "b" {
		t.Errorf("%v, %v", cm, err)
	}
	// It may not become another object.
	_, err = f.configMaps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "other", Namespace: "default"}})
	if err == nil || !strings.Contains(err.Error(), `admission plugin "whole" failed: BadReply: the changed object is invalid: its metadata.name is "fixed", not "other"`) {
		t.Errorf("%v", err)
	}
}

func TestBrokenMutationIsTheFaultOfItsPlugin(t *testing.T) {
	for _, tc := range []struct{ name, reply, detail string }{
		{"unknown field", `{"allowed":true,"patch":[{"op":"add","path":"/nonsense","value":1}]}`, `unknown field "nonsense"`},
		{"wrong type", `{"allowed":true,"patch":[{"op":"add","path":"/data","value":1}]}`, "the changed object is invalid"},
		{"no such path", `{"allowed":true,"patch":[{"op":"remove","path":"/data/x"}]}`, "the patch cannot be applied"},
		{"no patch", `{"allowed":true,"patch":{"op":"remove"}}`, "the patch cannot be read"},
		{"other kind", `{"allowed":true,"patch":[{"op":"replace","path":"/kind","value":"Secret"}]}`, "the changed object is invalid"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			f.module("broken", Fixed(tc.reply))
			f.module("good", Fixed(label("good", "yes")))
			f.plugin("broken", metav1.ConditionTrue, mutating, ignoring)
			f.plugin("good", metav1.ConditionTrue, mutating)
			cm, err := f.create(map[string]string{"x": "y"})
			if err != nil || cm.Labels["good"] != "yes" {
				t.Errorf("ignored: %v, %v; want the other plugin's label", cm.Labels, err)
			}
			f.change("broken", func(p *pluginsv1.AdmissionPlugin) { p.Spec.FailurePolicy = admissionregistrationv1.Fail })
			f.until("the write is refused", func() bool { _, err = f.create(map[string]string{"x": "y"}); return err != nil })
			if !apierrors.IsInternalError(err) || !strings.HasPrefix(err.Error(), `admission plugin "broken" failed: BadReply: `) || !strings.Contains(err.Error(), tc.detail) {
				t.Errorf("%v, want %s", err, tc.detail)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	spin := &Module{}
	Admission(spin, "")
	spin.Func("proa_admit", []byte{I32, I32}, []byte{I64}, nil, Loop(Br(0)), Unreachable)
	f := newFixture(t)
	f.module("spin", spin.Bytes())
	limits := func(p *pluginsv1.AdmissionPlugin) {
		p.Spec.Limits = &pluginsv1.Limits{TimeoutMillis: 20, Fuel: 1 << 50}
	}
	f.plugin("spin", metav1.ConditionTrue, limits)
	begin := time.Now()
	_, err := f.create(nil)
	if !apierrors.IsInternalError(err) || err.Error() != `admission plugin "spin" failed: DeadlineExceeded: ran longer than 20ms` {
		t.Errorf("%v", err)
	}
	if took := time.Since(begin); took > time.Second {
		t.Errorf("took %v", took)
	}
	var causes []metav1.StatusCause
	if st, ok := err.(apierrors.APIStatus); ok && st.Status().Details != nil {
		causes = st.Status().Details.Causes
	}
	if len(causes) != 1 || causes[0].Type != "DeadlineExceeded" {
		t.Errorf("causes %v", causes)
	}
	_, _ = f.create(nil) // fails like the first
	f.until("the status counts two failures", func() bool {
		p, err := f.plugins.Get(t.Context(), "", "spin")
		return err == nil && p.Status.Failures == 2 && p.Status.LastFailure.Reason == "DeadlineExceeded" && p.Status.LastFailure.Message == "ran longer than 20ms" && !p.Status.LastFailure.Time.IsZero()
	})
	families, err := f.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var failures float64
	for _, fam := range families {
		if fam.GetName() == "proa_plugin_failures_total" {
			failures = fam.GetMetric()[0].GetCounter().GetValue()
		}
	}
	if failures != 2 {
		t.Errorf("%v failures in the metrics", failures)
	}

	f.change("spin", ignoring)
	f.until("the failure is ignored", func() bool { _, err := f.create(nil); return err == nil })
	resp, err := f.rest.Do(t.Context(), client.Request{Method: http.MethodPost, Path: "/api/v1/namespaces/default/configmaps", Body: []byte(`{"metadata":{"name":"w"}}`)})
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close() // in memory
	if w := resp.Header.Get("Warning"); !strings.Contains(w, `admission plugin \"spin\" failed: DeadlineExceeded: ran longer than 20ms (ignored)`) {
		t.Errorf("warning %q", w)
	}
}

func TestNotReady(t *testing.T) {
	f := newFixture(t)
	p := f.plugin("later", metav1.ConditionFalse)
	if c := meta.FindStatusCondition(p.Status.Conditions, "Ready"); c.Reason != "ModuleNotFound" || c.Message != `there is no WasmModule "later"` {
		t.Errorf("condition %+v", c)
	}
	_, err := f.create(nil)
	if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), `admission plugin "later" failed: NotReady: ModuleNotFound: there is no WasmModule "later"`) {
		t.Errorf("%v", err)
	}
	f.module("later", Fixed(allow))
	f.waitPlugin("later", metav1.ConditionTrue)
	if _, err := f.create(nil); err != nil {
		t.Error(err)
	}
}

// TestBreakGlass: no plugin can keep anybody from removing it.
func TestBreakGlass(t *testing.T) {
	f := newFixture(t)
	f.module("all", Fixed(deny))
	f.plugin("all", metav1.ConditionTrue, func(p *pluginsv1.AdmissionPlugin) {
		p.Spec.Phases = []pluginsv1.Phase{pluginsv1.PhaseMutate, pluginsv1.PhaseValidate}
		p.Spec.Rules = []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{"*"},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}},
		}}
	})
	if _, err := f.create(nil); !apierrors.IsForbidden(err) {
		t.Errorf("%v", err)
	}
	if err := f.plugins.Delete(t.Context(), "", "all", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.until("a ConfigMap is created", func() bool { _, err := f.create(nil); return err == nil })
}

func TestSelectors(t *testing.T) {
	f := newFixture(t)
	for name, labels := range map[string]map[string]string{"guarded": {"guard": "yes"}, "free": nil} {
		if _, err := f.namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}); err != nil {
			t.Fatal(err)
		}
	}
	f.module("no", Fixed(deny))
	f.plugin("no", metav1.ConditionTrue, func(p *pluginsv1.AdmissionPlugin) {
		p.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"guard": "yes"}}
		p.Spec.ObjectSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "skip", Operator: metav1.LabelSelectorOpDoesNotExist}}}
		p.Spec.Rules = []admissionregistrationv1.RuleWithOperations{rule("*", "CREATE", "DELETE")}
	})
	create := func(ns string, labels map[string]string) error {
		_, err := f.configMaps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "c-", Namespace: ns, Labels: labels}})
		return err
	}
	if err := create("guarded", nil); !apierrors.IsForbidden(err) {
		t.Errorf("guarded: %v", err)
	}
	if err := create("guarded", map[string]string{"skip": ""}); err != nil {
		t.Errorf("guarded, skipped: %v", err)
	}
	if err := create("free", nil); err != nil {
		t.Errorf("free: %v", err)
	}
	// A namespace is selected by its own labels.
	if err := f.namespaces.Delete(t.Context(), "", "guarded", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("delete the guarded namespace: %v", err)
	}
	if err := f.namespaces.Delete(t.Context(), "", "free", metav1.DeleteOptions{}); err != nil {
		t.Errorf("delete the free namespace: %v", err)
	}
}

func TestSettings(t *testing.T) {
	f := newFixture(t)
	f.upload("inject", BuildGo(t, "../examples/plugins/inject-sidecar"))
	onPods := func(p *pluginsv1.AdmissionPlugin) {
		p.Spec.Rules = []admissionregistrationv1.RuleWithOperations{rule("pods", admissionregistrationv1.Create)}
	}
	p := f.plugin("inject", metav1.ConditionFalse, mutating, onPods)
	f.until("the settings are found invalid", func() bool {
		p = f.waitPlugin("inject", metav1.ConditionFalse)
		c := meta.FindStatusCondition(p.Status.Conditions, "Ready")
		return c.Reason == "InvalidSettings" && strings.Contains(c.Message, "container must have a name and an image")
	})
	f.change("inject", func(p *pluginsv1.AdmissionPlugin) {
		p.Spec.Settings = &runtime.RawExtension{Raw: []byte(`{"container":{"name":"proxy","image":"proxy:1"}}`)}
	})
	f.waitPlugin("inject", metav1.ConditionTrue)

	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", Annotations: map[string]string{"sidecar.example/inject": "true"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
	}
	f.until("the pod is admitted", func() bool { // once its ServiceAccount is not wanted or is there
		got, err := f.pods.Create(t.Context(), pod)
		if err != nil {
			t.Fatal(err)
		}
		pod = got
		return true
	})
	if cs := pod.Spec.Containers; len(cs) != 2 || cs[1].Name != "proxy" || cs[1].ImagePullPolicy != corev1.PullIfNotPresent {
		t.Errorf("containers %+v, want the sidecar, with defaults", cs)
	}
	if pod.Labels["sidecar"] != "proxy" {
		t.Errorf("labels %v", pod.Labels)
	}

	f.upload("limits", BuildGo(t, "../examples/plugins/require-limits"))
	f.plugin("limits", metav1.ConditionTrue, onPods, func(p *pluginsv1.AdmissionPlugin) {
		p.Spec.Module = "limits"
		p.Spec.Settings = &runtime.RawExtension{Raw: []byte(`{"resources":["memory"]}`)}
	})
	bare := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "bare", Namespace: "default"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}}}
	if _, err := f.pods.Create(t.Context(), bare); !apierrors.IsForbidden(err) || err.Error() != `admission plugin "limits" denied the request: container web has no memory limit` {
		t.Errorf("%v", err)
	}
	bare.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Mi")}
	if _, err := f.pods.Create(t.Context(), bare); err != nil {
		t.Errorf("with a limit: %v", err)
	}
}

func TestModuleStatus(t *testing.T) {
	f := newFixture(t)
	condition := func(name, kind string) *metav1.Condition {
		m, err := f.modules.Get(t.Context(), "", name)
		if err != nil {
			t.Fatal(err)
		}
		return meta.FindStatusCondition(m.Status.Conditions, kind)
	}
	for name, tc := range map[string]struct {
		wasm            []byte
		compiled        metav1.ConditionStatus
		reason, message string
	}{
		"good":    {Fixed(allow), "True", "Compiled", ""},
		"empty":   {nil, "False", "NoContent", "nothing was uploaded"},
		"text":    {[]byte("hello"), "False", "InvalidModule", ""},
		"foreign": {foreign(), "True", "UnsupportedABI", "ABI"},
	} {
		f.module(name, tc.wasm)
		f.until(name, func() bool { return condition(name, "Ready") != nil })
		c, ready := condition(name, "Compiled"), condition(name, "Ready")
		if c.Status != tc.compiled || ready.Reason != tc.reason || !strings.Contains(ready.Message, tc.message) {
			t.Errorf("%s: Compiled %+v, Ready %+v", name, c, ready)
		}
	}
	m, err := f.modules.Get(t.Context(), "", "good")
	if err != nil {
		t.Fatal(err)
	}
	s := m.Status
	if s.ABI != "proa/v1" || s.Digest != engine.Digest(Fixed(allow)) || s.SizeBytes != int64(len(Fixed(allow))) || s.CompileMillis < 1 {
		t.Errorf("status %+v", s)
	}
}

func foreign() []byte {
	m := &Module{}
	m.Memory(1, 0)
	m.Func("somebody_elses", []byte{I32, I32}, []byte{I32}, nil, Const32(1))
	return m.Bytes()
}

func TestContent(t *testing.T) {
	f := newFixture(t)
	big := &Module{} // of some chunks
	Admission(big, allow)
	big.Custom("ballast", make([]byte, 1_500_000))
	big.Func("proa_admit", []byte{I32, I32}, []byte{I64}, nil, Reply(ReplyAt, uint32(len(allow))))
	wasm := big.Bytes()
	f.upload("big", wasm)
	m, err := f.modules.Get(t.Context(), "", "big")
	if err != nil || m.Spec.Digest != engine.Digest(wasm) {
		t.Fatalf("%+v, %v", m.Spec, err)
	}
	resp, err := f.rest.Do(t.Context(), client.Request{Path: contentPath("big"), Accept: "application/wasm"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close() // in memory
	if err != nil || string(got) != string(wasm) || resp.Header.Get("Content-Type") != "application/wasm" {
		t.Errorf("got %d bytes back, %v, want %d", len(got), err, len(wasm))
	}
	f.plugin("big", metav1.ConditionTrue)

	for name, tc := range map[string]struct {
		module, kind, query string
		body                []byte
		code                int32
	}{
		"no module":        {"nothing", "application/wasm", "", wasm, 404},
		"wrong media type": {"big", "text/plain", "", wasm, 415},
		"too large":        {"big", "application/wasm", "", make([]byte, 16<<20+1), 413},
		"no wasm":          {"big", "application/wasm", "", []byte("hello"), 400},
		"empty":            {"big", "application/wasm", "", nil, 400},
		"other digest":     {"big", "application/wasm", "sha256:00", wasm, 400},
	} {
		q := client.Request{Method: http.MethodPut, Path: contentPath(tc.module), ContentType: tc.kind, Body: tc.body}
		if tc.query != "" {
			q.Query = map[string][]string{"digest": {tc.query}}
		}
		_, err := f.rest.Do(t.Context(), q)
		var st apierrors.APIStatus
		if !errors.As(err, &st) || st.Status().Code != tc.code {
			t.Errorf("%s: %v, want %d", name, err, tc.code)
		}
	}
	if m, err := f.modules.Get(t.Context(), "", "big"); err != nil || m.Spec.Digest != engine.Digest(wasm) {
		t.Errorf("after bad uploads: %+v, %v", m.Spec, err)
	}
}

func TestUnusedContentIsRemoved(t *testing.T) {
	f := newFixture(t, func(c *wasmplugins.Config) { c.OrphanGrace = 20 * time.Millisecond })
	one, two := Fixed(allow), Fixed(deny)
	has := func(wasm []byte) bool {
		prefix := "/proa/wasm/" + strings.TrimPrefix(engine.Digest(wasm), "sha256:") + "/"
		l, err := f.store.List(t.Context(), prefix, storage.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return len(l.Items) > 0
	}
	none := int32(0)
	if _, err := f.modules.Create(t.Context(), &pluginsv1.WasmModule{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Spec: pluginsv1.WasmModuleSpec{VersionHistoryLimit: &none}}); err != nil {
		t.Fatal(err)
	}
	f.upload("m", one)
	f.upload("m", two)
	f.until("the old content goes", func() bool { return !has(one) })
	if !has(two) {
		t.Error("the content in use is gone")
	}
	f.upload("m", one)
	f.plugin("m", metav1.ConditionTrue) // compiled, so it was there
	if err := f.modules.Delete(t.Context(), "", "m", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.until("all content goes", func() bool { return !has(one) && !has(two) })
}

// TestHotSwap replaces a module while many writes are under way: each write is
// judged by one of the versions, and none is lost.
func TestHotSwap(t *testing.T) {
	f := newFixture(t)
	f.upload("v", Fixed(label("version", "0")))
	f.plugin("v", metav1.ConditionTrue, mutating)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[string]int{}
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				cm, err := f.create(map[string]string{"x": "y"})
				if err != nil {
					t.Errorf("a write was lost: %v", err)
					return
				}
				mu.Lock()
				seen[cm.Labels["version"]]++
				mu.Unlock()
			}
		})
	}
	const versions = 10
	for n := 1; n <= versions; n++ {
		version := fmt.Sprint(n)
		f.upload("v", Fixed(label("version", version)))
		f.until("version "+version+" is in use", func() bool { mu.Lock(); defer mu.Unlock(); return seen[version] > 0 })
	}
	cancel()
	wg.Wait()
	if seen[""] > 0 || len(seen) != versions+1 {
		t.Errorf("versions seen: %v", seen)
	}
	// A version that cannot be used does not take the place of one that can.
	f.upload("v", foreign())
	f.until("the status tells", func() bool {
		p, err := f.plugins.Get(t.Context(), "", "v")
		c := meta.FindStatusCondition(p.Status.Conditions, "Ready")
		return err == nil && c.Status == "True" && c.Reason == "ServingPrevious" && strings.Contains(c.Message, "UnsupportedABI")
	})
	if cm, err := f.create(map[string]string{"x": "y"}); err != nil || cm.Labels["version"] != fmt.Sprint(versions) {
		t.Errorf("%v, %v", cm, err)
	}
}

// TestRestart: after a restart the plugins are there before the first request.
func TestRestart(t *testing.T) {
	store := memory.New(memory.Config{})
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	b := backing{store: store, cache: t.TempDir()}
	f := startFixture(t, b)
	f.upload("no", Fixed(deny))
	f.plugin("no", metav1.ConditionTrue)
	f.stop()

	f = startFixture(t, b)
	if _, err := f.create(nil); !apierrors.IsForbidden(err) {
		t.Errorf("%v, want the denial at once", err)
	}
}

// TestRestartWithBadVersion goes on with the version that ran before.
func TestRestartWithBadVersion(t *testing.T) {
	store := memory.New(memory.Config{})
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	b := backing{store: store, cache: t.TempDir()}
	f := startFixture(t, b)
	f.upload("no", Fixed(deny))
	f.plugin("no", metav1.ConditionTrue)
	f.upload("no", []byte("\x00asm\x01\x00\x00\x00no module"))
	previous := func() bool {
		p, err := f.plugins.Get(t.Context(), "", "no")
		c := meta.FindStatusCondition(p.Status.Conditions, "Ready")
		return err == nil && c.Status == "True" && c.Reason == "ServingPrevious" && p.Status.ModuleDigest == engine.Digest(Fixed(deny))
	}
	f.until("the version before goes on", previous)
	f.stop()

	f = startFixture(t, b)
	if _, err := f.create(nil); !apierrors.IsForbidden(err) {
		t.Errorf("%v, want the denial at once", err)
	}
	f.until("the status says so", previous)
	f.upload("no", Fixed(allow))
	f.until("a good version takes its place", func() bool { _, err := f.create(nil); return err == nil })
}

// TestEvilDoesNotSlowOthers: while a plugin spins, writes that it does not
// judge keep their pace.
func TestEvilDoesNotSlowOthers(t *testing.T) {
	spin := &Module{}
	Admission(spin, "")
	spin.Func("proa_admit", []byte{I32, I32}, []byte{I64}, nil, Loop(Br(0)), Unreachable)
	f := newFixture(t)
	f.module("spin", spin.Bytes())
	f.plugin("spin", metav1.ConditionTrue, func(p *pluginsv1.AdmissionPlugin) {
		p.Spec.Limits = &pluginsv1.Limits{Fuel: 1 << 50}
		p.Spec.Rules = []admissionregistrationv1.RuleWithOperations{rule("secrets", admissionregistrationv1.Create)}
	})
	f.module("good", Fixed(allow))
	f.plugin("good", metav1.ConditionTrue)
	secrets := client.For[*corev1.Secret](f.rest)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var stopped int
	wg.Go(func() {
		for ctx.Err() == nil {
			_, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "s-", Namespace: "default"}})
			if err == nil {
				t.Error("a secret was admitted")
			}
			stopped++
		}
	})
	var slowest, sum time.Duration
	const writes = 300
	for range writes {
		begin := time.Now()
		if _, err := f.create(nil); err != nil {
			t.Error(err)
		}
		took := time.Since(begin)
		sum += took
		slowest = max(slowest, took)
	}
	cancel()
	wg.Wait()
	t.Logf("%d writes: mean %v, slowest %v, while %d calls were stopped", writes, sum/writes, slowest, stopped)
	if slowest > time.Second || sum/writes > 50*time.Millisecond {
		t.Errorf("writes took %v on average, the slowest %v", sum/writes, slowest)
	}
}

// TestStatusDoesNotFlap: calls that go well write nothing.
func TestStatusDoesNotFlap(t *testing.T) {
	f := newFixture(t)
	f.module("good", Fixed(allow))
	p := f.plugin("good", metav1.ConditionTrue)
	for range 200 {
		if _, err := f.create(nil); err != nil {
			t.Fatal(err)
		}
	}
	again, err := f.plugins.Get(t.Context(), "", "good")
	if err != nil || again.ResourceVersion != p.ResourceVersion {
		t.Errorf("the object was written: %s then %s, %v", p.ResourceVersion, again.ResourceVersion, err)
	}
}
