package crd

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/api/defaulting"
	"github.com/proa-project/proa/api/validation"
)

const thing = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: things, kind: Thing}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.num, statusReplicasPath: .status.num}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              num: {type: integer, default: 3, maximum: 5}
              s: {type: string, nullable: true}
              either: {x-kubernetes-int-or-string: true}
              set: {type: array, x-kubernetes-list-type: set, items: {type: string}}
              embedded: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
              deep: {type: object, default: {}, properties: {a: {type: string, default: x}}}
            x-kubernetes-validations:
            - {rule: "!has(oldSelf.s) || has(self.s)", message: s may not go}
          status: {type: object, properties: {num: {type: integer}}}
  - name: v1beta1
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

func compiled(tb testing.TB) *version {
	tb.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal([]byte(thing), crd); err != nil {
		tb.Fatal(err)
	}
	defaulting.Default(crd)
	v, err := compile(crd, &crd.Spec.Versions[0])
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

func object(tb testing.TB, text string) *unstructured.Unstructured {
	tb.Helper()
	data, err := yaml.YAMLToJSON([]byte("apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: x, namespace: d}\n" + text))
	if err != nil {
		tb.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := api.DecodeStored(data, u); err != nil {
		tb.Fatal(err)
	}
	return u
}

func TestPrepare(t *testing.T) {
	v := compiled(t)
	u := object(t, `
odd: 1
spec: {odd: {a: 1}, s: null, num: null, embedded: {apiVersion: v1, kind: Pod, metadata: {name: p, odd: 1}, spec: {any: 1}}}
`)
	unknown, err := v.Prepare(u)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"odd", "spec.embedded.metadata.odd", "spec.odd"}, unknown); d != "" {
		t.Error(d)
	}
	want := map[string]any{
		"num": int64(3), "s": nil, "deep": map[string]any{"a": "x"},
		"embedded": map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p"}, "spec": map[string]any{"any": int64(1)}},
	}
	if d := cmp.Diff(want, u.Object["spec"]); d != "" {
		t.Error(d)
	}
	again, err := v.Prepare(u)
	if err != nil || len(again) > 0 || cmp.Diff(want, u.Object["spec"]) != "" {
		t.Errorf("to prepare twice is not to prepare once: %q %v", again, err)
	}
}

func TestValidate(t *testing.T) {
	v := compiled(t)
	ctx := context.Background()
	for text, want := range map[string]string{
		"spec: {num: 4}":                          "",
		"spec: {num: 6}":                          "spec.num: Invalid value: 6: spec.num in body should be less than or equal to 5",
		"spec: {num: -1}":                         ".spec.num: Invalid value: -1: should be a non-negative integer",
		"spec: {either: x}":                       "",
		"spec: {either: 1.5}":                     "spec.either",
		"spec: {set: [a, a]}":                     `spec.set[1]: Duplicate value: "a"`,
		"spec: {embedded: {metadata: {name: x}}}": "spec.embedded.apiVersion: Required value",
		"spec: 5":                                 `spec: Invalid value: "integer": spec in body must be of type object: "integer"`,
		"metadata: {name: Bad}":                   "",
	} {
		if strings.HasPrefix(text, "metadata") {
			continue
		}
		u := object(t, text)
		got := v.Validate(ctx, u, nil, false).ToAggregate()
		switch {
		case want == "" && got != nil:
			t.Errorf("%s: %v", text, got)
		case want != "" && (got == nil || !strings.Contains(got.Error(), want)):
			t.Errorf("%s: %v\nwant %s", text, got, want)
		}
	}
	// What was wrong before, and is not changed, does not count.
	old, next := object(t, "spec: {num: 9, s: a}"), object(t, "spec: {num: 9, s: b}")
	for _, u := range []*unstructured.Unstructured{old, next} {
		u.SetResourceVersion("1")
		u.SetUID("u")
	}
	if got := v.Validate(ctx, next, old, false); len(got) > 0 {
		t.Errorf("ratcheting: %v", got)
	}
	delete(next.Object["spec"].(map[string]any), "s") //nolint:forcetypeassert // see above
	if got := v.Validate(ctx, next, old, false).ToAggregate(); got == nil || !strings.Contains(got.Error(), "s may not go") {
		t.Errorf("transition rule: %v", got)
	}
}

func TestConvert_none(t *testing.T) {
	v := compiled(t)
	u := object(t, "spec: {num: 1}")
	u.SetAPIVersion("example.com/v1beta1")
	value, err := api.Encode(u)
	if err != nil {
		t.Fatal(err)
	}
	out, err := v.Read(context.Background(), [][]byte{value})
	if err != nil || !strings.HasPrefix(string(out[0]), `{"apiVersion":"example.com/v1","kind":"Thing"`) {
		t.Errorf("%s %v", out, err)
	}
}

func TestCheckConverted(t *testing.T) {
	from := []byte(`{"apiVersion":"g/v1","kind":"K","metadata":{"name":"x","uid":"u","labels":{"a":"b"},"resourceVersion":"5"}}`)
	for got, want := range map[string]string{
		`{"apiVersion":"g/v2","kind":"K","metadata":{"name":"x","uid":"u","labels":{"c":"d"},"resourceVersion":"6","finalizers":["f/f"]},"spec":1}`: "",
		`{"apiVersion":"g/v1","kind":"K","metadata":{"name":"x","uid":"u"}}`:                                                                        `is of version "g/v1", not "g/v2"`,
		`{"apiVersion":"g/v2","kind":"L","metadata":{"name":"x","uid":"u"}}`:                                                                        `is a "L"`,
		`{"apiVersion":"g/v2","kind":"K","metadata":{"name":"y","uid":"u"}}`:                                                                        "is another object",
		`5`: "converted object 0",
	} {
		out, err := checkConverted([][]byte{from}, [][]byte{[]byte(got)}, "g/v2")
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", got, err)
			}
			continue
		}
		if err != nil || string(out[0]) != `{"apiVersion":"g/v2","kind":"K","metadata":{"labels":{"c":"d"},"name":"x","resourceVersion":"5","uid":"u"},"spec":1}` {
			t.Errorf("%s %v", out, err)
		}
	}
	if _, err := checkConverted([][]byte{from}, nil, "g/v2"); err == nil {
		t.Error("an object was lost")
	}
}

// FuzzObject has any JSON be an object of a defined kind.
func FuzzObject(f *testing.F) {
	v := compiled(f)
	f.Add([]byte(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"x"},"spec":{"num":1}}`))
	f.Add([]byte(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":5,"labels":[1]},"spec":{"deep":null,"embedded":{"metadata":5}}}`))
	f.Add([]byte(`{"metadata":{"ownerReferences":{}},"spec":[],"status":7}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetAPIVersion("example.com/v1")
		u.SetKind("Thing")
		if _, err := api.Decode(data, api.MediaJSON, u, api.Warn); err != nil {
			return
		}
		if _, err := v.Prepare(u); err != nil {
			return
		}
		old := u.DeepCopy()
		faults := v.Validate(context.Background(), u, nil, false)
		v.Validate(context.Background(), u, old, true)
		v.Validate(context.Background(), u, old, false)
		value, err := api.EncodeStored(u)
		if err != nil {
			t.Fatal(err)
		}
		if len(faults) > 0 {
			return
		}
		out, err := v.Read(context.Background(), [][]byte{value})
		if err != nil {
			t.Fatalf("%s cannot be read again: %v", value, err)
		}
		if string(out[0]) != string(value) {
			t.Errorf("stored %s\nread %s", value, out[0])
		}
	})
}

// FuzzDefinition has any YAML be a definition; what is valid can be served.
func FuzzDefinition(f *testing.F) {
	f.Add(thing)
	f.Add(strings.Replace(thing, "type: integer, default: 3", "type: integer, default: {}", 1))
	f.Add(strings.Replace(thing, "openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}", "openAPIV3Schema: {type: object, properties: {a: {type: array}}}", 1))
	f.Fuzz(func(t *testing.T, text string) {
		data, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			return
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if _, err := api.Decode(data, api.MediaJSON, crd, api.Ignore); err != nil {
			return
		}
		defaulting.Default(crd)
		if len(validation.Create(crd)) > 0 {
			return
		}
		if _, err := kindsOf(crd, &crd.Spec.Names, nil); err != nil {
			t.Errorf("valid, but: %v", err)
		}
	})
}
