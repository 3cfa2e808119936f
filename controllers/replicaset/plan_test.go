package replicaset

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newSet(n int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s", UID: "s", Generation: 4},
		Spec: appsv1.ReplicaSetSpec{Replicas: &n, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
		}},
	}
}

// pod is a pod that is described by words.
func pod(words string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: words, UID: types.UID(words), Labels: map[string]string{"a": "b"}, CreationTimestamp: metav1.NewTime(epoch.Add(-time.Hour))}}
	p.Status.Phase = corev1.PodPending
	for w := range strings.FieldsSeq(words) {
		switch k, v, _ := strings.Cut(w, "="); k {
		case "bound":
			p.Spec.NodeName = v
		case "running", "ready":
			p.Status.Phase = corev1.PodRunning
			if k == "ready" {
				at := epoch.Add(-30 * time.Minute)
				if v == "lately" {
					at = epoch.Add(-time.Second)
				}
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)}}
			}
		case "failed":
			p.Status.Phase = corev1.PodFailed
		case "succeeded":
			p.Status.Phase = corev1.PodSucceeded
		case "deleted":
			now := metav1.NewTime(epoch)
			p.DeletionTimestamp = &now
		case "cost":
			p.Annotations = map[string]string{corev1.PodDeletionCost: v}
		case "restarted":
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 3}}
		case "young":
			p.CreationTimestamp = metav1.NewTime(epoch.Add(-time.Minute))
		case "unlabeled":
			p.Labels = nil
		}
	}
	return p
}

func pods(words ...string) []*corev1.Pod {
	var out []*corev1.Pod
	for _, w := range words {
		out = append(out, pod(w))
	}
	return out
}

func TestPlan(t *testing.T) {
	for _, tc := range []struct {
		name    string
		want    int32
		pods    []*corev1.Pod
		pending int
		dying   map[types.UID]bool
		create  int
		remove  int
		deleted bool
	}{
		{name: "all are missing", want: 3, create: 3},
		{name: "enough", want: 2, pods: pods("a", "b")},
		{name: "finished and deleted ones do not count", want: 2, pods: pods("a", "failed", "succeeded", "deleted"), create: 1},
		{name: "those on their way count", want: 3, pods: pods("a"), pending: 2},
		{name: "some are on their way", want: 3, pods: pods("a"), pending: 1, create: 1},
		{name: "too many", want: 1, pods: pods("a", "b", "c"), remove: 2},
		{name: "those on their way are no surplus", want: 1, pods: pods("a"), pending: 5},
		{name: "those that die already are none either", want: 1, pods: pods("a", "b", "c"), dying: map[types.UID]bool{"b": true, "c": true}},
		{name: "and are replaced", want: 3, pods: pods("a", "b", "c"), dying: map[types.UID]bool{"b": true}, create: 1},
		{name: "a set that is deleted does nothing", want: 3, deleted: true},
		{name: "to none", want: 0, pods: pods("a", "b"), remove: 2},
		{name: "a huge set goes in steps", want: 100000, create: burst},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rs := newSet(tc.want)
			if tc.deleted {
				now := metav1.NewTime(epoch)
				rs.DeletionTimestamp = &now
			}
			p := newPlan(view{rs: rs, pods: tc.pods, pending: tc.pending, dying: tc.dying, now: epoch})
			if p.create != tc.create || len(p.remove) != tc.remove {
				t.Errorf("create %d, remove %d; want %d, %d", p.create, len(p.remove), tc.create, tc.remove)
			}
		})
	}
}

// TestRank compares pods by pairs: the first is missed less.
func TestRank(t *testing.T) {
	for _, tc := range [][2]string{
		{"young", "bound=n"},
		{"bound=n", "bound=n running"},
		{"bound=n running", "bound=n ready"},
		{"bound=n ready cost=-5", "bound=n ready"},
		{"bound=n ready", "bound=n ready cost=7"},
		{"bound=crowded ready", "bound=n ready"},
		{"bound=n ready=lately", "bound=n ready"},
		{"bound=n ready restarted", "bound=n ready"},
		{"bound=n ready young", "bound=n ready"},
		{"bound=n running cost=9", "bound=n ready cost=-9"},
	} {
		for _, ps := range [][]*corev1.Pod{pods(tc[0], tc[1]), pods(tc[1], tc[0])} {
			rank(ps, map[string]int{"crowded": 5, "n": 2}, epoch)
			if ps[0].Name != tc[0] {
				t.Errorf("%q comes before %q", ps[0].Name, ps[1].Name)
			}
		}
	}
}

func TestStatus(t *testing.T) {
	rs := newSet(5)
	rs.Spec.MinReadySeconds = 10
	ps := pods("a", "bound=n ready", "bound=n ready=lately", "bound=n ready deleted", "failed", "unlabeled", "deleted failed")
	st, again := newStatus(rs, ps, nil, epoch)
	if st.Replicas != 4 || st.FullyLabeledReplicas != 3 || st.ReadyReplicas != 2 || st.AvailableReplicas != 1 ||
		*st.TerminatingReplicas != 1 || st.ObservedGeneration != 4 || st.Conditions != nil || again != 9*time.Second {
		t.Errorf("status %+v, again after %v", st, again)
	}
	st, _ = newStatus(rs, nil, &failure{"FailedCreate", "no"}, epoch)
	if len(st.Conditions) != 1 || st.Conditions[0].Type != appsv1.ReplicaSetReplicaFailure || st.Conditions[0].Message != "no" {
		t.Errorf("conditions %+v", st.Conditions)
	}
	rs.Status = st
	st, _ = newStatus(rs, nil, &failure{"FailedCreate", "no, again"}, epoch.Add(time.Hour))
	if !sameStatus(&st, &rs.Status) {
		t.Errorf("the same failure flaps: %+v", st.Conditions)
	}
	if st, _ = newStatus(rs, nil, nil, epoch); len(st.Conditions) != 0 {
		t.Errorf("the failure stays: %+v", st.Conditions)
	}
}

func TestRamp(t *testing.T) {
	no := errors.New("no")
	for _, tc := range []struct {
		n, width, failAt int
		done             int
		atMost           int
	}{
		{n: 1000, width: 48, failAt: -1, done: 1000, atMost: 1000},
		{n: 1, width: 48, failAt: -1, done: 1, atMost: 1},
		{n: 0, width: 48, failAt: -1},
		{n: 1000, width: 48, failAt: 0, done: 0, atMost: 1},
		{n: 1000, width: 1, failAt: 5, done: 5, atMost: 6},
	} {
		var calls, running, most atomic.Int64
		done, err := ramp(t.Context(), tc.n, tc.width, func() error {
			now := running.Add(1)
			defer running.Add(-1)
			for {
				if m := most.Load(); now <= m || most.CompareAndSwap(m, now) {
					break
				}
			}
			if int(calls.Add(1))-1 == tc.failAt {
				return no
			}
			return nil
		})
		if done != tc.done || int(calls.Load()) > tc.atMost || int(most.Load()) > tc.width {
			t.Errorf("%+v: %d done in %d calls, %d at once", tc, done, calls.Load(), most.Load())
		}
		if (err != nil) != (tc.failAt >= 0) {
			t.Errorf("%+v: %v", tc, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	if _, err := ramp(ctx, 1000, 1, func() error {
		if calls++; calls == 10 {
			cancel()
		}
		return nil
	}); !errors.Is(err, context.Canceled) || calls > 11 {
		t.Errorf("after cancel: %v, %d calls", err, calls)
	}
}

// TestExpectations_property runs a set against a cache that is late by any
// number of events: there are never more pods than wanted.
func TestExpectations_property(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := newExpectations()
		rs := newSet(rapid.Int32Range(0, 8).Draw(t, "replicas"))
		truth := map[types.UID]bool{} // pods at the server
		cache := map[types.UID]bool{}
		type change struct {
			pod  types.UID
			gone bool
		}
		var log []change // what the cache has not seen
		handled := []change{}
		next := 0
		create := func() {
			e.creating(rs.UID)
			next++
			uid := types.UID(fmt.Sprint(next))
			truth[uid] = true
			log = append(log, change{pod: uid})
			e.created(rs.UID, uid, true, epoch)
		}
		remove := func(uid types.UID) {
			delete(truth, uid)
			log = append(log, change{pod: uid, gone: true})
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0, 1: // the loop looks
				snap := e.snapshot(rs.UID, epoch)
				var ps []*corev1.Pod
				for uid := range cache {
					ps = append(ps, pod(string(uid)))
					delete(snap.pending, uid)
				}
				p := newPlan(view{rs: rs, pods: ps, pending: len(snap.pending), dying: snap.dying, now: epoch})
				for range p.create {
					create()
				}
				for _, x := range p.remove {
					e.deleting(rs.UID, x.UID)
					remove(x.UID)
				}
				if len(truth) > int(*rs.Spec.Replicas) && p.create > 0 {
					t.Fatalf("%d pods, want %d", len(truth), *rs.Spec.Replicas)
				}
			case 2: // the cache sees an event
				if len(log) > 0 {
					ch := log[0]
					log = log[1:]
					if ch.gone {
						delete(cache, ch.pod)
					} else {
						cache[ch.pod] = true
					}
					handled = append(handled, ch)
				}
			case 3: // the handler is told, later
				if len(handled) > 0 {
					ch := handled[0]
					handled = handled[1:]
					if ch.gone {
						e.gone(rs.UID, ch.pod)
					} else {
						e.observed(rs.UID, ch.pod)
					}
				}
			case 4: // a pod goes by itself, or the size changes
				if rapid.Bool().Draw(t, "resize") {
					n := rapid.Int32Range(0, 8).Draw(t, "size")
					rs.Spec.Replicas = &n
					break
				}
				for uid := range truth {
					remove(uid)
					break
				}
			}
		}
	})
}

// TestExpectations_hammer has answers and events race.
func TestExpectations_hammer(t *testing.T) {
	e := newExpectations()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 500 {
				uid := types.UID(fmt.Sprintf("%d-%d", g, i))
				e.creating("s")
				var both sync.WaitGroup
				both.Go(func() { e.created("s", uid, true, epoch) })
				both.Go(func() { e.observed("s", uid) })
				both.Wait()
				e.snapshot("s", epoch)
			}
		})
	}
	wg.Wait()
	if s := e.snapshot("s", epoch); len(s.pending) != 0 {
		t.Errorf("%d pods are expected for ever", len(s.pending))
	}
}

func TestExpectations_giveUp(t *testing.T) {
	e := newExpectations()
	e.creating("s")
	e.created("s", "p", true, epoch)
	e.creating("s")
	e.created("s", "", false, epoch) // nobody knows
	e.creating("s")
	e.created("s", "", true, epoch) // refused
	if s := e.snapshot("s", epoch.Add(time.Second)); len(s.pending) != 1 || s.doubts != 1 {
		t.Errorf("snapshot %+v", s)
	}
	if s := e.snapshot("s", epoch.Add(3*time.Second)); len(s.pending) != 1 || s.doubts != 0 {
		t.Errorf("snapshot later %+v", s)
	}
	if s := e.snapshot("s", epoch.Add(2*time.Minute)); len(s.pending) != 0 {
		t.Errorf("snapshot much later %+v", s)
	}
}
