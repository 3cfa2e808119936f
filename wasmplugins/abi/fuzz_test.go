package abi_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/proa-project/proa/wasmplugins/abi"
)

// FuzzAuthorizeReply: whatever a guest says, it is one of the decisions or an
// error.
func FuzzAuthorizeReply(f *testing.F) {
	for _, s := range []string{``, `{}`, `{"decision":"Allow","reason":"r"}`, `{"decision":"Deny"}`, `{"decision":"allow"}`, `{"decision":1}`, `null`, `[]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d, reason, err := abi.ParseAuthorizeReply(b)
		switch {
		case err != nil && (d != "" || reason != ""):
			t.Errorf("%q gave %q, %q and %v", b, d, reason, err)
		case err == nil && !slices.Contains([]string{abi.DecisionAllow, abi.DecisionDeny, abi.DecisionNoOpinion}, d):
			t.Errorf("%q gave the decision %q", b, d)
		}
	})
}

// FuzzAuthenticateReply: no guest makes anybody a user of the system.
func FuzzAuthenticateReply(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `{"authenticated":true,"user":{"username":"u","uid":"1","groups":["g"],"extra":{"k":["v"]}}}`, `{"authenticated":false,"error":"e"}`,
		`{"authenticated":true,"user":{"username":"system:admin"}}`, `{"authenticated":true,"user":{"username":"u","groups":["system:masters"]}}`,
		`{"authenticated":true,"user":{"username":""}}`, `{"authenticated":true}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		u, err := abi.ParseAuthenticateReply(b)
		if err != nil || u == nil {
			return
		}
		for _, name := range append([]string{u.Username}, u.Groups...) {
			if u.Username == "" || strings.HasPrefix(name, "system:") {
				t.Errorf("%q gave %+v", b, u)
			}
		}
	})
}

// FuzzConvertReply: a conversion that is taken has the same objects in the
// wanted version.
func FuzzConvertReply(f *testing.F) {
	const thing = `{"apiVersion":"example.test/v1","kind":"Thing","metadata":{"name":"a","namespace":"n","uid":"u"}}`
	for _, s := range []string{
		``, `{}`, `{"objects":[]}`, `{"error":"e"}`, `{"objects":[{"apiVersion":"example.test/v2","kind":"Thing","metadata":{"name":"a","namespace":"n","uid":"u"},"spec":{}}]}`,
		`{"objects":[{"apiVersion":"example.test/v2","kind":"Other","metadata":{"name":"a"}}]}`, `{"objects":[null]}`, `{"objects":[1]}`,
		`{"objects":[{"apiVersion":"example.test/v2","kind":"Thing","metadata":{"name":"b","namespace":"n","uid":"u"},"METADATA":{"name":"a"}}]}`,
		`{"objects":[{"apiVersion":"example.test/v2","kind":"Thing","metadata":{"name":"a","namespace":"n","uid":"u"},"metadata":{}}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		in := bytes.Clone(b)
		out, err := abi.ParseConvertReply(b, "example.test/v2", [][]byte{[]byte(thing)})
		if err != nil {
			if out != nil {
				t.Errorf("%q gave %q and %v", b, out, err)
			}
			return
		}
		if len(out) != 1 {
			t.Fatalf("%q gave %d objects", b, len(out))
		}
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(out[0]); err != nil && !strings.Contains(err.Error(), "exceeded max depth") || err == nil &&
			(u.GetAPIVersion() != "example.test/v2" || u.GetKind() != "Thing" || u.GetName() != "a" || u.GetNamespace() != "n" || u.GetUID() != "u") {
			t.Errorf("%q gave %s, %v", b, out[0], err)
		}
		before := string(out[0])
		clear(b)
		if string(out[0]) != before {
			t.Errorf("the objects of %q share its memory", in)
		}
	})
}

// FuzzServeReply: a reply that is taken has what its verb needs.
func FuzzServeReply(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `{"object":{"metadata":{"name":"a"}}}`, `{"items":[{"metadata":{"name":"a"}}],"continue":"c"}`, `{"status":{"code":404}}`,
		`{"status":{"code":200}}`, `{"status":{"code":-1}}`, `{"object":null}`, `{"items":null}`, `{"object":[]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, verb := range []string{"get", "list", "create", "update", "delete"} {
			r, err := abi.ParseServeReply(b, verb)
			switch {
			case err != nil:
			case r.Status != nil:
				if r.Status.Code < 400 || r.Status.Code > 599 {
					t.Errorf("%s: %q gave the status %+v", verb, b, r.Status)
				}
			case verb != "list" && verb != "delete" && !json.Valid(r.Object):
				t.Errorf("%s: %q gave the object %q", verb, b, r.Object)
			}
		}
	})
}

// FuzzAdmissionRequest: what was read is written so that it reads the same.
func FuzzAdmissionRequest(f *testing.F) {
	full := &abi.AdmissionRequest{
		UID: "u", Group: "g", Version: "v1", Kind: "K", ResourceGroup: "g", ResourceVersion: "v1", Resource: "ks", SubResource: "s", Name: "n", Namespace: "ns",
		Operation: "UPDATE", Username: "u\u2028\"<", UserUID: "1", Groups: []string{"a"}, Extra: map[string][]string{"k": {"v"}}, DryRun: true,
		Options: []byte(`{"kind":"UpdateOptions"}`), Object: []byte(`{"a":1}`), OldObject: []byte(`{}`),
	}
	f.Add(full.AppendRequest(nil))
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"userInfo":{"extra":{"":null}},"object":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := abi.ParseAdmissionRequest(b)
		if err != nil {
			return
		}
		text := r.AppendRequest(nil)
		again, err := abi.ParseAdmissionRequest(text)
		if err != nil || !bytes.Equal(again.AppendRequest(nil), text) {
			t.Errorf("%q was written as %s, %v, then %s", b, text, err, again.AppendRequest(nil))
		}
		if all := r.Append(nil, abi.PhaseMutate, []byte(`{}`)); !json.Valid(all) {
			t.Errorf("%q made %s", b, all)
		}
	})
}

// FuzzManifest: a manifest that is read is read again as it is written.
func FuzzManifest(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `{"name":"n","version":"1","abi":"proa/v1","kinds":["admit"],"capabilities":["kube.get"],"rules":[{"operations":["CREATE"]}],"finalizer":true}`,
		`{"rules":null}`, `{"kinds":"x"}`, `[]`, `{"schedule":{"events":["NodeAdd"]}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := abi.ParseManifest(b)
		if err == nil {
			text, err := json.Marshal(m)
			if err != nil {
				t.Fatalf("%q cannot be written: %v", b, err)
			}
			again, err := abi.ParseManifest(text)
			if err != nil {
				t.Fatalf("%q was written as %s: %v", b, text, err)
			}
			if last, _ := json.Marshal(again); !bytes.Equal(last, text) {
				t.Errorf("%q was written as %s, then %s", b, text, last)
			}
		}
		sections := map[string][]byte{abi.ManifestSection: b, abi.KubewardenSection: b}
		for _, kind := range []string{abi.Native, abi.KubewardenABI, abi.KubewardenWASI, abi.RegoABI, abi.GatekeeperABI, abi.SchedulerABI, abi.Unknown} {
			abi.Wants(kind, sections)
		}
		abi.Detect(map[string]string{"_start": "()"}, []string{"host.call"}, sections)
		abi.Detect(map[string]string{"opa_eval": "()"}, nil, sections)
	})
}

// FuzzConfigureReply: settings are refused only by a guest that says so.
func FuzzConfigureReply(f *testing.F) {
	for _, s := range []string{``, `{}`, `{"valid":true}`, `{"valid":false,"message":"m"}`, `{"valid":1}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := abi.ParseConfigureReply(b); errors.Is(err, abi.ErrSettings) && !bytes.Contains(b, []byte("false")) {
			t.Errorf("%q: %v", b, err)
		}
	})
}
