package abi_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/proa-project/proa/wasmplugins/abi"
)

func TestWants(t *testing.T) {
	const reads = `"contextAwareResources":[{"apiVersion":"v1","kind":"Namespace"}]`
	for name, tc := range map[string]struct {
		abi, metadata string
		want          []string
	}{
		"native":          {abi.Native, `{` + reads + `}`, nil},
		"no metadata":     {abi.KubewardenABI, "", nil},
		"nothing":         {abi.KubewardenABI, `{"hostCapabilities":[]}`, nil},
		"reads":           {abi.KubewardenABI, `{"hostCapabilities":[],` + reads + `}`, []string{"kube.get", "kube.list"}},
		"an older policy": {abi.KubewardenWASI, `{` + reads + `}`, []string{"kube.get", "kube.list", "authz.can_i"}},
		"by name":         {abi.KubewardenABI, `{"hostCapabilities":["oci/*","kubernetes/can_i"]}`, []string{"authz.can_i"}},
		"by pattern":      {abi.KubewardenABI, `{"hostCapabilities":["kubernetes/*"]}`, []string{"authz.can_i"}},
		"another pattern": {abi.KubewardenABI, `{"hostCapabilities":["oci/*"]}`, nil},
	} {
		got := abi.Wants(tc.abi, map[string][]byte{abi.KubewardenSection: []byte(tc.metadata)})
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
