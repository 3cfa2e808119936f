package dynamic_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/proa-project/proa/httpapi/dynamic"
)

func TestPrinter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	k := &dynamic.Kind{Columns: []dynamic.Column{
		{Name: "S", Type: "string", JSONPath: ".spec.s"},
		{Name: "List", Type: "string", JSONPath: ".spec.list[*].n"},
		{Name: "I", Type: "integer", JSONPath: ".spec.i"},
		{Name: "F", Type: "number", JSONPath: ".spec.i"},
		{Name: "B", Type: "boolean", JSONPath: ".spec.b"},
		{Name: "D", Type: "date", JSONPath: ".spec.d"},
		{Name: "Wrong", Type: "integer", JSONPath: ".spec.s"},
		{Name: "Bad", Type: "date", JSONPath: ".spec.s"},
		{Name: "None", Type: "string", JSONPath: ".spec.none.none", Priority: 1, Description: "nothing"},
	}}
	p, err := k.Printer(now)
	if err != nil {
		t.Fatal(err)
	}
	object := map[string]any{"metadata": map[string]any{"name": "x"}, "spec": map[string]any{
		"s": "text", "list": []any{map[string]any{"n": "a"}, map[string]any{"n": "b"}}, "i": int64(7), "b": true,
		"d": now.Add(-time.Hour).Format(time.RFC3339),
	}}
	want := []any{"x", "text", "a", int64(7), float64(7), true, "60m", nil, "<invalid>", nil}
	if d := cmp.Diff(want, p.Cells(object)); d != "" {
		t.Error(d)
	}
	if c := p.Columns(); len(c) != 10 || c[0].Format != "name" || c[9].Priority != 1 || c[9].Description != "nothing" {
		t.Errorf("%+v", c)
	}
	if _, err := (&dynamic.Kind{Columns: []dynamic.Column{{Name: "x", JSONPath: "{{"}}}).Printer(now); err == nil {
		t.Error("a bad path was read")
	}
}

// FuzzPrinter prints any object by any path.
func FuzzPrinter(f *testing.F) {
	f.Add(".spec.a", "string", `{"metadata":{"name":"x"},"spec":{"a":1}}`)
	f.Add(".spec.a[?(@.b==1)].c", "integer", `{"spec":{"a":[{"b":1,"c":2}]}}`)
	f.Add("..a", "date", `{"metadata":5,"a":null}`)
	f.Add(".metadata.creationTimestamp", "boolean", `{"metadata":{"name":5}}`)
	f.Fuzz(func(t *testing.T, path, kind, text string) {
		var object map[string]any
		if json.Unmarshal([]byte(text), &object) != nil {
			return
		}
		p, err := (&dynamic.Kind{Columns: []dynamic.Column{{Name: "c", Type: kind, JSONPath: path}}}).Printer(time.Now())
		if err != nil {
			return
		}
		cells := p.Cells(object)
		if len(cells) != 2 {
			t.Errorf("%d cells", len(cells))
		}
		if _, err := json.Marshal(cells); err != nil {
			t.Error(err)
		}
	})
}
