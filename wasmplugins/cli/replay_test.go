package cli_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

func TestReplay(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	file := writeFile(t, "recorded", []byte(recording))
	labels := writeFile(t, "v1.wasm", Search(`{"team":`)) // refuses without the label
	patch := writeFile(t, "v2.wasm", Fixed(`{"allowed":true,"patch":[{"op":"add","path":"/metadata/labels","value":{"team":"a"}}]}`))
	broken := writeFile(t, "v3.wasm", Fixed(`{"allowed":true,"patch":[{"op":"remove","path":"/none"}]}`))
	plugin := writeFile(t, "plugin.yaml", []byte(`
apiVersion: plugins.proa.io/v1
kind: AdmissionPlugin
metadata: {name: p}
spec:
  module: p
  phases: [Validate]
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: ["*"], resources: [pods]}]
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}
  limits: {fuel: 1}
`))
	for _, tc := range []struct {
		args []string
		want []string
	}{
		{[]string{labels, file, "--plugin", plugin}, []string{"pass     0", "fail     0", "error    1", "FuelExhausted"}},
		{[]string{labels, file}, []string{"pass     1", "fail     1", "UPDATE pods shop/b\n    fail: not found"}},
		{[]string{patch, file}, []string{"pass     1", "changed  1", `changed: {"metadata":{"labels":{"team":"a"}}}`}},
		{[]string{broken, file}, []string{"error    2", "the patch cannot be applied"}},
		{[]string{patch, file, "--phase", "validate"}, []string{"error    2", "BadReply"}},
		{[]string{labels, file, "--show", "0"}, []string{"and more"}},
		{[]string{patch, file, "--against", labels}, []string{"1 of 2 requests are answered differently", "  - fail: not found\n  + changed:"}},
		{[]string{labels, file, "--against", labels}, []string{"0 of 2"}},
	} {
		out, err := run(t, append([]string{"replay"}, tc.args...)...)
		if err != nil {
			t.Errorf("%v: %v", tc.args, err)
		}
		for _, want := range tc.want {
			if !strings.Contains(out, want) {
				t.Errorf("%v: want %q in\n%s", tc.args, want, out)
			}
		}
	}
	for _, args := range [][]string{{labels}, {labels, file, "--phase", "x"}, {labels, "none"}, {labels, file, "--settings", "none"}, {labels, file, "--plugin", "none"}, {labels, file, "--plugin", writeFile(t, "p", []byte("kind: Pod"))}, {"--server", "a", "b"}} {
		if out, err := run(t, append([]string{"replay"}, args...)...); err == nil {
			t.Errorf("%v is taken\n%s", args, out)
		}
	}
}

// TestReplayOnServer: the scan is made, waited for, its report printed, and the
// scan removed.
func TestReplayOnServer(t *testing.T) {
	var scan pluginsv1.PolicyScan
	var calls []string
	gets := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls = append(calls, r.Method+" "+strings.Replace(r.URL.Path, scan.Name, "NAME", 1))
		w.Header().Set("Content-Type", "application/json")
		answer := any(&scan)
		switch {
		case r.Method == http.MethodPost:
			if err := json.NewDecoder(r.Body).Decode(&scan); err != nil {
				t.Error(err)
			}
			w.WriteHeader(http.StatusCreated)
		case strings.Contains(r.URL.Path, "policyreports"):
			report := &pluginsv1.PolicyReport{Summary: pluginsv1.PolicyReportSummary{Pass: 7, Fail: 1}, Results: []pluginsv1.PolicyReportResult{{
				Result: "fail", Message: "no label", Properties: map[string]string{"operation": "CREATE"},
				Resources: []pluginsv1.ResourceReference{{Kind: "Pod", Namespace: "shop", Name: "a"}},
			}}}
			report.APIVersion, report.Kind, answer = "plugins.proa.io/v1", "PolicyReport", report
		default:
			if gets++; gets > 1 {
				scan.Status.Phase = "Done"
			}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	kubeconfig := writeFile(t, "kubeconfig", []byte(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"a","cluster":{"server":"`+server.URL+
		`"}}],"contexts":[{"name":"a","context":{"cluster":"a","user":"a"}}],"users":[{"name":"a","user":{"token":"t"}}],"current-context":"a"}`))
	out, err := run(t, "replay", "--server", "require-team", "--candidate", "--kubeconfig", kubeconfig)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(out, "pass    7") || !strings.Contains(out, "Pod shop/a CREATE\n    fail: no label") {
		t.Errorf("%s", out)
	}
	if scan.Spec.Plugin != "require-team" || !scan.Spec.Candidate || scan.Spec.Source != pluginsv1.ScanRecorded {
		t.Errorf("%+v", scan.Spec)
	}
	if n := len(calls); n < 5 || !strings.HasPrefix(calls[0], "POST ") || !strings.HasPrefix(calls[n-1], "DELETE ") {
		t.Errorf("%q", calls)
	}
	if _, err := run(t, "replay", "--server", "a", "--kubeconfig", ""); err == nil {
		t.Error("a scan without a server")
	}
}
