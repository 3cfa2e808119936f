package native_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/native"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newEngine(t testing.TB) *engine.Engine {
	t.Helper()
	e, err := engine.New(engine.Config{CompileTimeout: 5 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func load(t testing.TB, e *engine.Engine, wasm []byte) *engine.Code {
	t.Helper()
	code, err := e.Load(context.Background(), wasm)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(code.Close)
	return code
}

func start(t testing.TB, e *engine.Engine, wasm []byte, c native.Config) *native.Plugin {
	t.Helper()
	p, err := native.Start(context.Background(), e, load(t, e, wasm), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// pod is a pod of some KiB, as a Deployment makes them.
func pod(containers int, limits string) []byte {
	env := make([]string, 0, 12)
	for n := range 12 {
		env = append(env, fmt.Sprintf(`{"name":"SETTING_%d","value":"a value of some length, as they are, number %d"}`, n, n))
	}
	var cs []string
	for n := range containers {
		cs = append(cs, fmt.Sprintf(`{"name":"c%d","image":"registry.example/team/application:v1.2.%d","imagePullPolicy":"IfNotPresent",
"ports":[{"containerPort":8080,"protocol":"TCP"}],"env":[%s],"resources":{%s},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File",
"volumeMounts":[{"name":"data","mountPath":"/data"}]}`, n, n, strings.Join(env, ","), limits))
	}
	b := fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-5d4f","namespace":"shop","labels":{"app":"web","pod-template-hash":"5d4f"},
"annotations":{"sidecar.example/inject":"true"}},"spec":{"restartPolicy":"Always","dnsPolicy":"ClusterFirst","serviceAccountName":"default","schedulerName":"default-scheduler","terminationGracePeriodSeconds":30,"securityContext":{},
"containers":[%s],"volumes":[{"name":"data","emptyDir":{}}]},"status":{}}`, strings.Join(cs, ","))
	return []byte(strings.ReplaceAll(b, "\n", ""))
}

const limited = `"limits":{"cpu":"500m","memory":"128Mi"},"requests":{"cpu":"100m"}`

func request(object []byte) *abi.AdmissionRequest {
	return &abi.AdmissionRequest{
		UID: "7f3c", Version: "v1", Kind: "Pod", ResourceVersion: "v1", Resource: "pods", Namespace: "shop", Name: "web-5d4f", Operation: "CREATE",
		Username: "system:serviceaccount:kube-system:replicaset-controller", Groups: []string{"system:serviceaccounts", "system:authenticated"}, Object: object,
	}
}

func admit(p *native.Plugin, phase string, object []byte) (*abi.AdmissionReply, error) {
	r, _, err := p.Admit(context.Background(), engine.Call{Seed: "7f3c"}, phase, request(object))
	return r, err
}

func TestExamples(t *testing.T) {
	e := newEngine(t)
	limits := start(t, e, BuildGo(t, "../../examples/plugins/require-limits"), native.Config{Name: "require-limits"})
	for range 3 {
		if r, err := admit(limits, abi.PhaseValidate, pod(2, limited)); err != nil || !r.Allowed {
			t.Errorf("a pod with limits: %+v, %v", r, err)
		}
		r, err := admit(limits, abi.PhaseValidate, pod(1, `"limits":{"cpu":1}`))
		if err != nil || r.Allowed || r.Message != "container c0 has no memory limit" {
			t.Errorf("a pod without: %+v, %v", r, err)
		}
	}
	wasm := BuildGo(t, "../../examples/plugins/inject-sidecar")
	_, err := native.Start(context.Background(), e, load(t, e, wasm), native.Config{Name: "inject-sidecar"})
	if !errors.Is(err, abi.ErrSettings) || !strings.Contains(err.Error(), "container must have a name and an image") {
		t.Errorf("without settings: %v, want ErrSettings", err)
	}
	inject := start(t, e, wasm, native.Config{Name: "inject-sidecar", Settings: []byte(`{"container":{"name":"proxy","image":"p:1"}}`)})
	r, err := admit(inject, abi.PhaseMutate, pod(1, ""))
	want := `[{"op":"add","path":"/spec/containers/-","value":{"name":"proxy","image":"p:1"}},{"op":"add","path":"/metadata/labels/sidecar","value":"proxy"}]`
	if err != nil || string(r.Patch) != want || r.AuditAnnotations["injected"] != "proxy" {
		t.Errorf("got %+v, %v, want the patch %s", r, err, want)
	}
}

// TestLies are guests that break the contract in one way each.
func TestLies(t *testing.T) {
	e := newEngine(t)
	for _, tc := range []struct {
		name   string
		wasm   []byte
		reason engine.Reason
		detail string
	}{
		{"nonsense", Fixed("nonsense"), engine.BadReply, "no answer"},
		{"no verdict", Fixed("{}"), engine.BadReply, `does not say "allowed"`},
		{"wrong type", Fixed(`{"allowed":"yes"}`), engine.BadReply, "no answer"},
		{"both", Fixed(`{"allowed":true,"patch":[],"object":{}}`), engine.BadReply, "both a patch and an object"},
		{"refuses with success", Fixed(`{"allowed":false,"status":{"code":200}}`), engine.BadReply, "status code 200"},
		{"10 MB", lie(func(m *Module) { admitFunc(m, Reply(0, 10<<20)) }), engine.BadReply, "the reply has 10485760 bytes"},
		{"huge length", lie(func(m *Module) { admitFunc(m, Reply(0, 0xffffffff)) }), engine.BadReply, "the limit is"},
		{"reply outside", lie(func(m *Module) { admitFunc(m, Reply(0xfffffff0, 100)) }), engine.BadReply, "outside the memory"},
		{"no memory", lieAlloc(0), engine.OutOfMemory, "proa_alloc gave no memory"},
		{"alloc outside", lieAlloc(-8), engine.BadReply, "do not fit into memory"},
	} {
		p := start(t, e, tc.wasm, native.Config{Name: "liar"})
		for range 2 {
			_, err := admit(p, abi.PhaseMutate, pod(1, ""))
			if engine.ReasonOf(err) != tc.reason || !strings.Contains(err.Error(), tc.detail) {
				t.Errorf("%s: %v, want %s: %s", tc.name, err, tc.reason, tc.detail)
			}
		}
	}
	p := start(t, e, Fixed(`{"allowed":true,"patch":[]}`), native.Config{Name: "liar"})
	if _, err := admit(p, abi.PhaseValidate, pod(1, "")); engine.ReasonOf(err) != engine.BadReply {
		t.Errorf("a patch while validating: %v", err)
	}
}

func lie(f func(m *Module)) []byte {
	m := &Module{}
	Admission(m, "")
	f(m)
	return m.Bytes()
}

func admitFunc(m *Module, code ...[]byte) {
	m.Func("proa_admit", []byte{I32, I32}, []byte{I64}, nil, code...)
}

// lieAlloc is right about the first bytes, and answers a large request with p.
func lieAlloc(p int32) []byte {
	m := &Module{}
	m.Memory(1, 0)
	m.Func("proa_abi", nil, []byte{I32}, nil, Const32(0x00010000))
	m.Func("proa_alloc", []byte{I32}, []byte{I32}, nil, Const32(p))
	admitFunc(m, Const64(0))
	return m.Bytes()
}

func TestVersion(t *testing.T) {
	e := newEngine(t)
	m := &Module{}
	m.Memory(1, 0)
	m.Func("proa_abi", nil, []byte{I32}, nil, Const32(0x00020000))
	m.Func("proa_alloc", []byte{I32}, []byte{I32}, nil, Const32(0))
	admitFunc(m, Const64(0))
	_, err := native.Start(context.Background(), e, load(t, e, m.Bytes()), native.Config{Name: "p"})
	if engine.ReasonOf(err) != engine.BadReply || !strings.Contains(err.Error(), "version 2.0 of the ABI, this is 1.0") {
		t.Error(err)
	}
}

// TestGoGuestStops: a Go guest that spins or hoards is stopped like any other.
func TestGoGuestStops(t *testing.T) {
	e := newEngine(t)
	wasm := BuildGo(t, "testdata/evil")
	for _, tc := range []struct {
		how    string
		reason engine.Reason
		detail string
	}{
		{"spin", engine.DeadlineExceeded, "ran longer than 100ms"},
		{"recurse", engine.StackOverflow, "nested more than"},
		{"hoard", engine.OutOfMemory, "needed more than 16 MiB"},
		{"panic", engine.Trapped, "panic: as told"},
		{"exit", engine.Trapped, "exited with code 7"},
		{"sleep", engine.DeadlineExceeded, "ran longer than 100ms"},
		{"deadlock", engine.Trapped, "all goroutines are asleep - deadlock!"},
	} {
		limits := engine.Limits{Timeout: 100 * time.Millisecond, Fuel: 1 << 50, Memory: 16 << 20}
		if tc.reason != engine.DeadlineExceeded {
			limits.Timeout = time.Minute // the race detector slows the way there
		}
		p := start(t, e, wasm, native.Config{Name: "evil", Settings: fmt.Appendf(nil, "%q", tc.how), Limits: limits})
		for range 3 {
			_, err := admit(p, abi.PhaseValidate, []byte(`{}`))
			if engine.ReasonOf(err) != tc.reason || !strings.Contains(err.Error(), tc.detail) {
				t.Errorf("%s: %v, want %s: %s", tc.how, err, tc.reason, tc.detail)
			}
		}
	}
}

func BenchmarkAdmit(b *testing.B) {
	e := newEngine(b)
	object := pod(2, limited)
	if !json.Valid(object) {
		b.Fatal("the pod is no JSON")
	}
	for _, bc := range []struct {
		name string
		wasm func() []byte
	}{
		{"small", func() []byte { return Search(`"zzzzzz"`) }},
		{"go", func() []byte { return BuildGo(b, "../../examples/plugins/require-limits") }},
	} {
		p := start(b, e, bc.wasm(), native.Config{Name: bc.name})
		req := request(object)
		b.Run(bc.name, func(b *testing.B) {
			var usage engine.Usage
			b.ReportAllocs()
			b.ReportMetric(float64(len(req.Append(nil, abi.PhaseValidate, nil))), "bytes/request")
			for b.Loop() {
				_, u, err := p.Admit(context.Background(), engine.Call{}, abi.PhaseValidate, req)
				if err != nil {
					b.Fatal(err)
				}
				usage = u
			}
			b.ReportMetric(float64(usage.Fuel), "fuel/op")
			b.ReportMetric(float64(usage.Memory), "memory")
		})
	}
}
