package table_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/api/table"
)

func TestRow_admission(t *testing.T) {
	for name, tc := range map[string]struct {
		obj  api.Object
		text string
		want []any
	}{
		"webhooks": {
			&admissionregistrationv1.ValidatingWebhookConfiguration{},
			`webhooks: [{name: a, admissionReviewVersions: [], clientConfig: {}, sideEffects: None}, {name: b, admissionReviewVersions: [], clientConfig: {}, sideEffects: None}]`,
			[]any{"a", int64(2), "5m"},
		},
		"policy": {
			&admissionregistrationv1.ValidatingAdmissionPolicy{}, `spec: {validations: [{expression: "true"}], paramKind: {apiVersion: v1, kind: ConfigMap}}`,
			[]any{"a", int64(1), "v1/ConfigMap", "5m"},
		},
		"mutating policy":        {&admissionregistrationv1.MutatingAdmissionPolicy{}, `spec: {}`, []any{"a", int64(0), "<unset>", "5m"}},
		"binding":                {&admissionregistrationv1.ValidatingAdmissionPolicyBinding{}, `spec: {policyName: p, paramRef: {name: x, namespace: yy}}`, []any{"a", "p", "yy/x", "5m"}},
		"binding, any namespace": {&admissionregistrationv1.MutatingAdmissionPolicyBinding{}, `spec: {policyName: p, paramRef: {name: x}}`, []any{"a", "p", "*/x", "5m"}},
		"binding, no params":     {&admissionregistrationv1.MutatingAdmissionPolicyBinding{}, `spec: {policyName: p}`, []any{"a", "p", "<unset>", "5m"}},
	} {
		t.Run(name, func(t *testing.T) {
			load(t, "metadata: {name: a, "+created+"}\n"+tc.text, tc.obj)
			if diff := cmp.Diff(tc.want, table.Row(api.ByType(tc.obj), tc.obj, now).Cells); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
