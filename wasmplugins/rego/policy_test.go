package rego

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
)

// webhook is a policy as they are written for webhooks.
const webhook = `package kubernetes.admission

import rego.v1

main := {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}

response := {"uid": input.request.uid, "allowed": true} if count(deny) == 0
response := {"uid": input.request.uid, "allowed": false, "status": {"code": 422, "message": concat(", ", deny)}, "warnings": ["see the handbook"], "auditAnnotations": {"n": format_int(count(deny), 10)}} if count(deny) > 0

deny contains msg if {
	some c in input.request.object.spec.containers
	not startswith(c.image, data.registry)
	msg := sprintf("image %q is not from %s", [c.image, data.registry])
}
`

// labels is the policy that every guide to Gatekeeper begins with.
const labels = `package k8srequiredlabels

import rego.v1

violation contains {"msg": msg, "details": {"missing_labels": missing}} if {
	provided := {label | input.review.object.metadata.labels[label]}
	required := {label | some label in input.parameters.labels}
	missing := required - provided
	count(missing) > 0
	msg := sprintf("you must provide labels: %v", [missing])
}

violation contains {"msg": "the name is too short"} if count(input.review.name) < 2
`

const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"registry.example.test/web:1"}]}}`

func TestWebhookPolicy(t *testing.T) {
	var lines []string
	p := start(t, compile(t, webhook, "kubernetes/admission/main"), Config{
		Settings: []byte(`{"registry":"registry.example.test/"}`), Log: func(_ engine.Level, b []byte) { lines = append(lines, string(b)) },
	})
	if p.Mode() != abi.ModeOPA || p.Metadata() != nil || p.Limits().Fuel == 0 || !strings.Contains(string(p.Settings()), "registry") {
		t.Errorf("mode %s", p.Mode())
	}
	for range 3 {
		r, u, err := admit(p, abi.PhaseValidate, pod)
		if err != nil || !r.Allowed || u.Fuel == 0 {
			t.Errorf("%+v, %+v, %v", r, u, err)
		}
		r, _, err = admit(p, abi.PhaseMutate, strings.Replace(pod, "registry.example.test/", "elsewhere.example.test/", 1))
		want := &abi.AdmissionReply{
			Code: 422, Message: `image "elsewhere.example.test/web:1" is not from registry.example.test/`,
			Warnings: []string{"see the handbook"}, AuditAnnotations: map[string]string{"n": "1"},
		}
		if err != nil || !reflect.DeepEqual(r, want) {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

// TestGatekeeperPolicy: the mode follows from the entrypoint, or from the
// metadata.
func TestGatekeeperPolicy(t *testing.T) {
	wasm := compile(t, labels, "k8srequiredlabels/violation")
	for _, metadata := range []string{"", `{"executionMode":"gatekeeper","mutating":false}`} {
		p := start(t, withSection(wasm, metadata), Config{Settings: []byte(`{"labels":["team","owner","app"]}`)})
		if p.Mode() != abi.ModeGatekeeper {
			t.Errorf("%s: mode %s", metadata, p.Mode())
		}
		r, _, err := admit(p, abi.PhaseValidate, pod)
		if err != nil || r.Allowed || r.Message != `you must provide labels: {"owner", "team"}` {
			t.Errorf("%+v, %v", r, err)
		}
		r, _, err = admit(p, abi.PhaseValidate, strings.Replace(pod, `"app":"web"`, `"app":"a","team":"t","owner":"o"`, 1))
		if err != nil || !r.Allowed || r.Message != "" {
			t.Errorf("%+v, %v", r, err)
		}
		short := request(pod)
		short.Name = "w"
		r, _, err = p.Admit(context.Background(), engine.Call{}, abi.PhaseValidate, short)
		if err != nil || r.Allowed || r.Message != `the name is too short, you must provide labels: {"owner", "team"}` {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

// TestResults are the other shapes that a result may have.
func TestResults(t *testing.T) {
	const policy = `package p

import rego.v1

default allow := false
allow if input.request.object.metadata.name == "web"

deny contains "the name is not good" if input.request.object.metadata.name != "web"

patched := {"allowed": true, "patchType": "JSONPatch", "patch": base64.encode(json.marshal([{"op": "add", "path": "/metadata/labels/t", "value": "x"}]))}

nothing if false

odd := 7
`
	other := strings.Replace(pod, `"name":"web"`, `"name":"other"`, 1)
	for _, tc := range []struct {
		entrypoint, object, phase string
		want                      *abi.AdmissionReply
		err                       string
	}{
		{"p/allow", pod, abi.PhaseValidate, &abi.AdmissionReply{Allowed: true}, ""},
		{"p/allow", other, abi.PhaseValidate, &abi.AdmissionReply{}, ""},
		{"p/deny", pod, abi.PhaseValidate, &abi.AdmissionReply{Allowed: true}, ""},
		{"p/deny", other, abi.PhaseValidate, &abi.AdmissionReply{Message: "the name is not good"}, ""},
		{"p/patched", pod, abi.PhaseMutate, &abi.AdmissionReply{Allowed: true, Patch: []byte(`[{"op":"add","path":"/metadata/labels/t","value":"x"}]`)}, ""},
		{"p/patched", pod, abi.PhaseValidate, nil, "not allowed in the phase validate"},
		{"p/nothing", pod, abi.PhaseValidate, nil, "undefined for this request"},
		{"p/odd", pod, abi.PhaseValidate, nil, "no judgement: 7"},
	} {
		p := start(t, compile(t, policy, tc.entrypoint), Config{})
		r, _, err := admit(p, tc.phase, tc.object)
		switch {
		case tc.err != "":
			if engine.ReasonOf(err) != engine.BadReply || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%s: %+v, %v, want %s", tc.entrypoint, r, err, tc.err)
			}
		case err != nil || !reflect.DeepEqual(r, tc.want):
			t.Errorf("%s: %+v, %v, want %+v", tc.entrypoint, r, err, tc.want)
		}
	}
	p := start(t, withSection(compile(t, policy, "p/patched"), `{"executionMode":"opa","mutating":false}`), Config{})
	if _, _, err := admit(p, abi.PhaseMutate, pod); engine.ReasonOf(err) != engine.BadReply || !strings.Contains(err.Error(), "does not call it mutating") {
		t.Error(err)
	}
}

// TestContext: a policy finds the objects that its metadata names in its data.
func TestContext(t *testing.T) {
	const policy = `package p

import rego.v1

main := {"response": {"allowed": data.kubernetes.namespaces[input.request.namespace].metadata.labels.open == data.settings.open, "warnings": [concat(",", [n | some n, _ in data.kubernetes.services.shop])]}}

violation contains {"msg": sprintf("%s has a service %s", [ns, name])} if {
	some ns, name
	data.inventory.namespace[ns]["v1"].Service[name]
}

violation contains {"msg": name} if {
	some name
	data.inventory.cluster["v1"].Namespace[name]
}
`
	const kinds = `"mutating":false,"contextAwareResources":[{"apiVersion":"v1","kind":"Namespace"},{"apiVersion":"v1","kind":"Service"}]}`
	var asked []string
	lists := func(_ context.Context, op string, req []byte) ([]byte, error) {
		asked = append(asked, op+" "+string(req))
		if strings.Contains(string(req), `"Service"`) {
			return []byte(`{"items":[{"metadata":{"name":"s","namespace":"shop"}}]}`), nil
		}
		return []byte(`{"items":[{"metadata":{"name":"shop","labels":{"open":"yes"}}}]}`), nil
	}
	wasm := withSection(compile(t, policy, "p/main"), `{"executionMode":"opa",`+kinds)
	p := start(t, wasm, Config{Settings: []byte(`{"settings":{"open":"yes"}}`), Capability: lists})
	r, u, err := admit(p, abi.PhaseValidate, pod)
	if err != nil || !r.Allowed || r.Warnings[0] != "s" || len(u.HostCalls) != 2 {
		t.Errorf("%+v, %+v, %v", r, u, err)
	}
	want := []string{`kube.list {"group":"","kind":"Namespace","resource":"namespaces","version":"v1"}`, `kube.list {"group":"","kind":"Service","resource":"services","version":"v1"}`}
	if !reflect.DeepEqual(asked, want) {
		t.Errorf("asked %q", asked)
	}
	gate := withSection(compile(t, policy, "p/violation"), `{"executionMode":"gatekeeper",`+kinds)
	p = start(t, gate, Config{Capability: lists})
	if r, _, err := admit(p, abi.PhaseValidate, pod); err != nil || r.Allowed || r.Message != "shop, shop has a service s" {
		t.Errorf("%+v, %v", r, err)
	}
	for name, capability := range map[string]func(context.Context, string, []byte) ([]byte, error){
		"not granted": nil,
		"fails":       func(context.Context, string, []byte) ([]byte, error) { return nil, errors.New("no") },
		"nonsense":    func(context.Context, string, []byte) ([]byte, error) { return []byte(`{"items":7}`), nil },
		"an oddity":   func(context.Context, string, []byte) ([]byte, error) { return []byte(`{"items":[7]}`), nil },
	} {
		p := start(t, wasm, Config{Capability: capability})
		if _, _, err := admit(p, abi.PhaseValidate, pod); engine.ReasonOf(err) != engine.CapabilityDenied {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRefusedAtStart: what a policy needs and cannot have is named at once.
func TestRefusedAtStart(t *testing.T) {
	const policy = `package p

import rego.v1

allow if http.send({"method": "get", "url": "http://example.test"}).status_code == 200
allow if count(net.lookup_ip_addr("example.test")) > 0
`
	_, err := try(t, compile(t, policy, "p/allow"), Config{})
	if engine.ReasonOf(err) != engine.CapabilityDenied || !strings.Contains(err.Error(), "not offered: http.send, net.lookup_ip_addr") {
		t.Error(err)
	}
	wasm := compile(t, labels, "k8srequiredlabels/violation")
	for _, settings := range []string{`[]`, `7`, `nonsense`} {
		if _, err := try(t, wasm, Config{Settings: []byte(settings)}); !errors.Is(err, abi.ErrSettings) {
			t.Errorf("settings %s: %v", settings, err)
		}
	}
	if _, err := try(t, compile(t, webhook, "kubernetes/admission/main"), Config{Settings: []byte(`{"a"`)}); engine.ReasonOf(err) != engine.BadReply {
		t.Errorf("settings that are no JSON: %v", err)
	}
	if _, err := try(t, withSection(wasm, `{`), Config{}); engine.ReasonOf(err) != engine.BadReply {
		t.Errorf("broken metadata: %v", err)
	}
}

// TestPrints: what a policy prints is logged, and its clock and randomness are
// those of the request.
func TestPrints(t *testing.T) {
	const policy = `package p

import rego.v1

main := {"response": {"allowed": true, "warnings": [sprintf("%d", [time.now_ns()]), uuid.rfc4122("k"), format_int(rand.intn("k", 1000), 10)]}} if {
	print("seen", input.request.name, {1, 2})
	trace("traced")
}
`
	var lines []string
	p := start(t, compile(t, policy, "p/main"), Config{Log: func(_ engine.Level, b []byte) { lines = append(lines, string(b)) }})
	first, _, err := admit(p, abi.PhaseValidate, pod)
	if err != nil {
		t.Fatal(err)
	}
	second, _, err := admit(p, abi.PhaseValidate, pod)
	if err != nil || !reflect.DeepEqual(first, second) || first.Warnings[0] != "1700000000000000005" || len(first.Warnings[1]) != 36 {
		t.Errorf("%+v and %+v, %v", first, second, err)
	}
	if len(lines) != 4 || lines[0] != "seen web {1, 2}" || lines[1] != "traced" {
		t.Errorf("%q", lines)
	}
}
