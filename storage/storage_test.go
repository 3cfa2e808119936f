package storage_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/proa-project/proa/storage"
)

func TestSet(t *testing.T) {
	t.Parallel()
	s := storage.Set{{"app", "web"}, {"empty", ""}}
	for key, want := range map[string]struct {
		value string
		has   bool
	}{"app": {"web", true}, "empty": {"", true}, "other": {"", false}} {
		value, has := s.Lookup(key)
		if value != want.value || has != want.has || s.Get(key) != want.value || s.Has(key) != want.has {
			t.Errorf("%q is %q (%t), want %q (%t)", key, value, has, want.value, want.has)
		}
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		is   error
		text string
	}{
		{&storage.ConflictError{Current: storage.Item{Key: "/a", Revision: 7}}, storage.ErrConflict, `key "/a" is at revision 7: revision conflict`},
		{&storage.RevisionError{Requested: 3, Limit: 5, Err: storage.ErrCompacted}, storage.ErrCompacted, "revision 3 (limit 5): revision has been compacted"},
		{&storage.RevisionError{Requested: 9, Limit: 5, Err: storage.ErrFutureRevision}, storage.ErrFutureRevision, "revision 9 (limit 5): revision is in the future"},
	} {
		if !errors.Is(test.err, test.is) || test.err.Error() != test.text {
			t.Errorf("%q is %v: %t; want text %q", test.err, test.is, errors.Is(test.err, test.is), test.text)
		}
	}
}

// TestLeft checks what an event says of the state that was left, and that
// readers share it.
func TestLeft(t *testing.T) {
	t.Parallel()
	before := &storage.Item{Key: "/a", Value: []byte("old"), Revision: 3}
	after := &storage.Item{Key: "/a", Value: []byte("new"), Revision: 5}
	gone := &storage.Item{Key: "/a", Value: []byte("old"), Revision: 5}
	made := 0
	decorate := func(value []byte, revision int64) []byte {
		made++
		return fmt.Appendf(nil, "%s@%d", value, revision)
	}
	for name, test := range map[string]struct {
		event storage.Event
		share bool
		want  string
	}{
		"new key":          {storage.Event{Type: storage.Put, Item: after}, true, ""},
		"change":           {storage.Event{Type: storage.Put, Item: after, Prev: before}, false, "old at 5"},
		"decorated change": {storage.Event{Type: storage.Put, Item: after, Prev: before}, true, "old@5 at 5"},
		"removal":          {storage.Event{Type: storage.Delete, Item: gone, Prev: before}, true, "old at 5"},
	} {
		event := test.event
		if test.share {
			event.ShareLeft(decorate)
		}
		var wg sync.WaitGroup
		for range 4 {
			shared := event // events are passed by value
			wg.Go(func() {
				got := ""
				if item := shared.Left(); item != nil {
					got = fmt.Sprintf("%s at %d", item.Value, item.Revision)
				}
				if got != test.want {
					t.Errorf("%s: left %q, want %q", name, got, test.want)
				}
			})
		}
		wg.Wait()
	}
	if made != 1 {
		t.Errorf("the decorated state was made %d times", made)
	}
	if before.Revision != 3 || string(before.Value) != "old" {
		t.Errorf("the state before was changed: %+v", before)
	}
}
