package cli_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/wasmplugins/engine"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

// A moduleServer serves one WasmModule, as far as push needs it. After an upload
// it has an outdated status for a while.
type moduleServer struct {
	mu     sync.Mutex
	module *pluginsv1.WasmModule
	query  map[string][]string // of the last upload
	reads  int                 // since then
	final  metav1.Condition
}

func (s *moduleServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.Method {
	case http.MethodPost:
		s.module = &pluginsv1.WasmModule{ObjectMeta: metav1.ObjectMeta{Name: "m", Generation: 1}}
	case http.MethodPut:
		b, _ := io.ReadAll(r.Body)
		s.query, s.reads = r.URL.Query(), 0
		s.module.Generation++
		s.module.Status.Digest = engine.Digest(b)
		meta.SetStatusCondition(&s.module.Status.Conditions, metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "SignatureMissing"})
	default:
		if s.reads++; s.reads > 2 {
			s.module.Status.ObservedGeneration = s.module.Generation
			meta.SetStatusCondition(&s.module.Status.Conditions, metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "ContentMissing"})
		}
		if s.reads > 4 {
			meta.SetStatusCondition(&s.module.Status.Conditions, s.final)
		}
	}
	s.module.APIVersion, s.module.Kind = "plugins.proa.io/v1", "WasmModule"
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(s.module)
}

// TestPushSigned: the signature goes with the content, and what is reported is
// what the server says of this upload.
func TestPushSigned(t *testing.T) {
	s := &moduleServer{final: metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Compiled"}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	wasm, kubeconfig := filepath.Join(dir, "m.wasm"), filepath.Join(dir, "kubeconfig")
	config := `{"clusters":[{"name":"c","cluster":{"server":"` + server.URL + `"}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"current-context":"c","users":[{"name":"u","user":{}}]}`
	for name, b := range map[string][]byte{wasm: Fixed("{}"), kubeconfig: []byte(config)} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	push := []string{"push", "m", wasm, "--kubeconfig", kubeconfig, "--signature", "AAEC", "--key-name", "k"}
	if out, err := run(t, push...); err != nil || !strings.Contains(out, "uploaded: "+engine.Digest(Fixed("{}"))) {
		t.Fatalf("%s %v", out, err)
	}
	for name, want := range map[string]string{"signature": "AAEC", "key": "k", "digest": engine.Digest(Fixed("{}"))} {
		if got := s.query[name]; len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	s.final = metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "SignatureInvalid", Message: "by nobody"}
	if out, err := run(t, push...); err == nil || !strings.Contains(err.Error(), "SignatureInvalid: by nobody") {
		t.Errorf("%s %v", out, err)
	}
}
