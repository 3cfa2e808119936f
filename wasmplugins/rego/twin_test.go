package rego

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/proa-project/proa/wasmplugins/engine"
)

// expressions are evaluated here and by OPA itself, which must agree. Those
// without a value have none for both.
var expressions = []string{
	// Texts.
	`sprintf("%v %s %d %.2f %q", [{"b", "a"}, "x", 7, 2.5, "q"])`,
	`sprintf("%v %v %v %v", [{"a": 1, "b": [true, null]}, set(), {}, []])`,
	`sprintf("%d|%5d|%-5d|%05d|%x", [1, 2, 3, 4, 255])`,
	`sprintf("%v %d", [12345678901234567890123, 9007199254740993])`,
	`sprintf("%s missing", [])`,
	`sprintf("extra", ["x"])`,
	`sprintf("%[2]s %[1]s", ["a", "b"])`,
	`sprintf("%v", [["nested \"quotes\" <&>", {"k": {1, 2}}]])`,
	`sprintf("100%%", [])`,
	`sprintf("%v", [1e3])`,
	`sprintf("%v", [1.5])`,
	`indexof_n("aXbXc", "X")`, `indexof_n("äXöX", "X")`, `indexof_n("abc", "z")`,
	`strings.any_prefix_match("abc", {"x", "ab"})`, `strings.any_suffix_match(["abc", "d"], ["x", "bc"])`, `strings.any_prefix_match({"a"}, [])`,
	`strings.count("cheese", "e")`, `strings.reverse("añb")`, `replace("a.b.c", ".", "-")`, `strings.replace_n({"a": "b", "b": "c"}, "ab")`,
	`split("a,b", ",")`, `trim(" x ", " ")`, `upper("ä")`, `concat(",", ["a", "b"])`, `format_int(255, 16)`, `substring("abc", 1, -1)`,
	// Patterns.
	`regex.match("^a+$", "aaa")`, `regex.match("(", "a")`, `regex.is_valid("[")`, `regex.split("[,;]", "a,b;c")`, `regex.find_n("[a-z]+", "ab 1 cd ef", 2)`,
	`regex.find_n("[a-z]+", "ab 1 cd ef", -1)`, `regex.replace("foo123", "[0-9]", "<$0>")`, `regex.replace("abab", "(a)(b)", "$2$1")`,
	`regex.find_all_string_submatch_n("(a)(b)?", "aba", -1)`,
	`regex.template_match("urn:foo:{.*}", "urn:foo:bar:baz", "{", "}")`, `regex.template_match("a{[0-9]+}b", "a12b", "{", "}")`, `regex.template_match("a{", "a", "{", "}")`,
	`glob.match("*.github.com", [], "api.github.com")`, `glob.match("*.github.com", [], "a.b.github.com")`, `glob.match("*:github:com", [":"], "api:github:com")`,
	`glob.match("*hub.com", null, "api.cdn.github.com")`, `glob.match("{a,b*}.x", [], "bc.x")`, `glob.match("[a-c][!x]", [], "bz")`, `glob.match("a?c", [], "abc")`,
	`glob.match("**.com", [], "a.b.com")`, `glob.quote_meta("*.a[b]{c}")`, `glob.match("a", ["ab"], "a")`, `regex.template_match("a{b{2}}c", "abbc", "{", "}")`,
	`strings.split_n("a,b,c", ",", 2)`, `strings.split_n("a,b,c", ",", 0)`, `strings.split_n("a,b,c", ",", -1)`, `strings.split_n("a,b,c", ",", 9)`, `strings.split_n("abc", "", 2)`,
	// Time.
	`time.now_ns()`, `time.parse_rfc3339_ns("2024-02-29T12:30:45Z")`, `time.parse_rfc3339_ns("nonsense")`, `time.parse_rfc3339_ns("1500-01-01T00:00:00Z")`,
	`time.parse_ns("2006-01-02", "2024-02-29")`, `time.parse_ns("RFC822", "02 Jan 06 15:04 MST")`, `time.parse_duration_ns("1h30m")`, `time.parse_duration_ns("x")`,
	`time.date(1709209845000000000)`, `time.clock(1709209845000000000)`, `time.weekday(1709209845000000000)`, `time.date([1709209845000000000, "UTC"])`,
	`time.add_date(1709209845000000000, 1, 1, 1)`, `time.format(1709209845123456789)`, `time.format([1709209845000000000, "UTC", "RFC1123"])`,
	`time.format([1709209845000000000, "", "Jan 2 2006"])`, `time.date([1, "Nowhere/At_all"])`,
	`time.diff(1709209845000000000, 1577836800000000000)`, `time.diff(time.parse_rfc3339_ns("2020-03-01T00:00:00Z"), time.parse_rfc3339_ns("2020-01-31T00:00:01Z"))`,
	`time.diff(time.parse_rfc3339_ns("2021-03-30T10:00:00Z"), time.parse_rfc3339_ns("2021-02-28T11:30:00Z"))`,
	// Encodings.
	`crypto.md5("a")`, `crypto.sha1("a")`, `crypto.sha256("a")`, `crypto.hmac.md5("a", "k")`, `crypto.hmac.sha1("a", "k")`, `crypto.hmac.sha256("a", "k")`, `crypto.hmac.sha512("a", "k")`,
	`crypto.hmac.equal("a", "a")`, `hex.encode("az")`, `hex.decode("617a")`, `hex.decode("6")`, `base64.encode("a?")`, `base64.decode("YT8=")`, `base64.is_valid("!")`,
	`base64url.encode_no_pad("a??")`, `base64url.decode("YT8_")`,
	`urlquery.encode("a b&c")`, `urlquery.decode("a+b%26c")`, `urlquery.decode("%")`, `urlquery.encode_object({"b": ["1", "2"], "a": "x", "c": {"y"}})`, `urlquery.decode_object("a=1&b=2&a=3")`,
	`json.unmarshal("{\"a\":[1,2.5]}")`, `json.marshal({"a": {1, 2}})`, `json.is_valid("{")`, `json.marshal_with_options({"a": 1}, {"pretty": true, "indent": "  ", "prefix": ">"})`,
	`json.marshal_with_options({"a": [1]}, {"pretty": false})`, `json.marshal_with_options({"a": [1]}, {"indent": " "})`, `json.marshal_with_options({"a": [1]}, {})`,
	`yaml.unmarshal(yaml.marshal({"a": [1, "x"], "b": {"c": null}}))`, `yaml.unmarshal("a: [1, x]\nb:\n  c: true\n")`, `yaml.is_valid("a: [")`, `yaml.is_valid("a: b")`,
	// Numbers.
	`numbers.range(3, 1)`, `numbers.range_step(0, 10, 4)`, `numbers.range_step(10, 1, 4)`, `numbers.range_step(0, 1, 0)`,
	`units.parse_bytes("1KiB")`, `units.parse_bytes("2.5MB")`, `units.parse_bytes("100")`, `units.parse_bytes("1.5Ki")`, `units.parse_bytes("0.3b")`, `units.parse_bytes("0.3")`, `units.parse_bytes("100B")`, `units.parse_bytes("-1k")`, `units.parse_bytes("")`, `units.parse_bytes("x")`, `units.parse_bytes("1 MB")`,
	`units.parse_bytes("3E")`, `units.parse_bytes("1e3K")`, `units.parse("100m")`, `units.parse("1.5G")`, `units.parse("2Ki")`, `units.parse("0.001m")`, `units.parse("10K")`, `units.parse("M")`, `units.parse("1M")`, `units.parse("1Q")`,
	`units.parse("1.10")`, `units.parse("1e3")`, `units.parse("1e")`, `units.parse("+1")`, `units.parse("1 k")`, `sprintf("%v", [units.parse("1.10")])`,
	`semver.is_valid("1.2.3-")`, `semver.is_valid("01.2.3")`, `semver.is_valid("1.2.3-01")`, `semver.is_valid("1.2.3-a..b")`, `semver.is_valid(1)`, `semver.compare("v1.2.3", "1.2.3")`,
	`semver.is_valid("1.2.3-rc.1+b")`, `semver.is_valid("1.2")`, `semver.is_valid("v1.2.3")`, `semver.compare("1.2.3", "1.10.0")`, `semver.compare("1.0.0-alpha.1", "1.0.0-alpha.beta")`,
	`semver.compare("1.0.0", "1.0.0-rc.1")`, `semver.compare("1.0.0-rc.2", "1.0.0-rc.10")`, `semver.compare("1.0.0-a", "1.0.0-a.1")`, `semver.compare("1.0.0+a", "1.0.0+b")`, `semver.compare("x", "1.0.0")`,
	// Networks.
	`net.cidr_is_valid("10.0.0.0/8")`, `net.cidr_is_valid("10.0.0.0")`, `net.cidr_contains("10.0.0.0/8", "10.1.2.3")`, `net.cidr_contains("10.0.0.0/8", "10.1.0.0/16")`,
	`net.cidr_intersects("10.0.0.0/8", "10.1.0.0/16")`, `net.cidr_expand("192.168.0.0/30")`, `net.cidr_expand("x")`,
	// Collections.
	`json.patch({"a": {"b": 1}}, [{"op": "add", "path": "/a/c", "value": [1]}, {"op": "remove", "path": "a/b"}])`,
	`json.patch({"a": [1, 2]}, [{"op": "add", "path": ["a", "-"], "value": 3}, {"op": "copy", "from": "/a/0", "path": "/b"}])`,
	`json.patch({"a": 1}, [{"op": "test", "path": "/a", "value": 2}])`, `json.patch({"a": 1}, [{"op": "remove", "path": "/z"}])`, `json.patch({"a/b": 1}, [{"op": "replace", "path": "/a~1b", "value": 2}])`,
	`object.subset({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 1}})`, `object.subset({"a": 1}, {"a": 2})`, `object.subset({1, 2, 3}, {2})`, `object.subset([1, 2, 3], [2, 3])`, `object.subset([1, 2, 3], [3, 2])`,
	`object.subset([1, 2, 3], {3, 2})`, `object.keys({"a": 1, "b": 2})`, `object.union_n([{"a": {"b": 1}}, {"a": {"c": 2}}])`, `array.reverse([1, "a", {2}])`,
	`object.union_n([{"a": 1, "c": {"x": 1}}, {"b": 2, "c": {"y": 2}}, {"a": 3, "c": 4}])`, `object.subset({1, 2, 3}, {2, 4})`, `object.subset([3, 1], {1, 3})`,
	`{sprintf("%v", [x]) | some x in input.list}`,
	`[y | some x in input.list; y := units.parse_bytes(sprintf("%dKi", [x]))]`,
	`sprintf("%v", [input.object])`, `sprintf("%s", [input.object.text])`,
}

const twinInput = `{"list":[1,2,3],"object":{"text":"héllo \"w\" \n <x>","n":1.25,"big":12345678901234567890,"deep":{"a":[null,true,{}]}}}`

// TestTwin: the built-in functions of the host give what OPA's own give.
func TestTwin(t *testing.T) {
	var policy strings.Builder
	policy.WriteString("package t\n\nimport rego.v1\n\n")
	for n, e := range expressions {
		fmt.Fprintf(&policy, "x[\"%03d\"] := v if v := %s\n\n", n, e)
	}
	now := time.Unix(1_700_000_000, 5)
	want := opa(t, job{Policy: policy.String(), Query: "data.t.x", Input: json.RawMessage(twinInput), Now: now.UnixNano()})
	if want.Error != "" {
		t.Fatal(want.Error)
	}
	wasm := compile(t, policy.String(), "t/x")
	for _, fast := range []bool{true, false} {
		module := wasm
		if !fast { // as before version 1.2
			module = []byte(strings.ReplaceAll(string(wasm), "\bopa_eval", "\bopb_eval"))
		}
		p := start(t, module, Config{})
		for range 2 {
			var got []byte
			_, err := p.prog.Do(context.Background(), engine.Call{Now: now}, func(i *engine.Instance) error {
				if i.Has(fnEval) != fast {
					t.Error("the export opa_eval is not as wanted")
				}
				b, err := eval(i, []byte(twinInput), p.data)
				got = append(got, b...)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			compareTwins(t, got, want.Result)
		}
	}
}

func compareTwins(t *testing.T, got, want []byte) {
	t.Helper()
	values := func(b []byte) map[string]json.RawMessage {
		v, err := result(b)
		if err != nil {
			t.Fatalf("%v: %.300s", err, b)
		}
		m := map[string]json.RawMessage{}
		if err := json.Unmarshal(v, &m); err != nil {
			t.Fatalf("%v: %.300s", err, b)
		}
		return m
	}
	g, w := values(got), values(want)
	for n, e := range expressions {
		key := fmt.Sprintf("%03d", n)
		if !same(g[key], w[key]) {
			t.Errorf("%s = %s, OPA says %s", e, g[key], w[key])
		}
	}
}

func same(a, b json.RawMessage) bool {
	if (a == nil) != (b == nil) {
		return false
	}
	var x, y any
	if a == nil {
		return true
	}
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	return reflect.DeepEqual(sorted(x), sorted(y))
}

// sorted brings the elements of an array into an order: of a set there is none.
func sorted(v any) any {
	if items, ok := v.([]any); ok {
		slices.SortFunc(items, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	return v
}

// TestOlderTwin: functions that OPA compiles into modules by now, but did not
// always, are the host's for an older module.
func TestOlderTwin(t *testing.T) {
	p := start(t, fake{}.bytes(), Config{})
	for _, e := range [][2]string{
		{"glob.match", `"*.github.com", [], "api.github.com"`},
		{"glob.match", `"*.github.com", [], "a.b.github.com"`},
		{"glob.match", `"*:github:com", [":"], "api:github:com"`},
		{"glob.match", `"*hub.com", null, "api.cdn.github.com"`},
		{"glob.match", `"{a,b*}.x", [], "bc.x"`},
		{"glob.match", `"[a-c][!x]", [], "bz"`},
		{"glob.match", `"[a-c][!x]", [], "bx"`},
		{"glob.match", `"[abc]", [], "c"`},
		{"glob.match", `"a?c", [], "a.c"`},
		{"glob.match", `"**.com", [], "a.b.com"`},
		{"glob.match", `"a\\*", [], "a*"`},
		{"glob.match", `"[", [], "a"`},
		{"regex.match", `"^a+$", "aaa"`},
		{"regex.is_valid", `"["`},
		{"regex.find_all_string_submatch_n", `"(a)(b)?", "aba", -1`},
		{"strings.reverse", `"añb"`},
		{"strings.replace_n", `{"a": "b", "b": "c"}, "ab"`},
		{"json.is_valid", `"{"`},
		{"base64.is_valid", `"YQ=="`},
		{"numbers.range", `3, 1`},
		{"numbers.range", `-1, 2`},
		{"object.keys", `{"a": 1, "b": 2}`},
		{"object.union_n", `[{"a": {"b": 1}}, {"a": {"c": 2}, "d": 1}, {"d": {}}]`},
		{"array.reverse", `[1, "a", [2]]`},
		{"net.cidr_contains", `"10.0.0.0/8", "10.1.2.3"`},
		{"net.cidr_contains", `"10.0.0.0/8", "11.0.0.0/16"`},
		{"net.cidr_contains", `"10.0.0.0/16", "10.0.0.0/8"`},
		{"net.cidr_contains", `"2001:db8::/32", "2001:db8::1"`},
		{"net.cidr_intersects", `"10.0.0.0/8", "10.1.0.0/16"`},
	} {
		query := e[0] + "(" + e[1] + ")"
		args, err := read("[" + e[1] + "]")
		if err != nil {
			t.Fatal(query, err)
		}
		got := ""
		if _, err := p.prog.Do(context.Background(), engine.Call{}, func(i *engine.Instance) error {
			if v, ok := (&call{i: i, args: args.([]any)}).run(offered[e[0]]); ok {
				b, err := json.Marshal(plain(v))
				got = string(b)
				return err
			}
			return nil
		}); err != nil {
			t.Fatal(query, err)
		}
		want := opa(t, job{Query: query, Input: json.RawMessage("{}")})
		if want.Error != "" {
			t.Fatal(query, want.Error)
		}
		v, err := result(want.Result)
		if (err != nil) != (got == "") || got != "" && !same(json.RawMessage(got), v) {
			t.Errorf("%s = %s, OPA says %s", query, got, v)
		}
	}
}
