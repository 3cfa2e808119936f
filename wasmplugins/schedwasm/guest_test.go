package schedwasm

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/scheduling/framework"
	"github.com/proa-project/proa/wasmplugins/engine"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

// The guests themselves are tested where they take part in scheduling, in
// package schedule.

func TestEventsOf(t *testing.T) {
	const all = 1<<9 - 1
	for _, tc := range []struct {
		kind, action uint32
		want         framework.Event
	}{
		{kindPod, actionAdd, framework.PodAdded},
		{kindPod, actionDelete, framework.PodRemoved},
		{kindPod, all, framework.PodAdded | framework.PodRemoved | framework.PodLabels | framework.PodShrunk},
		{kindNode, actionAdd | actionTaint, framework.NodeAdded | framework.NodeTaints},
		{kindNode, 1 << 5, framework.NodeAllocatable | framework.NodeLabels | framework.NodeTaints}, // a condition
		{kindNode, actionDelete, 0},
		{2, all, 0}, // volumes
		{kindAny, all, ^framework.Event(0)},
		{99, all, 0},
	} {
		if got := eventsOf(tc.kind, tc.action); got != tc.want {
			t.Errorf("kind %d, action %b: got %b, want %b", tc.kind, tc.action, got, tc.want)
		}
	}
}

func TestWords(t *testing.T) {
	for in, want := range map[string][]string{"": nil, "a": nil, "a\x00": {"a"}, "a\x00\x00b\x00c": {"a", "", "b"}} {
		if diff := cmp.Diff(want, words([]byte(in))); diff != "" {
			t.Errorf("%q: %s", in, diff)
		}
	}
}

func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWaiting()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}}
		if w.reject("u") || w.get("u") != nil {
			t.Error("nobody waits yet")
		}
		if err := w.wait(t.Context(), pod, time.Minute); !errors.Is(err, errTimeout) {
			t.Errorf("got %v", err)
		}
		ended := make(chan error)
		go func() { ended <- w.wait(context.Background(), pod, time.Minute) }()
		synctest.Wait()
		if w.get("u") != pod || !w.reject("u") || w.reject("u") {
			t.Error("the pod waits, and can be rejected once")
		}
		if err := <-ended; !errors.Is(err, errRejected) {
			t.Errorf("got %v", err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		go func() { ended <- w.wait(ctx, pod, time.Minute) }()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) || w.get("u") != nil {
			t.Errorf("got %v", err)
		}
	})
}

// FuzzResults has a guest answer with what nobody expects, through each function
// that takes an answer: no call does more than fail.
func FuzzResults(f *testing.F) {
	for _, s := range []string{"", "a\x00b", `{"a":1}`, `{"RegardingReference":{}}`, "\xff\xff\xff\xff\x01\x00\x00\x00", strings.Repeat("x", 3000)} {
		f.Add([]byte(s))
	}
	results := []string{"status_reason", "node_names", "nominated_node_name", "cluster_events", "normalized_score_list"}
	e, err := engine.New(engine.Config{PlainMemory: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = e.Close() })
	m := &Module{}
	two := []byte{I32, I32}
	var body []byte
	for _, r := range results {
		fn := m.Import("k8s.io/scheduler", "result."+r, two, nil)
		for _, code := range [][]byte{Const32(1024), Get(0), Call(fn)} {
			body = append(body, code...)
		}
	}
	fetch := m.Import("k8s.io/scheduler", "get_config", two, []byte{I32})
	m.Memory(2, 0)
	for _, name := range []string{"prefilter", "filter", "normalizescore"} {
		m.Func(name, nil, []byte{I32}, []byte{I32}, Const32(1024), Const32(65536), Call(fetch), Set(0), body, Const32(2))
	}
	m.Func("score", nil, []byte{I64}, nil, Const64(1<<32))
	code, err := e.Load(context.Background(), m.Bytes())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(code.Close)
	var s framework.Snapshot
	s.Set(&framework.NodeInfo{Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 60000 {
			return
		}
		g, err := Start(t.Context(), e, code, Config{Name: "p", Settings: b})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		c, err := g.Begin(t.Context(), pod, &s)
		if err != nil {
			t.Fatal(err)
		}
		defer c.End(false)
		d, _, err := c.PreFilter(t.Context())
		if err == nil && (d.Rejection == nil || len(d.Rejection.Reasons[0]) > 4*1024 || len(d.Nodes) > 1) {
			t.Errorf("got %+v", d)
		}
		_, _ = c.Filter(t.Context(), []int32{0}, func(int32, framework.Rejection) {})
		scores := []int64{50}
		if _, err := c.Normalize(t.Context(), []int32{0}, scores); err == nil {
			t.Errorf("a status that fails gave the scores %v", scores)
		}
	})
}
