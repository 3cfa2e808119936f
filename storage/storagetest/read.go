//nolint:thelper // these are tests, not helpers: the line that fails matters
package storagetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/proa-project/proa/storage"
)

func testGet(t *testing.T, s storage.Store) {
	ctx := bounded(t)
	for _, match := range []storage.Match{storage.Fresh, storage.NotOlderThan} {
		_, err := s.Get(ctx, "/registry/pods/a/x", storage.GetOptions{Match: match})
		wantError(t, "Get from an empty store", err, storage.ErrNotFound)
	}
	revision := create(t, s, "/registry/pods/a/x", "one")
	for _, key := range []string{"/registry/pods/a/", "/registry/pods/a", "/registry/pods/a/xy"} {
		_, err := s.Get(ctx, key, storage.GetOptions{})
		wantError(t, fmt.Sprintf("Get(%q)", key), err, storage.ErrNotFound)
	}
	item, err := s.Get(ctx, "/registry/pods/a/x", storage.GetOptions{Match: storage.NotOlderThan, Revision: revision})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := entryOf(&item), (entry{"/registry/pods/a/x", "one", revision}); got != want {
		t.Errorf("Get returned %+v, want %+v", got, want)
	}
}

func testGetExact(t *testing.T, s storage.Store) {
	ctx := bounded(t)
	const key = "/registry/pods/a/x"
	first := create(t, s, key, "one")
	second := update(t, s, key, "two", first)
	removed := remove(t, s, key, second)
	last := create(t, s, "/registry/pods/a/y", "other")
	for _, test := range []struct {
		at   int64
		want entry
		err  error
	}{
		{first - 1, entry{}, storage.ErrNotFound},
		{first, entry{key, "one", first}, nil},
		{second, entry{key, "two", second}, nil},
		{removed, entry{}, storage.ErrNotFound},
		{last, entry{}, storage.ErrNotFound},
		{last + 1000, entry{}, storage.ErrFutureRevision},
	} {
		item, err := s.Get(ctx, key, storage.GetOptions{Match: storage.Exact, Revision: test.at})
		if !errors.Is(err, test.err) || entryOf(&item) != test.want {
			t.Errorf("Get at %d: %+v, error %v; want %+v, error %v", test.at, entryOf(&item), err, test.want, test.err)
		}
	}
}

// fill creates keys below /registry/pods/a/ in an order that is not theirs and
// returns them in order.
func fill(t *testing.T, s storage.Store, n int) []entry {
	t.Helper()
	all := []entry{}
	for i := range n {
		key := fmt.Sprintf("/registry/pods/a/%03d", i*7%n)
		value := fmt.Sprintf("value %d", i)
		all = append(all, entry{key, value, create(t, s, key, value)})
	}
	slices.SortFunc(all, func(a, b entry) int { return strings.Compare(a.Key, b.Key) })
	return all
}

func testList(t *testing.T, s storage.Store) {
	empty := list(t, s, "/registry/pods/", storage.ListOptions{})
	if len(empty.Items) != 0 || empty.More || empty.Revision < 1 {
		t.Errorf("List of an empty store: %+v", empty)
	}
	want := fill(t, s, 50)
	last := create(t, s, "/registry/nodes/n", "node")
	l := list(t, s, "/registry/pods/", storage.ListOptions{})
	wantEntries(t, "fresh List", entries(l), want)
	if l.Revision != last || l.More {
		t.Errorf("revision %d, more %t; want revision %d and no more", l.Revision, l.More, last)
	}
	l = list(t, s, "/registry/pods/", storage.ListOptions{Match: storage.NotOlderThan, Revision: last})
	wantEntries(t, "List not older than the last write", entries(l), want)
}

func testListPrefix(t *testing.T, s storage.Store) {
	keys := []string{
		"/proa/x", "/registry/a.io/things/x", "/registry/a.io/things/y", "/registry/a.io/thingsmore/x",
		"/registry/nodes", "/registry/pods/a/x", "/registry/pods/ab/x", "/registry/pods/b/x", "/registry/podsmore/x", "/registry/pods\xff/x",
	}
	for _, key := range keys {
		create(t, s, key, "v")
	}
	for _, prefix := range []string{
		"", "/", "/proa/", "/registry/", "/registry/pods", "/registry/pods/", "/registry/pods/a", "/registry/pods/a/", "/registry/pods/a/x",
		"/registry/pods/a/xy", "/registry/a.io/", "/registry/a.io/things/", "/registry/a.io/things", "/registry/n", "/registry/pods\xff", "/z",
	} {
		want := []string{}
		for _, key := range keys {
			if strings.HasPrefix(key, prefix) {
				want = append(want, key)
			}
		}
		got := []string{}
		for _, item := range list(t, s, prefix, storage.ListOptions{}).Items {
			got = append(got, item.Key)
		}
		if !slices.Equal(got, want) {
			t.Errorf("List(%q) has %q, want %q", prefix, got, want)
		}
	}
}

func testListLimit(t *testing.T, s storage.Store) {
	all := fill(t, s, 10)
	create(t, s, "/registry/podsmore/x", "not below the prefix")
	for _, test := range []struct {
		limit     int
		after     string
		want      []entry
		more      bool
		remaining int64
	}{
		{0, "", all, false, 0},
		{3, "", all[:3], true, 7},
		{9, "", all[:9], true, 1},
		{10, "", all, false, 0},
		{11, "", all, false, 0},
		{3, all[2].Key, all[3:6], true, 4},
		{7, all[2].Key, all[3:], false, 0},
		{0, all[2].Key, all[3:], false, 0},
		{2, all[2].Key + "x", all[3:5], true, 5}, // a key that is not there
		{2, all[9].Key, all[10:], false, 0},
		{2, "/registry/a", all[:2], true, 8},
		{2, "/registry/z", all[10:], false, 0},
	} {
		what := fmt.Sprintf("List with limit %d after %q", test.limit, test.after)
		l := list(t, s, "/registry/pods/", storage.ListOptions{Limit: test.limit, After: test.after})
		wantEntries(t, what, entries(l), test.want)
		if l.More != test.more {
			t.Errorf("%s: more is %t", what, l.More)
		}
		if l.More && l.Remaining != test.remaining && l.Remaining != -1 {
			t.Errorf("%s: %d remain, want %d", what, l.Remaining, test.remaining)
		}
	}
}

// testListPages goes on with a list as of its revision while others write.
func testListPages(t *testing.T, s storage.Store) {
	all := fill(t, s, 20)
	page := list(t, s, "/registry/pods/", storage.ListOptions{Limit: 6})
	revision, got := page.Revision, entries(page)
	for round := 0; page.More; round++ {
		remove(t, s, all[19-round].Key, all[19-round].Revision)
		create(t, s, fmt.Sprintf("%s-%d", all[10].Key, round), "new")
		update(t, s, all[12+round].Key, "changed", all[12+round].Revision)
		page = list(t, s, "/registry/pods/", storage.ListOptions{
			Match: storage.Exact, Revision: revision, Limit: 6, After: page.Items[len(page.Items)-1].Key,
		})
		if page.Revision != revision {
			t.Errorf("a page as of %d has revision %d", revision, page.Revision)
		}
		got = append(got, entries(page)...)
	}
	wantEntries(t, "all pages", got, all)
}

func testListFilter(t *testing.T, s storage.Store) {
	all := fill(t, s, 10)
	for _, match := range []storage.Match{storage.Fresh, storage.Exact} {
		l := list(t, s, "/registry/pods/", storage.ListOptions{Match: match, Revision: all[0].Revision, Filter: func(i *storage.Item) bool {
			return i.Key == all[0].Key && string(i.Value) == all[0].Value && i.Revision == all[0].Revision
		}})
		wantEntries(t, "filtered List", entries(l), all[:1])
		l = list(t, s, "/registry/pods/", storage.ListOptions{Match: match, Revision: all[0].Revision, Filter: func(*storage.Item) bool { return false }})
		if len(l.Items) != 0 || l.More || l.Revision < 1 {
			t.Errorf("List with a filter that keeps nothing: %+v", l)
		}
	}
}

func testListFilterLimit(t *testing.T, s storage.Store) {
	const n = 1200 // more than a Store is likely to fetch at once
	want := []entry{}
	for i := range n {
		key, value := fmt.Sprintf("/registry/pods/a/%04d", i), "plain"
		if i%300 == 7 {
			value = "special" // 7, 307, 607, 907
		}
		revision := create(t, s, key, value)
		if value == "special" {
			want = append(want, entry{key, value, revision})
		}
	}
	special := func(i *storage.Item) bool { return string(i.Value) == "special" }
	for _, test := range []struct {
		limit int
		after string
		want  []entry
		more  bool
	}{
		{1, "", want[:1], true},
		{3, "", want[:3], true},
		{4, "", want, false},
		{0, "", want, false},
		{2, want[0].Key, want[1:3], true},
		{3, want[0].Key, want[1:], false},
		{3, want[3].Key, want[4:], false},
	} {
		what := fmt.Sprintf("List with limit %d after %q", test.limit, test.after)
		l := list(t, s, "/registry/pods/", storage.ListOptions{Limit: test.limit, After: test.after, Filter: special})
		wantEntries(t, what, entries(l), test.want)
		if l.More != test.more {
			t.Errorf("%s: more is %t", what, l.More)
		}
		if l.More && l.Remaining != -1 {
			t.Errorf("%s: %d remain, which a filtered list cannot know", what, l.Remaining)
		}
	}
}

func testListExact(t *testing.T, s storage.Store) {
	const prefix, key, other = "/registry/pods/", "/registry/pods/a/x", "/registry/pods/a/y"
	base := current(t, s)
	states := map[int64][]entry{base: {}}
	first := create(t, s, key, "one")
	states[first] = []entry{{key, "one", first}}
	second := create(t, s, other, "two")
	states[second] = []entry{{key, "one", first}, {other, "two", second}}
	third := update(t, s, key, "three", first)
	states[third] = []entry{{key, "three", third}, {other, "two", second}}
	outside := create(t, s, "/registry/nodes/n", "elsewhere")
	states[outside] = states[third]
	fourth := remove(t, s, other, second)
	states[fourth] = []entry{{key, "three", third}}
	for revision, want := range states {
		l := list(t, s, prefix, storage.ListOptions{Match: storage.Exact, Revision: revision})
		wantEntries(t, fmt.Sprintf("List at %d", revision), entries(l), want)
		if l.Revision != revision {
			t.Errorf("List at %d has revision %d", revision, l.Revision)
		}
	}
	_, err := s.List(bounded(t), prefix, storage.ListOptions{Match: storage.Exact, Revision: fourth + 1000})
	wantError(t, "List at a future revision", err, storage.ErrFutureRevision)
}

func testListKeysOnly(t *testing.T, s storage.Store) {
	all := fill(t, s, 10)
	for _, limit := range []int{0, 4} {
		l := list(t, s, "/registry/pods/", storage.ListOptions{KeysOnly: true, Limit: limit})
		for i, item := range l.Items {
			if item.Key != all[i].Key || item.Revision != all[i].Revision {
				t.Errorf("item %d is %q at %d, want %+v", i, item.Key, item.Revision, all[i])
			}
		}
		if want := cmp.Or(limit, len(all)); len(l.Items) != want {
			t.Errorf("%d items, want %d", len(l.Items), want)
		}
	}
}

// testListOwned checks that the caller may do with the slice what it likes.
func testListOwned(t *testing.T, s storage.Store) {
	want := fill(t, s, 10)
	revision := current(t, s)
	for range 2 {
		l := list(t, s, "/registry/pods/", storage.ListOptions{Match: storage.NotOlderThan, Revision: revision})
		wantEntries(t, "List", entries(l), want)
		clear(l.Items)
		_ = append(l.Items, storage.Item{Key: "mine"})
	}
}

func testNotOlderThan(t *testing.T, s storage.Store) {
	ctx := bounded(t)
	if _, err := s.List(ctx, "/registry/", storage.ListOptions{Match: storage.NotOlderThan}); err != nil {
		t.Errorf("List of whatever is at hand: %v", err)
	}
	const key = "/registry/pods/a/x"
	revision := create(t, s, key, "v")
	for range 50 {
		revision = update(t, s, key, "v", revision)
		item, err := s.Get(ctx, key, storage.GetOptions{Match: storage.NotOlderThan, Revision: revision})
		if err != nil || item.Revision < revision {
			t.Fatalf("Get not older than %d: revision %d, error %v", revision, item.Revision, err)
		}
		l := list(t, s, "/registry/", storage.ListOptions{Match: storage.NotOlderThan, Revision: revision})
		if l.Revision < revision || l.Items[0].Revision < revision {
			t.Fatalf("List not older than %d: revision %d", revision, l.Revision)
		}
	}
	// A reader may be ahead of the store for a moment.
	type result struct {
		list storage.List
		err  error
	}
	done := make(chan result)
	go func() {
		l, err := s.List(ctx, "/registry/", storage.ListOptions{Match: storage.NotOlderThan, Revision: revision + 1})
		done <- result{l, err}
	}()
	create(t, s, "/registry/pods/a/y", "v")
	if r := <-done; r.err != nil || len(r.list.Items) != 2 {
		t.Errorf("List that waited: %+v, error %v", entries(r.list), r.err)
	}
}

func testFutureRevision(t *testing.T, s storage.Store) {
	ctx := bounded(t)
	revision := create(t, s, "/registry/pods/a/x", "v")
	start := time.Now()
	_, err := s.List(ctx, "/registry/", storage.ListOptions{Match: storage.NotOlderThan, Revision: revision + 1000})
	wantError(t, "List not older than the future", err, storage.ErrFutureRevision)
	var figures *storage.RevisionError
	if !errors.As(err, &figures) || figures.Requested != revision+1000 || figures.Limit < revision || figures.Limit >= revision+1000 {
		t.Errorf("the error has no figures: %#v", err)
	}
	if waited := time.Since(start); waited > 15*time.Second {
		t.Errorf("the wait took %v", waited)
	}
	_, err = s.Get(ctx, "/registry/pods/a/x", storage.GetOptions{Match: storage.NotOlderThan, Revision: revision + 1000})
	wantError(t, "Get not older than the future", err, storage.ErrFutureRevision)
}

func testCompact(t *testing.T, s storage.Store) {
	ctx := bounded(t)
	const key, gone = "/registry/pods/a/x", "/registry/pods/a/gone"
	first := create(t, s, key, "one")
	removed := remove(t, s, gone, create(t, s, gone, "v"))
	second := update(t, s, key, "two", first)
	third := update(t, s, key, "three", second)
	last := create(t, s, "/registry/pods/a/y", "other")
	if err := s.Compact(ctx, second); err != nil {
		t.Fatal(err)
	}
	for _, revision := range []int64{1, first, removed} {
		_, err := s.List(ctx, "/registry/", storage.ListOptions{Match: storage.Exact, Revision: revision})
		wantError(t, fmt.Sprintf("List at %d after compaction at %d", revision, second), err, storage.ErrCompacted)
		_, err = s.Get(ctx, key, storage.GetOptions{Match: storage.Exact, Revision: revision})
		wantError(t, fmt.Sprintf("Get at %d after compaction at %d", revision, second), err, storage.ErrCompacted)
	}
	for revision, want := range map[int64]entry{second: {key, "two", second}, third: {key, "three", third}, last: {key, "three", third}} {
		l := list(t, s, key, storage.ListOptions{Match: storage.Exact, Revision: revision})
		wantEntries(t, fmt.Sprintf("List at %d", revision), entries(l), []entry{want})
	}
	if err := s.Compact(ctx, first); err != nil {
		t.Errorf("Compact of what is compacted: %v", err)
	}
	if err := s.Compact(ctx, second); err != nil {
		t.Errorf("Compact twice: %v", err)
	}
	wantError(t, "Compact of the future", s.Compact(ctx, last+1000), storage.ErrFutureRevision)
	if l := list(t, s, "/registry/", storage.ListOptions{}); len(l.Items) != 2 || l.Revision != last {
		t.Errorf("List after compaction: revision %d, %+v", l.Revision, entries(l))
	}
}

func testCompactCurrent(t *testing.T, s storage.Store) {
	all := fill(t, s, 5)
	revision := current(t, s)
	if err := s.Compact(bounded(t), revision); err != nil {
		t.Fatal(err)
	}
	for _, opts := range []storage.ListOptions{{}, {Match: storage.Exact, Revision: revision}} {
		wantEntries(t, "List after compaction of everything", entries(list(t, s, "/registry/", opts)), all)
	}
	all[0].Revision = update(t, s, all[0].Key, "changed", all[0].Revision)
	all[0].Value = "changed"
	wantEntries(t, "List after one more change", entries(list(t, s, "/registry/", storage.ListOptions{})), all)
}
