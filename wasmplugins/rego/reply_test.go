package rego

import (
	"strings"
	"testing"

	"github.com/proa-project/proa/wasmplugins/abi"
)

func TestReplies(t *testing.T) {
	for in, want := range map[string]string{
		`[{"result":{"response":{"allowed":true}}}]`:                                              "",
		`[{"result":{"allowed":true}}]`:                                                           "",
		`[{"result":{"allowed":false,"status":{"reason":"because"}}}]`:                            "refused because 0",
		`[{"result":{"allowed":false,"status":{"code":403,"reason":"Forbidden","message":"m"}}}]`: "refused m 403",
		`[{"result":{"allowed":false,"status":{"code":7}}}]`:                                      "refused  0",
		`[{"result":{"allow":true}}]`:                                                             "",
		`[{"result":{"allow":false,"deny":[]}}]`:                                                  "refused  0",
		`[{"result":{"deny":["b","a",{"msg":"c"},{"message":"d"},{}]}}]`:                          "refused a, b, c, d 0",
		`[{"result":{"deny":[7]}}]`:                                                               "neither a string nor an object",
		`[{"result":{"response":{}}}]`:                                                            `does not say "allowed"`,
		`[{"result":{"response":{"allowed":true,"patch":"bm9uc2Vuc2U="}}}]`:                       "no JSON patch",
		`[{"result":{"response":{"allowed":true,"patch":"W10=","patchType":"Merge"}}}]`:           "unknown type",
		`[{"result":{"response":{"allowed":true,"patch":"!"}}}]`:                                  "no response",
		`[{"result":{}}]`:    "neither a response nor a judgement",
		`[{"result":null}]`:  "no judgement",
		`[{"result":"yes"}]`: "no judgement",
		`[{}]`:               "undefined",
		`[]`:                 "undefined",
		`{}`:                 "no result set",
		``:                   "no result set",
	} {
		r, err := parseResponse([]byte(in), abi.PhaseMutate, true)
		check(t, in, r, err, want)
	}
	for in, want := range map[string]string{
		`[{"result":[]}]`:                                 "",
		`[{"result":[{"msg":"m","details":{}}]}]`:         "refused m 0",
		`[{"result":{"violation":[{"msg":"m"}],"x":{}}}]`: "refused m 0",
		`[{"result":{"x":{}}}]`:                           "no violations",
		`[{"result":7}]`:                                  "no set of reasons",
		`[]`:                                              "undefined",
		`[{"result":["` + strings.Repeat("x", 1<<20) + `y"]}]`: "the limit is 1048576",
	} {
		r, err := parseViolations([]byte(in))
		check(t, in, r, err, want)
	}
}

func check(t *testing.T, in string, r *abi.AdmissionReply, err error, want string) {
	t.Helper()
	got := ""
	switch {
	case err != nil:
		got = err.Error()
	case !r.Allowed:
		got = "refused " + r.Message + " " + string(integer(int64(r.Code)))
	}
	if !strings.Contains(got, want) || want == "" && got != "" {
		t.Errorf("%.100s: %.200q, want %q", in, got, want)
	}
}

func FuzzReply(f *testing.F) {
	for _, s := range []string{
		``, `[]`, `[{"result":true}]`, `[{"result":[]}]`, `[{"result":[{"msg":"a"},"b"]}]`, `[{"result":{"response":{"allowed":false,"status":{"code":422}}}}]`,
		`[{"result":{"response":{"allowed":true,"patch":"W10=","patchType":"JSONPatch"}}}]`, `[{"result":{"allow":true,"deny":["x"]}}]`, `[{"result":{"violation":[]}}]`,
		`[{"result": }]`, `[null]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, phase := range []string{abi.PhaseMutate, abi.PhaseValidate} {
			for _, may := range []bool{true, false} {
				r, err := parseResponse(b, phase, may)
				if err == nil && r.Patch != nil && (phase != abi.PhaseMutate || !may || !r.Allowed) {
					t.Errorf("%s in %s, may mutate %v: %s", b, phase, may, r.Patch)
				}
				if err == nil && r.Code != 0 && (r.Code < 400 || r.Code > 599) {
					t.Errorf("%s: code %d", b, r.Code)
				}
			}
		}
		if r, err := parseViolations(b); err == nil && r.Allowed && r.Message != "" {
			t.Errorf("%s: %+v", b, r)
		}
		if m, err := parseTable(b); err == nil && len(m) > len(b) {
			t.Errorf("%s: %v", b, m)
		}
	})
}

// FuzzValue: what was read can be written, and reads as the same value.
func FuzzValue(f *testing.F) {
	for _, s := range []string{
		`null`, `{"a":[1,2.5,{"b"}],"c":{}}`, `set()`, `{1,2,1}`, `{{"x"}:{1:2}}`, `"é\n\u0000"`, `[`, `{"a"`, `{1,`, `-0`, `1e400`, `{{},set(),[]}`, `{"a":1,"a":2}`,
		`1e999999999`, strings.Repeat("[", 2000), ` [ true , false ] `, `{1.0,1}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := read(s)
		if err != nil {
			return
		}
		text := string(appendValue(nil, v, ""))
		again, err := read(text)
		if err != nil || compare(v, again) != 0 {
			t.Errorf("%q became %q: %v", s, text, err)
		}
		if spaced, err := read(show(v)); err != nil || compare(v, spaced) != 0 {
			t.Errorf("%q is shown as %q: %v", s, show(v), err)
		}
		rich(plain(v))
	})
}

func FuzzGlob(f *testing.F) {
	for _, s := range []string{"a*b", "**", "{a,b}", "[a-z]", "[!a]", `\*`, "{", "[", "?", "[]", "{a,{b,c}}", "[z-a]", "a,b"} {
		f.Add(s, "x.y")
	}
	f.Fuzz(func(_ *testing.T, s, delimiters string) {
		_, _ = glob(s, delimiters)
		_, _ = template(s, '{', '}')
	})
}

// FuzzSprintf: the bound holds.
func FuzzSprintf(f *testing.F) {
	for _, s := range []string{"%v", "%1000d", "%[1]s%[1]s", "%q", "%#x", "% x", "%5.3f", "%-10s|", "%", "%!", "%999999999d", "%*d", "%+q", "%[1]999d", "%U", "%[2]*[1]d"} {
		f.Add(s, "text\x00\xff", int64(-7))
	}
	f.Fuzz(func(t *testing.T, format, arg string, n int64) {
		size, ok := sprintfSize(format, max(16, len(arg)), 2)
		if !ok || size > 1<<20 {
			return
		}
		if got := len(formattedText(format, arg, n)); got > size {
			t.Errorf("%q with %q and %d: %d bytes, the bound is %d", format, arg, n, got, size)
		}
	})
}
