package cli_test

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

// hook is a webhook that demands the label team.
func hook(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review struct {
			Kind    string
			Request struct {
				UID    string
				Object struct {
					Metadata struct{ Labels map[string]string }
				}
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Kind != "AdmissionReview" {
			t.Errorf("%+v, %v", review, err)
		}
		switch r.URL.Path {
		case "/validate":
			_, has := review.Request.Object.Metadata.Labels["team"]
			_ = json.NewEncoder(w).Encode(map[string]any{"response": map[string]any{"allowed": has, "status": map[string]any{"message": "no team"}}})
		case "/mutate":
			_ = json.NewEncoder(w).Encode(map[string]any{"response": map[string]any{"allowed": true, "patch": []byte(`[{"op":"add","path":"/metadata/name","value":"x"}]`)}})
		default:
			http.Error(w, "no", http.StatusTeapot)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// TestCompare measures a module, an expression and a webhook that do the same,
// and others that do not.
func TestCompare(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	server := hook(t)
	file := writeFile(t, "recorded", []byte(strings.ReplaceAll(recording, `"resource":{"resource":"pods"}`, `"resource":{"version":"v1","resource":"pods"},"kind":{"version":"v1","kind":"Pod"}`)))
	module := writeFile(t, "p.wasm", Search(`{"team":`))
	cel := writeFile(t, "expression", []byte("has(object.metadata.labels) && 'team' in object.metadata.labels\n"))
	other := writeFile(t, "policy.yaml", []byte(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
spec:
  failurePolicy: Fail
  matchConstraints:
    matchPolicy: Equivalent
    namespaceSelector: {}
    objectSelector: {}
    resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]
  validations: [{expression: "false", message: never}]
`))
	ca := writeFile(t, "ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	for _, tc := range []struct {
		args []string
		want []string // patterns
	}{
		{
			[]string{"--module", module, "--cel", cel, "--webhook", server.URL + "/validate", "--webhook-ca", ca},
			[]string{`P50 +P99 +CPU`, `module +\S+ +\S+ +\S+ +1 +0 +1 +0`, `cel +\S+ +\S+ +\S+ +1 +0 +1 +0`, `webhook +\S+ +\S+ +\S+ +1 +0 +1 +0`, `do not agree on 0 of 2`},
		},
		{[]string{"--module", module, "--cel", other}, []string{`do not agree on 2 of 2`, `module: pass\n    cel: fail: .*never`, `module: fail: not found\n    cel: pass`}},
		{[]string{"--webhook", server.URL + "/mutate", "--insecure"}, []string{`webhook +\S+ +\S+ +\S+ +0 +2 +0 +0`}},
		{[]string{"--webhook", server.URL + "/none", "--insecure"}, []string{`webhook +\S+ +\S+ +\S+ +0 +0 +0 +2`}},
	} {
		out, err := run(t, append([]string{"compare", file, "--for", "20ms"}, tc.args...)...)
		if err != nil {
			t.Errorf("%v: %v", tc.args, err)
		}
		for _, want := range tc.want {
			if !regexp.MustCompile(want).MatchString(out) {
				t.Errorf("%v: want %q in\n%s", tc.args, want, out)
			}
		}
	}
	bad := writeFile(t, "bad.yaml", []byte("kind: Pod\n"))
	for _, args := range [][]string{{file}, {file, "--cel", bad}, {file, "--cel", "none"}, {file, "--module", "none"}, {file, "--webhook", "https://127.0.0.1:1", "--webhook-ca", bad}, {writeFile(t, "empty", nil), "--cel", cel}} {
		if out, err := run(t, append([]string{"compare"}, args...)...); err == nil {
			t.Errorf("%v is taken\n%s", args, out)
		}
	}
}
