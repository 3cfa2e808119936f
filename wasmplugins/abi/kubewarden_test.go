package abi_test

import (
	"encoding/json"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/proa-project/proa/wasmplugins/abi"
)

const metadata = `{"protocolVersion":"v1","rules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"],"operations":["CREATE"]}],
"annotations":{"io.kubewarden.policy.title":"t"},"mutating":true,"contextAware":true,"executionMode":"kubewarden-wapc",
"contextAwareResources":[{"apiVersion":"v1","kind":"Namespace"}],"hostCapabilities":["kubernetes/*"],"minimumKubewardenVersion":"1.9.0"}`

func TestKubewardenMetadata(t *testing.T) {
	m, err := abi.ParseKubewardenMetadata([]byte(metadata))
	if err != nil || m.ProtocolVersion != "v1" || !m.Mutating || m.PolicyType != "kubernetes" || len(m.HostCapabilities) != 1 {
		t.Fatalf("%+v, %v", m, err)
	}
	if !m.MayRead("v1", "Namespace") || m.MayRead("v1", "Secret") || (*abi.KubewardenMetadata)(nil).MayRead("v1", "Namespace") {
		t.Error("the kinds to read are judged wrongly")
	}
	// The rules are a webhook's.
	b, err := json.Marshal(m.Rules)
	if err != nil {
		t.Fatal(err)
	}
	var rules []admissionregistrationv1.RuleWithOperations
	if err := json.Unmarshal(b, &rules); err != nil || rules[0].Operations[0] != "CREATE" || rules[0].Resources[0] != "pods" {
		t.Errorf("%+v, %v", rules, err)
	}
	for bad, want := range map[string]string{
		``: "unexpected end", `[]`: "cannot unmarshal", `{"executionMode":"x"}`: `unknown execution mode "x"`,
		`{"rules":[{"apiGroups":[""]}]}`: "rule 0 is not complete", `{"contextAwareResources":[{"kind":"Pod"}]}`: "without version or kind",
	} {
		if _, err := abi.ParseKubewardenMetadata([]byte(bad)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", bad, err, want)
		}
	}
	if g, v := abi.SplitAPIVersion("apps/v1"); g != "apps" || v != "v1" {
		t.Error(g, v)
	}
	if g, v := abi.SplitAPIVersion("v1"); g != "" || v != "v1" {
		t.Error(g, v)
	}
}

func FuzzKubewardenMetadata(f *testing.F) {
	for _, s := range []string{metadata, `{}`, `{"rules":null}`, `{"rules":[null]}`, `{"executionMode":"opa"}`, `null`, `7`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := abi.ParseKubewardenMetadata(b)
		if err != nil {
			return
		}
		again, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := abi.ParseKubewardenMetadata(again); err != nil {
			t.Errorf("%s became %s: %v", b, again, err)
		}
	})
}
