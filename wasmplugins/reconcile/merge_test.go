package reconcile

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func decoded(t testing.TB, s string) any {
	t.Helper()
	if s == "" {
		return nil
	}
	v, err := decodeJSON([]byte(s))
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return v
}

func TestMerge(t *testing.T) {
	for name, tc := range map[string]struct {
		before, wanted, current, want string
	}{
		"nothing to do":                {`{"a":1}`, `{"a":1}`, `{"a":1,"b":2}`, `{"a":1,"b":2}`},
		"changed":                      {`{"a":1}`, `{"a":2}`, `{"a":1,"b":2}`, `{"a":2,"b":2}`},
		"healed":                       {`{"a":1}`, `{"a":1}`, `{"a":3,"b":2}`, `{"a":1,"b":2}`},
		"added":                        {`{"a":1}`, `{"a":1,"c":{"d":1}}`, `{"a":1}`, `{"a":1,"c":{"d":1}}`},
		"no longer named":              {`{"a":1,"c":2}`, `{"a":1}`, `{"a":1,"c":2,"b":3}`, `{"a":1,"b":3}`},
		"no longer named, with others": {`{"m":{"a":1}}`, `{}`, `{"m":{"a":1,"theirs":2}}`, `{"m":{"theirs":2}}`},
		"no longer named, alone":       {`{"m":{"a":1,"b":{"c":1}}}`, `{}`, `{"m":{"a":1,"b":{"c":1}}}`, `{}`},
		"never named":                  {``, `{"a":1}`, `{"a":1,"c":2}`, `{"a":1,"c":2}`},
		"another sort":                 {`{"a":1}`, `{"a":{"b":1}}`, `{"a":[1]}`, `{"a":{"b":1}}`},
		"numbers":                      {`{"a":1}`, `{"a":1.0,"l":[1,2.0]}`, `{"a":1,"l":[1,2]}`, `{"a":1,"l":[1,2]}`},
		"defaults in a list with names": {
			``, `{"c":[{"name":"a","image":"i"}]}`, `{"c":[{"name":"a","image":"i","pull":"Always"}]}`, `{"c":[{"name":"a","image":"i","pull":"Always"}]}`,
		},
		"an element that others added": {
			`{"c":[{"name":"a"}]}`, `{"c":[{"name":"a","image":"j"}]}`, `{"c":[{"name":"proxy"},{"name":"a","image":"i"}]}`, `{"c":[{"name":"proxy"},{"name":"a","image":"j"}]}`,
		},
		"an element that is no longer named": {
			`{"c":[{"name":"a"},{"name":"b"}]}`, `{"c":[{"name":"a"}]}`, `{"c":[{"name":"a"},{"name":"b"},{"name":"theirs"}]}`, `{"c":[{"name":"a"},{"name":"theirs"}]}`,
		},
		"an element more": {
			`{"c":[{"name":"a"}]}`, `{"c":[{"name":"b"},{"name":"a"}]}`, `{"c":[{"name":"a","x":1},{"name":"theirs"}]}`, `{"c":[{"name":"b"},{"name":"theirs"},{"name":"a","x":1}]}`,
		},
		"another order": {
			`{"c":[{"name":"a"},{"name":"b"}]}`, `{"c":[{"name":"b"},{"name":"a"}]}`, `{"c":[{"name":"t"},{"name":"a","x":1},{"name":"b"}]}`, `{"c":[{"name":"t"},{"name":"b"},{"name":"a","x":1}]}`,
		},
		"a list that is no longer named": {
			`{"c":[{"name":"a"}],"l":[1]}`, `{}`, `{"c":[{"name":"a"},{"name":"theirs"}],"l":[1,2]}`, `{"c":[{"name":"theirs"}]}`,
		},
		"defaults in a list without names": {
			``, `{"p":[{"port":80}]}`, `{"p":[{"port":80,"protocol":"TCP"}]}`, `{"p":[{"port":80,"protocol":"TCP"}]}`,
		},
		"a changed list without names": {
			``, `{"p":[{"port":81}]}`, `{"p":[{"port":80,"protocol":"TCP"}]}`, `{"p":[{"port":81}]}`,
		},
		"an empty list":           {`{"l":[1]}`, `{"l":[]}`, `{"l":[1]}`, `{"l":[]}`},
		"emptied list with names": {`{"c":[{"name":"a"}]}`, `{"c":[]}`, `{"c":[{"name":"a"},{"name":"theirs"}]}`, `{"c":[{"name":"theirs"}]}`},
		"the same name twice": {
			``, `{"s":[{"name":"a","kind":"User"},{"name":"a","kind":"Group"}]}`, `{"s":[{"name":"a","kind":"User"}]}`, `{"s":[{"name":"a","kind":"User"},{"name":"a","kind":"Group"}]}`,
		},
		"an empty object": {`{"e":{}}`, `{"e":{}}`, `{"e":{"medium":""}}`, `{"e":{"medium":""}}`},
	} {
		var before named
		if tc.before != "" {
			before = namesOf(decoded(t, tc.before))
		}
		current := decoded(t, tc.current)
		got := merge(before, decoded(t, tc.wanted), current)
		if diff := cmp.Diff(decoded(t, tc.want), got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if diff := cmp.Diff(decoded(t, tc.current), current); diff != "" {
			t.Errorf("%s: the argument was changed: %s", name, diff)
		}
		// What was named is all that is kept of the answer.
		again := merge(namesOf(decoded(t, tc.wanted)), decoded(t, tc.wanted), got)
		if !equal(again, got) {
			t.Errorf("%s: merging again changes it: %s", name, cmp.Diff(got, again))
		}
	}
}

func TestNames(t *testing.T) {
	b, err := json.Marshal(namesOf(decoded(t, `{"data":{"password":"secret"},"c":[{"name":"a","image":"i"}],"l":["x"],"e":{}}`)))
	if want := `{"c":{"[a]":{"image":true,"name":true}},"data":{"password":true},"e":true,"l":true}`; err != nil || string(b) != want {
		t.Errorf("%s, %v, want %s", b, err, want)
	}
}

func TestMergePatch(t *testing.T) {
	for _, tc := range [][3]string{
		{`{"a":1,"b":{"c":1}}`, `{"b":{"d":2}}`, `{"a":1,"b":{"c":1,"d":2}}`},
		{`{"a":1,"l":[1]}`, `{"a":null,"l":[2]}`, `{"l":[2]}`},
		{``, `{"a":{"b":null,"c":1}}`, `{"a":{"c":1}}`},
	} {
		if diff := cmp.Diff(decoded(t, tc[2]), mergePatch(decoded(t, tc[0]), decoded(t, tc[1]))); diff != "" {
			t.Errorf("%s: %s", tc[1], diff)
		}
	}
}

// FuzzMerge checks what holds for all values: nothing is changed in place, and
// merging the same answer again changes nothing.
func FuzzMerge(f *testing.F) {
	f.Add([]byte(`{"a":1}`), []byte(`{"a":[{"name":"x"}]}`), []byte(`{"a":[{"name":"y"},{"name":"x","b":1}]}`))
	f.Add([]byte(`{"a":{"b":{}}}`), []byte(`{}`), []byte(`{"a":{"b":[1],"c":null}}`))
	f.Add([]byte(`[{"name":"a"},{"name":"b"}]`), []byte(`[{"name":"b"},{"name":"c"}]`), []byte(`[{"name":"a"},{"name":"b"},{"name":"t"}]`))
	f.Fuzz(func(t *testing.T, b, w, c []byte) {
		before, err1 := decodeJSON(b)
		wanted, err2 := decodeJSON(w)
		current, err3 := decodeJSON(c)
		if err1 != nil || err2 != nil || err3 != nil {
			return
		}
		wanted = withoutNull(wanted)
		copied, _ := decodeJSON(c)
		once := merge(namesOf(before), wanted, current)
		if !equal(copied, current) {
			t.Errorf("changed %s", c)
		}
		if twice := merge(namesOf(wanted), wanted, once); !equal(once, twice) {
			t.Errorf("%v then %v", once, twice)
		}
	})
}
