// Package storagetest is the suite that every Store passes, and a Store that
// fails on demand.
package storagetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/proa-project/proa/storage"
)

// patience bounds every wait of the suite.
const patience = 30 * time.Second

// Run checks that the Stores which open returns keep the contract of package
// storage. open is called once for each subtest and must return an empty
// Store; closing it is the suite's task, also of what lies below it if the
// Store closes that. Values must come out as they went in: a Store that
// decorates is tested with a decorator that changes nothing.
func Run(t *testing.T, open func(t *testing.T) storage.Store) {
	t.Helper()
	tests := []struct {
		name string
		run  func(*testing.T, storage.Store)
	}{
		{"Create", testCreate},
		{"Update", testUpdate},
		{"Delete", testDelete},
		{"Revisions", testRevisions},
		{"UpdateRace", testUpdateRace},
		{"TTL", testTTL},
		{"LargeValue", testLargeValue},
		{"ContextDone", testContextDone},
		{"Closed", testClosed},
		{"CloseTwice", testCloseTwice},

		{"Get", testGet},
		{"GetExact", testGetExact},
		{"List", testList},
		{"ListPrefix", testListPrefix},
		{"ListLimit", testListLimit},
		{"ListPages", testListPages},
		{"ListFilter", testListFilter},
		{"ListFilterLimit", testListFilterLimit},
		{"ListExact", testListExact},
		{"ListKeysOnly", testListKeysOnly},
		{"ListOwned", testListOwned},
		{"NotOlderThan", testNotOlderThan},
		{"FutureRevision", testFutureRevision},
		{"Compact", testCompact},
		{"CompactCurrent", testCompactCurrent},

		{"Watch", testWatch},
		{"WatchNow", testWatchNow},
		{"WatchOld", testWatchOld},
		{"WatchFuture", testWatchFuture},
		{"WatchPrefix", testWatchPrefix},
		{"WatchFilter", testWatchFilter},
		{"WatchLeft", testWatchLeft},
		{"WatchNoPrev", testWatchNoPrev},
		{"WatchCompacted", testWatchCompacted},
		{"WatchAcrossCompaction", testWatchAcrossCompaction},
		{"WatchProgress", testWatchProgress},
		{"WatchContext", testWatchContext},
		{"WatchClose", testWatchClose},
		{"WatchStoreClosed", testWatchStoreClosed},

		{"Concurrent", testConcurrent},
		{"ConcurrentList", testConcurrentList},
		{"ReadYourWrites", testReadYourWrites},
		{"ReadWhatWasWatched", testReadWhatWasWatched},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
			test.run(t, s)
		})
	}
}

// bounded returns a context that ends with the test or when patience does.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func create(t *testing.T, s storage.Store, key, value string) int64 {
	t.Helper()
	revision, err := s.Create(bounded(t), key, []byte(value), 0)
	if err != nil {
		t.Fatalf("Create(%q): %v", key, err)
	}
	return revision
}

func update(t *testing.T, s storage.Store, key, value string, expected int64) int64 {
	t.Helper()
	revision, err := s.Update(bounded(t), key, []byte(value), expected, 0)
	if err != nil {
		t.Fatalf("Update(%q, expected %d): %v", key, expected, err)
	}
	return revision
}

func remove(t *testing.T, s storage.Store, key string, expected int64) int64 {
	t.Helper()
	revision, err := s.Delete(bounded(t), key, expected)
	if err != nil {
		t.Fatalf("Delete(%q, expected %d): %v", key, expected, err)
	}
	return revision
}

func list(t *testing.T, s storage.Store, prefix string, opts storage.ListOptions) storage.List {
	t.Helper()
	l, err := s.List(bounded(t), prefix, opts)
	if err != nil {
		t.Fatalf("List(%q, %+v): %v", prefix, opts, err)
	}
	return l
}

func current(t *testing.T, s storage.Store) int64 {
	t.Helper()
	revision, err := s.Current(bounded(t))
	if err != nil {
		t.Fatalf("Current: %v", err)
	}
	return revision
}

func watch(t *testing.T, s storage.Store, prefix string, opts storage.WatchOptions) storage.Watcher {
	t.Helper()
	w, err := s.Watch(bounded(t), prefix, opts)
	if err != nil {
		t.Fatalf("Watch(%q, after %d): %v", prefix, opts.After, err)
	}
	t.Cleanup(w.Close)
	return w
}

func wantError(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error %v, want %v", what, err, want)
	}
}

// entry is an Item in a form that is easy to compare.
type entry struct {
	Key, Value string
	Revision   int64
}

func entryOf(i *storage.Item) entry { return entry{i.Key, string(i.Value), i.Revision} }

func entries(l storage.List) []entry {
	all := []entry{}
	for i := range l.Items {
		all = append(all, entryOf(&l.Items[i]))
	}
	return all
}

func wantEntries(t *testing.T, what string, got, want []entry) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// change is an Event in a form that is easy to compare.
type change struct {
	Type storage.EventType
	Item entry
	Prev entry // zero if there is none
}

func changeOf(e *storage.Event) change {
	c := change{Type: e.Type, Item: entryOf(e.Item)}
	if e.Prev != nil {
		c.Prev = entryOf(e.Prev)
	}
	return c
}

// next returns the next n changes, which must be in order.
func next(t *testing.T, w storage.Watcher, n int) []change {
	t.Helper()
	ctx := bounded(t)
	changes := []change{}
	for len(changes) < n {
		events, err := w.Next(ctx)
		if err != nil {
			t.Fatalf("Next after %d of %d changes: %v", len(changes), n, err)
		}
		if len(events) == 0 {
			t.Fatal("Next returned neither an event nor an error")
		}
		for i := range events {
			changes = append(changes, changeOf(&events[i]))
		}
		if got, want := w.Progress(), events[len(events)-1].Revision(); got < want {
			t.Errorf("Progress is %d after an event of revision %d", got, want)
		}
	}
	for i := 1; i < len(changes); i++ {
		if changes[i].Item.Revision <= changes[i-1].Item.Revision {
			t.Errorf("revision %d follows revision %d", changes[i].Item.Revision, changes[i-1].Item.Revision)
		}
	}
	return changes
}

func wantChanges(t *testing.T, what string, got, want []change) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
