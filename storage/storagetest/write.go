//nolint:thelper // these are tests, not helpers: the line that fails matters
package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/proa-project/proa/storage"
)

func testCreate(t *testing.T, s storage.Store) {
	ctx := bounded(t)
	before := current(t, s)
	revision := create(t, s, "/registry/pods/a/x", "one")
	if revision <= before {
		t.Errorf("Create moved the clock from %d to %d", before, revision)
	}
	if now := current(t, s); now < revision {
		t.Errorf("Current is %d after a write at %d", now, revision)
	}
	item, err := s.Get(ctx, "/registry/pods/a/x", storage.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := entryOf(&item), (entry{"/registry/pods/a/x", "one", revision}); got != want {
		t.Errorf("Get returned %+v, want %+v", got, want)
	}
	_, err = s.Create(ctx, "/registry/pods/a/x", []byte("two"), 0)
	wantError(t, "Create of a key that is there", err, storage.ErrExists)
	if now := current(t, s); now != revision {
		t.Errorf("a refused Create moved the clock from %d to %d", revision, now)
	}
	removed := remove(t, s, "/registry/pods/a/x", revision)
	if again := create(t, s, "/registry/pods/a/x", "three"); again <= removed {
		t.Errorf("Create after Delete at %d has revision %d", removed, again)
	}
}

func testUpdate(t *testing.T, s storage.Store) {
	ctx := bounded(t)
	const key = "/registry/pods/a/x"
	_, err := s.Update(ctx, key, []byte("no"), 1, 0)
	wantError(t, "Update of a key that never was", err, storage.ErrNotFound)

	first := create(t, s, key, "one")
	second := update(t, s, key, "two", first)
	if second <= first {
		t.Errorf("Update moved the clock from %d to %d", first, second)
	}
	_, err = s.Update(ctx, key, []byte("no"), first, 0)
	wantConflict(t, "Update of an old revision", err, entry{key, "two", second})
	_, err = s.Update(ctx, key, []byte("no"), second+1000, 0)
	wantConflict(t, "Update of a revision that never was", err, entry{key, "two", second})
	_, err = s.Update(ctx, key, []byte("no"), 0, 0)
	wantConflict(t, "Update of revision 0", err, entry{key, "two", second})

	same := update(t, s, key, "two", second)
	if same <= second {
		t.Errorf("Update with an equal value moved the clock from %d to %d", second, same)
	}
	remove(t, s, key, same)
	_, err = s.Update(ctx, key, []byte("no"), same, 0)
	wantError(t, "Update of a removed key", err, storage.ErrNotFound)
}

func testDelete(t *testing.T, s storage.Store) {
	ctx := bounded(t)
	const key = "/registry/pods/a/x"
	_, err := s.Delete(ctx, key, 1)
	wantError(t, "Delete of a key that never was", err, storage.ErrNotFound)

	first := create(t, s, key, "one")
	second := update(t, s, key, "two", first)
	_, err = s.Delete(ctx, key, first)
	wantConflict(t, "Delete of an old revision", err, entry{key, "two", second})
	removed := remove(t, s, key, second)
	if removed <= second {
		t.Errorf("Delete moved the clock from %d to %d", second, removed)
	}
	_, err = s.Get(ctx, key, storage.GetOptions{})
	wantError(t, "Get after Delete", err, storage.ErrNotFound)
	_, err = s.Delete(ctx, key, second)
	wantError(t, "second Delete", err, storage.ErrNotFound)
	if l := list(t, s, "/registry/", storage.ListOptions{}); len(l.Items) != 0 {
		t.Errorf("List after Delete: %+v", entries(l))
	}
}

func wantConflict(t *testing.T, what string, err error, want entry) {
	t.Helper()
	wantError(t, what, err, storage.ErrConflict)
	var conflict *storage.ConflictError
	if !errors.As(err, &conflict) {
		t.Errorf("%s: %v is no ConflictError", what, err)
		return
	}
	if got := entryOf(&conflict.Current); got != want {
		t.Errorf("%s: the conflict carries %+v, want %+v", what, got, want)
	}
}

// testRevisions checks that there is one clock for all keys.
func testRevisions(t *testing.T, s storage.Store) {
	last := current(t, s)
	if last < 1 {
		t.Errorf("an empty store is at revision %d; 0 has another meaning", last)
	}
	for _, key := range []string{"/registry/pods/a/x", "/registry/nodes/y", "/proa/z", "/registry/pods/a/w"} {
		revision := create(t, s, key, "v")
		if revision <= last {
			t.Errorf("revision %d of %q follows revision %d", revision, key, last)
		}
		last = revision
	}
	if now := current(t, s); now != last {
		t.Errorf("Current is %d, the last write had %d", now, last)
	}
}

// testUpdateRace checks that of several updates of one revision one wins.
func testUpdateRace(t *testing.T, s storage.Store) {
	ctx := bounded(t)
	const key, rounds, workers = "/registry/pods/a/x", 20, 4
	revision := create(t, s, key, "start")
	for range rounds {
		var wg sync.WaitGroup
		won := make(chan int64, workers)
		for range workers {
			wg.Go(func() {
				r, err := s.Update(ctx, key, []byte("v"), revision, 0)
				switch {
				case err == nil:
					won <- r
				case !errors.Is(err, storage.ErrConflict):
					t.Errorf("Update: %v", err)
				}
			})
		}
		wg.Wait()
		if len(won) != 1 {
			t.Fatalf("%d of %d updates of one revision succeeded", len(won), workers)
		}
		revision = <-won
	}
}

func testTTL(t *testing.T, s storage.Store) {
	ctx := bounded(t)
	const mortal, renewed, kept = "/registry/events/a", "/registry/events/b", "/registry/events/c"
	w := watch(t, s, "/registry/events/", storage.WatchOptions{})
	start := time.Now()
	revisions := map[string]int64{}
	for _, key := range []string{mortal, renewed, kept} {
		revision, err := s.Create(ctx, key, []byte(key), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		revisions[key] = revision
	}
	forEver := update(t, s, kept, "for ever", revisions[kept])
	later, err := s.Update(ctx, renewed, []byte("renewed"), revisions[renewed], 3*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	changes := next(t, w, 7)[5:]
	for i, key := range []string{mortal, renewed} {
		if changes[i].Type != storage.Delete || changes[i].Item.Key != key {
			t.Fatalf("change %d is %+v, want the removal of %s", i, changes[i], key)
		}
	}
	if changes[0].Prev != (entry{mortal, mortal, revisions[mortal]}) || changes[1].Prev != (entry{renewed, "renewed", later}) {
		t.Errorf("the removals have wrong previous states: %+v", changes)
	}
	if lived := time.Since(start); lived < 3*time.Second {
		t.Errorf("both items were gone after %v", lived)
	}
	l := list(t, s, "/registry/events/", storage.ListOptions{})
	wantEntries(t, "items that live for ever", entries(l), []entry{{kept, "for ever", forEver}})
}

func testLargeValue(t *testing.T, s storage.Store) {
	ctx := bounded(t)
	value := bytes.Repeat([]byte("0123456789abcdef"), 3<<16) // 3 MiB, the largest request that the API takes
	w := watch(t, s, "/registry/", storage.WatchOptions{})
	revision, err := s.Create(ctx, "/registry/secrets/a/large", bytes.Clone(value), 0)
	if err != nil {
		t.Fatal(err)
	}
	item, err := s.Get(ctx, "/registry/secrets/a/large", storage.GetOptions{})
	if err != nil || item.Revision != revision || !bytes.Equal(item.Value, value) {
		t.Errorf("Get returned %d bytes of revision %d, error %v", len(item.Value), item.Revision, err)
	}
	if got := next(t, w, 1)[0]; got.Item.Value != string(value) {
		t.Errorf("the event has %d bytes", len(got.Item.Value))
	}
	empty := create(t, s, "/registry/secrets/a/empty", "")
	if item, err = s.Get(ctx, "/registry/secrets/a/empty", storage.GetOptions{}); err != nil || len(item.Value) != 0 || item.Revision != empty {
		t.Errorf("Get of an empty value returned %q, error %v", item.Value, err)
	}
}

func testContextDone(t *testing.T, s storage.Store) {
	revision := create(t, s, "/registry/pods/a/x", "one")
	before := current(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range calls(s, revision) {
		wantError(t, name+" with a context that is done", call(ctx), context.Canceled)
	}
	if now := current(t, s); now != before {
		t.Errorf("calls with a context that is done moved the clock from %d to %d", before, now)
	}
}

func testClosed(t *testing.T, s storage.Store) {
	revision := create(t, s, "/registry/pods/a/x", "one")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	ctx := bounded(t)
	for name, call := range calls(s, revision) {
		wantError(t, name+" of a closed store", call(ctx), storage.ErrClosed)
	}
}

// calls has one call of every method; /registry/pods/a/x is at revision.
func calls(s storage.Store, revision int64) map[string]func(context.Context) error {
	const key = "/registry/pods/a/x"
	return map[string]func(context.Context) error{
		"Get":     func(ctx context.Context) error { _, err := s.Get(ctx, key, storage.GetOptions{}); return err },
		"List":    func(ctx context.Context) error { _, err := s.List(ctx, key, storage.ListOptions{}); return err },
		"Current": func(ctx context.Context) error { _, err := s.Current(ctx); return err },
		"Create":  func(ctx context.Context) error { _, err := s.Create(ctx, key+"y", nil, 0); return err },
		"Update":  func(ctx context.Context) error { _, err := s.Update(ctx, key, nil, revision, 0); return err },
		"Delete":  func(ctx context.Context) error { _, err := s.Delete(ctx, key, revision); return err },
		"Compact": func(ctx context.Context) error { return s.Compact(ctx, revision) },
		"Watch": func(ctx context.Context) error {
			w, err := s.Watch(ctx, key, storage.WatchOptions{})
			if err == nil {
				w.Close()
			}
			return err
		},
		"GetNotOlderThan": func(ctx context.Context) error {
			_, err := s.Get(ctx, key, storage.GetOptions{Match: storage.NotOlderThan})
			return err
		},
		"ListNotOlderThan": func(ctx context.Context) error {
			_, err := s.List(ctx, key, storage.ListOptions{Match: storage.NotOlderThan})
			return err
		},
	}
}

func testCloseTwice(t *testing.T, s storage.Store) {
	for range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

// testReadYourWrites checks that a fresh read sees every write that was
// acknowledged before it, whoever wrote.
func testReadYourWrites(t *testing.T, s storage.Store) {
	ctx := bounded(t)
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			key := fmt.Sprintf("/registry/pods/a/%d", worker)
			revision, err := s.Create(ctx, key, []byte("start"), 0)
			for i := 0; i < 50 && err == nil; i++ {
				if err = seesWrite(ctx, s, key, revision); err == nil {
					revision, err = s.Update(ctx, key, []byte("v"), revision, 0)
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// A fresh read shows what a watcher has seen already, though the writer may not
// have its answer yet.
func testReadWhatWasWatched(t *testing.T, s storage.Store) {
	ctx := bounded(t)
	w := watch(t, s, "/registry/pods/", storage.WatchOptions{})
	const writes = 200
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for i := range writes {
			if _, err := s.Create(ctx, fmt.Sprintf("/registry/pods/a/%03d", i), []byte("v"), 0); err != nil {
				t.Errorf("Create: %v", err)
				return
			}
		}
	})
	for seen := 0; seen < writes; {
		events, err := w.Next(ctx)
		if err != nil {
			t.Fatalf("Next: %v", err)
		}
		seen += len(events)
		last := events[len(events)-1].Item
		if err := seesWrite(ctx, s, last.Key, last.Revision); err != nil {
			t.Fatalf("after the event of %s: %v", last.Key, err)
		}
	}
}

// seesWrite returns an error if a fresh read does not see the write of key at
// revision.
func seesWrite(ctx context.Context, s storage.Store, key string, revision int64) error {
	item, err := s.Get(ctx, key, storage.GetOptions{})
	if err != nil {
		return err
	}
	if item.Revision != revision {
		return fmt.Errorf("Get saw revision %d after a write at %d", item.Revision, revision)
	}
	l, err := s.List(ctx, key, storage.ListOptions{})
	if err != nil {
		return err
	}
	if diff := cmp.Diff([]entry{entryOf(&item)}, entries(l)); diff != "" || l.Revision < revision {
		return fmt.Errorf("List at %d after a write at %d: %s", l.Revision, revision, diff)
	}
	return nil
}
