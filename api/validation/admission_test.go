package validation_test

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/proa-project/proa/api/validation"
)

const matchPods = `{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}`

func TestWebhooks(t *testing.T) {
	const plain = `name: a.example.test, sideEffects: None, admissionReviewVersions: [v1]`
	const url = `clientConfig: {url: "https://example.test/path"}`
	run(t, func() *admissionregistrationv1.ValidatingWebhookConfiguration {
		return &admissionregistrationv1.ValidatingWebhookConfiguration{}
	}, map[string]row{
		"plain":   {`{metadata: {name: a}, webhooks: [{` + plain + `, ` + url + `, rules: [` + matchPods + `], matchConditions: [{name: a, expression: "object.metadata.name != 'x'"}]}]}`, nil},
		"none":    {`metadata: {name: a}`, nil},
		"service": {`{metadata: {name: a}, webhooks: [{` + plain + `, clientConfig: {service: {name: a, namespace: b, path: /a/b/}}}]}`, nil},
		"all wrong": {`{metadata: {name: a}, webhooks: [{name: a, admissionReviewVersions: [v2, v2, V], failurePolicy: Maybe, matchPolicy: Odd, sideEffects: Some, timeoutSeconds: 31, clientConfig: {}, rules: [{}],
			namespaceSelector: {matchExpressions: [{key: a, operator: Odd}]}, matchConditions: [{name: "", expression: ""}, {name: b, expression: "1 +"}, {name: b, expression: "'x'"}, {name: "a b", expression: "params.x"}]}]}`, []string{
			`webhooks[0].name: Invalid value: "a": should be a domain with at least three segments separated by dots`,
			`webhooks[0].rules[0].operations: Required value`, `webhooks[0].rules[0].apiGroups: Required value`, `webhooks[0].rules[0].apiVersions: Required value`, `webhooks[0].rules[0].resources: Required value`,
			`webhooks[0].failurePolicy: Unsupported value: "Maybe": supported values: "Fail", "Ignore"`,
			`webhooks[0].matchPolicy: Unsupported value: "Odd": supported values: "Equivalent", "Exact"`,
			`webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"`,
			`webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds`,
			`webhooks[0].namespaceSelector.matchExpressions[0].operator: Invalid value: "Odd": not a valid selector operator`,
			`webhooks[0].clientConfig: Required value: exactly one of url or service is required`,
			`webhooks[0].matchConditions[0].expression: Required value`,
			`webhooks[0].matchConditions[0].name: Required value`,
			"webhooks[0].matchConditions[1].expression: Invalid value: \"1 +\": compilation failed: ERROR: <input>:1:4: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | 1 +\n | ...^",
			`webhooks[0].matchConditions[2].expression: Invalid value: "'x'": must evaluate to bool but got string`,
			`webhooks[0].matchConditions[2].name: Duplicate value: "b"`,
			"webhooks[0].matchConditions[3].expression: Invalid value: \"params.x\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')\n | params.x\n | ^",
			`webhooks[0].matchConditions[3].name: Invalid value: "a b": ` + qualified,
			`webhooks[0].admissionReviewVersions[1]: Invalid value: "v2": duplicate version`,
			`webhooks[0].admissionReviewVersions[2]: Invalid value: "V": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')`,
			`webhooks[0].admissionReviewVersions: Invalid value: ["v2","v2","V"]: must include at least one of v1, v1beta1`,
		}},
		"missing": {`{metadata: {name: a}, webhooks: [{name: a.example.test, ` + url + `}]}`, []string{
			`webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun`,
			`webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1`,
		}},
		"url": {`{metadata: {name: a}, webhooks: [{` + plain + `, clientConfig: {url: "http://a:b@/x?y#z"}}]}`, []string{
			`webhooks[0].clientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]`,
			`webhooks[0].clientConfig.url: Invalid value: "": host must be specified; desired format: https://host[/path]`,
			`webhooks[0].clientConfig.url: Invalid value: "a:b": user information is not permitted in the URL`,
			`webhooks[0].clientConfig.url: Invalid value: "z": fragments are not permitted in the URL`,
			`webhooks[0].clientConfig.url: Invalid value: "y": query parameters are not permitted in the URL`,
		}},
		"service, wrong": {`{metadata: {name: a}, webhooks: [{` + plain + `, clientConfig: {service: {name: "", namespace: "", path: "a//B", port: 0}}}]}`, []string{
			`webhooks[0].clientConfig.service.name: Required value`, `webhooks[0].clientConfig.service.namespace: Required value`,
			`webhooks[0].clientConfig.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive`,
			`webhooks[0].clientConfig.service.path: Invalid value: "a//B": must start with a '/'`,
			`webhooks[0].clientConfig.service.path: Invalid value: "a//B": segment[0] may not be empty`,
			`webhooks[0].clientConfig.service.path: Invalid value: "a//B": segment[1] may not be empty`, `webhooks[0].clientConfig.service.path: Invalid value: "a//B": segment[2]: ` + dnsSubdomain,
		}},
		"twice": {`{metadata: {name: a}, webhooks: [{` + plain + `, ` + url + `}, {` + plain + `, ` + url + `}]}`, []string{`webhooks[1].name: Duplicate value: "a.example.test"`}},
	})
	run(t, func() *admissionregistrationv1.MutatingWebhookConfiguration {
		return &admissionregistrationv1.MutatingWebhookConfiguration{}
	}, map[string]row{
		"plain": {`{metadata: {name: a}, webhooks: [{` + plain + `, ` + url + `, reinvocationPolicy: IfNeeded}]}`, nil},
		"again": {`{metadata: {name: a}, webhooks: [{` + plain + `, ` + url + `, reinvocationPolicy: Often}]}`, []string{`webhooks[0].reinvocationPolicy: Unsupported value: "Often": supported values: "IfNeeded", "Never"`}},
	})
}

func TestPolicies(t *testing.T) {
	const match = `matchConstraints: {resourceRules: [` + matchPods + `]}`
	run(t, func() *admissionregistrationv1.ValidatingAdmissionPolicy {
		return &admissionregistrationv1.ValidatingAdmissionPolicy{}
	}, map[string]row{
		"plain": {`{metadata: {name: a}, spec: {` + match + `, paramKind: {apiVersion: v1, kind: ConfigMap}, matchConditions: [{name: x, expression: "has(params.data)"}],
			variables: [{name: num, expression: "int(params.data.num)"}, {name: more, expression: "variables.num + 1"}],
			validations: [{expression: "variables.more > 2", message: few, messageExpression: "'only ' + string(variables.more)", reason: Forbidden}],
			auditAnnotations: [{key: k, valueExpression: "string(variables.num)"}]}}`, nil},
		"nothing": {`{metadata: {name: a}, spec: {}}`, []string{
			`spec.matchConstraints: Required value`,
			`spec.validations: Required value: validations or auditAnnotations must contain at least one item`,
			`spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item`,
		}},
		"no rules": {`{metadata: {name: a}, spec: {matchConstraints: {}, validations: [{expression: "true"}]}}`, []string{`spec.matchConstraints.resourceRules: Required value`}},
		"all wrong": {`{metadata: {name: a}, spec: {failurePolicy: Maybe, paramKind: {apiVersion: "a/b/c", kind: "a b"}, matchConstraints: {matchPolicy: Odd, resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods], resourceNames: [a, a, "b/c"]}]},
			variables: [{name: in, expression: "1"}, {name: b, expression: ""}, {name: c, expression: "nope"}],
			validations: [{expression: "variables.zzz", message: "a\nb", reason: Odd}, {expression: " ", messageExpression: " ", message: " "}, {expression: "true", messageExpression: "1"}],
			auditAnnotations: [{key: "a b", valueExpression: "1"}, {key: k, valueExpression: ""}, {key: k, valueExpression: "'x'"}]}}`, []string{
			`spec.failurePolicy: Unsupported value: "Maybe": supported values: "Fail", "Ignore"`,
			`spec.paramKind.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c`,
			`spec.paramKind.kind: Invalid value: "a b": may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')`,
			`spec.matchConstraints.matchPolicy: Unsupported value: "Odd": supported values: "Equivalent", "Exact"`,
			`spec.matchConstraints.resourceRules[0].resourceNames[1]: Duplicate value: "a"`,
			`spec.matchConstraints.resourceRules[0].resourceNames[2]: Invalid value: "b/c": may not contain '/'`,
			`spec.variables[0].name: Invalid value: "in": name is not a valid CEL identifier`,
			`spec.variables[1].expression: Required value: expression is not specified`,
			"spec.variables[2].expression: Invalid value: \"nope\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'nope' (in container '')\n | nope\n | ^",
			"spec.validations[0].expression: Invalid value: \"variables.zzz\": compilation failed: ERROR: <input>:1:10: undefined field 'zzz'\n | variables.zzz\n | .........^",
			`spec.validations[0].message: Invalid value: "a\nb": message must not contain line breaks`,
			`spec.validations[0].reason: Unsupported value: "Odd": supported values: "Forbidden", "Invalid", "RequestEntityTooLarge"`,
			`spec.validations[1].expression: Required value: expression is not specified`,
			`spec.validations[1].messageExpression: Invalid value: " ": must be non-empty if specified`,
			`spec.validations[1].message: Invalid value: " ": message must be non-empty if specified`,
			`spec.validations[2].messageExpression: Invalid value: "1": must evaluate to string but got int`,
			`spec.auditAnnotations[0].key: Invalid value: "a/a b": ` + qualified,
			`spec.auditAnnotations[0].valueExpression: Invalid value: "1": must evaluate to one of [string null_type] but got int`,
			`spec.auditAnnotations[1].valueExpression: Required value: valueExpression is not specified`,
			`spec.auditAnnotations[2].key: Duplicate value: "k"`,
		}},
	})
	run(t, func() *admissionregistrationv1.MutatingAdmissionPolicy {
		return &admissionregistrationv1.MutatingAdmissionPolicy{}
	}, map[string]row{
		"plain": {`{metadata: {name: a}, spec: {` + match + `, reinvocationPolicy: Never, mutations: [
			{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'a': 'b'}}}"}},
			{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'remove', path: '/spec/nodeName'}]"}}]}}`, nil},
		"nothing": {`{metadata: {name: a}, spec: {}}`, []string{
			`spec.matchConstraints: Required value`, `spec.mutations: Required value: mutations must contain at least one item`, `spec.reinvocationPolicy: Required value`,
		}},
		"all wrong": {`{metadata: {name: a}, spec: {matchConstraints: {resourceRules: [{operations: [CREATE, DELETE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]}, reinvocationPolicy: Often, mutations: [
			{patchType: ""}, {patchType: Odd}, {patchType: JSONPatch, applyConfiguration: {expression: "x"}}, {patchType: ApplyConfiguration, jsonPatch: {expression: "x"}},
			{patchType: ApplyConfiguration, applyConfiguration: {expression: "1"}}, {patchType: JSONPatch, jsonPatch: {expression: " "}}]}}`, []string{
			`spec.matchConstraints.resourceRules[0].operations[1]: Unsupported value: "DELETE": supported values: "*", "CONNECT", "CREATE", "UPDATE"`,
			`spec.mutations[0].patchType: Required value`,
			`spec.mutations[1].patchType: Unsupported value: "Odd": supported values: "ApplyConfiguration", "JSONPatch"`,
			`spec.mutations[2].jsonPatch: Required value: must be specified when patchType is JSONPatch`,
			`spec.mutations[2].applyConfiguration: Invalid value: "{applyConfiguration}": must not be specified when patchType is JSONPatch`,
			`spec.mutations[3].applyConfiguration: Required value: must be specified when patchType is ApplyConfiguration`,
			`spec.mutations[3].jsonPatch: Invalid value: "{jsonPatch}": must not be specified when patchType is ApplyConfiguration`,
			`spec.mutations[4].applyConfiguration.expression: Invalid value: "1": must evaluate to Object but got int`,
			`spec.mutations[5].jsonPatch.expression: Required value`,
			`spec.reinvocationPolicy: Unsupported value: "Often": supported values: "IfNeeded", "Never"`,
		}},
	})
}

func TestPolicyBindings(t *testing.T) {
	run(t, func() *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
		return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	}, map[string]row{
		"plain":   {`{metadata: {name: a}, spec: {policyName: p, paramRef: {name: c, namespace: d, parameterNotFoundAction: Deny}, validationActions: [Deny, Audit], matchResources: {resourceRules: [` + matchPods + `]}}}`, nil},
		"nothing": {`{metadata: {name: a}, spec: {}}`, []string{`spec.policyName: Required value`, `spec.validationActions: Required value: at least one validation action is required`}},
		"all wrong": {`{metadata: {name: a}, spec: {policyName: P, paramRef: {name: "a/b", selector: {}, parameterNotFoundAction: Odd}, validationActions: [Warn, Deny, Warn, Odd]}}`, []string{
			`spec.policyName: Invalid value: "P": ` + dnsSubdomain,
			`spec.paramRef.name: Invalid value: "a/b": may not contain '/'`,
			`spec.paramRef.name: Forbidden: name and selector are mutually exclusive`, `spec.paramRef.selector: Forbidden: name and selector are mutually exclusive`,
			`spec.paramRef.parameterNotFoundAction: Unsupported value: "Odd": supported values: "Allow", "Deny"`,
			`spec.validationActions[2]: Duplicate value: "Warn"`,
			`spec.validationActions[3]: Unsupported value: "Odd": supported values: "Audit", "Deny", "Warn"`,
			`spec.validationActions: Invalid value: ["Warn","Deny","Warn","Odd"]: must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)`,
		}},
	})
	run(t, func() *admissionregistrationv1.MutatingAdmissionPolicyBinding {
		return &admissionregistrationv1.MutatingAdmissionPolicyBinding{}
	}, map[string]row{
		"plain": {`{metadata: {name: a}, spec: {policyName: p}}`, nil},
		"empty reference": {`{metadata: {name: a}, spec: {policyName: p, paramRef: {}}}`, []string{
			`spec.paramRef: Required value: one of name or selector must be specified`, `spec.paramRef.parameterNotFoundAction: Required value`,
		}},
	})
}

func TestPolicyStatus(t *testing.T) {
	o := &admissionregistrationv1.ValidatingAdmissionPolicy{}
	load(t, `{metadata: {name: a, resourceVersion: "1"}, status: {typeChecking: {expressionWarnings: [{fieldRef: " ", warning: ""}]}, conditions: [{type: A, status: Maybe, reason: x, message: z, lastTransitionTime: "2026-01-01T00:00:00Z"}]}}`, o)
	compare(t, []string{
		`status.typeChecking.expressionWarnings[0].warning: Required value`, `status.typeChecking.expressionWarnings[0].fieldRef: Required value`,
		`status.conditions[0].status: Unsupported value: "Maybe": supported values: "False", "True", "Unknown"`,
	}, texts(validation.UpdateStatus(o, o)))
}
