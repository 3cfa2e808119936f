package rego

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/wasmtest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(shared.dir) // is in a directory for such files
		os.Exit(code)
	}))
}

// shared is what all tests share: OPA, and an engine with what it has compiled.
var shared struct {
	sync.Mutex
	opac   string // the program
	dir    string // of the program
	engine *engine.Engine
	codes  map[string]*engine.Code
	wasm   map[string][]byte
}

// A job is one for testdata/opac.
type job struct {
	Policy      string          `json:"policy,omitempty"`
	Entrypoints []string        `json:"entrypoints,omitempty"`
	Query       string          `json:"query,omitempty"`
	Input       json.RawMessage `json:"input,omitempty"`
	Data        json.RawMessage `json:"data,omitempty"`
	Now         int64           `json:"now,omitempty"`
}

type answer struct {
	Wasm   []byte          `json:"wasm"`
	Result json.RawMessage `json:"result"`
	Error  string          `json:"error"`
}

// opa asks OPA itself.
func opa(t testing.TB, j job) answer {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.opac == "" {
		dir, err := os.MkdirTemp("", "proa-opac-") //nolint:usetesting // for all tests
		if err != nil {
			t.Fatal(err)
		}
		shared.dir = dir
		out := filepath.Join(dir, "opac")
		cmd := exec.CommandContext(context.Background(), "go", "build", "-o", out, ".")
		cmd.Dir = "testdata/opac"
		cmd.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false", "GOWORK=off", "GOROOT=", "CGO_ENABLED=0")
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build opac: %v\n%s", err, text)
		}
		shared.opac = out
	}
	in, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), shared.opac)
	cmd.Stdin = bytes.NewReader(in)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("opac: %v", err)
	}
	var a answer
	if err := json.Unmarshal(out, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// compile compiles a policy.
func compile(t testing.TB, policy string, entrypoints ...string) []byte {
	t.Helper()
	key := policy + entrypoints[0]
	if b := shared.wasm[key]; b != nil {
		return b
	}
	a := opa(t, job{Policy: policy, Entrypoints: entrypoints})
	if a.Error != "" {
		t.Fatal(a.Error)
	}
	if shared.wasm == nil {
		shared.wasm = map[string][]byte{}
	}
	shared.wasm[key] = a.Wasm
	return a.Wasm
}

func load(t testing.TB, wasm []byte) (*engine.Engine, *engine.Code) {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	var err error
	if shared.engine == nil {
		if shared.engine, err = engine.New(engine.Config{CompileTimeout: 5 * time.Minute}); err != nil {
			t.Fatal(err)
		}
		shared.codes = map[string]*engine.Code{}
	}
	digest := engine.Digest(wasm)
	if shared.codes[digest] == nil {
		if shared.codes[digest], err = shared.engine.Load(context.Background(), wasm); err != nil {
			t.Fatal(err)
		}
	}
	return shared.engine, shared.codes[digest]
}

func try(t testing.TB, wasm []byte, c Config) (*Plugin, error) {
	t.Helper()
	e, code := load(t, wasm)
	if c.Name == "" {
		c.Name = "p"
	}
	if c.Limits.Timeout == 0 {
		c.Limits.Timeout = time.Minute // the race detector is slow
	}
	return Start(context.Background(), e, code, c)
}

func start(t testing.TB, wasm []byte, c Config) *Plugin {
	t.Helper()
	p, err := try(t, wasm, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func withSection(wasm []byte, metadata string) []byte {
	if metadata == "" {
		return wasm
	}
	m := &wasmtest.Module{}
	m.Custom(abi.KubewardenSection, []byte(metadata))
	return append(append([]byte(nil), wasm...), m.Bytes()[8:]...) // without the header
}

func request(object string) *abi.AdmissionRequest {
	return &abi.AdmissionRequest{
		UID: "u-1", Version: "v1", Kind: "Pod", ResourceVersion: "v1", Resource: "pods", Namespace: "shop", Name: "web", Operation: "CREATE",
		Username: "alice", Object: []byte(object),
	}
}

func admit(p *Plugin, phase, object string) (*abi.AdmissionReply, engine.Usage, error) {
	return p.Admit(context.Background(), engine.Call{Seed: "u-1", Now: time.Unix(1_700_000_000, 5)}, phase, request(object))
}
