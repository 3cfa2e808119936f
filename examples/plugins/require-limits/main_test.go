package main

import (
	"testing"

	"github.com/proa-project/proa/wasmplugins/guest"
)

func TestAdmit(t *testing.T) {
	exempt = []string{"debug:"}
	defer func() { exempt = nil }()
	for _, tc := range []struct{ name, spec, refused string }{
		{"limits", `{"containers":[{"name":"a","resources":{"limits":{"memory":"1Mi","cpu":1}}}]}`, ""},
		{"none", `{"containers":[{"name":"a"}]}`, "container a has no memory limit; container a has no cpu limit"},
		{"one of two", `{"containers":[{"name":"a","resources":{"limits":{"memory":"1Mi","cpu":1}}},{"name":"b","resources":{"limits":{"cpu":1}}}]}`, "container b has no memory limit"},
		{"init container", `{"initContainers":[{"name":"i","resources":{"limits":{"cpu":1}}}]}`, "container i has no memory limit"},
		{"exempt", `{"containers":[{"name":"a","image":"debug:1"}]}`, ""},
	} {
		a := admit(guest.NewRequest([]byte(`{"request":{"object":{"spec":` + tc.spec + `}}}`)))
		if a.Allowed != (tc.refused == "") || a.Message != tc.refused {
			t.Errorf("%s: %+v, want %q", tc.name, a, tc.refused)
		}
	}
}
