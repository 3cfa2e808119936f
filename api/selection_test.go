package api_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/proa-project/proa/api"
)

func TestSelection(t *testing.T) {
	s := api.Select("metadata.name", "spec.hosts[].name", "spec.hosts[].at.x", "spec.empty[]", "data{}", "whole", "whole.not")
	for in, want := range map[string]string{
		`{}`:                               `{}`,
		` { "kind" : "a" , "whole" : 1 } `: `{"whole":1}`,
		`{"metadata":{"uid":"u","name":"a\"}"},"whole":{"a":[1, 2]},"status":{"name":1}}`:        `{"metadata":{"name":"a\"}"},"whole":{"a":[1, 2]}}`,
		`{"spec":{"hosts":[{"name":"a","y":1},{"at":{"x":1,"y":[{"x":2}]}},{}, null ,3],"o":1}}`: `{"spec":{"hosts":[{"name":"a"},{"at":{"x":1}},{},null,3]}}`,
		`{"spec":{"empty":[{"a":1},{"b":{"c":2}}],"hosts":[]}}`:                                  `{"spec":{"empty":[{},{}],"hosts":[]}}`,
		`{"data":{"a":"b","c":{"d":[]}, "e" : null}}`:                                            `{"data":{"a":null,"c":null,"e":null}}`,
		`{"data":[1],"metadata":null,"spec":{"hosts":{"name":1,"z":2},"empty":"x"}}`:             `{"data":[1],"metadata":null,"spec":{"hosts":{"name":1,"z":2},"empty":"x"}}`,
		`{"metad\u0061ta":{"n\u0061me":1,"nam\u0065s":2}}`:                                       `{"metad\u0061ta":{"n\u0061me":1}}`,
		`[{"kind":1}]`:               `[{"kind":1}]`,
		`{"kind":`:                   `{"kind":`,
		`{"spec":{"hosts":[{"name":`: `{"spec":{"hosts":[{"name":`,
		``:                           ``,
	} {
		if got := string(s.Append([]byte("#"), []byte(in))); got != "#"+want {
			t.Errorf("%s: got %s, want #%s", in, got, want)
		}
	}
}

// twinSelect does what a Selection does with one path, the plain way.
func twinSelect(v any, path string) any {
	object, ok := v.([]member)
	if !ok {
		return v
	}
	key, rest, more := strings.Cut(path, ".")
	key, list := strings.CutSuffix(key, "[]")
	key, names := strings.CutSuffix(key, "{}")
	out := []member{}
	for _, m := range object {
		if m.name != key || path == "" {
			continue
		}
		switch value := m.value.(type) {
		case []any:
			if list {
				elements := []any{}
				for _, e := range value {
					elements = append(elements, twinSelect(e, rest))
				}
				m.value = elements
			}
		case []member:
			if names {
				for i := range value {
					value[i].value = nil
				}
			} else if more && !list {
				m.value = twinSelect(value, rest)
			}
		}
		out = append(out, m)
	}
	return out
}

// The selection of one path is what the twin makes of it. That of two is what
// each would choose.
func FuzzSelection(f *testing.F) {
	for _, s := range scanSeeds {
		f.Add([]byte(s), "metadata.labels")
		f.Add([]byte(s), "status.podIPs[].ip")
		f.Add([]byte(s), "metadata.labels{}")
	}
	f.Add(testdata(f, "pod.json"), "spec.containers[].env[]")
	f.Add([]byte(`{"a":[[{"b":1}],{"b":[2]}],"":{"":3}}`), "a[].b")
	f.Add([]byte(`{"a":[[{"b":1}],{"b":[2]}],"":{"":3}}`), ".")
	f.Fuzz(func(t *testing.T, data []byte, path string) {
		before := bytes.Clone(data)
		got := api.Select(path).Append(nil, data) // never panics
		if !bytes.Equal(before, data) {
			t.Fatal("the value changed")
		}
		want, err := parse(data)
		if _, object := want.([]member); err != nil || !object || !json.Valid(data) || repeats(want) {
			return
		}
		if parts := strings.Split(path, "."); strings.Contains(path, "{}[]") || slices.Contains(parts[:len(parts)-1], "") ||
			slices.ContainsFunc(parts[:len(parts)-1], func(p string) bool { return strings.HasSuffix(p, "{}") }) || parts[len(parts)-1] == "" {
			return // no paths
		}
		cut, err := parse(got)
		if err != nil || !json.Valid(got) {
			t.Fatalf("%q became no JSON: %q", data, got)
		}
		if diff := cmp.Diff(twinSelect(want, path), cut, cmp.AllowUnexported(member{})); diff != "" {
			t.Errorf("%s of %s (-twin +got)\n%s", path, data, diff)
		}
		if again := api.Select(path, "no.such[].member").Append(nil, got); !bytes.Equal(got, again) {
			t.Errorf("cut again, %s became %s", got, again)
		}
	})
}

func BenchmarkSelection(b *testing.B) {
	_, data := benchPod(b)
	s := api.Select("metadata.name", "spec.nodeName", "spec.containers[]", "status.phase")
	var out []byte
	for b.Loop() {
		out = s.Append(out[:0], data)
	}
}
