package abi_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/proa-project/proa/wasmplugins/abi"
)

func TestReconcileInput(t *testing.T) {
	for want, f := range map[string]func() ([]byte, error){
		`{"apiVersion":"proa/v1","object":{"a":1},"owned":[]}`: func() ([]byte, error) { return abi.ReconcileInput([]byte(`{"a":1}`), nil, false) },
		`{"apiVersion":"proa/v1","object":{"a":1},"owned":[{"b":2}],"deleting":true}`: func() ([]byte, error) {
			return abi.ReconcileInput([]byte(`{"a":1}`), [][]byte{[]byte(`{"b":2}`)}, true)
		},
	} {
		got, err := f()
		if err != nil || string(got) != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
}

func TestReconcileReply(t *testing.T) {
	for reply, want := range map[string]*abi.ReconcileReply{
		``:                                       {},
		`{"status":null}`:                        {},
		`{"objects":[{"a":1}],"finalized":true}`: {Objects: []json.RawMessage{[]byte(`{"a":1}`)}, Finalized: true},
		`{"status":{"a":1},"requeueAfterSeconds":5}`: {Status: []byte(`{"a":1}`), RequeueAfterSeconds: 5},
		`{"error":"no","objects":[{"a":1}]}`:         {Error: "no"},
	} {
		got, err := abi.ParseReconcileReply([]byte(reply))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", reply, err, diff)
		}
	}
	for reply, want := range map[string]string{
		`[`:                              "no JSON",
		`{"objects":{}}`:                 "no JSON",
		`{"status":[]}`:                  "the status is no object",
		`{"requeueAfterSeconds":-1}`:     "requeueAfterSeconds is -1",
		`{"requeueAfterSeconds":604801}`: "requeueAfterSeconds is 604801",
	} {
		if _, err := abi.ParseReconcileReply([]byte(reply)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", reply, err, want)
		}
	}
}

func FuzzReconcileReply(f *testing.F) {
	f.Add([]byte(`{"objects":[{"apiVersion":"v1","kind":"ConfigMap"}],"status":{"a":1},"requeueAfterSeconds":5,"finalized":true}`))
	f.Add([]byte(`{"error":"x"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := abi.ParseReconcileReply(b)
		if err == nil && r.Status != nil && !json.Valid(r.Status) {
			t.Errorf("status %q", r.Status)
		}
	})
}
