package abi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParsePrepareReply(t *testing.T) {
	for _, tc := range []struct{ in, wrong string }{
		{``, ""},
		{`{}`, ""},
		{`{"reject":{"reasons":["full"],"unresolvable":true},"skip":["filter","score"],"nodes":["a"],"reasons":[{"reason":"x"}],"normalize":"reverse"}`, ""},
		{`{"nodes":[]}`, ""},
		{`nonsense`, "not JSON"},
		{`{"reject":{}}`, "refuses the pod without a reason"},
		{`{"reject":{"reasons":["a",""]}}`, "refuses the pod without a reason"},
		{`{"skip":["bind"]}`, `skips "bind"`},
		{`{"reasons":[{"reason":"a"},{}]}`, "reason 2 of the reply is empty"},
		{`{"reasons":[` + strings.TrimSuffix(strings.Repeat(`{"reason":"a"},`, 201), ",") + `]}`, "names 201 reasons"},
		{`{"normalize":"up"}`, `normalizes by "up"`},
	} {
		r, err := ParsePrepareReply([]byte(tc.in))
		if tc.wrong == "" && err != nil || tc.wrong != "" && (err == nil || !strings.Contains(err.Error(), tc.wrong)) {
			t.Errorf("%.60s: got %+v, %v, want %q", tc.in, r, err, tc.wrong)
		}
	}
	r, err := ParsePrepareReply([]byte(`{"nodes":[],"skip":["score"]}`))
	if err != nil || r.Nodes == nil || len(*r.Nodes) != 0 || r.SkipFilter || !r.SkipScore {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestParsePlacedReply(t *testing.T) {
	for _, tc := range []struct {
		in    string
		pass  bool
		wrong string
	}{
		{``, true, ""},
		{`{}`, true, ""},
		{`{"allowed":true,"done":true}`, true, ""},
		{`{"allowed":false,"reason":"no","retrySeconds":1,"timeoutSeconds":900}`, false, ""},
		{`{"timeoutSeconds":901}`, false, "not in 0..900"},
		{`{"retrySeconds":-1}`, false, "not in 0..900"},
		{`[]`, false, "not JSON"},
	} {
		r, err := ParsePlacedReply([]byte(tc.in))
		switch {
		case tc.wrong != "":
			if err == nil || !strings.Contains(err.Error(), tc.wrong) {
				t.Errorf("%s: got %v, want %q", tc.in, err, tc.wrong)
			}
		case err != nil || r.Passes() != tc.pass:
			t.Errorf("%s: got %+v, %v", tc.in, r, err)
		}
	}
}

func TestScheduleRequests(t *testing.T) {
	for _, b := range [][]byte{
		AppendPrepareRequest(nil, "my \"scheduler\"\x01", []byte(`{"kind":"Pod"}`)),
		AppendPlacedRequest(nil, "my \"scheduler\"\x01", "n1", []byte(`{"kind":"Pod"}`)),
	} {
		var got struct {
			APIVersion, SchedulerName, Node string
			Pod                             map[string]string
		}
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		if got.APIVersion != Native || got.SchedulerName != "my \"scheduler\"\x01" || got.Pod["kind"] != "Pod" {
			t.Errorf("got %+v", got)
		}
	}
}

func TestNodeRecord(t *testing.T) {
	b := make([]byte, NodeStride)
	r := NodeRecord{
		Name: List{1, 2}, Zone: 3, Flags: FlagReady, Alloc: [4]int64{4, 5, 6, 7}, Requested: [4]int64{-8, 9, 10, 11},
		Taints: List{12, 13}, Labels: List{14, 15}, NonZero: [2]int64{16, 17}, Scalars: List{18, 19}, ZoneLabel: List{20, 21},
	}
	r.Put(b)
	want := make([]byte, NodeStride)
	for at, v := range map[int]byte{
		0: 1, 4: 2, 8: 3, 12: 2, 16: 4, 24: 5, 32: 6, 40: 7, 56: 9, 64: 10, 72: 11,
		80: 12, 84: 13, 88: 14, 92: 15, 96: 16, 104: 17, 112: 18, 116: 19, 120: 20, 124: 21,
	} {
		want[at] = v
	}
	copy(want[48:], []byte{0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	if diff := cmp.Diff(want, b); diff != "" {
		t.Error(diff)
	}
}

func TestScheduleManifest(t *testing.T) {
	m, err := ParseScheduleManifest([]byte(`{"name":"x","schedule":{"events":["NodeAdd"]}}`))
	if err != nil || len(m.Events) != 1 {
		t.Errorf("got %+v, %v", m, err)
	}
	if m, err := ParseScheduleManifest(nil); err != nil || m.Events != nil {
		t.Errorf("got %+v, %v", m, err)
	}
	if _, err := ParseScheduleManifest([]byte(`{"schedule":[]}`)); err == nil {
		t.Error("a list is no object")
	}
	if diff := cmp.Diff([]string{"filter", "score"}, ParsePoints([]byte("filter, score,"))); diff != "" {
		t.Error(diff)
	}
}

// FuzzScheduleReplies lets no reply do more than be refused.
func FuzzScheduleReplies(f *testing.F) {
	for _, s := range []string{``, `{}`, `{"reject":{"reasons":["a"]}}`, `{"reasons":[{"reason":"a"}],"skip":["filter"]}`, `{"nodes":null}`, `{"allowed":false}`, `{"node":"a"}`, `{"schedule":{"events":[""]}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := ParsePrepareReply(b); err == nil {
			if len(r.Reasons) > MaxReasons || r.Reject != nil && len(r.Reject.Reasons) == 0 {
				t.Errorf("%q was accepted as %+v", b, r)
			}
		}
		if r, err := ParsePlacedReply(b); err == nil && (r.TimeoutSeconds < 0 || r.TimeoutSeconds > 900) {
			t.Errorf("%q was accepted as %+v", b, r)
		}
		_, _ = ParsePostFilterReply(b)
		_, _ = ParseScheduleManifest(b)
		ParsePoints(b)
	})
}
