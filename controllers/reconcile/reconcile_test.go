package reconcile_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/controllers/reconcile"
	"github.com/proa-project/proa/informers/workqueue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestClaimOf(t *testing.T) {
	now := metav1.Now()
	yes := true
	owner := func(uid types.UID) []metav1.OwnerReference {
		return []metav1.OwnerReference{{UID: "other"}, {UID: uid, Controller: &yes}}
	}
	sel := labels.SelectorFromSet(labels.Set{"a": "b"})
	match := map[string]string{"a": "b"}
	for _, tc := range []struct {
		name                     string
		ownerDeleted, objDeleted bool
		labels                   map[string]string
		owners                   []metav1.OwnerReference
		want                     reconcile.Claim
	}{
		{"mine", false, false, match, owner("me"), reconcile.Keep},
		{"mine, on its way out", false, true, match, owner("me"), reconcile.Keep},
		{"mine, and I go", true, false, match, owner("me"), reconcile.Keep},
		{"mine, and does not match", false, false, nil, owner("me"), reconcile.Release},
		{"mine, does not match, and I go", true, false, nil, owner("me"), reconcile.Ignore},
		{"somebody else's", false, false, match, owner("you"), reconcile.Ignore},
		{"nobody's", false, false, match, nil, reconcile.Adopt},
		{"owned but not controlled", false, false, match, []metav1.OwnerReference{{UID: "me"}}, reconcile.Adopt},
		{"nobody's, and does not match", false, false, nil, nil, reconcile.Ignore},
		{"nobody's, on its way out", false, true, match, nil, reconcile.Ignore},
		{"nobody's, and I go", true, false, match, nil, reconcile.Ignore},
	} {
		t.Run(tc.name, func(t *testing.T) {
			me := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{UID: "me"}}
			obj := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: tc.labels, OwnerReferences: tc.owners}}
			if tc.ownerDeleted {
				me.DeletionTimestamp = &now
			}
			if tc.objDeleted {
				obj.DeletionTimestamp = &now
			}
			if got := reconcile.ClaimOf(me, obj, sel); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestPatches(t *testing.T) {
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "s", UID: "1"}}
	got, err := reconcile.AdoptPatch(rs, api.ByType(rs), "p")
	want := `{"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"s","uid":"1","controller":true,"blockOwnerDeletion":true}],"uid":"p"}}`
	if err != nil || string(got) != want {
		t.Errorf("adopt: %s, %v", got, err)
	}
	got, err = reconcile.ReleasePatch("p", "1", "2")
	want = `{"metadata":{"ownerReferences":[{"$patch":"delete","uid":"1"},{"$patch":"delete","uid":"2"}],"uid":"p"}}`
	if err != nil || string(got) != want {
		t.Errorf("release: %s, %v", got, err)
	}
}

func TestWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := func(rv string) *corev1.Pod {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: rv}}
		}
		var w reconcile.Written
		if w.Stale(at("5")) || w.Missing("u", false) {
			t.Error("nothing was written")
		}
		w.Note(at("9"))
		if !w.Stale(at("5")) || !w.Missing("u", false) || w.Missing("u", true) {
			t.Error("the cache is late")
		}
		if w.Stale(at("10")) || w.Stale(at("5")) {
			t.Error("the cache has shown it")
		}
		w.Note(at("9"))
		<-time.After(reconcile.Patience)
		if w.Stale(at("5")) {
			t.Error("waits for ever")
		}
		w.Note(at("9"))
		w.Forget("u")
		if w.Stale(at("5")) || w.Missing("u", false) {
			t.Error("forgotten")
		}
	})
}

func TestParallel(t *testing.T) {
	no := errors.New("no")
	var calls, running, most atomic.Int64
	err := reconcile.Parallel(t.Context(), 100, 7, func(i int) error {
		calls.Add(1)
		now := running.Add(1)
		defer running.Add(-1)
		for {
			if m := most.Load(); now <= m || most.CompareAndSwap(m, now) {
				break
			}
		}
		if i == 50 {
			return no
		}
		return nil
	})
	if !errors.Is(err, no) || calls.Load() != 100 || most.Load() > 7 {
		t.Errorf("%v after %d calls, %d at once", err, calls.Load(), most.Load())
	}
	if err := reconcile.Parallel(t.Context(), 0, 7, func(int) error { return no }); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := reconcile.Parallel(ctx, 100, 2, func(int) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New[string](workqueue.Config{})
		calls := map[string]int{}
		begin := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		q.Add("again")
		q.Add("fails")
		q.Add("later")
		reconcile.Workers(ctx, 1, q, zerolog.Nop(), func(_ context.Context, k string) (time.Duration, error) {
			calls[k]++
			switch {
			case k == "again" && calls[k] == 3:
				cancel()
			case k == "again":
				return time.Minute, nil
			case k == "fails" && calls[k] < 4:
				return 0, errors.New("no")
			case k == "later" && calls[k] < 3:
				return 0, reconcile.ErrLater
			}
			return 0, nil
		})
		if calls["again"] != 3 || calls["fails"] != 4 || calls["later"] != 3 || time.Since(begin) != 2*time.Minute {
			t.Errorf("calls %v in %v", calls, time.Since(begin))
		}
	})
}

func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		n := 0
		reconcile.Every(ctx, 10*time.Second, func(context.Context) { n++ })
		if n < 5 || n > 7 {
			t.Errorf("%d calls", n)
		}
	})
}
