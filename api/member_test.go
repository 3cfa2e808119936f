package api_test

import (
	"testing"

	"github.com/proa-project/proa/api"
)

func TestMember(t *testing.T) {
	for object, want := range map[string]string{
		`{"kind":"Pod","spec":{"a":[1,{"spec":2}]},"status":{}}`: `{"a":[1,{"spec":2}]}`,
		` { "spec" : "x\"y" , "b":1}`:                            `"x\"y"`,
		`{"other":{"spec":1}}`:                                   ``,
		`{}`:                                                     ``,
		`{"spec":`:                                               ``,
		`[]`:                                                     ``,
		``:                                                       ``,
	} {
		if got := string(api.Member([]byte(object), "spec")); got != want {
			t.Errorf("%s: got %q, want %q", object, got, want)
		}
	}
}
