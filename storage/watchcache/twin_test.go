package watchcache_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/storage/memory"
	"github.com/proa-project/proa/storage/watchcache"
)

// outcome is what a call returned, in a form that can be compared.
type outcome struct {
	Revision int64
	Items    []string
	More     bool
	Err      string
}

func kind(err error) string {
	for _, known := range []error{
		storage.ErrNotFound, storage.ErrExists, storage.ErrConflict, storage.ErrCompacted, storage.ErrFutureRevision,
	} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if err != nil {
		return "unexpected: " + err.Error()
	}
	return ""
}

// TestTwin makes the same random calls to a cache and to the plain model, and
// compares every answer.
func TestTwin(t *testing.T) {
	t.Parallel()
	keys := []string{
		"/registry/pods/a/x", "/registry/pods/a/y", "/registry/pods/b/x", "/registry/podsmore/x", "/registry/nodes",
		"/registry/a.io/things/x", "/registry/a.io/thingsmore/x", "/proa/x",
	}
	prefixes := []string{"/registry/pods/", "/registry/pods/a/", "/registry/pods", "/registry/", "/registry/a.io/", "/registry/a.io/things/", "/", "/proa/"}
	rapid.Check(t, func(rt *rapid.T) {
		ctx := t.Context()
		twin := memory.New(memory.Config{})
		defer twin.Close()
		cache, err := watchcache.New(ctx, watchcache.Config{Store: memory.New(memory.Config{}), RingSize: 8})
		if err != nil {
			rt.Fatal(err)
		}
		defer cache.Close()
		revision := func() int64 { return int64(rapid.IntRange(0, 60).Draw(rt, "revision")) }
		for range rapid.IntRange(1, 60).Draw(rt, "calls") {
			key, prefix := rapid.SampledFrom(keys).Draw(rt, "key"), rapid.SampledFrom(prefixes).Draw(rt, "prefix")
			value := []byte(fmt.Sprint(rapid.IntRange(0, 9).Draw(rt, "value")))
			opts := storage.ListOptions{
				Match: rapid.SampledFrom([]storage.Match{storage.Fresh, storage.Exact}).Draw(rt, "match"), Revision: revision(),
				Limit: rapid.IntRange(0, 3).Draw(rt, "limit"), After: rapid.SampledFrom(append(keys, "", "", "")).Draw(rt, "after"),
			}
			if rapid.Bool().Draw(rt, "filter") {
				opts.Filter = func(i *storage.Item) bool { return i.Value[0]%2 == 0 }
			}
			expected, op := revision(), rapid.IntRange(0, 9).Draw(rt, "op")
			if item, err := twin.Get(ctx, key, storage.GetOptions{}); err == nil && op%2 == 0 {
				expected = item.Revision
			}
			call := func(s storage.Store) (o outcome) {
				var err error
				switch op {
				case 0, 1, 2:
					o.Revision, err = s.Create(ctx, key, value, 0)
				case 3, 4:
					o.Revision, err = s.Update(ctx, key, value, expected, 0)
				case 5:
					o.Revision, err = s.Delete(ctx, key, expected)
				case 6:
					var item storage.Item
					item, err = s.Get(ctx, key, storage.GetOptions{Match: opts.Match, Revision: opts.Revision})
					o.Items = append(o.Items, show(&item))
				case 7:
					if err = s.Compact(ctx, opts.Revision/4); err == nil {
						o.Revision, err = s.Current(ctx)
					}
				default:
					var l storage.List
					l, err = s.List(ctx, prefix, opts)
					o.Revision, o.More = l.Revision, l.More
					for i := range l.Items {
						o.Items = append(o.Items, show(&l.Items[i]))
					}
				}
				o.Err = kind(err)
				return o
			}
			if diff := cmp.Diff(call(twin), call(cache)); diff != "" {
				rt.Fatalf("op %d, key %q, prefix %q, expected %d, options %+v (-model +cache):\n%s", op, key, prefix, expected, opts, diff)
			}
		}
		compareHistories(rt, twin, cache, prefixes)
	})
}

// compareHistories watches both from several revisions.
func compareHistories(rt *rapid.T, twin, cache storage.Store, prefixes []string) {
	ctx := rt.Context()
	last, err := twin.Current(ctx)
	if err != nil {
		rt.Fatal(err)
	}
	for _, prefix := range prefixes {
		after := int64(rapid.IntRange(1, int(last)).Draw(rt, "after revision"))
		story := func(s storage.Store) (all []string) {
			w, err := s.Watch(ctx, prefix, storage.WatchOptions{After: after, Progress: true})
			if err != nil {
				return []string{kind(err)}
			}
			defer w.Close()
			for w.Progress() < last {
				events, err := w.Next(ctx)
				if err != nil {
					return append(all, kind(err))
				}
				for _, e := range events {
					all = append(all, fmt.Sprintf("%d %s | %s", e.Type, show(e.Item), show(e.Prev)))
				}
			}
			return all
		}
		want, got := story(twin), story(cache)
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatalf("changes of %q after %d (-model +cache):\n%s", prefix, after, diff)
		}
	}
}

// TestManyWatchers_hammer has a thousand watchers, filtered and not, follow
// several writers while readers list.
func TestManyWatchers_hammer(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := dressed(t, memory.New(memory.Config{}))
	const watchers, writers, n = 1000, 4, 50
	var ready, done sync.WaitGroup
	var events atomic.Int64
	for i := range watchers {
		opts, want := storage.WatchOptions{After: 1}, writers*n
		if i%2 == 1 {
			node := fmt.Sprint("n", i/2%writers)
			opts.Filter = func(i *storage.Item) bool { return i.Fields.Fields.Get("spec.nodeName") == node }
			want = n
		}
		ready.Add(1)
		done.Go(func() {
			w, err := c.Watch(ctx, "/registry/pods/", opts)
			ready.Done()
			if err != nil {
				t.Error(err)
				return
			}
			defer w.Close()
			last := int64(0)
			for got := 0; got < want; {
				batch, err := w.Next(ctx)
				if err != nil {
					t.Errorf("watcher %d: %v", i, err)
					return
				}
				for _, e := range batch {
					if e.Revision() <= last || !strings.HasSuffix(string(e.Item.Value), fmt.Sprint("@", e.Revision())) {
						t.Errorf("watcher %d: revision %d after %d, value %s", i, e.Revision(), last, e.Item.Value)
					}
					last = e.Revision()
				}
				got += len(batch)
				events.Add(int64(len(batch)))
			}
		})
	}
	ready.Wait()
	var writing sync.WaitGroup
	for writer := range writers {
		writing.Go(func() {
			for i := range n {
				must(c.Create(ctx, fmt.Sprintf("/registry/pods/a/%d-%d", writer, i), fmt.Appendf(nil, "node=n%d", writer), 0))
				l, err := c.List(ctx, "/registry/pods/", storage.ListOptions{})
				if err != nil || len(l.Items) < i+1 {
					t.Errorf("fresh List has %d items, error %v", len(l.Items), err)
				}
			}
		})
	}
	writing.Wait()
	done.Wait()
	if want := int64(watchers/2*writers*n + watchers/2*n); events.Load() != want {
		t.Errorf("%d events, want %d", events.Load(), want)
	}
}
