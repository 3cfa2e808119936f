package main

import (
	"testing"

	"github.com/proa-project/proa/wasmplugins/guest"
)

func TestAdmit(t *testing.T) {
	if err := configure(guest.Parse([]byte(`{}`))); err == nil {
		t.Error("settings without a container are taken")
	}
	if err := configure(guest.Parse([]byte(`{"container":{"name":"proxy","image":"p:1"}}`))); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, pod string
		changed   bool
	}{
		{"not asked", `{"spec":{"containers":[{"name":"a"}]}}`, false},
		{"asked", `{"metadata":{"annotations":{"sidecar.example/inject":"true"}},"spec":{"containers":[{"name":"a"}]}}`, true},
		{"has it", `{"metadata":{"annotations":{"sidecar.example/inject":"true"}},"spec":{"containers":[{"name":"proxy"}]}}`, false},
	} {
		a := admit(guest.NewRequest([]byte(`{"request":{"object":` + tc.pod + `}}`)))
		if !a.Allowed || (a.Patch != nil) != tc.changed {
			t.Errorf("%s: %+v", tc.name, a)
		}
	}
}
