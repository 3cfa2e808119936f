package httpapi_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/proa-project/proa/api"
)

const (
	tableType   = "application/json;as=Table;v=v1;g=meta.k8s.io"
	partialType = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
	protobuf    = "application/vnd.kubernetes.protobuf"
)

func TestAccept(t *testing.T) {
	f := newFixture(t)
	f.mustMap(t, "a", "")
	if r := f.do(t, "POST", "/apis/plugins.proa.io/v1/wasmmodules", `{"metadata":{"name":"m"}}`); r.Code >= 500 {
		t.Fatal(r)
	}
	for name, c := range map[string]struct{ path, accept, contentType, kind string }{
		"none":                    {mapsPath + "/a", "", "application/json", "ConfigMap"},
		"any":                     {mapsPath + "/a", "*/*", "application/json", "ConfigMap"},
		"browser":                 {mapsPath + "/a", "text/html,application/xhtml+xml,*/*;q=0.8", "application/json", "ConfigMap"},
		"yaml":                    {mapsPath + "/a", "application/yaml", "application/yaml", "ConfigMap"},
		"protobuf first":          {mapsPath + "/a", protobuf + ",application/json", protobuf, ""},
		"JSON first":              {mapsPath + "/a", "application/json," + protobuf, "application/json", "ConfigMap"},
		"JSON by weight":          {mapsPath + "/a", protobuf + ";q=0.5,application/json", "application/json", "ConfigMap"},
		"no protobuf of own":      {"/apis/plugins.proa.io/v1/wasmmodules", protobuf + ",application/json", "application/json", "WasmModuleList"},
		"table":                   {mapsPath, tableType + ",application/json", "application/json", "Table"},
		"table of one":            {mapsPath + "/a", tableType, "application/json", "Table"},
		"old table":               {mapsPath, "application/json;as=Table;v=v1beta1;g=meta.k8s.io", "application/json", "Table"},
		"unknown table":           {mapsPath, "application/json;as=Table;v=v9;g=meta.k8s.io,application/json", "application/json", "ConfigMapList"},
		"metadata":                {mapsPath + "/a", partialType, "application/json", "PartialObjectMetadata"},
		"metadata list":           {mapsPath, "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "application/json", "PartialObjectMetadataList"},
		"metadata as protobuf":    {mapsPath, protobuf + ";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", protobuf, ""},
		"metadata of own, binary": {"/apis/plugins.proa.io/v1/wasmmodules", protobuf + ";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", protobuf, ""},
		"table as yaml":           {mapsPath, "application/yaml;as=Table;v=v1;g=meta.k8s.io", "application/yaml", "Table"},
	} {
		t.Run(name, func(t *testing.T) {
			r := f.do(t, "GET", c.path, "", "Accept", c.accept)
			if r.Code != http.StatusOK || r.Header.Get("Content-Type") != c.contentType {
				t.Fatalf("%d %s: %q", r.Code, r.Header.Get("Content-Type"), r.Body)
			}
			if c.kind == "" {
				if !strings.HasPrefix(r.Body, "k8s\x00") {
					t.Errorf("no protobuf: %q", r.Body)
				}
				return
			}
			var o struct{ Kind string }
			if err := yaml.Unmarshal([]byte(r.Body), &o); err != nil || o.Kind != c.kind {
				t.Errorf("kind %q, %v in %s", o.Kind, err, r.Body)
			}
			if c.contentType == "application/json" != json.Valid([]byte(r.Body)) {
				t.Errorf("JSON or not: %s", r.Body)
			}
		})
	}
}

func TestTable(t *testing.T) {
	f := newFixture(t)
	f.do(t, "POST", podsPath, podJSON("a"))
	f.do(t, "POST", podsPath, podJSON("b"))
	table := func(query string) metav1.Table {
		t.Helper()
		r := f.do(t, "GET", podsPath+query, "", "Accept", tableType)
		var out metav1.Table
		if err := json.Unmarshal([]byte(r.Body), &out); err != nil {
			t.Fatal(err, r)
		}
		return out
	}
	tb := table("?limit=1")
	if tb.ResourceVersion == "" || tb.Continue == "" || len(tb.Rows) != 1 || len(tb.ColumnDefinitions) == 0 || len(tb.Rows[0].Cells) != len(tb.ColumnDefinitions) {
		t.Errorf("%+v", tb)
	}
	if tb.Rows[0].Cells[0] != "a" || tb.ColumnDefinitions[0].Format != "name" {
		t.Errorf("%+v", tb)
	}
	for query, want := range map[string]string{"": "PartialObjectMetadata", "?includeObject=Object": "Pod", "?includeObject=None": ""} {
		var o struct{ Kind string }
		raw := table(query).Rows[1].Object.Raw
		if len(raw) > 0 {
			if err := json.Unmarshal(raw, &o); err != nil {
				t.Fatal(err)
			}
		}
		if o.Kind != want {
			t.Errorf("%q: object is %s", query, raw)
		}
	}
}

func TestBodies(t *testing.T) {
	f := newFixture(t)
	y := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: yaml\ndata: {a: b}\n"
	if r := f.do(t, "POST", mapsPath, y, "Content-Type", "application/yaml"); r.Code != http.StatusCreated {
		t.Error(r)
	}
	data, err := api.EncodeProtobuf(&corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: "p"}, Data: map[string]string{"a": "b"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if r := f.do(t, "POST", mapsPath, string(data), "Content-Type", protobuf); r.Code != http.StatusCreated || !strings.Contains(r.Body, `"data":{"a":"b"}`) {
		t.Error(r)
	}
	if r := f.do(t, "PATCH", mapsPath+"/p", "data: {c: d}\n", "Content-Type", "application/strategic-merge-patch+json"); r.Code != http.StatusOK {
		t.Error(r)
	}
	for _, media := range []string{"application/json", "application/json; charset=utf-8"} {
		if r := f.do(t, "PUT", mapsPath+"/p", mapJSON("p", ""), "Content-Type", media); r.Code != http.StatusOK {
			t.Error(r)
		}
	}
}

func TestPretty(t *testing.T) {
	f := newFixture(t)
	f.mustMap(t, "a", "")
	if r := f.do(t, "GET", mapsPath+"/a?pretty=true", ""); !strings.HasPrefix(r.Body, "{\n  \"kind\": \"ConfigMap\",\n") {
		t.Error(r.Body)
	}
	if r := f.do(t, "GET", mapsPath, "", "User-Agent", "curl/8"); !strings.HasPrefix(r.Body, "{\n  \"kind\": \"ConfigMapList\",\n") {
		t.Error(r.Body)
	}
	if r := f.do(t, "GET", mapsPath+"?pretty=false", "", "User-Agent", "curl/8"); !strings.HasPrefix(r.Body, `{"kind":"ConfigMapList"`) {
		t.Error(r.Body)
	}
}

func TestGzip(t *testing.T) {
	f := newFixture(t)
	for _, n := range []string{"a", "b", "c"} {
		if r := f.do(t, "POST", mapsPath, mapJSON(n, `"annotations":{"a":"`+strings.Repeat("x", 100<<10)+`"}`)); r.Code != http.StatusCreated {
			t.Fatal(r)
		}
	}
	get := func(path, from string) *httptest.ResponseRecorder {
		req := httptest.NewRequestWithContext(t.Context(), "GET", path, nil)
		req.Header.Set("Authorization", "Bearer alice")
		req.Header.Set("Accept-Encoding", "gzip")
		req.RemoteAddr = from
		w := httptest.NewRecorder()
		f.api.ServeHTTP(w, req)
		return w
	}
	const far, near = "192.0.2.1:5", "127.0.0.1:5"
	plain := get(mapsPath, near)
	if plain.Header().Get("Content-Encoding") != "" || plain.Body.Len() < 300<<10 {
		t.Errorf("to a neighbour: %v", plain.Header())
	}
	packed := get(mapsPath, far)
	z, err := gzip.NewReader(packed.Body)
	if err != nil || packed.Header().Get("Content-Encoding") != "gzip" {
		t.Fatal(err, packed.Header())
	}
	if body, err := io.ReadAll(z); err != nil || string(body) != plain.Body.String() {
		t.Errorf("unpacked differs, %v", err)
	}
	if small := get(mapsPath+"/a", far); small.Header().Get("Content-Encoding") != "" {
		t.Errorf("a small answer: %v", small.Header())
	}
}
