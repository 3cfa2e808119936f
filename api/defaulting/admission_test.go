package defaulting_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/api/defaulting"
)

func TestDefault_admission(t *testing.T) {
	const rule = `operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]`
	const match = `matchPolicy: Equivalent, namespaceSelector: {}, objectSelector: {}`
	const webhook = `name: a, admissionReviewVersions: [v1], sideEffects: None`
	const filled = webhook + `, failurePolicy: Fail, timeoutSeconds: 10, ` + match
	for name, tc := range map[string]struct {
		obj      api.Object
		in, want string
	}{
		"validating webhook": {
			&admissionregistrationv1.ValidatingWebhookConfiguration{},
			`webhooks: [{` + webhook + `, clientConfig: {service: {name: s, namespace: ns}}, rules: [{` + rule + `}]}]`,
			`webhooks: [{` + filled + `, clientConfig: {service: {name: s, namespace: ns, port: 443}}, rules: [{` + rule + `, scope: "*"}]}]`,
		},
		"mutating webhook": {
			&admissionregistrationv1.MutatingWebhookConfiguration{},
			`webhooks: [{` + webhook + `, clientConfig: {url: "https://a"}}]`,
			`webhooks: [{` + filled + `, clientConfig: {url: "https://a"}, reinvocationPolicy: Never}]`,
		},
		"validating policy": {
			&admissionregistrationv1.ValidatingAdmissionPolicy{},
			`spec: {matchConstraints: {resourceRules: [{` + rule + `}], excludeResourceRules: [{` + rule + `}]}}`,
			`spec: {failurePolicy: Fail, matchConstraints: {` + match + `, resourceRules: [{` + rule + `, scope: "*"}], excludeResourceRules: [{` + rule + `, scope: "*"}]}}`,
		},
		"mutating policy": {
			&admissionregistrationv1.MutatingAdmissionPolicy{}, `spec: {matchConstraints: {}}`,
			`spec: {failurePolicy: Fail, matchConstraints: {` + match + `}}`,
		},
		"bindings": {
			&admissionregistrationv1.ValidatingAdmissionPolicyBinding{}, `spec: {policyName: a, matchResources: {}}`,
			`spec: {policyName: a, matchResources: {` + match + `}}`,
		},
		"mutating bindings": {
			&admissionregistrationv1.MutatingAdmissionPolicyBinding{}, `spec: {policyName: a, matchResources: {}}`,
			`spec: {policyName: a, matchResources: {` + match + `}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := api.ByType(tc.obj).New()
			for obj, text := range map[api.Object]string{tc.obj: tc.in, want: tc.want} {
				if _, err := api.Decode([]byte(text), api.MediaYAML, obj, api.Strict); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				defaulting.Default(tc.obj)
				if diff := cmp.Diff(tree(t, want), tree(t, tc.obj)); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
			}
		})
	}
}
