package watchcache_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/storage/etcd"
	"github.com/proa-project/proa/storage/memory"
	"github.com/proa-project/proa/storage/storagetest"
	"github.com/proa-project/proa/storage/watchcache"
)

const pod = "/registry/pods/a/x"

var atHand = storage.GetOptions{Match: storage.NotOlderThan}

// eventually repeats try until it succeeds or half a minute is over.
func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// TestUnavailable loses the store below and gets it again: reads from the
// cache go on, fresh reads fail, and watchers miss nothing.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	m := memory.New(memory.Config{})
	f := storagetest.NewFaulty(m)
	c := open(t, watchcache.Config{Store: f})
	must(c.Create(ctx, pod, []byte("one"), 0)) // 2
	if _, err := c.Get(ctx, pod, storage.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	w := watch(t, c, "/registry/pods/", storage.WatchOptions{})

	f.Fail(storage.ErrUnavailable)
	eventually(t, "notice of the loss", func() error {
		if c.Err() == nil {
			return errors.New("no trouble is known")
		}
		return nil
	})
	must(m.Update(ctx, pod, []byte("two"), 2, 0)) // 3, by somebody else
	if item, err := c.Get(ctx, pod, atHand); err != nil || string(item.Value) != "one" {
		t.Errorf("Get of what is at hand: %q, %v", item.Value, err)
	}
	if l, err := c.List(ctx, "/registry/pods/", storage.ListOptions{Match: storage.NotOlderThan, Revision: 2}); err != nil || len(l.Items) != 1 {
		t.Errorf("List of what is at hand: %d items, %v", len(l.Items), err)
	}
	if l, err := c.List(ctx, "/registry/pods/", storage.ListOptions{Match: storage.Exact, Revision: 2}); err != nil || len(l.Items) != 1 {
		t.Errorf("List as of the cache's revision: %d items, %v", len(l.Items), err)
	}
	for name, call := range map[string]func() error{
		"Get":    func() error { _, err := c.Get(ctx, pod, storage.GetOptions{}); return err },
		"List":   func() error { _, err := c.List(ctx, "/registry/pods/", storage.ListOptions{}); return err },
		"Update": func() error { _, err := c.Update(ctx, pod, nil, 2, 0); return err },
		"Watch":  func() error { _, err := c.Watch(ctx, "/registry/pods/", storage.WatchOptions{}); return err },
	} {
		if err := call(); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("%s without the store: %v", name, err)
		}
	}

	f.Heal()
	if events, err := w.Next(ctx); err != nil || len(events) != 1 || events[0].Revision() != 3 || events[0].Prev == nil || string(events[0].Prev.Value) != "one" {
		t.Errorf("events after the loss: %+v, %v", events, err)
	}
	eventually(t, "recovery", c.Err)
	if item, err := c.Get(ctx, pod, storage.GetOptions{}); err != nil || string(item.Value) != "two" {
		t.Errorf("fresh Get after the loss: %q, %v", item.Value, err)
	}
}

// TestMissed compacts the store while the cache is cut off from it: the cache
// lists again and ends its watchers.
func TestMissed(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	m := memory.New(memory.Config{})
	f := storagetest.NewFaulty(m)
	c := open(t, watchcache.Config{Store: f})
	must(c.Create(ctx, pod, []byte("one"), 0)) // 2
	var watchers []storage.Watcher
	for _, prefix := range []string{"/registry/pods/", "/registry/nodes/", "/registry/"} {
		watchers = append(watchers, watch(t, c, prefix, storage.WatchOptions{}))
	}
	eventually(t, "the first state", func() error {
		if c.Revision() < 2 {
			return errors.New("not yet")
		}
		return nil
	})
	f.Fail(storage.ErrUnavailable, storagetest.Next, storagetest.Watch)
	eventually(t, "notice of the loss", func() error {
		if c.Err() == nil {
			return errors.New("no trouble is known")
		}
		return nil
	})
	must(m.Delete(ctx, pod, 2))                                 // 3
	must(m.Create(ctx, "/registry/pods/a/y", []byte("new"), 0)) // 4
	if err := m.Compact(ctx, 4); err != nil {
		t.Fatal(err)
	}
	must(m.Create(ctx, "/registry/pods/a/z", []byte("newer"), 0)) // 5
	// A fresh read does not wait for the cache for ever.
	if _, err := c.Get(ctx, pod, storage.GetOptions{}); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("fresh Get of a removed key while the cache is cut off: %v", err)
	}
	f.Heal()
	for i, w := range watchers {
		if _, err := w.Next(ctx); !errors.Is(err, storage.ErrCompacted) {
			t.Errorf("watcher %d after missed changes: %v", i, err)
		}
	}
	l, err := c.List(ctx, "/registry/pods/", storage.ListOptions{Match: storage.NotOlderThan, Revision: 5})
	if err != nil || len(l.Items) != 2 {
		t.Errorf("List after missed changes: %d items, %v", len(l.Items), err)
	}
	w := watch(t, c, "/registry/pods/", storage.WatchOptions{After: 4})
	if events, err := w.Next(ctx); err != nil || len(events) != 1 || events[0].Revision() != 5 {
		t.Errorf("events from the history: %+v, %v", events, err)
	}
}

// TestBehind stops the cache's news: a fresh read goes to the store after a
// while, and what comes from there is dressed.
func TestBehind(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	f := storagetest.NewFaulty(memory.New(memory.Config{}))
	c := open(t, watchcache.Config{Store: f, FreshWait: 10 * time.Millisecond, Decorate: decorate, Extract: extract})
	f.Hang(storagetest.Next)
	must(c.Create(ctx, pod, []byte("app=web"), 0))
	want := pod + ": app=web@2 at 2, [[app web]] []"
	item, err := c.Get(ctx, pod, storage.GetOptions{})
	if err != nil || show(&item) != want {
		t.Errorf("fresh Get: %s, %v; want %s", show(&item), err, want)
	}
	l, err := c.List(ctx, "/registry/pods/", storage.ListOptions{Filter: func(i *storage.Item) bool { return i.Fields.Labels.Get("app") == "web" }})
	if err != nil || len(l.Items) != 1 || show(&l.Items[0]) != want {
		t.Errorf("fresh List: %+v, %v", l, err)
	}
	if _, err := c.Get(ctx, pod, atHand); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("the cache is not behind: %v", err)
	}
}

// TestSlowWatcher leaves a watcher behind: it ends with ErrCompacted, nobody
// waits for it, and it can come back through the store's history.
func TestSlowWatcher(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	registry := prometheus.NewRegistry()
	c := open(t, watchcache.Config{Store: memory.New(memory.Config{}), RingSize: 100, Metrics: registry})
	slow := watch(t, c, "/registry/pods/", storage.WatchOptions{})
	elsewhere := watch(t, c, "/registry/nodes/", storage.WatchOptions{})
	const n = 1000
	for i := range n {
		must(c.Create(ctx, fmt.Sprintf("/registry/pods/a/%04d", i), []byte("v"), 0))
	}
	last := pods(t, c, storage.ListOptions{}).Revision
	seen := slow.Progress()
	if _, err := slow.Next(ctx); !errors.Is(err, storage.ErrCompacted) {
		t.Errorf("Next of a slow watcher: %v", err)
	}
	if p := elsewhere.Progress(); p != last {
		t.Errorf("Progress of a watcher of another resource is %d, want %d", p, last)
	}
	back := watch(t, c, "/registry/pods/", storage.WatchOptions{After: seen})
	for got := 0; got < n; {
		events, err := back.Next(ctx)
		if err != nil {
			t.Fatalf("after %d events: %v", got, err)
		}
		for _, e := range events {
			if want := fmt.Sprintf("/registry/pods/a/%04d", got); e.Item.Key != want {
				t.Fatalf("event of %q, want %q", e.Item.Key, want)
			}
			got++
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "apiserver_terminated_watchers_total" && f.GetMetric()[0].GetCounter().GetValue() != 1 {
			t.Errorf("%v terminated watchers, want 1", f.GetMetric())
		}
	}
}

// TestPagesFromMemory checks that a list which goes on is answered from what
// was kept, whatever happened in between.
func TestPagesFromMemory(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	f := storagetest.NewFaulty(memory.New(memory.Config{}))
	c := open(t, watchcache.Config{Store: f})
	const n = 500
	for i := range n {
		must(c.Create(ctx, fmt.Sprintf("/registry/pods/a/%04d", i), []byte("v"), 0))
	}
	l := pods(t, c, storage.ListOptions{Limit: 100})
	before := f.Calls(storagetest.List)
	got := l.Items
	for l.More {
		must(c.Delete(ctx, fmt.Sprintf("/registry/pods/a/%04d", n-1-len(got)/100), int64(n-len(got)/100+1)))
		must(c.Create(ctx, fmt.Sprintf("/registry/pods/a/%04d-new", len(got)+50), nil, 0))
		pods(t, c, storage.ListOptions{}) // all is in the cache
		after := l.Items[len(l.Items)-1].Key
		l = pods(t, c, storage.ListOptions{Match: storage.Exact, Revision: l.Revision, Limit: 100, After: after})
		got = append(got, l.Items...)
	}
	if len(got) != n {
		t.Errorf("%d items on all pages, want %d", len(got), n)
	}
	for i, item := range got {
		if want := fmt.Sprintf("/registry/pods/a/%04d", i); item.Key != want {
			t.Fatalf("item %d is %q, want %q", i, item.Key, want)
		}
	}
	if after := f.Calls(storagetest.List); after != before {
		t.Errorf("the store was listed %d times", after-before)
	}
}

// TestWriteElsewhere checks that a fresh read does not wait in vain for an
// event when the last write was to a key that is not cached.
func TestWriteElsewhere(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, err := etcd.Start(ctx, etcd.Config{DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	c := open(t, watchcache.Config{Store: s, FreshWait: 10 * time.Second, Metrics: registry})
	must(c.Create(ctx, pod, nil, 0))
	for i := range 20 {
		must(c.Create(ctx, fmt.Sprintf("/proa/%d", i), nil, 0))
		begin := time.Now()
		if _, err := c.Get(ctx, pod, storage.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("a fresh read after a write elsewhere took %v", took)
		}
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	m := memory.New(memory.Config{})
	defer m.Close()
	for _, config := range []watchcache.Config{{}, {Store: m, Prefix: "/registry"}, {Store: m, RingSize: -1}} {
		if _, err := watchcache.New(t.Context(), config); err == nil {
			t.Errorf("New(%+v) succeeded", config)
		}
	}
	f := storagetest.NewFaulty(m)
	f.Fail(storage.ErrUnavailable)
	if _, err := watchcache.New(t.Context(), watchcache.Config{Store: f}); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("New on a store that is lost: %v", err)
	}
}
