package celpolicy_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/yaml"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/admission/celpolicy"
	"github.com/proa-project/proa/openapi"
)

// types knows the schemas of the kinds of the table.
func types(t testing.TB) func(schema.GroupVersionKind) (managedfields.TypeConverter, error) {
	t.Helper()
	d, err := openapi.Build(api.Resources(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return celpolicy.NewTypes(d.Handler()).Converter
}

const refused = "policy 'pol' with binding 'bind' denied request: "

func TestMutating(t *testing.T) {
	w := world{
		params:     map[string]string{"ConfigMap/shop/a": `{metadata: {name: a, labels: {on: "1"}}, data: {team: red}}`, "ConfigMap/shop/b": `{metadata: {name: b, labels: {on: "1"}}, data: {floor: "2"}}`},
		namespaces: map[string]string{"shop": `{tier: front}`},
	}
	apply := func(x string) string {
		return `mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "` + x + `"}}]`
	}
	patch := func(x string) string {
		return `mutations: [{patchType: JSONPatch, jsonPatch: {expression: "` + x + `"}}]`
	}
	known := types(t)
	const labels = `Object{metadata: Object.metadata{labels: params.data}}`
	for _, tt := range []struct {
		name, spec, binding string
		was, becomes        string // in the object's YAML; "" if it stays
		want                string
	}{
		{"apply", apply(`Object{spec: Object.spec{replicas: 5}}`), "", "replicas: 3", "replicas: 5", "changed"},
		{"apply the same", apply(`Object{spec: Object.spec{replicas: 3}}`), "", "", "", "allowed"},
		{"apply to a list with keys", apply(`Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: object.spec.template.spec.containers.map(c, Object.spec.template.spec.containers{name: c.name, image: 'proxy/' + c.image})}}}}`), "", "web:1", "proxy/web:1", "changed"},
		{"apply another item", apply(`Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: [Object.spec.template.spec.containers{name: 'side', image: 'side:1', resources: Object.spec.template.spec.containers.resources{}}]}}}}`), "", `image: "web:1"}]`, `image: "web:1"}, {name: side, image: "side:1"}]`, "changed"},
		{"apply to what is atomic", apply(`Object{spec: Object.spec{selector: Object.spec.selector{matchLabels: {'a': 'b'}}}}`), "", "", "", "failed: Invalid " + refused + "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.selector"},
		{"apply what is not there", apply(`Object{spec: Object.spec{odd: 1}}`), "", "", "", "failed: Invalid " + refused + "error applying patch: failed to convert patch object to typed object: .spec.odd: field not declared in schema"},
		{"apply under another name", apply(`Object{spec: Object.speck{replicas: 5}}`), "", "", "", `failed: Invalid ` + refused + `type mismatch: unexpected type name "Object.speck", expected "Object.spec", which matches field name path from root Object type`},
		{"patch", patch(`[JSONPatch{op: 'replace', path: '/spec/replicas', value: 5}]`), "", "replicas: 3", "replicas: 5", "changed"},
		{"patch with a key to escape", patch(`[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b~c'), value: 'x'}]`), "", "app: web}}, spec", `app: web, "a/b~c": x}}, spec`, "changed"},
		{"patch with an object", patch(`[JSONPatch{op: 'add', path: '/spec/template/spec/containers/-', value: Object.spec.template.spec.containers{name: 'side', image: 'side:1', resources: {}}}]`), "", `image: "web:1"}]`, `image: "web:1"}, {name: side, image: "side:1"}]`, "changed"},
		{"patch whose test holds", patch(`[JSONPatch{op: 'test', path: '/spec/replicas', value: 3}, JSONPatch{op: 'remove', path: '/spec/replicas'}]`), "", "replicas: 3, ", "", "changed"},
		{"patch whose test does not hold", patch(`[JSONPatch{op: 'test', path: '/spec/replicas', value: 4}, JSONPatch{op: 'remove', path: '/spec/replicas'}]`), "", "", "", "allowed"},
		{"patch of nothing", patch(`[]`), "", "", "", "failed: Invalid " + refused + "must evaluate to list(JSONPatch) but got list(dyn)"},
		{"patch of what is not there", patch(`[JSONPatch{op: 'remove', path: '/spec/nope'}]`), "", "", "", "failed: Invalid " + refused + "JSON Patch: error in remove for path: '/spec/nope': unable to remove nonexistent key: nope: missing value"},
		{"ignored", `failurePolicy: Ignore, ` + patch(`[JSONPatch{op: 'remove', path: '/spec/nope'}]`), "", "", "", `ignored: JSON Patch: error in remove for path: '/spec/nope': unable to remove nonexistent key: nope: missing value`},
		{"one is ignored", `failurePolicy: Ignore, mutations: [{patchType: JSONPatch, jsonPatch: {expression: "object.nope"}}, {patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'replace', path: '/spec/replicas', value: 5}]"}}]`, "", "replicas: 3", "replicas: 5", "changed"},
		{"one after the other", `mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{spec: Object.spec{replicas: object.spec.replicas + 1}}"}}, {patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'replace', path: '/spec/replicas', value: object.spec.replicas * 2}]"}}]`, "", "replicas: 3", "replicas: 8", "changed"},
		{"variables follow", `variables: [{name: count, expression: "object.spec.replicas"}], mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{spec: Object.spec{replicas: variables.count + 1}}"}}, {patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{spec: Object.spec{replicas: variables.count + 1}}"}}]`, "", "replicas: 3", "replicas: 5", "changed"},
		{"params, all of them", `paramKind: {apiVersion: v1, kind: ConfigMap}, ` + apply(labels), `paramRef: {selector: {matchLabels: {on: "1"}}, parameterNotFoundAction: Deny}`, "app: web}}, spec", `app: web, team: red, floor: "2"}}, spec`, "changed"},
		{"no params", `paramKind: {apiVersion: v1, kind: ConfigMap}, ` + apply(labels), `paramRef: {name: z, parameterNotFoundAction: Deny}`, "", "", "failed: Forbidden " + refused + "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"},
		{"params of no kind", `paramKind: {apiVersion: a.example.test/v1, kind: A}, ` + apply(labels), `paramRef: {name: z, parameterNotFoundAction: Deny}`, "", "", `failed: Forbidden policy "pol" denied request: failed to configure policy: failed to find resource referenced by paramKind: 'a.example.test/v1, Kind=A'`},
		{"condition does not hold", `matchConditions: [{name: a, expression: "object.spec.replicas > 5"}], ` + apply(`Object{spec: Object.spec{replicas: 5}}`), "", "", "", "skipped"},
		{"condition fails", `matchConditions: [{name: a, expression: "object.nope"}], ` + apply(`Object{spec: Object.spec{replicas: 5}}`), "", "", "", "failed: Invalid " + refused + "compilation error: must evaluate to bool but got dyn"},
		{"does not compile", apply(`nope`), "", "", "", "failed: Invalid " + refused + "compilation failed: ERROR: <input>:1:1: undeclared reference to 'nope' (in container '')\n | nope\n | ^"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := w.config()
			c.Types = known
			in := write(t, admission.Create, deployment, "")
			v, err := mutating(t, c, tt.spec, tt.binding).Judge(context.Background(), in)
			if err != nil || v.Object == nil {
				if got := outcome(v, err); got != tt.want {
					t.Errorf("got %s\nwant %s", got, tt.want)
				}
				return
			}
			if tt.want != "changed" {
				t.Fatalf("it becomes %s, want %s", v.Object, tt.want)
			}
			want := write(t, admission.Create, strings.Replace(deployment, tt.was, tt.becomes, 1), "")
			equal(t, want.Object, v.Object)
			if before, err := in.Value(); err != nil || before["spec"].(map[string]any)["replicas"] != int64(3) {
				t.Error("the shared object was changed", err)
			}
		})
	}
}

func equal(t *testing.T, want, got []byte) {
	t.Helper()
	var a, b any
	if err := yaml.Unmarshal(want, &a); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(got, &b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(a, b); diff != "" {
		t.Error(diff)
	}
}

// A mutation sees the defaults of what the one before it has made.
func TestMutating_defaults(t *testing.T) {
	c := world{}.config()
	c.Default = func(o runtime.Object) {
		if d, ok := o.(*appsv1.Deployment); ok && d.Spec.Replicas == nil {
			n := int32(7)
			d.Spec.Replicas = &n
		}
	}
	p := mutating(t, c, `mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'remove', path: '/spec/replicas'}]"}}, {patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/metadata/labels/n', value: string(object.spec.replicas)}]"}}]`, "")
	v, err := p.Judge(context.Background(), write(t, admission.Create, deployment, ""))
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(strings.Replace(deployment, "replicas: 3", "replicas: 7", 1), "app: web}}, spec", `app: web, "n": "7"}}, spec`, 1)
	equal(t, write(t, admission.Create, want, "").Object, v.Object)
}

func TestMutating_reinvocation(t *testing.T) {
	const patch = `mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'remove', path: '/spec'}]"}}]`
	for spec, want := range map[string]bool{patch + ", reinvocationPolicy: IfNeeded": true, patch: false} {
		p, ok := mutating(t, world{}.config(), spec, "").(interface{ Reinvoke() bool })
		if !ok || p.Reinvoke() != want {
			t.Errorf("%s: %v", spec, !want)
		}
	}
	p := mutating(t, world{}.config(), patch, "")
	if v, err := p.Judge(context.Background(), write(t, admission.Delete, "", deployment)); err != nil || !v.Skipped {
		t.Error("a deletion has nothing to change", v, err)
	}
}

func BenchmarkMutating(b *testing.B) {
	for name, spec := range map[string]string{
		"apply": `mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'a': 'b'}}}"}}]`,
		"patch": `mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/metadata/labels/a', value: 'b'}]"}}]`,
	} {
		b.Run(name, func(b *testing.B) {
			c := world{}.config()
			c.Types = types(b)
			p := mutating(b, c, spec, "")
			in := write(b, admission.Create, deployment, "")
			if _, err := p.Judge(context.Background(), in); err != nil { // it reads the schema
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if v, err := p.Judge(context.Background(), in); err != nil || v.Object == nil {
					b.Fatal(v, err)
				}
			}
		})
	}
}
