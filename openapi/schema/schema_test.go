package schema

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func object(required []string, props map[string]*Schema) *Schema {
	s := &Schema{Types: Object, Properties: map[string]*Property{}}
	for k, p := range props {
		s.Properties[k] = &Property{Schema: p}
	}
	s.Require(required...)
	return s
}

func TestFits(t *testing.T) {
	text, number := &Schema{Types: String}, &Schema{Types: Integer, Format: Int32}
	s := object([]string{"name", "list"}, map[string]*Schema{
		"name":  text,
		"list":  {Types: Array, Items: number},
		"size":  {Types: String | Number | Integer},
		"port":  {Types: String | Integer},
		"on":    {Types: Boolean},
		"when":  {Types: String, Format: DateTime},
		"bytes": {Types: String, Format: Base64},
		"map":   {Types: Object, Additional: text},
		"any":   {Types: Any},
		"odd":   {Types: Any, Opaque: true},
		"large": {Types: Integer},
	})
	s.Properties["self"] = &Property{Schema: s}
	for _, tt := range []struct {
		body string
		fits bool
	}{
		{`{"name":"a","list":[]}`, true},
		{" { \"name\" : \"a\" ,\n\t\"list\" : [ 1 , -2147483648 ] } \r\n", true},
		{`{"list":[]}`, false},
		{`{"name":null,"list":[]}`, false},
		{`{"name":"a","list":[],"name":null}`, false},
		{`{"name":null,"list":[],"name":"a"}`, true},
		{`{"name":"a","list":[2147483648]}`, false},
		{`{"name":"a","list":[1.0]}`, false},
		{`{"name":"a","list":[null]}`, false},
		{`{"name":"a","list":[1,]}`, false},
		{`{"name":"a","list":[1 2]}`, false},
		{`{"name":"a","list":[01]}`, false},
		{`{"name":"a","list":[-]}`, false},
		{`{"name":1,"list":[]}`, false},
		{`{"name":"a","list":[],}`, false},
		{`{,"name":"a","list":[]}`, false},
		{`{"name":"a" "list":[]}`, false},
		{`{"name":"a","list":[]}{}`, false},
		{`{"name":"a","list":[]`, false},
		{``, false},
		{`null`, true},
		{`[]`, false},
		{`{"name":"\u00e9\n\"\\","list":[]}`, true},
		{`{"name":"\x","list":[]}`, false},
		{`{"name":"\u00g0","list":[]}`, false},
		{`{"name":"a\`, false},
		{"{\"name\":\"a\nb\",\"list\":[]}", false},
		{`{"n\u0061me":"a","list":[]}`, false}, // perhaps; kin-openapi decides
		{`{"name":"a","list":[],"size":"1Gi"}`, true},
		{`{"name":"a","list":[],"size":1.5e+9}`, true},
		{`{"name":"a","list":[],"size":1.}`, false},
		{`{"name":"a","list":[],"size":1e999}`, false},
		{`{"name":"a","list":[],"size":1e}`, false},
		{`{"name":"a","list":[],"size":true}`, false},
		{`{"name":"a","list":[],"port":1.5}`, false},
		{`{"name":"a","list":[],"on":false,"self":{"name":"b","list":[]}}`, true},
		{`{"name":"a","list":[],"on":tru}`, false},
		{`{"name":"a","list":[],"self":{"name":"b"}}`, false},
		{`{"name":"a","list":[],"when":"2024-02-29T23:59:59Z"}`, true},
		{`{"name":"a","list":[],"when":"2024-02-29T23:59:59.123456Z"}`, true},
		{`{"name":"a","list":[],"when":"2023-02-29T23:59:59Z"}`, false},
		{`{"name":"a","list":[],"when":"2024-02-29T24:59:59Z"}`, false},
		{`{"name":"a","list":[],"when":"2024-02-29T23:59:59.Z"}`, false},
		{`{"name":"a","list":[],"when":"now"}`, false},
		{`{"name":"a","list":[],"bytes":"AA=="}`, true},
		{`{"name":"a","list":[],"bytes":"AA="}`, false},
		{`{"name":"a","list":[],"bytes":"A-=="}`, false},
		{`{"name":"a","list":[],"bytes":"===="}`, false},
		{`{"name":"a","list":[],"map":{"x":"","y":"\""}}`, true},
		{`{"name":"a","list":[],"map":{"x":1}}`, false},
		{`{"name":"a","list":[],"any":[{"a":[null,1e5,-0,"x",true]}],"unknown":{"deep":[[]]}}`, true},
		{`{"name":"a","list":[],"odd":1}`, false},
		{`{"name":"a","list":[],"large":9223372036854775807}`, true},
		{`{"name":"a","list":[],"large":-9223372036854775808}`, true},
		{`{"name":"a","list":[],"large":9223372036854775808}`, false},
		{`{"name":"a","list":[],"large":99999999999999999999}`, false},
		{`{"name":"a","list":[],"any":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + `}`, false},
	} {
		if got := s.Fits([]byte(tt.body)); got != tt.fits {
			t.Errorf("%s: fits is %v", tt.body, got)
		}
	}
}

func TestRequire(t *testing.T) {
	if s := object([]string{"nosuch"}, nil); !s.Opaque {
		t.Error("a required property that is unknown was let pass")
	}
	props, names := map[string]*Schema{}, []string{}
	for i := range maxRequired + 1 {
		n := strings.Repeat("x", i+1)
		props[n], names = &Schema{Types: Any}, append(names, n)
	}
	if s := object(names, props); !s.Opaque {
		t.Error("an object with too many required properties is not opaque")
	}
}

// FuzzFits checks that only JSON fits, and only times are times.
func FuzzFits(f *testing.F) {
	for _, seed := range []string{`{"a":[1,-2.5e3,"x\u0000",true,null],"t":"2024-02-29T23:59:59.1Z"}`, `{"t":"2024-02-30T00:00:00Z"}`, `[`, `{"a":1}}`, `{"b":"AA=="}`} {
		f.Add([]byte(seed))
	}
	s := object(nil, map[string]*Schema{"t": {Types: String, Format: DateTime}, "b": {Types: String, Format: Base64}})
	f.Fuzz(func(t *testing.T, data []byte) {
		if !s.Fits(data) {
			return
		}
		if !json.Valid(data) {
			t.Fatalf("%q fits but is no JSON", data)
		}
		var v map[string]json.RawMessage // which, unlike a struct, tells upper case from lower
		var when *time.Time
		var bytes []byte
		if err := json.Unmarshal(data, &v); err != nil {
			t.Fatalf("%q fits: %v", data, err)
		}
		if err := json.Unmarshal(or(v["t"]), &when); err != nil {
			t.Fatalf("%q fits: %v", data, err)
		}
		if err := json.Unmarshal(or(v["b"]), &bytes); err != nil {
			t.Fatalf("%q fits: %v", data, err)
		}
	})
}

// or returns null for nothing.
func or(raw json.RawMessage) []byte {
	if raw == nil {
		return []byte("null")
	}
	return raw
}
