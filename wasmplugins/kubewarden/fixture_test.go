package kubewarden_test

import (
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
	"github.com/proa-project/proa/wasmplugins/kubewarden"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shared is one engine with what it has compiled, for all tests: a Go guest
// takes seconds.
var shared struct {
	sync.Mutex
	engine *engine.Engine
	codes  map[string]*engine.Code
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

func try(t testing.TB, wasm []byte, c kubewarden.Config) (*kubewarden.Plugin, error) {
	t.Helper()
	e, code := load(t, wasm)
	if c.Name == "" {
		c.Name = "p"
	}
	if c.Limits.Timeout == 0 {
		c.Limits.Timeout = time.Minute // the race detector is slow
	}
	return kubewarden.Start(context.Background(), e, code, c)
}

func start(t testing.TB, wasm []byte, c kubewarden.Config) *kubewarden.Plugin {
	t.Helper()
	p, err := try(t, wasm, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// settings are those of the guests in testdata.
func settings(t testing.TB, do string, call ...string) []byte {
	t.Helper()
	m := map[string]string{"do": do}
	if len(call) > 0 {
		m["namespace"], m["operation"], m["payload"] = call[0], call[1], call[2]
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func request(object string) *abi.AdmissionRequest {
	return &abi.AdmissionRequest{
		UID: "u-1", Version: "v1", Kind: "Pod", ResourceVersion: "v1", Resource: "pods", Namespace: "shop", Name: "web", Operation: "CREATE",
		Username: "alice", Object: []byte(object),
	}
}

const (
	bare    = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","creationTimestamp":null},"spec":{"priority":1000000000,"containers":[{"name":"c","image":"i"}]}}`
	labeled = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","labels":{"team":"core"},"creationTimestamp":null},"spec":{"priority":1000000000,"containers":[{"name":"c","image":"i"}]}}`
)

func admit(p *kubewarden.Plugin, phase, object string) (*abi.AdmissionReply, engine.Usage, error) {
	return p.Admit(context.Background(), engine.Call{Seed: "u-1"}, phase, request(object))
}

// The metadata of the policies in testdata.
const (
	mutating = `{"protocolVersion":"v1","mutating":true,"contextAwareResources":[{"apiVersion":"v1","kind":"Namespace"},{"apiVersion":"networking.k8s.io/v1","kind":"Ingress"}]}`
	judging  = `{"protocolVersion":"v1","mutating":false}`
)

var built sync.Map

// waPC and wasi build the policies of testdata that are written in Go.
func waPC(t testing.TB) []byte {
	t.Helper()
	return goPolicy(t, "wapc", "c-shared", mutating)
}

func wasi(t testing.TB) []byte {
	t.Helper()
	return goPolicy(t, "wasi", "default", `{"executionMode":"wasi",`+mutating[1:])
}

func goPolicy(t testing.TB, dir, mode, metadata string) []byte {
	t.Helper()
	if b, ok := built.Load(dir); ok {
		return b.([]byte)
	}
	out := filepath.Join(t.TempDir(), "policy.wasm")
	cmd := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-buildmode="+mode, "-ldflags=-s -w", "-o", out, ".")
	cmd.Dir = filepath.Join("testdata", dir)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=-buildvcs=false", "GOWORK=off", "GOROOT=")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", dir, err, text)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	b = withSection(b, metadata)
	built.Store(dir, b)
	return b
}

// withSection adds the metadata to a module.
func withSection(wasm []byte, metadata string) []byte {
	if metadata == "" {
		return wasm
	}
	m := &Module{}
	m.Custom(abi.KubewardenSection, []byte(metadata))
	return append(append([]byte(nil), wasm...), m.Bytes()[8:]...) // without the header
}

// script is a policy that answers protocol_version and validate_settings as it
// should, and to validate with the code given, which is a body without result
// of a function with the parameters of __guest_call. The imports have the
// indexes of the constants below.
func script(metadata string, locals []byte, validate ...[]byte) []byte {
	m := &Module{}
	scriptImports(m)
	m.Memory(4, 0)
	m.Data(0, []byte(`"v1"{"valid":true}`))
	m.Data(64, []byte("kubewardenkubernetescan_i"))
	m.Data(128, []byte(`{"spec":{"resourceAttributes":{"verb":"get"}}}`)) // 46 bytes
	m.Data(200, []byte(`{"accepted":true}`))
	m.Func("__guest_call", []byte{I32, I32}, []byte{I32}, locals, append([][]byte{
		Get(0), Const32(16), Op(0x46), If(Const32(0), Const32(4), Call(response), Const32(1), Return), // protocol_version
		Get(0), Const32(17), Op(0x46), If(Const32(4), Const32(14), Call(response), Const32(1), Return), // validate_settings
	}, append(validate, Const32(1))...)...)
	if metadata != "" {
		m.Custom(abi.KubewardenSection, []byte(metadata))
	}
	return m.Bytes()
}

// The indexes of functions in a script.
const (
	guestRequest = iota
	response
	failure
	console
	hostCall
	hostLen
	hostResponse
	abort
	guestCall
)

func scriptImports(m *Module) {
	two, one := []byte{I32, I32}, []byte{I32}
	m.Import("wapc", "__guest_request", two, nil)
	m.Import("wapc", "__guest_response", two, nil)
	m.Import("wapc", "__guest_error", two, nil)
	m.Import("wapc", "__console_log", two, nil)
	m.Import("wapc", "__host_call", []byte{I32, I32, I32, I32, I32, I32, I32, I32}, one)
	m.Import("wapc", "__host_response_len", nil, one)
	m.Import("wapc", "__host_response", one, nil)
	m.Import("env", "abort", []byte{I32, I32, I32, I32}, nil)
}

// fixed is a policy that gives the same answer to every request.
func fixed(metadata, reply string) []byte {
	code := [][]byte{}
	for n := range len(reply) {
		code = append(code, Const32(int32(1024+n)), Const32(int32(reply[n])), Op(0x3a, 0, 0)) // i32.store8
	}
	return script(metadata, nil, append(code, Const32(1024), Const32(int32(len(reply))), Call(response))...)
}
