package watchcache

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/proa-project/proa/storage"
)

func contents(t tree, from, to position) []string {
	all := []string{}
	t.parts(from, to, func(items []*storage.Item) bool {
		for _, item := range items {
			all = append(all, fmt.Sprintf("%s=%d", item.Key, item.Revision))
		}
		return true
	})
	return all
}

func everything(t tree) []string {
	return contents(t, position{}, position{len(t.chunks), 0})
}

// TestTree compares a tree with a map, and old trees with what they were.
func TestTree(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		model := map[string]int64{}
		var start []*storage.Item
		for i := range rapid.IntRange(0, 600).Draw(t, "start") {
			key := fmt.Sprintf("k%04d", 2*i)
			start = append(start, &storage.Item{Key: key, Revision: 1})
			model[key] = 1
		}
		now := newTree(start)
		type version struct {
			t    tree
			want []string
		}
		var old []version
		changes := rapid.IntRange(1, 20).Draw(t, "changes")
		spread := rapid.IntRange(1, 1500).Draw(t, "spread")
		for number := range changes {
			e := editor{number: uint64(number) + 1, t: now}
			for range rapid.IntRange(0, 100).Draw(t, "edits") {
				key := fmt.Sprintf("k%04d", rapid.IntRange(0, spread).Draw(t, "key"))
				var before *storage.Item
				was, there := model[key]
				if rapid.IntRange(0, 2).Draw(t, "kind") == 0 {
					before = e.remove(key)
					delete(model, key)
				} else {
					model[key] = int64(number) + 2
					before = e.put(&storage.Item{Key: key, Revision: model[key]})
				}
				if there != (before != nil) || there && before.Revision != was {
					t.Fatalf("%q was at %d (%t), the tree says %+v", key, was, there, before)
				}
			}
			now = e.t
			want := []string{}
			for key, revision := range model {
				want = append(want, fmt.Sprintf("%s=%d", key, revision))
			}
			slices.Sort(want)
			old = append(old, version{now, want})
		}
		for i, v := range old {
			if got := everything(v.t); !slices.Equal(got, v.want) || v.t.size != len(v.want) {
				t.Fatalf("version %d has %d items (size %d), want %d", i, len(got), v.t.size, len(v.want))
			}
		}
		checkShape(t, now)
		checkSpans(t, now, model)
	})
}

// checkShape checks the invariant of a tree.
func checkShape(t *rapid.T, now tree) {
	for i, c := range now.chunks {
		if len(c.items) == 0 || len(c.items) > chunkSize || cap(c.items) > chunkSize {
			t.Fatalf("chunk %d has %d items, room for %d", i, len(c.items), cap(c.items))
		}
	}
}

func checkSpans(t *rapid.T, now tree, model map[string]int64) {
	for range 10 {
		prefix := rapid.StringMatching(`k?[0-9]{0,4}`).Draw(t, "prefix")
		after := rapid.StringMatching(`(k[0-9]{0,4}x?)?`).Draw(t, "after")
		want := []string{}
		for key, revision := range model {
			if strings.HasPrefix(key, prefix) && key > after {
				want = append(want, fmt.Sprintf("%s=%d", key, revision))
			}
		}
		slices.Sort(want)
		from, to := now.span(prefix, after)
		if got := contents(now, from, to); !slices.Equal(got, want) || now.count(from, to) != len(want) {
			t.Fatalf("keys with prefix %q after %q: %d counted, got %q, want %q", prefix, after, now.count(from, to), got, want)
		}
	}
	for key, revision := range model {
		if item := now.get(key); item == nil || item.Revision != revision {
			t.Fatalf("get(%q) is %+v, want revision %d", key, item, revision)
		}
	}
}

// TestRing checks that a ring keeps the newest events within its bounds and
// finds the first after any revision, also for readers with old views.
func TestRing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := limits{events: rapid.IntRange(1, 700).Draw(t, "events"), bytes: rapid.IntRange(1, 3000).Draw(t, "bytes")}
		r := ring{floor: 1}
		views := []ring{r}
		revision := int64(1)
		var all []int64
		for range rapid.IntRange(1, 1000).Draw(t, "n") {
			if len(all) == 0 || rapid.IntRange(0, 9).Draw(t, "same") > 0 {
				revision += int64(rapid.IntRange(1, 3).Draw(t, "step"))
			}
			value := make([]byte, rapid.IntRange(0, 50).Draw(t, "size"))
			r = r.add(storage.Event{Type: storage.Put, Item: &storage.Item{Revision: revision, Value: value}}, l)
			all = append(all, revision)
			views = append(views, r)
		}
		for i, view := range views {
			known := all[:i]
			if len(view.full) > 0 && (view.count > l.events || view.bytes > l.bytes) {
				t.Fatalf("%d events and %d bytes of at most %+v", view.count, view.bytes, l)
			}
			for _, after := range []int64{view.floor, view.floor + 1, view.newest() - 1, view.newest()} {
				if after < view.floor {
					continue
				}
				first, _ := slices.BinarySearch(known, after+1)
				var got []int64
				for events := view.after(after); len(events) > 0; events = view.after(after) {
					for _, e := range events {
						got = append(got, e.Revision())
					}
					after = got[len(got)-1]
				}
				if !slices.Equal(got, known[first:]) {
					t.Fatalf("events %v, want %v", got, known[first:])
				}
			}
		}
	})
}

func TestBucketName(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"/registry/pods/a/x":                 "/registry/pods/",
		"/registry/pods/":                    "/registry/pods/",
		"/registry/pods":                     "/registry/",
		"/registry/":                         "/registry/",
		"/registry/minions/n":                "/registry/minions/",
		"/registry/a.io/things/x":            "/registry/a.io/things/",
		"/registry/a.io/things/ns/x":         "/registry/a.io/things/",
		"/registry/a.io/things":              "/registry/",
		"/registry/a.io/":                    "/registry/",
		"/registry/services/specs/default/x": "/registry/services/",
	} {
		if got := bucketName("/registry/", key); got != want {
			t.Errorf("bucketName(%q) = %q, want %q", key, got, want)
		}
	}
}
