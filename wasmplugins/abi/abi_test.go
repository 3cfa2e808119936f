package abi_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/proa-project/proa/wasmplugins/abi"
)

func TestAppendIsAnAdmissionRequest(t *testing.T) {
	r := abi.AdmissionRequest{
		UID: "u-1", Group: "apps", Version: "v1", Kind: "Deployment", ResourceGroup: "apps", ResourceVersion: "v1", Resource: "deployments",
		SubResource: "status", Name: "web", Namespace: "shop", Operation: "UPDATE", Username: `al"ice é`, UserUID: "7", Groups: []string{"a", "b\n"},
		Extra: map[string][]string{"k": {"v"}}, DryRun: true, Options: []byte(`{"kind":"UpdateOptions"}`), Object: []byte(`{"a":1}`), OldObject: []byte(`{"a":0}`),
	}
	b := r.Append([]byte("x"), abi.PhaseMutate, []byte(`{"s":1}`))[1:]
	var got struct {
		APIVersion, Phase string
		Settings          json.RawMessage
		Request           admissionv1.AdmissionRequest
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	q := got.Request
	if got.APIVersion != abi.Native || got.Phase != "mutate" || string(got.Settings) != `{"s":1}` || q.UID != "u-1" || q.Kind.Kind != "Deployment" ||
		q.Resource.Resource != "deployments" || q.SubResource != "status" || q.Name != "web" || q.Namespace != "shop" || q.Operation != admissionv1.Update ||
		q.UserInfo.Username != `al"ice é` || q.UserInfo.UID != "7" || q.UserInfo.Groups[1] != "b\n" || q.UserInfo.Extra["k"][0] != "v" || !*q.DryRun ||
		string(q.Object.Raw) != `{"a":1}` || string(q.OldObject.Raw) != `{"a":0}` || string(q.Options.Raw) != `{"kind":"UpdateOptions"}` {
		t.Errorf("got %+v from %s", got, b)
	}
	// Alone it has all fields that the API server sends to a webhook.
	d = json.NewDecoder(bytes.NewReader(r.AppendRequest(nil)))
	d.DisallowUnknownFields()
	q = admissionv1.AdmissionRequest{}
	if err := d.Decode(&q); err != nil {
		t.Fatal(err)
	}
	if q.RequestKind == nil || *q.RequestKind != q.Kind || q.RequestResource == nil || *q.RequestResource != q.Resource || q.RequestSubResource != "status" || string(q.Object.Raw) != `{"a":1}` {
		t.Errorf("got %+v", q)
	}
}

func TestParseAdmissionReply(t *testing.T) {
	for in, want := range map[string]string{
		``:                              "",
		`{"allowed":true}`:              "",
		`{"allowed":true,"patch":null}`: "",
		`{"allowed":true,"unknown":1}`:  "", // of a newer kit
		`{"allowed":true,"patch":[]}`:   "",
		`nonsense`:                      "no answer",
		`{}`:                            `does not say "allowed"`,
		`[]`:                            "no answer",
		`{"allowed":true,"object":{},"patch":[]}`:                            "both",
		`{"allowed":false,"patch":[]}`:                                       "both refuses and changes",
		`{"allowed":false,"status":{"code":302}}`:                            "no refusal",
		`{"allowed":false,"status":{"code":70000}}`:                          "no refusal",
		`{"allowed":false,"status":{"code":1e99}}`:                           "no answer",
		`{"allowed":true,"warnings":["` + strings.Repeat("x", 1<<20) + `"]}`: "the limit is 1048576",
	} {
		_, err := abi.ParseAdmissionReply([]byte(in), abi.PhaseMutate)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", in, err, want)
		}
	}
	if _, err := abi.ParseAdmissionReply([]byte(`{"allowed":true,"patch":[]}`), abi.PhaseValidate); err == nil {
		t.Error("a patch while validating is taken")
	}
}

func FuzzReply(f *testing.F) {
	f.Add([]byte(`{"allowed":false,"status":{"code":403,"message":"m"},"warnings":["w"],"auditAnnotations":{"a":"b"}}`))
	f.Add([]byte(`{"allowed":true,"patch":[{"op":"add"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, phase := range []string{abi.PhaseMutate, abi.PhaseValidate} {
			r, err := abi.ParseAdmissionReply(b, phase)
			if err != nil {
				continue
			}
			if r.Patch != nil && r.Object != nil || phase == abi.PhaseValidate && (r.Patch != nil || r.Object != nil) || !r.Allowed && r.Code != 0 && r.Code < 400 {
				t.Errorf("%q gave %+v", b, r)
			}
		}
		_ = abi.ParseConfigureReply(b)
		_, _ = abi.ParseManifest(b)
	})
}

func TestConfigureReply(t *testing.T) {
	if err := abi.ParseConfigureReply(nil); err != nil {
		t.Error(err)
	}
	if err := abi.ParseConfigureReply([]byte(`{"valid":true}`)); err != nil {
		t.Error(err)
	}
	if err := abi.ParseConfigureReply([]byte(`{"valid":false,"message":"m"}`)); !errors.Is(err, abi.ErrSettings) || err.Error() != "invalid settings: m" {
		t.Error(err)
	}
	if err := abi.ParseConfigureReply([]byte(`{}`)); err == nil || errors.Is(err, abi.ErrSettings) {
		t.Error(err)
	}
}

func TestDetect(t *testing.T) {
	fn := func(names ...string) map[string]string {
		m := map[string]string{}
		for _, n := range names {
			m[n] = "()"
		}
		return m
	}
	for _, tc := range []struct {
		exports  map[string]string
		imports  []string
		metadata string
		want     string
	}{
		{fn("proa_abi", "proa_admit"), nil, "", abi.Native},
		{fn("__guest_call"), []string{"wapc.__guest_request"}, "", abi.KubewardenABI},
		{fn("__guest_call"), []string{"wapc.__guest_request"}, `{"executionMode":"wasi"}`, abi.KubewardenABI},
		{fn("opa_json_parse", "eval"), []string{"env.opa_abort"}, "", abi.RegoABI},
		{fn("opa_json_parse", "eval"), nil, `{"executionMode":"opa"}`, abi.RegoABI},
		{fn("opa_json_parse", "eval"), nil, `{"executionMode":"gatekeeper"}`, abi.GatekeeperABI},
		{fn("opa_json_parse", "eval"), nil, `{"executionMode":7}`, abi.RegoABI},
		{fn("filter"), []string{"k8s.io/scheduler.currentPod"}, "", abi.SchedulerABI},
		{fn("_start"), []string{"k8s.io/api.nodeList"}, "", abi.SchedulerABI},
		{fn("_start"), []string{"wasi_snapshot_preview1.fd_read"}, `{"executionMode":"wasi","mutating":true}`, abi.KubewardenWASI},
		{fn("_start"), []string{"host.call"}, "", abi.KubewardenWASI},
		{fn("_start"), []string{"kubewarden:javy/host.call"}, "", abi.KubewardenWASI},
		{fn("_start"), []string{"wasi_snapshot_preview1.fd_read"}, "", abi.Unknown},
		{fn("main"), []string{"env.x"}, "", abi.Unknown},
	} {
		sections := map[string][]byte{}
		if tc.metadata != "" {
			sections[abi.KubewardenSection] = []byte(tc.metadata)
		}
		if got := abi.Detect(tc.exports, tc.imports, sections); got != tc.want {
			t.Errorf("%v %v %s: %q, want %q", tc.exports, tc.imports, tc.metadata, got, tc.want)
		}
	}
}

func TestManifestAndVersion(t *testing.T) {
	if m, err := abi.ParseManifest([]byte(`{"name":"n","abi":"proa/v1","kinds":["admit"]}`)); err != nil || m.Name != "n" {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := abi.ParseManifest([]byte(`{"abi":"proa/v9"}`)); err == nil {
		t.Error("an unknown ABI is taken")
	}
	if abi.CheckVersion(0x00010007) != nil || abi.CheckVersion(0x00020000) == nil || abi.CheckVersion(0) == nil {
		t.Error("versions are judged wrongly")
	}
}
