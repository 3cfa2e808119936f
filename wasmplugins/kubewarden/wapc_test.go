package kubewarden_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/kubewarden"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

func TestGoPolicy(t *testing.T) {
	p := start(t, waPC(t), kubewarden.Config{Settings: settings(t, "require")})
	for range 3 {
		r, u, err := admit(p, abi.PhaseValidate, bare)
		if err != nil || r.Allowed || r.Code != 422 || r.Message != "the label team is missing" || len(r.Warnings) != 1 || u.Fuel == 0 {
			t.Errorf("%+v, %+v, %v", r, u, err)
		}
		r, _, err = admit(p, abi.PhaseValidate, labeled)
		if err != nil || !r.Allowed || r.AuditAnnotations["team"] != "core" {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if p.Metadata() == nil || !p.Metadata().Mutating || p.Limits().Fuel == 0 || string(p.Settings()) != `{"do":"require"}` {
		t.Errorf("%+v", p.Metadata())
	}
}

func TestSettings(t *testing.T) {
	for name, wasm := range map[string][]byte{"wapc": waPC(t), "wasi": wasi(t)} {
		_, err := try(t, wasm, kubewarden.Config{})
		if !errors.Is(err, abi.ErrSettings) || !strings.Contains(err.Error(), "do must say what to do") {
			t.Errorf("%s: %v, want ErrSettings", name, err)
		}
	}
}

// TestMutation: a policy that changes objects may do so in the phase mutate,
// and finds nothing left to change in the phase validate.
func TestMutation(t *testing.T) {
	for name, wasm := range map[string][]byte{"wapc": waPC(t), "wasi": wasi(t)} {
		p := start(t, wasm, kubewarden.Config{Settings: settings(t, "add")})
		for _, phase := range []string{abi.PhaseMutate, abi.PhaseValidate} {
			r, _, err := admit(p, phase, labeled)
			if err != nil || !r.Allowed || r.Object != nil || r.Patch != nil {
				t.Errorf("%s %s: a good object: %+v, %v", name, phase, r, err)
			}
		}
		r, _, err := admit(p, abi.PhaseMutate, bare)
		var got, want any
		if err != nil || json.Unmarshal(r.Object, &got) != nil || json.Unmarshal([]byte(labeled), &want) != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		if _, _, err = admit(p, abi.PhaseValidate, bare); engine.ReasonOf(err) != engine.BadReply || !strings.Contains(err.Error(), "not allowed in the phase validate") {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
	}
	const changes = `{"accepted":true,"mutated_object":{"a":1}}`
	for metadata, want := range map[string]string{
		"":       "",
		mutating: "",
		judging:  "the policy's metadata does not call it mutating",
	} {
		p := start(t, fixed(metadata, changes), kubewarden.Config{})
		r, _, err := admit(p, abi.PhaseMutate, bare)
		if want == "" && (err != nil || string(r.Object) != `{"a":1}`) || want != "" && (engine.ReasonOf(err) != engine.BadReply || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %+v, %v", metadata, r, err)
		}
	}
}

// TestHostCalls: what a policy asks becomes capabilities, or is refused.
func TestHostCalls(t *testing.T) {
	review := `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":"bob","groups":["g"],"resourceAttributes":{"verb":"get","group":"apps","resource":"deployments","namespace":"shop","name":"web"}}}`
	for _, tc := range []struct {
		namespace, operation, payload string
		asked, want                   string
		allowed                       bool
	}{
		{
			"kubernetes", "get_resource", `{"api_version":"v1","kind":"Namespace","name":"shop","namespace":null,"disable_cache":true}`,
			`kube.get {"group":"","version":"v1","resource":"namespaces","kind":"Namespace","name":"shop"}`, `{"got":1}`, true,
		},
		{"kubernetes", "get_resource", `{"api_version":"v1","kind":"Namespace","name":""}`, ``, "names no object", false},
		{"kubernetes", "get_resource", `{"api_version":"v1","kind":"Secret","name":"s","namespace":"shop"}`, ``, "does not name v1 Secret among its contextAwareResources", false},
		{"kubernetes", "get_resource", `nonsense`, ``, "cannot read the request", false},
		{
			"kubernetes", "list_resources_by_namespace", `{"api_version":"networking.k8s.io/v1","kind":"Ingress","namespace":"shop","label_selector":"a=b","field_selector":"c=d"}`,
			`kube.list {"group":"networking.k8s.io","version":"v1","resource":"ingresses","kind":"Ingress","namespace":"shop","labelSelector":"a=b","fieldSelector":"c=d"}`,
			`{"apiVersion":"networking.k8s.io/v1","kind":"IngressList","metadata":{},"items":[{"a":1}]}`, true,
		},
		{"kubernetes", "list_resources_by_namespace", `{"api_version":"v1","kind":"Namespace","namespace":""}`, ``, "names no namespace", false},
		{
			"kubernetes", "list_resources_all", `{"api_version":"v1","kind":"Namespace","namespace":"x"}`,
			`kube.list {"group":"","version":"v1","resource":"namespaces","kind":"Namespace"}`, `{"apiVersion":"v1","kind":"NamespaceList","metadata":{},"items":[{"a":1}]}`, true,
		},
		{
			"kubernetes", "can_i", review,
			`authz.can_i {"group":"apps","groups":["g"],"name":"web","namespace":"shop","resource":"deployments","subresource":"","user":"bob","verb":"get"}`,
			`{"allowed":true,"reason":"because"}`, true,
		},
		{
			"kubernetes", "can_i", `{"subject_access_review":` + review + `,"disable_cache":false}`,
			`authz.can_i {"group":"apps","groups":["g"],"name":"web","namespace":"shop","resource":"deployments","subresource":"","user":"bob","verb":"get"}`,
			`{"allowed":true,"reason":"because"}`, true,
		},
		{"kubernetes", "can_i", `{}`, ``, "no resourceAttributes", false},
		{"kubernetes", "delete", `{}`, ``, "kubernetes/delete is not offered here", false},
		{"oci", "v1/verify", `{}`, ``, "oci/v1/verify is not offered here", false},
		{"crypto", "v1/is_certificate_trusted", `{}`, ``, "crypto/v1/is_certificate_trusted is not offered here", false},
		{"net", "v1/dns_lookup_host", `{}`, ``, "net/v1/dns_lookup_host is not offered here", false},
		{"tracing", "log", `{}`, ``, "", true},
	} {
		for guest, wasm := range map[string][]byte{"wapc": waPC(t), "wasi": wasi(t)} {
			var asked string
			p := start(t, wasm, kubewarden.Config{
				Settings: settings(t, "host", tc.namespace, tc.operation, tc.payload),
				Capability: func(_ context.Context, op string, req []byte) ([]byte, error) {
					asked = op + " " + string(req)
					return []byte(map[string]string{"kube.get": `{"got":1}`, "kube.list": `{"items":[{"a":1}]}`, "authz.can_i": `{"allowed":true,"reason":"because"}`}[op]), nil
				},
			})
			r, u, err := admit(p, abi.PhaseValidate, bare)
			if err != nil || r.Allowed != tc.allowed || asked != tc.asked {
				t.Errorf("%s %s/%s: %+v, %v, asked %s", guest, tc.namespace, tc.operation, r, err, asked)
				continue
			}
			said := r.Message
			if r.Allowed {
				said = r.Warnings[0]
			}
			if !strings.Contains(said, tc.want) {
				t.Errorf("%s %s/%s: %q, want %q", guest, tc.namespace, tc.operation, said, tc.want)
			}
			if (len(u.HostCalls) == 1) != (tc.asked != "") {
				t.Errorf("%s %s/%s: host calls %q", guest, tc.namespace, tc.operation, u.HostCalls)
			}
		}
	}
}

// TestDeclaredCapabilities: metadata that lists functions of the host allows no
// others; without a grant, none is answered.
func TestDeclaredCapabilities(t *testing.T) {
	// A policy that asks whether the user may, and gives the answer's length or
	// refuses.
	canI := func(metadata string) []byte {
		return script(metadata, nil,
			Const32(64), Const32(10), Const32(74), Const32(10), Const32(84), Const32(5), Const32(128), Const32(46), Call(hostCall),
			Eqz32, If(Const32(4), Const32(0), Call(failure), Const32(0), Return),
			Const32(200), Const32(17), Call(response))
	}
	for patterns, want := range map[string]bool{`["kubernetes/*"]`: true, `["*"]`: true, `["oci/*","kubernetes/can_i"]`: true, `[]`: false, `["kubernetes/get_resource"]`: false} {
		asked := false
		p := start(t, canI(`{"mutating":false,"hostCapabilities":`+patterns+`}`), kubewarden.Config{
			Capability: func(context.Context, string, []byte) ([]byte, error) {
				asked = true
				return []byte(`{"allowed":false}`), nil
			},
		})
		if _, _, err := admit(p, abi.PhaseValidate, bare); asked != want || (err == nil) != want {
			t.Errorf("%s: asked %v, %v", patterns, asked, err)
		}
	}
	p := start(t, canI(judging), kubewarden.Config{})
	if _, _, err := admit(p, abi.PhaseValidate, bare); engine.ReasonOf(err) != engine.CapabilityDenied {
		t.Errorf("%v, want CapabilityDenied", err)
	}
	p = start(t, waPC(t), kubewarden.Config{
		Settings:   settings(t, "host", "kubernetes", "can_i", `{"spec":{"resourceAttributes":{"verb":"get"}}}`),
		Capability: func(context.Context, string, []byte) ([]byte, error) { return nil, errors.New("the cache is cold") },
	})
	if r, _, err := admit(p, abi.PhaseValidate, bare); err != nil || r.Allowed || r.Message != "the cache is cold" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestLogs(t *testing.T) {
	var got []string
	p := start(t, waPC(t), kubewarden.Config{
		Settings: settings(t, "log"), Log: func(l engine.Level, b []byte) { got = append(got, fmt.Sprint(l, " ", string(b))) },
	})
	if _, _, err := admit(p, abi.PhaseValidate, bare); err != nil {
		t.Fatal(err)
	}
	want := []string{"1 on the console", "1 on the standard output", `3 {"level":"error","message":"traced"}`}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestCPolicy(t *testing.T) {
	p := start(t, BuildC(t, "testdata/c"), kubewarden.Config{})
	r, _, err := admit(p, abi.PhaseValidate, bare)
	if err != nil || !r.Allowed {
		t.Errorf("%+v, %v", r, err)
	}
	r, _, err = admit(p, abi.PhaseValidate, strings.Replace(bare, `"image":"i"`, `"securityContext":{"privileged":true}`, 1))
	if err != nil || r.Allowed || r.Message != "privileged containers are not wanted" {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestGoGuestStops: a Go guest that spins or says too much is stopped.
func TestGoGuestStops(t *testing.T) {
	limits := engine.Limits{Timeout: 100 * time.Millisecond, Fuel: 1 << 50}
	long := engine.Limits{Timeout: time.Minute, Fuel: 1 << 50, Memory: 128 << 20} // the race detector slows the way there
	for _, tc := range []struct {
		guest, do string
		limits    engine.Limits
		reason    engine.Reason
		detail    string
	}{
		{"wapc", "panic", long, engine.Trapped, "panic: as told"},
		{"wapc", "spin", limits, engine.DeadlineExceeded, "ran longer than 100ms"},
		{"wapc", "big", long, engine.BadReply, "the limit is 4194304"},
		{"wasi", "exit", long, engine.Trapped, "exited with code 3: about to exit"},
		{"wasi", "flood", long, engine.BadReply, "wrote more than 4194304 bytes"},
		{"wasi", "silent", long, engine.BadReply, "no validation response"},
		{"wasi", "chatty", long, engine.BadReply, "no validation response"},
		{"wasi", "spin", engine.Limits{Timeout: 300 * time.Millisecond, Fuel: 1 << 50}, engine.DeadlineExceeded, "ran longer than 300ms"},
	} {
		wasm := waPC(t)
		if tc.guest == "wasi" {
			wasm = wasi(t)
		}
		p := start(t, wasm, kubewarden.Config{Settings: settings(t, tc.do), Limits: tc.limits})
		for range 3 {
			_, _, err := admit(p, abi.PhaseValidate, bare)
			if engine.ReasonOf(err) != tc.reason || !strings.Contains(err.Error(), tc.detail) {
				t.Errorf("%s %s: %v, want %s: %s", tc.guest, tc.do, err, tc.reason, tc.detail)
			}
		}
	}
}
