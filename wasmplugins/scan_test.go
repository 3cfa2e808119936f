package wasmplugins_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/wasmplugins/abi"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

// scan makes a scan and returns its report.
func (f *fixture) scan(s *pluginsv1.PolicyScan) (*pluginsv1.PolicyScan, *pluginsv1.PolicyReport) {
	f.t.Helper()
	scans, reports := client.For[*pluginsv1.PolicyScan](f.rest), client.For[*pluginsv1.PolicyReport](f.rest)
	if _, err := scans.Create(f.t.Context(), s); err != nil {
		f.t.Fatal(err)
	}
	f.until("scan "+s.Name+" is done", func() bool {
		var err error
		s, err = scans.Get(f.t.Context(), "", s.Name)
		return err == nil && s.Status.Phase == "Done"
	})
	r, err := reports.Get(f.t.Context(), "", s.Name)
	if err != nil {
		f.t.Fatal(err)
	}
	return s, r
}

// TestScans asks a plugin that is not enforced about the past, in both ways.
func TestScans(t *testing.T) {
	f := newFixture(t)
	for range 3 {
		f.write("default")
	}
	f.module("p", Search(`"zzzzzz"`)) // in none of the requests
	f.plugin("p", metav1.ConditionTrue, func(p *pluginsv1.AdmissionPlugin) { p.Spec.Mode = pluginsv1.ModeShadow })
	f.module("label", Fixed(label("x", "y")))
	f.plugin("label", metav1.ConditionTrue, mutating, func(p *pluginsv1.AdmissionPlugin) {
		p.Spec.Mode = pluginsv1.ModeShadow
		p.Spec.Rules = []admissionregistrationv1.RuleWithOperations{rule("configmaps", admissionregistrationv1.Update)}
	})

	s, r := f.scan(&pluginsv1.PolicyScan{ObjectMeta: named("past"), Spec: pluginsv1.PolicyScanSpec{Plugin: "p", Source: pluginsv1.ScanRecorded}})
	if r.Summary.Fail < 3 || int(s.Status.Processed) < 3 || len(r.Results) == 0 || r.OwnerReferences[0].Name != "past" {
		t.Errorf("%+v, %+v", s.Status, r)
	}
	if res := r.Results[0]; res.Result != "fail" || res.Properties["operation"] != "CREATE" || !strings.Contains(res.Message, "not found") || res.Policy != "p" {
		t.Errorf("%+v", r.Results[0])
	}
	_, r = f.scan(&pluginsv1.PolicyScan{ObjectMeta: named("present"), Spec: pluginsv1.PolicyScanSpec{Plugin: "p", Source: pluginsv1.ScanExisting, Limit: 2}})
	if n := r.Summary.Fail + r.Summary.Pass; n != 2 || r.Results[0].Resources[0].Kind != "ConfigMap" || r.Results[0].Resources[0].Name == "" {
		t.Errorf("%+v", r)
	}
	_, r = f.scan(&pluginsv1.PolicyScan{ObjectMeta: named("changes"), Spec: pluginsv1.PolicyScanSpec{
		Plugin: "label", Source: pluginsv1.ScanExisting, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": "default"}},
	}})
	if r.Summary.Warn < 3 || !strings.Contains(r.Results[len(r.Results)-1].Properties["change"], `"x":"y"`) {
		t.Errorf("%+v", r)
	}
	// A plugin that comes after its scan.
	scans := client.For[*pluginsv1.PolicyScan](f.rest)
	if _, err := scans.Create(t.Context(), &pluginsv1.PolicyScan{ObjectMeta: named("early"), Spec: pluginsv1.PolicyScanSpec{Plugin: "late", Source: pluginsv1.ScanRecorded}}); err != nil {
		t.Fatal(err)
	}
	f.until("it says that there is no plugin", func() bool {
		s, err := scans.Get(t.Context(), "", "early")
		return err == nil && s.Status.Phase == "Failed" && strings.Contains(s.Status.Message, `no AdmissionPlugin "late"`)
	})
	f.module("late", Fixed(allow))
	f.plugin("late", metav1.ConditionTrue)
	f.until("it is done", func() bool {
		s, err := scans.Get(t.Context(), "", "early")
		return err == nil && s.Status.Phase == "Done"
	})
}

// TestRecording is served as lines that can be read again.
func TestRecording(t *testing.T) {
	f := newFixture(t)
	f.write("default")
	w := httptest.NewRecorder()
	f.host.Recording.ServeHTTP(w, nil)
	found := false
	for line := range strings.Lines(w.Body.String()) {
		r, err := abi.ParseAdmissionRequest([]byte(line))
		if err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		found = found || r.Resource == "configmaps" && r.Username == "alice" && strings.Contains(string(r.Object), `"w-"`)
	}
	if !found {
		t.Errorf("the write is not in %s", w.Body)
	}
}
