package kubewarden

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/proa-project/proa/wasmplugins/abi"
)

func TestVerdicts(t *testing.T) {
	r := &abi.AdmissionRequest{Object: []byte(`{"a":1,"b":null,"c":[1.0,{"d":null}],"n":12345678901234567890}`)}
	for in, want := range map[string]string{
		`{"accepted":true,"message":"ignored","code":7}`:                                            "allowed",
		`{"accepted":true,"mutated_object":null}`:                                                   "allowed",
		`{"accepted":true,"mutated_object":{"n":12345678901234567890,"c":[1,{}],"a":1e0,"x":null}}`: "allowed",
		`{"accepted":true,"mutated_object":{"n":12345678901234567890,"c":[1],"a":1}}`:               "changed",
		`{"accepted":true,"mutated_object":[]}`:                                                     "not an object",
		`{"accepted":false,"code":403,"message":"m"}`:                                               "refused 403 m",
		`{"accepted":false,"code":200,"message":"m"}`:                                               "refused 0 m",
		`{"accepted":false,"mutated_object":{}}`:                                                    "refused 0 ",
		`{"accepted":"yes"}`:                                                                        "no validation response",
		`{}`:                                                                                        `does not say "accepted"`,
		``:                                                                                          "no validation response",
	} {
		v, err := parseVerdict([]byte(in))
		var got string
		if err == nil {
			var out *abi.AdmissionReply
			if out, err = v.reply(abi.PhaseMutate, r, true); err == nil {
				switch {
				case out.Object != nil:
					got = "changed"
				case out.Allowed:
					got = "allowed"
				default:
					code, _ := json.Marshal(out.Code) // of a number
					got = "refused " + string(code) + " " + out.Message
				}
			}
		}
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func FuzzVerdict(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `null`, `{"accepted":true}`, `{"accepted":false,"message":"m","code":422,"warnings":["w"],"audit_annotations":{"a":"b"}}`,
		`{"accepted":true,"mutated_object":{"a":[1,2.5,null,{"b":"c"}]}}`, `{"accepted":true,"mutated_object":7}`, `{"accepted":true,"mutated_object":{"a":1e999}}`,
		`{"accepted":false,"code":1e99}`,
	} {
		f.Add([]byte(s), []byte(`{"a":1}`))
	}
	f.Fuzz(func(t *testing.T, b, object []byte) {
		v, err := parseVerdict(b)
		if err != nil {
			return
		}
		for _, phase := range []string{abi.PhaseMutate, abi.PhaseValidate} {
			for _, may := range []bool{true, false} {
				out, err := v.reply(phase, &abi.AdmissionRequest{Object: object}, may)
				if err != nil {
					continue
				}
				if out.Object != nil && (phase != abi.PhaseMutate || !may || !out.Allowed || !json.Valid(out.Object)) {
					t.Errorf("%s in %s, may mutate %v: %s", b, phase, may, out.Object)
				}
				if out.Code != 0 && (out.Allowed || out.Code < 400 || out.Code > 599) {
					t.Errorf("%s: code %d", b, out.Code)
				}
			}
		}
	})
}

func FuzzSettingsReply(f *testing.F) {
	for _, s := range []string{``, `{}`, `{"valid":true}`, `{"valid":false,"message":"m"}`, `{"valid":null}`, `[]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		err := parseSettingsReply(b)
		if err == nil && !strings.Contains(strings.ToLower(string(b)), "valid") {
			t.Errorf("%s is taken for consent", b)
		}
		if errors.Is(err, abi.ErrSettings) && err.Error() == "" {
			t.Error("no text")
		}
	})
}

func FuzzHostRequests(f *testing.F) {
	p := &Plugin{metadata: &abi.KubewardenMetadata{ContextAwareResources: []abi.KubewardenResource{{APIVersion: "v1", Kind: "Namespace"}}}}
	for _, s := range []string{``, `{}`, `{"api_version":"v1","kind":"Namespace","namespace":null}`, `{"api_version":"v1","kind":"Pod"}`, `{"kind":7}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, q, err := p.query(b)
		if err == nil && (r.Kind != "Namespace" || q.Resource != "namespaces" || q.Group != "") {
			t.Errorf("%s: %+v", b, q)
		}
	})
}
