package main

import (
	"strings"
	"testing"

	"github.com/proa-project/proa/wasmplugins/guest"
)

func TestPrepare(t *testing.T) {
	for pod, want := range map[string]string{
		`{"metadata":{"annotations":{"example.com/pool":"gpu"}}}`: `"reasons":[{"reason":"node(s) were not in the pod's pool","unresolvable":true}]`,
		`{"metadata":{}}`: `"skip":["filter"]`,
	} {
		if got := string(guest.Prepare([]byte(`{"schedulerName":"s","pod":` + pod + `}`))); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", pod, got, want)
		}
	}
	if pool != "" && pool != "gpu" {
		t.Errorf("pool %q", pool)
	}
}
