package wasmplugins_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/wasmplugins"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/runner"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

// write makes a ConfigMap and returns the status, the warnings, and the trace.
func (f *fixture) write(namespace string) (int, string, *pluginsv1.AdmissionTrace) {
	f.t.Helper()
	r := httptest.NewRequestWithContext(f.t.Context(), http.MethodPost, "/api/v1/namespaces/"+namespace+"/configmaps",
		strings.NewReader(`{"metadata":{"generateName":"w-","labels":{"a":"b"}}}`))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, r)
	trace, err := f.traces.Get(w.Header().Get("Audit-Id"))
	if err != nil {
		trace = nil
	}
	return w.Code, strings.Join(w.Header().Values("Warning"), "\n"), trace
}

// TestModes has a plugin that denies, and one that changes, in each mode.
func TestModes(t *testing.T) {
	f := newFixture(t)
	f.module("deny", Fixed(deny))
	f.module("label", Fixed(label("x", "y")))
	f.plugin("label", metav1.ConditionTrue, mutating)
	f.plugin("deny", metav1.ConditionTrue)
	for _, tc := range []struct {
		mode                pluginsv1.Mode
		code                int
		warning, annotation string
	}{
		{pluginsv1.ModeEnforce, 403, "", "patch.plugins.proa.io/label"},
		{pluginsv1.ModeWarn, 201, "denied the request", ""},
		{pluginsv1.ModeAudit, 201, "", "denied.plugins.proa.io/deny"},
		{pluginsv1.ModeShadow, 201, "", ""},
	} {
		for _, name := range []string{"label", "deny"} {
			f.change(name, func(p *pluginsv1.AdmissionPlugin) { p.Spec.Mode = tc.mode })
		}
		var code int
		var warning string
		var trace *pluginsv1.AdmissionTrace
		f.until("mode "+string(tc.mode), func() bool {
			code, warning, trace = f.write("default")
			return trace != nil && len(trace.Steps) == 2 && trace.Steps[0].Mode == tc.mode && trace.Steps[1].Mode == tc.mode
		})
		if code != tc.code || (tc.warning == "") != (warning == "") || !strings.Contains(warning, tc.warning) {
			t.Errorf("%s: %d, warnings %q", tc.mode, code, warning)
		}
		if _, ok := trace.Annotations[tc.annotation]; tc.annotation != "" && !ok {
			t.Errorf("%s: annotations %v", tc.mode, trace.Annotations)
		}
		first, second := trace.Steps[0], trace.Steps[1]
		if first.Outcome != "Changed" || first.Patch == "" || second.Outcome != "Denied" || second.Fuel <= 0 || second.Digest != engine.Digest(Fixed(deny)) {
			t.Errorf("%s: trace %+v", tc.mode, trace.Steps)
		}
		if want := map[bool]string{true: "Denied", false: "Allowed"}[tc.code == 403]; trace.Outcome != want {
			t.Errorf("%s: outcome %s", tc.mode, trace.Outcome)
		}
	}
}

// TestCandidate has a second version beside the first: in shadow, for a share,
// and for a namespace.
func TestCandidate(t *testing.T) {
	f := newFixture(t)
	f.module("p", Fixed(allow))
	f.module("next", Fixed(deny))
	f.plugin("p", metav1.ConditionTrue, func(p *pluginsv1.AdmissionPlugin) { p.Spec.Candidate = &pluginsv1.Candidate{Module: "next"} })
	f.until("the candidate is compared", func() bool {
		if code, _, _ := f.write("default"); code != 201 {
			t.Fatalf("a candidate in shadow has a say: %d", code)
		}
		p, err := f.plugins.Get(t.Context(), "", "p")
		return err == nil && p.Status.Candidate != nil && p.Status.Candidate.Differing > 0
	})
	p, err := f.plugins.Get(t.Context(), "", "p")
	if err != nil {
		t.Fatal(err)
	}
	c := p.Status.Candidate
	if c.ModuleDigest != engine.Digest(Fixed(deny)) || c.Differing != c.Compared || len(c.Examples) == 0 || len(c.Examples) > 10 ||
		c.Examples[0].Current != "allowed" || !strings.HasPrefix(c.Examples[0].Candidate, "denied: ") || c.Examples[0].Resource != "configmaps" {
		t.Errorf("%+v", c)
	}

	f.change("p", func(p *pluginsv1.AdmissionPlugin) { p.Spec.Candidate.Percent = 50 })
	denied, allowed := 0, 0
	f.until("both versions have a say", func() bool {
		if code, _, _ := f.write("default"); code == 403 {
			denied++
		} else {
			allowed++
		}
		return denied > 3 && allowed > 3
	})

	if _, err := f.namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "canary", Labels: map[string]string{"ring": "0"}}}); err != nil {
		t.Fatal(err)
	}
	f.change("p", func(p *pluginsv1.AdmissionPlugin) {
		p.Spec.Candidate.Percent = 0
		p.Spec.Candidate.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"ring": "0"}}
	})
	f.until("the namespace has the candidate, and only it", func() bool {
		in, _, _ := f.write("canary")
		out, _, _ := f.write("default")
		return in == 403 && out == 201
	})
}

// TestRollback pins an earlier version by one field.
func TestRollback(t *testing.T) {
	f := newFixture(t)
	f.upload("p", Fixed(allow))
	f.plugin("p", metav1.ConditionTrue)
	f.upload("p", Fixed(deny))
	f.until("the second version is in use", func() bool { code, _, _ := f.write("default"); return code == 403 })
	f.change("p", func(p *pluginsv1.AdmissionPlugin) { p.Spec.Digest = engine.Digest(Fixed(allow)) })
	f.until("the first version is back", func() bool { code, _, _ := f.write("default"); return code == 201 })
	f.until("the status says so", func() bool {
		p, err := f.plugins.Get(t.Context(), "", "p")
		return err == nil && p.Status.ModuleDigest == engine.Digest(Fixed(allow))
	})
}

// TestDeletedModule ends a plugin whose module is deleted: nothing runs that
// the API does not have.
func TestDeletedModule(t *testing.T) {
	f := newFixture(t)
	f.module("p", Fixed(allow))
	f.plugin("p", metav1.ConditionTrue)
	if err := f.modules.Delete(t.Context(), "", "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.waitPlugin("p", metav1.ConditionFalse)
	if code, _, _ := f.write("default"); code != 503 {
		t.Errorf("a write while the module is gone: %d", code)
	}
	f.module("p", Fixed(allow))
	f.waitPlugin("p", metav1.ConditionTrue)
}

// TestBreaker has a plugin that fails: it is no longer called, its object and
// an event say so, and when it is mended it is called again.
func TestBreaker(t *testing.T) {
	f := newFixture(t, func(c *wasmplugins.Config) { c.Breaker = runner.Breaker{Failures: 3, Pause: 50 * time.Millisecond} })
	f.module("p", Trapping("proa_admit"))
	f.plugin("p", metav1.ConditionTrue)
	var last *pluginsv1.AdmissionTrace
	f.until("the breaker opens", func() bool {
		_, _, last = f.write("default")
		return last.Steps[0].Reason == string(runner.BreakerOpen)
	})
	if code, _, _ := f.write("default"); code != 500 && code != 503 {
		t.Errorf("status %d", code)
	}
	f.until("the status says so", func() bool {
		p, err := f.plugins.Get(t.Context(), "", "p")
		return err == nil && meta.IsStatusConditionTrue(p.Status.Conditions, "Degraded") && p.Status.Failures >= 3
	})
	events := client.For[*corev1.Event](f.rest)
	reason := func(want string) func() bool {
		return func() bool {
			list, err := events.List(t.Context(), "default", metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range list.Items {
				if e.Reason == want && e.InvolvedObject.Kind == "AdmissionPlugin" && e.InvolvedObject.Name == "p" {
					return true
				}
			}
			return false
		}
	}
	f.until("an event says so", reason("PluginDegraded"))
	f.module("p", Fixed(allow))
	f.until("it is called again", func() bool { code, _, _ := f.write("default"); return code == 201 })
	f.until("the status says so", func() bool {
		p, err := f.plugins.Get(t.Context(), "", "p")
		return err == nil && meta.IsStatusConditionFalse(p.Status.Conditions, "Degraded")
	})
	f.until("an event says so", reason("PluginRecovered"))
}

// TestBreakerProbes lets one call through after the pause, and closes when it
// is answered.
func TestBreakerProbes(t *testing.T) {
	f := newFixture(t, func(c *wasmplugins.Config) { c.Breaker = runner.Breaker{Failures: 2, Pause: 20 * time.Millisecond} })
	f.module("p", Fixed(allow))
	f.plugin("p", metav1.ConditionTrue)
	f.module("p", Trapping("proa_admit"))
	f.until("the breaker opens", func() bool {
		_, _, tr := f.write("default")
		return tr != nil && len(tr.Steps) > 0 && tr.Steps[0].Reason == string(runner.BreakerOpen)
	})
	f.until("a call is tried", func() bool {
		_, _, tr := f.write("default")
		return tr.Steps[0].Reason == string(engine.Trapped)
	})
	if _, _, tr := f.write("default"); tr.Steps[0].Reason != string(runner.BreakerOpen) {
		t.Errorf("after a probe that failed: %+v", tr.Steps[0])
	}
}

func TestExempt(t *testing.T) {
	f := newFixture(t)
	f.module("p", Fixed(deny))
	f.plugin("p", metav1.ConditionTrue)
	if code, _, _ := f.write("kube-system"); code != 201 {
		t.Errorf("in an exempt namespace: %d", code)
	}
	if code, _, _ := f.write("default"); code != 403 {
		t.Errorf("in another: %d", code)
	}
	f.off.Store(true)
	if code, _, trace := f.write("default"); code != 201 || trace != nil {
		t.Errorf("with the glass broken: %d, %+v", code, trace)
	}
}

// TestTotalBudget has plugins that take their time: together they get no more
// than the budget.
func TestTotalBudget(t *testing.T) {
	f := newFixture(t, func(*wasmplugins.Config) {})
	spin := &Module{}
	Admission(spin, "")
	spin.Func("proa_admit", []byte{I32, I32}, []byte{I64}, nil, Loop(Br(0)), Unreachable)
	f.module("spin", spin.Bytes())
	for n := range 5 {
		f.plugin(fmt.Sprint("spin-", n), metav1.ConditionTrue, ignoring, func(p *pluginsv1.AdmissionPlugin) {
			p.Spec.Module = "spin"
			p.Spec.Limits = &pluginsv1.Limits{TimeoutMillis: 1000, Fuel: 1 << 40}
		})
	}
	begin := time.Now()
	code, _, trace := f.write("default")
	if took := time.Since(begin); took > 2*testBudget {
		t.Errorf("took %v with a budget of %v", took, testBudget)
	}
	if code != 201 || len(trace.Steps) != 5 || trace.Steps[4].Outcome != "Ignored" {
		t.Errorf("%d, %+v", code, trace)
	}
}

// TestConnect has a plugin refuse connections to pods by their options.
func TestConnect(t *testing.T) {
	f := newFixture(t)
	f.module("p", Search(`"tty":tr`))
	f.plugin("p", metav1.ConditionTrue, func(p *pluginsv1.AdmissionPlugin) {
		p.Spec.Rules = []admissionregistrationv1.RuleWithOperations{rule("pods/exec", admissionregistrationv1.Connect)}
	})
	if _, err := f.pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.test/c"}}},
	}); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]int{"command=sh&tty=true": http.StatusBadRequest, "command=sh": http.StatusForbidden, "command=sh&tty=maybe": http.StatusBadRequest} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/namespaces/default/pods/a/exec?"+query, nil)
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "SPDY/3.1")
		w := httptest.NewRecorder()
		f.handler.ServeHTTP(w, r)
		if w.Code != want { // one that is let through is told that the pod has no node
			t.Errorf("exec?%s: %d %s", query, w.Code, w.Body)
		}
		if want != http.StatusForbidden {
			continue
		}
		trace, err := f.traces.Get(w.Header().Get("Audit-Id"))
		if err != nil || trace.Request.Operation != "CONNECT" || trace.Request.Subresource != "exec" {
			t.Errorf("trace %+v, %v", trace, err)
		}
	}
}
