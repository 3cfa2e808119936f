package api_test

import (
	"bytes"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/proa-project/proa/api"
	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
)

func TestEncode(t *testing.T) {
	named := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "7"}}
	typed := named.DeepCopy()
	typed.Kind, typed.APIVersion = "ConfigMap", "v1"
	for name, tc := range map[string]struct {
		obj  runtime.Object
		want string
	}{
		"type is filled":          {named, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"7"}}`},
		"type is there":           {typed, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"7"}}`},
		"group":                   {&eventsv1.EventList{}, `{"kind":"EventList","apiVersion":"events.k8s.io/v1","metadata":{},"items":null}`},
		"status":                  {&metav1.Status{Code: 404}, `{"kind":"Status","apiVersion":"v1","metadata":{},"code":404}`},
		"table":                   {&metav1.Table{}, `{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{},"columnDefinitions":null,"rows":null}`},
		"nothing but a type":      {&metav1.DeleteOptions{}, `{"kind":"DeleteOptions","apiVersion":"v1"}`},
		"HTML is escaped as JSON": {&metav1.Status{Message: "<&>"}, `{"kind":"Status","apiVersion":"v1","metadata":{},"message":"\u003c\u0026\u003e"}`},
	} {
		t.Run(name, func(t *testing.T) {
			before := tc.obj.DeepCopyObject()
			got, err := api.Encode(tc.obj)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.obj); diff != "" {
				t.Errorf("the object changed:\n%s", diff)
			}
		})
	}
}

func TestEncodeStored(t *testing.T) {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "7", Generation: 1}}
	for _, want := range []string{
		`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","generation":1}}`,
		`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"generation":1}}`,
		`{"kind":"ConfigMap","apiVersion":"v1","metadata":{}}`,
	} {
		got, err := api.EncodeStored(cm)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if cm.Name == "" {
			cm.Generation = 0
		}
		cm.Name = ""
	}
	if cm.ResourceVersion != "7" {
		t.Error("the object lost its resourceVersion")
	}
}

func TestDecode(t *testing.T) {
	pod := func() runtime.Object { return &corev1.Pod{} }
	for name, tc := range map[string]struct {
		body, media string
		into        func() runtime.Object
		strictness  api.Strictness
		warnings    []string
		err         string
	}{
		"plain":          {body: `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}`, strictness: api.Strict},
		"type left out":  {body: `{"metadata":{"name":"a"}}`, strictness: api.Strict},
		"with a charset": {body: `{}`, media: "application/json; charset=utf-8"},
		"unknown and duplicate fields, ignored": {
			body: `{"spec":{"foo":1,"nodeName":"a","nodeName":"b"}}`, strictness: api.Ignore,
		},
		"unknown and duplicate fields, warned of": {
			body: `{"spec":{"foo":1,"nodeName":"a","nodeName":"b"}}`, strictness: api.Warn,
			warnings: []string{`unknown field "spec.foo"`, `duplicate field "spec.nodeName"`},
		},
		"unknown and duplicate fields, strict": {
			body: `{"spec":{"containers":[{"foo":1}],"nodeName":"a","nodeName":"b"}}`, strictness: api.Strict,
			err: `Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.containers[0].foo", duplicate field "spec.nodeName"`,
		},
		"names differ in case only": {
			body: `{"Spec":{}}`, strictness: api.Strict,
			err: `Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "Spec"`,
		},
		"wrong type of a field": {
			body: `{"kind":"Pod","apiVersion":"v1","spec":{"nodeName":1}}`,
			err:  `Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal number into Go struct field PodSpec.spec.nodeName of type string`,
		},
		"bad quantity": {
			body: `{"spec":{"overhead":{"cpu":"x"}}}`,
			err:  `Pod in version "v1" cannot be handled as a Pod: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'`,
		},
		"no JSON": {
			body: `hello`,
			err:  `the object provided is unrecognized (must be of type Pod): couldn't get version/kind; json parse error: invalid character 'h' looking for beginning of value (68656c6c6f)`,
		},
		"cut off": {
			body: `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"`,
			err:  `the object provided is unrecognized (must be of type Pod): couldn't get version/kind; json parse error: unexpected end of JSON input ({"kind":"Pod","apiVersion":"v1 ...)`,
		},
		"empty": {
			err: `the object provided is unrecognized (must be of type Pod): couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)`,
		},
		"a list": {
			body: `[]`,
			err:  `the object provided is unrecognized (must be of type Pod): couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" } (5b5d)`,
		},
		"apiVersion is nonsense": {
			body: `{"kind":"Pod","apiVersion":"a/b/c"}`,
			err:  `the object provided is unrecognized (must be of type Pod): unexpected GroupVersion string: a/b/c ({"kind":"Pod","apiVersion":"a/ ...)`,
		},
		"another kind": {
			body: `{"kind":"ConfigMap","apiVersion":"v1"}`,
			err:  `ConfigMap in version "v1" cannot be handled as a Pod: converting (v1.ConfigMap) to (core.Pod): unknown conversion`,
		},
		"another kind with fields of its own": {
			body: `{"kind":"Deployment","apiVersion":"apps/v1","spec":{"replicas":1}}`, strictness: api.Strict,
			err: `Deployment in version "v1" cannot be handled as a Pod: converting (v1.Deployment) to (core.Pod): unknown conversion`,
		},
		"a kind that is not known": {
			body: `{"kind":"Foo","apiVersion":"v1"}`,
			err:  `Foo in version "v1" cannot be handled as a Pod: no kind "Foo" is registered for version "v1" in scheme "` + api.Scheme().Name() + `"`,
		},
		"the kind of another group": {
			body: `{"kind":"Event","apiVersion":"events.k8s.io/v1"}`, into: func() runtime.Object { return &corev1.Event{} },
			err: `the API version in the data (events.k8s.io/v1) does not match the expected API version (v1)`,
		},
		"options in the core group":     {body: `{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0}`, into: func() runtime.Object { return &metav1.DeleteOptions{} }},
		"options in a group of a kind":  {body: `{"kind":"DeleteOptions","apiVersion":"apps/v1"}`, into: func() runtime.Object { return &metav1.DeleteOptions{} }},
		"options in metadata's group":   {body: `{"kind":"DeleteOptions","apiVersion":"meta.k8s.io/v1"}`, into: func() runtime.Object { return &metav1.DeleteOptions{} }},
		"options without a type":        {body: `{"propagationPolicy":"Orphan"}`, into: func() runtime.Object { return &metav1.DeleteOptions{} }},
		"YAML":                          {body: "kind: Pod\nmetadata: {name: a}\n", media: api.MediaYAML, strictness: api.Strict},
		"YAML of old tools":             {body: "kind: Pod\n", media: "application/x-yaml"},
		"only the first document":       {body: "kind: Pod\n---\nkind: Node\n", media: api.MediaYAML},
		"YAML, unknown field, ignored":  {body: "spec: {foo: 1}\n", media: api.MediaYAML},
		"YAML, duplicate field, warned": {body: "spec: {nodeName: a, nodeName: b}\n", media: api.MediaYAML, strictness: api.Warn, warnings: []string{"yaml: unmarshal errors:\n  line 1: key \"nodeName\" already set in map"}},
		"YAML, unknown field": {
			body: "spec: {foo: 1}\n", media: api.MediaYAML, strictness: api.Strict,
			err: `Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.foo"`,
		},
		"YAML, nonsense": {
			body: "a: [", media: api.MediaYAML,
			err: `the object provided is unrecognized (must be of type Pod): yaml: line 1: did not find expected node content (613a205b)`,
		},
		"no protobuf": {
			body: "{}", media: api.MediaProtobuf,
			err: `the object provided is unrecognized (must be of type Pod): provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] ({})`,
		},
		"empty protobuf": {
			body: "k8s\x00", media: api.MediaProtobuf,
			err: `the object provided is unrecognized (must be of type Pod): empty body (6b387300)`,
		},
		"unknown form": {body: "{}", media: "text/plain", err: api.ErrMediaType.Error()},
		"protobuf for a kind that has none": {
			body: "k8s\x00", media: api.MediaProtobuf, into: func() runtime.Object { return &pluginsv1.WasmModule{} },
			err: api.ErrMediaType.Error(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.into == nil {
				tc.into = pod
			}
			obj := tc.into()
			warnings, err := api.Decode([]byte(tc.body), tc.media, obj, tc.strictness)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if diff := cmp.Diff(tc.err, text); diff != "" {
				t.Errorf("error (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(tc.warnings, warnings); diff != "" {
				t.Errorf("warnings (-want +got)\n%s", diff)
			}
			if err == nil && obj.GetObjectKind().GroupVersionKind().Kind == "" {
				t.Error("kind is not set")
			}
		})
	}
}

// All forms of an object say the same.
func TestForms(t *testing.T) {
	pod := &corev1.Pod{}
	if _, err := api.Decode(testdata(t, "pod.json"), api.MediaJSON, pod, api.Strict); err != nil {
		t.Fatal(err)
	}
	data, err := api.EncodeProtobuf(pod)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(data, []byte("k8s\x00")) || !api.HasProtobuf(pod) {
		t.Errorf("no envelope: %q", data[:8])
	}
	other := &corev1.Pod{}
	if _, err = api.Decode(data, api.MediaProtobuf, other, api.Strict); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(pod, other); diff != "" {
		t.Errorf("through protobuf (-before +after)\n%s", diff)
	}
	if _, err = api.Decode(data, api.MediaProtobuf, &appsv1.Deployment{}, api.Strict); err == nil ||
		err.Error() != `Pod in version "v1" cannot be handled as a Deployment: converting (v1.Pod) to (apps.Deployment): unknown conversion` {
		t.Errorf("into another kind: %v", err)
	}

	stored, err := api.EncodeStored(pod)
	if err != nil {
		t.Fatal(err)
	}
	other = &corev1.Pod{}
	if err = api.DecodeStored(stored, other); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(pod, other); diff != "" {
		t.Errorf("through storage (-before +after)\n%s", diff)
	}
	if _, err := api.EncodeProtobuf(&pluginsv1.WasmModule{}); err == nil || api.HasProtobuf(&pluginsv1.WasmModule{}) {
		t.Error("kinds of Proa have no protobuf form")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(testdata(f, "pod.json"), byte(0))
	f.Add(testdata(f, "event.json"), byte(0))
	f.Add([]byte("kind: Pod\nspec:\n  containers:\n  - {name: a, image: b}\n"), byte(1))
	f.Add([]byte("a: &a [*a]\n"), byte(1))
	pod := &corev1.Pod{}
	if err := api.DecodeStored(testdata(f, "pod.json"), pod); err != nil {
		f.Fatal(err)
	}
	data, err := api.EncodeProtobuf(pod)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data, byte(2))
	media := []string{api.MediaJSON, api.MediaYAML, api.MediaProtobuf}
	f.Fuzz(func(t *testing.T, data []byte, form byte) {
		for _, r := range api.Resources() {
			obj := r.New()
			_, err := api.Decode(data, media[int(form)%len(media)], obj, api.Strictness(form%3))
			if err != nil {
				_ = err.Error() // never panics
				continue
			}
			// What was read can be stored, and is the same whenever it is read
			// again. Bytes that are no UTF-8 are replaced the first time.
			var stored []byte
			if stored, err = api.EncodeStored(obj); err != nil {
				continue // a time that JSON cannot say
			}
			for range 2 {
				again := r.New()
				if err = api.DecodeStored(stored, again); err != nil {
					t.Fatalf("stored %s: %v", stored, err)
				}
				var next []byte
				if next, err = api.EncodeStored(again); err != nil {
					t.Fatal(err)
				}
				if utf8.Valid(data) && !bytes.Equal(stored, next) {
					t.Fatalf("%s\n%s", stored, next)
				}
				stored = next
			}
		}
	})
}
