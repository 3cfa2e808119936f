package celpolicy_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/admission/policy"
)

// outcome is an answer in one line.
func outcome(v *policy.Verdict, err error) string {
	f := (*policy.Failure)(nil)
	switch {
	case errors.As(err, &f) && f.Ignore:
		return "ignored: " + f.Detail
	case errors.As(err, &f):
		return "failed: " + status(f.Status)
	case err != nil:
		return "error: " + err.Error()
	case v.Denied != nil:
		return "denied: " + status(v.Denied)
	case v.Skipped:
		return "skipped"
	case len(v.Warnings) > 0:
		return "warned: " + strings.Join(v.Warnings, "; ")
	}
	return "allowed"
}

func status(s *metav1.Status) string {
	return string(s.Reason) + " " + strings.TrimPrefix(s.Message, `deployments.apps "web" is forbidden: `)
}

const denied = "ValidatingAdmissionPolicy 'pol' with binding 'bind' denied request: "

func TestValidating(t *testing.T) {
	w := world{
		params: map[string]string{
			"ConfigMap/shop/a":  `{metadata: {name: a, labels: {on: "1"}}, data: {max: "5"}}`,
			"ConfigMap/shop/b":  `{metadata: {name: b, labels: {on: "1"}}, data: {max: "2"}}`,
			"ConfigMap/other/a": `{metadata: {name: a}, data: {max: "1"}}`,
			"Namespace//a":      `{metadata: {name: a}, spec: {}}`,
		},
		namespaces: map[string]string{"shop": `{tier: front}`},
		allowed:    []string{"ann create shop/deployments.apps", "ann get /x", "system:serviceaccount:shop:bot create shop/widgets.example.test"},
	}
	const params = `paramKind: {apiVersion: v1, kind: ConfigMap}, validations: [{expression: "object.spec.replicas <= int(params.data.max)", messageExpression: "'more than ' + params.data.max"}]`
	for _, tt := range []struct {
		name, spec, binding string
		want                string
	}{
		{"holds", `validations: [{expression: "object.spec.replicas <= 5"}]`, "", "allowed"},
		{"does not hold", `validations: [{expression: "object.spec.replicas < 3"}]`, "", "denied: Invalid " + denied + "failed expression: object.spec.replicas < 3"},
		{"message", `validations: [{expression: "false", message: " no "}]`, "", "denied: Invalid " + denied + "no"},
		{"message expression", `validations: [{expression: "false", message: "no", messageExpression: "'replicas: ' + string(object.spec.replicas)", reason: Forbidden}]`, "", "denied: Forbidden " + denied + "replicas: 3"},
		{"message expression fails", `validations: [{expression: "false", message: "no", messageExpression: "object.nope"}]`, "", "denied: Invalid " + denied + "no"},
		{"message expression of two lines", `validations: [{expression: "false", messageExpression: "'a\\nb'"}]`, "", "denied: Invalid " + denied + "failed expression: false"},
		{"the first counts", `validations: [{expression: "true"}, {expression: "false", message: b, reason: RequestEntityTooLarge}, {expression: "false", message: c}]`, "", "denied: RequestEntityTooLarge " + denied + "b"},
		{"warn", `validations: [{expression: "false", message: "no"}]`, `validationActions: [Warn]`, "warned: Validation failed for ValidatingAdmissionPolicy 'pol' with binding 'bind': no"},
		{"audit", `validations: [{expression: "false", message: "no"}]`, `validationActions: [Audit]`, "allowed"},
		{"runtime error", `validations: [{expression: "object.spec.nope == 1"}]`, "", "failed: Invalid " + denied + "expression 'object.spec.nope == 1' resulted in error: no such key: nope"},
		{"runtime error, ignored", `failurePolicy: Ignore, validations: [{expression: "object.spec.nope == 1"}]`, "", "ignored: expression 'object.spec.nope == 1' resulted in error: no such key: nope"},
		{"runtime error, warned of", `validations: [{expression: "object.spec.nope == 1"}]`, `validationActions: [Warn]`, "warned: Validation failed for ValidatingAdmissionPolicy 'pol' with binding 'bind': expression 'object.spec.nope == 1' resulted in error: no such key: nope"},
		{"ignored beside a denial", `failurePolicy: Ignore, validations: [{expression: "object.nope == 1"}, {expression: "false", message: "no"}]`, "", "denied: Invalid " + denied + "no"},
		{"does not compile", `validations: [{expression: "objekt"}]`, "", "failed: Invalid " + denied + "compilation error: compilation failed: ERROR: <input>:1:1: undeclared reference to 'objekt' (in container '')\n | objekt\n | ^"},
		{"does not compile, ignored", `failurePolicy: Ignore, validations: [{expression: "1"}]`, "", "ignored: compilation error: must evaluate to bool but got int"},
		{"a call too costly", `validations: [{expression: "[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, [0,1,2,3,4,5,6,7,8,9].all(c, [0,1,2,3,4,5,6,7,8,9].all(d, [0,1,2,3,4,5,6,7,8,9].all(e, [0,1,2,3,4,5,6,7,8,9].all(f, a+b+c+d+e+f >= 0))))))"}]`, "", "failed: Invalid " + denied + "expression '[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, [0,1,2,3,4,5,6,7,8,9].all(c, [0,1,2,3,4,5,6,7,8,9].all(d, [0,1,2,3,4,5,6,7,8,9].all(e, [0,1,2,3,4,5,6,7,8,9].all(f, a+b+c+d+e+f >= 0))))))' resulted in error: operation cancelled: actual cost limit exceeded"},
		{"condition holds", `matchConditions: [{name: a, expression: "request.userInfo.username == 'ann'"}], validations: [{expression: "false", message: "no"}]`, "", "denied: Invalid " + denied + "no"},
		{"condition does not hold", `matchConditions: [{name: a, expression: "object.nope"}, {name: b, expression: "request.userInfo.username == 'bob'"}], validations: [{expression: "false"}]`, "", "skipped"},
		{"condition fails", `matchConditions: [{name: a, expression: "object.nope == 1"}], validations: [{expression: "false"}]`, "", "failed: Invalid " + denied + "expression 'object.nope == 1' resulted in error: no such key: nope"},
		{"condition fails, ignored", `failurePolicy: Ignore, matchConditions: [{name: a, expression: "object.nope == 1"}], validations: [{expression: "false"}]`, "", "ignored: expression 'object.nope == 1' resulted in error: no such key: nope"},
		{"variables", `variables: [{name: one, expression: "object.spec.replicas"}, {name: two, expression: "variables.one * 2"}], validations: [{expression: "variables.two == 6 && variables.two > variables.one"}]`, "", "allowed"},
		{"variable fails", `variables: [{name: one, expression: "object.nope"}], validations: [{expression: "variables.one == 1"}]`, "", "failed: Invalid " + denied + "expression 'variables.one == 1' resulted in error: composited variable \"one\" fails to evaluate: no such key: nope"},
		{"variable that nobody asks for", `variables: [{name: one, expression: "object.nope"}], validations: [{expression: "true"}]`, "", "allowed"},
		{"params", params, `paramRef: {name: a, parameterNotFoundAction: Deny}`, "allowed"},
		{"params, too many", params, `paramRef: {name: b, parameterNotFoundAction: Deny}`, "denied: Invalid " + denied + "more than 2"},
		{"params of another namespace", params, `paramRef: {name: a, namespace: other, parameterNotFoundAction: Deny}`, "denied: Invalid " + denied + "more than 1"},
		{"params by selector", params, `paramRef: {selector: {matchLabels: {on: "1"}}, parameterNotFoundAction: Deny}`, "denied: Invalid " + denied + "more than 2"},
		{"no params", params, `paramRef: {name: zzz, parameterNotFoundAction: Allow}`, "skipped"},
		{"no params, denied", params, `paramRef: {name: zzz, parameterNotFoundAction: Deny}, validationActions: [Warn]`, "failed: Invalid " + denied + "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"},
		{"no reference", params, ``, "failed: Invalid " + denied + "expression 'object.spec.replicas <= int(params.data.max)' resulted in error: no such key: data"},
		{"params of no kind", `paramKind: {apiVersion: rules.example.test/v1, kind: Limit}, validations: [{expression: "true"}]`, `paramRef: {name: a, parameterNotFoundAction: Allow}`, "failed: Invalid ValidatingAdmissionPolicy 'pol' denied request: failed to configure policy: failed to find resource referenced by paramKind: 'rules.example.test/v1, Kind=Limit'"},
		{"params in no namespace", `paramKind: {apiVersion: v1, kind: Namespace}, validations: [{expression: "params.metadata.name == 'a'"}]`, `paramRef: {name: a, parameterNotFoundAction: Deny}`, "allowed"},
		{"params in no namespace, with one", `paramKind: {apiVersion: v1, kind: Namespace}, validations: [{expression: "true"}]`, `paramRef: {name: a, namespace: b, parameterNotFoundAction: Deny}`, "failed: Invalid " + denied + "failed to configure binding: paramRef.namespace must not be provided for a cluster-scoped `paramKind`"},
		{"namespace", `validations: [{expression: "namespaceObject.metadata.labels.tier == 'front' && namespaceObject.metadata.name == 'shop'"}]`, "", "allowed"},
		{"namespace selector", `validations: [{expression: "false"}]`, `matchResources: {namespaceSelector: {matchLabels: {tier: back}}}`, "unmatched"},
		{"object selector", `validations: [{expression: "false", message: "no"}]`, `matchResources: {objectSelector: {matchLabels: {app: web}}}`, "denied: Invalid " + denied + "no"},
		{"rule of the binding", `validations: [{expression: "false"}]`, `matchResources: {resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]}`, "unmatched"},
		{"excluded", `matchConstraints: {resourceRules: [{operations: ["*"], apiGroups: [apps], apiVersions: ["*"], resources: ["*"]}], excludeResourceRules: [{operations: [CREATE], apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}, validations: [{expression: "false"}]`, "", "unmatched"},
		{"by name", `matchConstraints: {resourceRules: [{operations: ["*"], apiGroups: [apps], apiVersions: ["*"], resources: ["*"], resourceNames: [api]}]}, validations: [{expression: "false"}]`, "", "unmatched"},
		{"request", `validations: [{expression: "request.operation == 'CREATE' && request.kind.kind == 'Deployment' && request.resource == request.requestResource && request.resource.resource == 'deployments' && request.name == 'web' && request.namespace == 'shop' && !has(request.subResource) && request.userInfo.groups == ['devs'] && request.userInfo.extra['k'] == ['v'] && !request.dryRun && oldObject == null && request.options.fieldManager == 'me' && !has(request.userInfo.uid)"}]`, "", "allowed"},
		{"authorizer", `validations: [{expression: "authorizer.requestResource.check('create').allowed() && !authorizer.requestResource.check('delete').allowed()"}, {expression: "authorizer.path('/x').check('get').allowed() && authorizer.path('/y').check('get').reason() == 'nobody may get /y'"}, {expression: "authorizer.serviceAccount('shop', 'bot').group('example.test').resource('widgets').namespace('shop').check('create').allowed()"}]`, "", "allowed"},
		{"equality of whole values", `validations: [{expression: "object.metadata.labels == object.spec.selector.matchLabels && object.spec.template.spec.containers == [{'name': dyn('a'), 'image': dyn('web:1'), 'resources': dyn({})}]"}]`, "", "allowed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := validating(t, w, tt.spec, tt.binding)
			in := write(t, admission.Create, deployment, "")
			got := "unmatched"
			if ok, err := p.Matches(context.Background(), in.Request); err != nil {
				t.Fatal(err)
			} else if ok {
				got = outcome(p.Judge(context.Background(), in))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The expressions of one policy share a budget; when it is used up, the
// failurePolicy decides.
func TestValidating_budget(t *testing.T) {
	const costly = `{expression: "!authorizer.path('/').check('get').allowed()"}` // 350,000 of 10,000,000
	many := strings.TrimSuffix(strings.Repeat(costly+", ", 30), ", ")
	const text = "validation failed due to running out of cost budget, no further validation rules will be run"
	for spec, want := range map[string]string{
		`validations: [` + costly + `]`:                      "allowed",
		`validations: [` + many + `]`:                        "failed: Invalid " + denied + text,
		`failurePolicy: Ignore, validations: [` + many + `]`: "ignored: " + text,
		`variables: [{name: v, expression: ` + costly[len("{expression: "):] + `], validations: [{expression: "variables.v && variables.v"}]`: "allowed",
	} {
		got := outcome(validating(t, world{}, spec, "").Judge(context.Background(), write(t, admission.Create, deployment, "")))
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// An expression does not outlast the budget of the request.
func TestValidating_deadline(t *testing.T) {
	const long = `"[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, [0,1,2,3,4,5,6,7,8,9].all(c, a+b+c >= 0)))"`
	for spec, want := range map[string]string{
		`validations: [{expression: ` + long + `}]`:                                                    "resulted in error: operation interrupted: context deadline exceeded",
		`matchConditions: [{name: a, expression: ` + long + `}], validations: [{expression: "true"}]`:  "resulted in error: operation interrupted: context deadline exceeded",
		`variables: [{name: v, expression: ` + long + `}], validations: [{expression: "variables.v"}]`: `composited variable "v" fails to evaluate: operation interrupted: context deadline exceeded`,
		`failurePolicy: Ignore, validations: [{expression: ` + long + `}]`:                             "resulted in error: operation interrupted: context deadline exceeded",
	} {
		in := write(t, admission.Create, deployment, "")
		in.Deadline = time.Now().Add(-time.Second)
		got := outcome(validating(t, world{}, spec, "").Judge(context.Background(), in))
		if !strings.HasSuffix(got, want) || strings.Contains(spec, "Ignore") != strings.HasPrefix(got, "ignored") {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := validating(t, world{}, `validations: [{expression: "true"}]`, "").Judge(ctx, write(t, admission.Create, deployment, "")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestValidating_delete(t *testing.T) {
	p := validating(t, world{}, `validations: [{expression: "object == null && oldObject.metadata.name != 'web'", message: keep it}]`, "")
	got := outcome(p.Judge(context.Background(), write(t, admission.Delete, "", deployment)))
	if want := "denied: Invalid " + denied + "keep it"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Parameters for a Namespace are in that namespace; an object that is yet to be
// named is told by what its name begins with.
func TestValidating_names(t *testing.T) {
	w := world{params: map[string]string{"ConfigMap/shop/a": `{metadata: {name: a}, data: {max: "5"}}`}}
	p := validating(t, w, `paramKind: {apiVersion: v1, kind: ConfigMap}, validations: [{expression: "params.data.max == '5' && namespaceObject == null && request.namespace == 'shop'"}]`, `paramRef: {name: a, parameterNotFoundAction: Deny}`)
	if got := outcome(p.Judge(context.Background(), write(t, admission.Create, `{apiVersion: v1, kind: Namespace, metadata: {name: shop}}`, ""))); got != "allowed" {
		t.Error(got)
	}
	p = validating(t, w, `validations: [{expression: "has(request.name)"}]`, "")
	got := outcome(p.Judge(context.Background(), write(t, admission.Create, `{apiVersion: v1, kind: ConfigMap, metadata: {generateName: made-, namespace: shop}}`, "")))
	if !strings.HasPrefix(got, `denied: Invalid configmaps "made-" is forbidden: `) {
		t.Error(got)
	}
}

// Audit annotations of several policies and bindings end up in the same keys.
func TestValidating_annotations(t *testing.T) {
	in := write(t, admission.Create, deployment, "")
	in.Request.Annotate("validation.policy.admission.k8s.io/validation_failure", `[{"message":"m","policy":"p","binding":"b","expressionIndex":0,"validationActions":["Audit"]}]`)
	in.Request.Annotate("pol/k", "x")
	p := validating(t, world{}, `validations: [{expression: "true"}, {expression: "false", message: "no"}], auditAnnotations: [{key: k, valueExpression: "'y'"}, {key: l, valueExpression: "object.spec.replicas > 5 ? 'many' : ''"}, {key: m, valueExpression: "null"}]`, "validationActions: [Deny, Audit]")
	v, err := p.Judge(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"pol/k": "x, y",
		"validation.policy.admission.k8s.io/validation_failure": `[{"message":"m","policy":"p","binding":"b","expressionIndex":0,"validationActions":["Audit"]},{"message":"no","policy":"pol","binding":"bind","expressionIndex":1,"validationActions":["Deny","Audit"]}]`,
	}
	if diff := cmp.Diff(want, v.Annotations); diff != "" {
		t.Error(diff)
	}
	if v.Denied == nil || v.Denied.Code != 422 || len(v.Denied.Details.Causes) != 1 {
		t.Errorf("denied with %+v", v.Denied)
	}
	p = validating(t, world{}, `auditAnnotations: [{key: k, valueExpression: "object.nope"}]`, "validationActions: [Audit]")
	if got, want := outcome(p.Judge(context.Background(), in)), "compilation error: must evaluate to one of [string null_type] but got dyn"; !strings.HasSuffix(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A policy about one form of a kind sees writes of the other.
func TestValidating_equivalent(t *testing.T) {
	const event = `{apiVersion: v1, kind: Event, metadata: {name: a, namespace: shop}, involvedObject: {kind: Pod, namespace: shop, name: p}, reason: Odd, message: hello, source: {component: c}}`
	const rules = `resourceRules: [{operations: ["*"], apiGroups: [events.k8s.io], apiVersions: [v1], resources: [events]}]`
	const check = `validations: [{expression: "object.note != 'hello' || request.kind.group != 'events.k8s.io' || request.requestKind.group != ''", message: seen}]`
	for policy, want := range map[string]string{"Equivalent": "seen", "Exact": ""} {
		p := validating(t, world{}, `matchConstraints: {matchPolicy: `+policy+`, `+rules+`}, `+check, "")
		in := write(t, admission.Create, event, "")
		ok, err := p.Matches(context.Background(), in.Request)
		if err != nil || ok != (want != "") {
			t.Errorf("%s matches: %v, %v", policy, ok, err)
		}
		if !ok {
			continue
		}
		if got := outcome(p.Judge(context.Background(), in)); !strings.HasSuffix(got, want) {
			t.Errorf("%s: %s", policy, got)
		}
	}
}

// What policies are made of is never shown to policies.
func TestExempt(t *testing.T) {
	p := validating(t, world{}, `validations: [{expression: "false"}]`, "")
	for _, text := range []string{
		`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: a}, spec: {policyName: b}}`,
		`{apiVersion: plugins.proa.io/v1, kind: WasmModule, metadata: {name: a}}`,
	} {
		in := write(t, admission.Create, text, "")
		if ok, err := p.Matches(context.Background(), in.Request); ok || err != nil {
			t.Errorf("%s: %v, %v", text, ok, err)
		}
	}
}

func BenchmarkValidating(b *testing.B) {
	for name, spec := range map[string]string{
		"simple":        `validations: [{expression: "object.spec.replicas <= 5"}]`,
		"request":       `validations: [{expression: "request.userInfo.username != 'x' || object.spec.replicas <= 5"}]`,
		"variables":     `variables: [{name: num, expression: "object.spec.replicas"}], validations: [{expression: "variables.num <= 5"}, {expression: "variables.num > 0"}]`,
		"comprehension": `validations: [{expression: "object.spec.template.spec.containers.all(c, c.image.startsWith('web:'))"}]`,
	} {
		b.Run(name, func(b *testing.B) {
			p := validating(b, world{}, spec, "")
			in := write(b, admission.Create, deployment, "")
			if _, err := in.Value(); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if ok, err := p.Matches(context.Background(), in.Request); !ok || err != nil {
					b.Fatal(ok, err)
				}
				if v, err := p.Judge(context.Background(), in); err != nil || v.Denied != nil {
					b.Fatal(v, err)
				}
			}
		})
	}
}
