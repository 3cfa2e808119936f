package guest

import (
	"encoding/json"
	"reflect"
	"testing"
	"unicode/utf8"
)

func TestValue(t *testing.T) {
	v := Parse([]byte(` { "a" : {"b":[1, -2.5e1 ,"x\"\u00e9\ud83d\ude00\n", null,true , {}]}, "k\u0065y":"v", "empty":{}, "none":[] } `))
	if got := v.Get("a", "b").Len(); got != 6 {
		t.Errorf("length %d", got)
	}
	var kinds []string
	for i, item := range v.Get("a", "b").Items {
		n, isInt := item.Int()
		f, isFloat := item.Float()
		switch {
		case i == 0 && isInt && n == 1, i == 1 && !isInt && isFloat && f == -25, i == 3 && item.IsNull() && !item.Missing(),
			i == 4 && item.Bool(), i == 5 && item.IsObject() && item.Len() == 0:
		case i == 2 && item.Text() == "x\"é😀\n" && item.Is("x\"é😀\n"):
		default:
			t.Errorf("item %d is %s", i, item.Raw())
		}
		kinds = append(kinds, string(item.Raw()))
	}
	if len(kinds) != 6 {
		t.Errorf("items %q", kinds)
	}
	if !v.Get("key").Is("v") || v.Get("key").Is("w") || v.Get("none").Len() != 0 || !v.Get("none").IsArray() {
		t.Error("an escaped key or an empty array is not found")
	}
	if !v.Get("a", "nothing", "more").Missing() || !v.Get("key", "x").Missing() || !(Value{}).Get("x").IsNull() {
		t.Error("what is missing is found")
	}
}

// FuzzValue holds the reader against encoding/json on valid JSON, and lets it
// not panic on any other.
func FuzzValue(f *testing.F) {
	for _, s := range []string{`{"a":[1,2,{"b":"c\\\""}],"d":null}`, `[[],{},"",0]`, `"\ud800"`, `"\ud83d\ud83d\ude00\ude00"`, `[1e+21,1E-2]`, `{"a`, `{"a":`, `[1`, `\`, `{"a"}`, `[,]`, "\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got := tree(Parse(b), 0)
		var want any
		if !utf8.Valid(b) || json.Unmarshal(b, &want) != nil { // the server sends valid UTF-8
			return
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %v, want %v", b, got, want)
		}
	})
}

func tree(v Value, depth int) any {
	switch {
	case depth > 100 || v.IsNull():
		return nil
	case v.IsObject():
		m := map[string]any{}
		v.Keys(func(k string, v Value) bool { m[k] = tree(v, depth+1); v.Get("x"); return true })
		return m
	case v.IsArray():
		s := []any{}
		v.Items(func(_ int, v Value) bool { s = append(s, tree(v, depth+1)); return true })
		return s
	case v.IsString():
		var s string
		if json.Unmarshal(v.Raw(), &s) == nil && s != v.Text() {
			return v.Text() // show the difference
		}
		return s
	}
	if f, ok := v.Float(); ok {
		return f
	}
	return v.Bool()
}

func TestAdmit(t *testing.T) {
	defer OnAdmit(nil)
	OnAdmit(func(r *Request) Answer {
		if r.Operation() != "CREATE" || r.Kind() != "Pod" || r.Resource() != "pods" || r.SubResource() != "status" || r.Namespace() != "ns" ||
			r.Name() != "n" || r.Username() != "me" || !r.DryRun() || r.Phase != Mutate || !r.OldObject.Missing() || !r.Settings.Get("s").Bool() {
			return Deny("fields")
		}
		p := (&Patch{}).Add(Pointer("metadata", "labels", "a/b~c"), `"quoted"`).Replace("/x", []string{"a", "b"}).Remove("/y").
			Test("/z", map[string]string{"b": "2", "a": "1"}).Add("/n", 5).Add("/r", Raw(`{"a":1}`)).Add("/v", r.Object.Get("v")).Add("/t", nil)
		return Change(p).Warn("careful").Annotate("k", "v")
	})
	got := string(Admit([]byte(`{"phase":"mutate","settings":{"s":true},"request":{"kind":{"kind":"Pod"},"resource":{"resource":"pods"},"subResource":"status",
		"operation":"CREATE","namespace":"ns","name":"n","userInfo":{"username":"me"},"dryRun":true,"object":{"v":[1]},"oldObject":null}}`)))
	want := `{"allowed":true,"warnings":["careful"],"auditAnnotations":{"k":"v"},"patch":[` +
		`{"op":"add","path":"/metadata/labels/a~1b~0c","value":"\"quoted\""},{"op":"replace","path":"/x","value":["a","b"]},{"op":"remove","path":"/y"},` +
		`{"op":"test","path":"/z","value":{"a":"1","b":"2"}},{"op":"add","path":"/n","value":5},{"op":"add","path":"/r","value":{"a":1}},{"op":"add","path":"/v","value":[1]},{"op":"add","path":"/t","value":null}]}`
	if got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
	OnAdmit(func(*Request) Answer { return Answer{Message: "no \x01 \xff", Code: 422, Reason: "Invalid"} })
	if got, want := string(Admit([]byte(`{}`))), `{"allowed":false,"status":{"message":"no \u0001 `+"\ufffd"+`","code":422,"reason":"Invalid"}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
