package expression_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"

	"github.com/proa-project/proa/api/expression"
)

func TestCheck(t *testing.T) {
	kind := func(kind, text string) expression.Kind {
		k := expression.Kind{GroupVersionKind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: kind}, Schema: &spec.Schema{}}
		if err := yaml.Unmarshal([]byte(text), k.Schema); err != nil {
			t.Fatal(err)
		}
		return k
	}
	kinds := []expression.Kind{
		kind("A", `{type: object, properties: {spec: {type: object, properties: {replicas: {type: integer}, name: {type: string}}}}}`),
		kind("B", `{type: object, properties: {spec: {type: object, properties: {replicas: {type: string}}}}}`),
	}
	params := kind("Limit", `{type: object, properties: {max: {type: integer}}}`).Schema
	p := &admissionregistrationv1.ValidatingAdmissionPolicy{}
	if err := yaml.UnmarshalStrict([]byte(`{spec: {paramKind: {apiVersion: v1, kind: Limit}, variables: [{name: odd, expression: "object.spec.odd"}], validations: [
		{expression: "has(object.spec.replicas) && request.operation == 'CREATE'"},
		{expression: "object.spec.replicas < params.max", messageExpression: "'no ' + object.spec.name"},
		{expression: "params.min == 1"},
		{expression: "variables.odd == 1"}]}}`), p); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, w := range expression.Check(p, kinds, params) {
		got[w.FieldRef] = w.Warning
	}
	want := map[string]string{
		"spec.validations[1].expression":        "apps/v1, Kind=B: ERROR: <input>:1:22: found no matching overload for '_<_' applied to '(string, int)'\n | object.spec.replicas < params.max\n | .....................^\n",
		"spec.validations[1].messageExpression": "apps/v1, Kind=B: ERROR: <input>:1:20: undefined field 'name'\n | 'no ' + object.spec.name\n | ...................^\n",
		"spec.validations[2].expression":        "apps/v1, Kind=A: ERROR: <input>:1:7: undefined field 'min'\n | params.min == 1\n | ......^\n\napps/v1, Kind=B: ERROR: <input>:1:7: undefined field 'min'\n | params.min == 1\n | ......^\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
