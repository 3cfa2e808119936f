//nolint:thelper // these are tests, not helpers: the line that fails matters
package storagetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/proa-project/proa/storage"
)

// story makes some changes and returns what a watcher of /registry/pods/ sees.
func story(t *testing.T, s storage.Store) []change {
	t.Helper()
	const key, other = "/registry/pods/a/x", "/registry/pods/b/y"
	first := create(t, s, key, "one")
	create(t, s, "/registry/nodes/n", "elsewhere")
	second := update(t, s, key, "two", first)
	third := create(t, s, other, "three")
	create(t, s, "/proa/n", "far away")
	fourth := remove(t, s, key, second)
	fifth := create(t, s, key, "five")
	return []change{
		{storage.Put, entry{key, "one", first}, entry{}},
		{storage.Put, entry{key, "two", second}, entry{key, "one", first}},
		{storage.Put, entry{other, "three", third}, entry{}},
		{storage.Delete, entry{key, "two", fourth}, entry{key, "two", second}},
		{storage.Put, entry{key, "five", fifth}, entry{}},
	}
}

func testWatch(t *testing.T, s storage.Store) {
	w := watch(t, s, "/registry/pods/", storage.WatchOptions{})
	want := story(t, s)
	wantChanges(t, "changes", next(t, w, len(want)), want)
}

// testWatchNow checks that a watch without a revision shows what comes after
// the call and nothing else.
func testWatchNow(t *testing.T, s storage.Store) {
	for i := range 10 {
		key := fmt.Sprintf("/registry/pods/a/%d", i)
		first := create(t, s, key, "before")
		w := watch(t, s, "/registry/pods/", storage.WatchOptions{})
		second := update(t, s, key, "after", first)
		wantChanges(t, "changes after the call", next(t, w, 1), []change{
			{storage.Put, entry{key, "after", second}, entry{key, "before", first}},
		})
		w.Close()
	}
}

func testWatchOld(t *testing.T, s storage.Store) {
	start := current(t, s)
	all := story(t, s)
	for i := range len(all) {
		after := start
		if i > 0 {
			after = all[i-1].Item.Revision
		}
		w := watch(t, s, "/registry/pods/", storage.WatchOptions{After: after})
		wantChanges(t, fmt.Sprintf("changes after %d", after), next(t, w, len(all)-i), all[i:])
		w.Close()
	}
	// History and what happens now join without a seam.
	w := watch(t, s, "/registry/pods/", storage.WatchOptions{After: all[2].Item.Revision})
	const n = 300
	want := all[3:]
	for i := range n {
		key := fmt.Sprintf("/registry/pods/c/%d", i)
		want = append(want, change{storage.Put, entry{key, "v", create(t, s, key, "v")}, entry{}})
	}
	wantChanges(t, "old and new changes", next(t, w, len(want)), want)
}

func testWatchFuture(t *testing.T, s storage.Store) {
	now := current(t, s)
	w := watch(t, s, "/registry/pods/", storage.WatchOptions{After: now + 2})
	all := story(t, s)
	want := []change{}
	for _, c := range all {
		if c.Item.Revision > now+2 {
			want = append(want, c)
		}
	}
	wantChanges(t, "changes after a future revision", next(t, w, len(want)), want)
}

func testWatchPrefix(t *testing.T, s storage.Store) {
	keys := []string{
		"/proa/x", "/registry/a.io/things/x", "/registry/a.io/thingsmore/x", "/registry/nodes",
		"/registry/pods/a/x", "/registry/pods/ab/x", "/registry/pods\xff/x", "/registry/podsmore/x",
	}
	prefixes := []string{
		"", "/", "/proa/", "/registry/", "/registry/pods", "/registry/pods/", "/registry/pods/a", "/registry/pods/a/",
		"/registry/pods/a/x", "/registry/a.io/", "/registry/a.io/things/", "/registry/pods\xff",
	}
	watchers := map[string]storage.Watcher{}
	for _, prefix := range prefixes {
		watchers[prefix] = watch(t, s, prefix, storage.WatchOptions{})
	}
	want := map[string][]change{}
	for _, key := range keys {
		revision := create(t, s, key, "v")
		for _, prefix := range prefixes {
			if strings.HasPrefix(key, prefix) {
				want[prefix] = append(want[prefix], change{storage.Put, entry{key, "v", revision}, entry{}})
			}
		}
	}
	for _, prefix := range prefixes {
		wantChanges(t, fmt.Sprintf("changes below %q", prefix), next(t, watchers[prefix], len(want[prefix])), want[prefix])
	}
}

func testWatchFilter(t *testing.T, s storage.Store) {
	w := watch(t, s, "/registry/pods/", storage.WatchOptions{
		Filter: func(i *storage.Item) bool { return string(i.Value) == "in" },
	})
	const key = "/registry/pods/a/x"
	first := create(t, s, key, "out")
	second := update(t, s, key, "in", first)
	third := update(t, s, key, "in", second)
	fourth := update(t, s, key, "out", third)
	fifth := update(t, s, key, "out", fourth)
	sixth := update(t, s, key, "in", fifth)
	seventh := remove(t, s, key, sixth)
	eighth := create(t, s, key, "out")
	remove(t, s, key, eighth)
	last := create(t, s, key, "in")
	want := []change{
		{storage.Put, entry{key, "in", second}, entry{key, "out", first}},
		{storage.Put, entry{key, "in", third}, entry{key, "in", second}},
		{storage.Put, entry{key, "out", fourth}, entry{key, "in", third}},
		{storage.Put, entry{key, "in", sixth}, entry{key, "out", fifth}},
		{storage.Delete, entry{key, "in", seventh}, entry{key, "in", sixth}},
		{storage.Put, entry{key, "in", last}, entry{}},
	}
	wantChanges(t, "changes of the selection", next(t, w, len(want)), want)
}

func testWatchLeft(t *testing.T, s storage.Store) {
	w := watch(t, s, "/registry/pods/", storage.WatchOptions{})
	const key = "/registry/pods/a/x"
	first := create(t, s, key, "one")
	second := update(t, s, key, "two", first)
	third := remove(t, s, key, second)
	ctx := bounded(t)
	left := []entry{}
	for len(left) < 3 {
		events, err := w.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for i := range events {
			if item := events[i].Left(); item != nil {
				left = append(left, entryOf(item))
			} else {
				left = append(left, entry{})
			}
		}
	}
	wantEntries(t, "states that were left", left, []entry{{}, {key, "one", second}, {key, "two", third}})
}

func testWatchNoPrev(t *testing.T, s storage.Store) {
	w := watch(t, s, "/registry/pods/", storage.WatchOptions{NoPrev: true})
	want := story(t, s)
	for i, got := range next(t, w, len(want)) {
		if got.Type != want[i].Type || got.Item.Key != want[i].Item.Key || got.Item.Revision != want[i].Item.Revision ||
			got.Type == storage.Put && got.Item.Value != want[i].Item.Value {
			t.Errorf("change %d is %+v, want %+v", i, got, want[i])
		}
	}
}

func testWatchCompacted(t *testing.T, s storage.Store) {
	ctx := bounded(t)
	all := story(t, s)
	limit := all[2].Item.Revision
	if err := s.Compact(ctx, limit); err != nil {
		t.Fatal(err)
	}
	for _, after := range []int64{1, all[0].Item.Revision, limit - 2} {
		w, err := s.Watch(ctx, "/registry/pods/", storage.WatchOptions{After: after})
		if err == nil {
			w.Close()
		}
		wantError(t, fmt.Sprintf("Watch after %d, compacted at %d", after, limit), err, storage.ErrCompacted)
	}
	w := watch(t, s, "/registry/pods/", storage.WatchOptions{After: limit})
	got := next(t, w, 2)
	got[0].Prev, all[3].Prev = entry{}, entry{} // the state before may be gone
	got[0].Item.Value, all[3].Item.Value = "", ""
	wantChanges(t, "changes after the compacted revision", got, all[3:])
	w = watch(t, s, "/registry/pods/", storage.WatchOptions{After: limit - 1})
	if got := next(t, w, 1)[0]; got.Item != all[2].Item {
		t.Errorf("the first change from the compacted revision on is %+v, want %+v", got, all[2])
	}
}

// testWatchAcrossCompaction checks that a watcher which keeps up does not
// notice a compaction.
func testWatchAcrossCompaction(t *testing.T, s storage.Store) {
	w := watch(t, s, "/registry/pods/", storage.WatchOptions{})
	all := story(t, s)
	wantChanges(t, "changes before", next(t, w, len(all)), all)
	create(t, s, "/registry/nodes/more", "not for this watcher")
	if err := s.Compact(bounded(t), current(t, s)); err != nil {
		t.Fatal(err)
	}
	revision := create(t, s, "/registry/pods/a/z", "v")
	wantChanges(t, "changes after", next(t, w, 1), []change{{storage.Put, entry{"/registry/pods/a/z", "v", revision}, entry{}}})
}

func testWatchProgress(t *testing.T, s storage.Store) {
	start := current(t, s)
	w := watch(t, s, "/registry/pods/", storage.WatchOptions{Progress: true})
	if p := w.Progress(); p < start {
		t.Errorf("Progress of a new watcher is %d, the store was at %d", p, start)
	}
	revision := create(t, s, "/registry/pods/a/x", "v")
	var elsewhere int64
	for i := range 3 {
		elsewhere = create(t, s, fmt.Sprintf("/registry/nodes/%d", i), "v")
	}
	ctx, cancel := context.WithTimeout(bounded(t), 20*time.Second)
	defer cancel()
	seen := 0
	for w.Progress() < elsewhere {
		if r, ok := w.(storage.ProgressRequester); ok {
			r.RequestProgress()
		}
		events, err := w.Next(ctx)
		if err != nil {
			t.Fatalf("Progress stays at %d, the store is at %d: %v", w.Progress(), elsewhere, err)
		}
		for _, e := range events {
			if e.Revision() != revision {
				t.Errorf("event of revision %d", e.Revision())
			}
			seen++
		}
		if seen == 0 && w.Progress() >= revision {
			t.Errorf("Progress is %d before the event of revision %d", w.Progress(), revision)
		}
	}
	if seen != 1 {
		t.Errorf("%d events, want 1", seen)
	}
}

func testWatchContext(t *testing.T, s storage.Store) {
	w := watch(t, s, "/registry/pods/", storage.WatchOptions{})
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err := w.Next(ctx)
		cancel()
		wantError(t, "Next of nothing", err, context.DeadlineExceeded)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := w.Next(ctx)
	wantError(t, "Next with a context that is done", err, context.Canceled)
	// After a context's error the watcher goes on.
	want := story(t, s)
	wantChanges(t, "changes", next(t, w, len(want)), want)

	// The context of Watch is for the call, not for the watcher's life.
	ctx, cancel = context.WithCancel(t.Context())
	w, err = s.Watch(ctx, "/registry/pods/", storage.WatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	cancel()
	revision := create(t, s, "/registry/pods/c/x", "v")
	wantChanges(t, "changes after the end of Watch's context", next(t, w, 1), []change{
		{storage.Put, entry{"/registry/pods/c/x", "v", revision}, entry{}},
	})
}

func testWatchClose(t *testing.T, s storage.Store) {
	w := watch(t, s, "/registry/pods/", storage.WatchOptions{})
	ended := nextError(t, w)
	w.Close()
	wantError(t, "Next during Close", <-ended, storage.ErrClosed)
	w.Close()
	_, err := w.Next(bounded(t))
	wantError(t, "Next after Close", err, storage.ErrClosed)
	create(t, s, "/registry/pods/a/x", "the store goes on")
}

func testWatchStoreClosed(t *testing.T, s storage.Store) {
	w := watch(t, s, "/registry/pods/", storage.WatchOptions{})
	ended := nextError(t, w)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantError(t, "Next while the store closes", <-ended, storage.ErrClosed)
	_, err := w.Next(bounded(t))
	wantError(t, "Next after the store has closed", err, storage.ErrClosed)
	w.Close()
}

// nextError calls Next in the background until it fails, and hands over why.
func nextError(t *testing.T, w storage.Watcher) <-chan error {
	t.Helper()
	ctx := bounded(t)
	started, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		close(started)
		events, err := w.Next(ctx)
		if err == nil {
			err = errors.New("Next returned events where there are none")
		}
		_ = events
		ended <- err
	}()
	<-started
	return ended
}
