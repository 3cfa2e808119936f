package openapi

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/openapi/openapitest"
)

// TestOpenAPIv3_upstream compares with documents that a kube-apiserver has
// served. They are of an older release than our types, so what differs for
// that reason is listed, and newer things are let pass.
func TestOpenAPIv3_upstream(t *testing.T) {
	paths, err := openapitest.NewEmbeddedFileClient().Paths()
	if err != nil {
		t.Fatal(err)
	}
	d := documents(t)
	var got []string
	say := func(words ...string) {
		if line := strings.Join(words, " "); !slices.Contains(got, line) {
			got = append(got, line)
		}
	}
	for _, path := range []string{"api/v1", "apis/apps/v1"} {
		data, err := paths[path].Schema("application/json")
		if err != nil {
			t.Fatal(err)
		}
		c, err := d.current.Load().v3[path].json()
		if err != nil {
			t.Fatal(err)
		}
		own, err := c.plain()
		if err != nil {
			t.Fatal(err)
		}
		ours, theirs := parseDocument(t, own), parseDocument(t, data)
		compareSchemas(ours, theirs, say)
		comparePaths(ours, theirs, say)
	}
	slices.Sort(got)
	golden(t, "testdata/upstream.golden", strings.Join(got, "\n")+"\n")
}

type documentJSON struct {
	Paths      map[string]map[string]json.RawMessage
	Components struct{ Schemas map[string]object }
}

func parseDocument(t *testing.T, data []byte) *documentJSON {
	t.Helper()
	d := &documentJSON{}
	if err := json.Unmarshal(data, d); err != nil {
		t.Fatal(err)
	}
	return d
}

func compareSchemas(ours, theirs *documentJSON, say func(...string)) {
	for name, a := range ours.Components.Schemas {
		b, ok := theirs.Components.Schemas[name]
		if !ok {
			continue
		}
		short := strings.TrimPrefix(strings.TrimPrefix(name, "io.k8s.api."), "io.k8s.apimachinery.pkg.")
		pa, _ := a["properties"].(object)
		pb, _ := b["properties"].(object)
		for key := range pb {
			x, ok := pa[key].(object)
			if !ok {
				say(short, key, "is lacking")
				continue
			}
			if diff := compareProperty(x, pb[key].(object)); diff != "" {
				say(short, key, diff)
			}
		}
		if !sameSet(a["required"], b["required"]) {
			say(short, "requires", names(a["required"]), "not", names(b["required"]))
		}
		for _, key := range []string{"type", "format", "oneOf", "x-kubernetes-map-type"} {
			if !reflect.DeepEqual(a[key], b[key]) {
				say(short, key, "differs")
			}
		}
		kinds, _ := a[gvkKey].([]any)
		others, _ := b[gvkKey].([]any)
		if len(kinds) == 1 && (len(others) == 0 || !reflect.DeepEqual(kinds[0], others[0])) || len(kinds) == 0 && len(others) > 0 {
			say(short, "is another kind")
		}
	}
}

// compareProperty compares all but prose, defaults that are the zero value,
// and list types that the older release did not publish.
func compareProperty(a, b object) string {
	a, b = bare(a), bare(b)
	for _, key := range []string{"x-kubernetes-list-type", "x-kubernetes-list-map-keys"} {
		if _, ok := b[key]; !ok {
			delete(a, key)
		}
	}
	if reflect.DeepEqual(a, b) {
		return ""
	}
	var keys []string
	for key := range a {
		if !reflect.DeepEqual(a[key], b[key]) {
			keys = append(keys, key)
		}
	}
	for key := range b {
		if _, ok := a[key]; !ok {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return "differs in " + strings.Join(keys, ",")
}

func bare(p object) object {
	p = maps.Clone(p)
	delete(p, "description")
	if v := p["default"]; v == "" || v == false || v == 0.0 || reflect.DeepEqual(v, object{}) {
		delete(p, "default")
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if child, ok := p[key].(object); ok {
			p[key] = bare(child)
		}
	}
	if all, ok := p["allOf"].([]any); ok && len(p) == 1 && len(all) == 1 {
		return all[0].(object)
	}
	return p
}

func names(list any) string {
	var s []string
	l, _ := list.([]any)
	for _, v := range l {
		s = append(s, v.(string))
	}
	slices.Sort(s)
	return "[" + strings.Join(s, ",") + "]"
}

func sameSet(a, b any) bool { return names(a) == names(b) }

func comparePaths(ours, theirs *documentJSON, say func(...string)) {
	type operation struct {
		OperationID string                   `json:"operationId"`
		Action      string                   `json:"x-kubernetes-action"`
		Kind        map[string]string        `json:"x-kubernetes-group-version-kind"`
		Tags        []string                 `json:"tags"`
		RequestBody struct{ Content object } `json:"requestBody"`
	}
	for path, item := range ours.Paths {
		other, ok := theirs.Paths[path]
		if !ok {
			say("path", path, "is ours alone")
			continue
		}
		for method, raw := range item {
			if method == "parameters" {
				continue
			}
			var a, b operation
			if json.Unmarshal(raw, &a) != nil || other[method] == nil || json.Unmarshal(other[method], &b) != nil {
				say(method, path, "is ours alone")
				continue
			}
			delete(b.RequestBody.Content, "application/apply-patch+yaml")
			a.RequestBody.Content, b.RequestBody.Content = keysOnly(a.RequestBody.Content), keysOnly(b.RequestBody.Content)
			if diff := cmp.Diff(b, a); diff != "" {
				say(method, path, diff)
			}
		}
	}
}

func keysOnly(o object) object {
	out := object{}
	for k := range o {
		out[k] = nil
	}
	return out
}
