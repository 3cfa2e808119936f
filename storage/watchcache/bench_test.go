package watchcache_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/storage/etcd"
	"github.com/proa-project/proa/storage/memory"
	"github.com/proa-project/proa/storage/watchcache"
)

var podValue = bytes.Repeat([]byte("0123456789abcdef"), 128) // 2 KiB, the size of a pod

// filled returns a cache with n pods in ten namespaces, one in a hundred of
// them with another label.
func filled(b *testing.B, n int) *watchcache.Cache {
	b.Helper()
	m := memory.New(memory.Config{})
	for i := range n {
		must(m.Create(b.Context(), fmt.Sprintf("/registry/pods/ns-%d/pod-%06d", i%10, i), podValue, 0))
	}
	i := 0
	return open(b, watchcache.Config{Store: m, Extract: func(string, []byte) (storage.Fields, error) {
		i++
		return storage.Fields{Labels: storage.Set{{"app", "web"}, {"tier", fmt.Sprint(i % 100)}}}, nil
	}})
}

// BenchmarkList lists 10,000 items of 2 KiB.
func BenchmarkList(b *testing.B) {
	c := filled(b, 10_000)
	ctx := context.Background()
	for _, test := range []struct {
		name   string
		prefix string
		opts   storage.ListOptions
		want   int
	}{
		{"all", "/registry/pods/", storage.ListOptions{}, 10_000},
		{"at-hand", "/registry/pods/", storage.ListOptions{Match: storage.NotOlderThan}, 10_000},
		{"namespace", "/registry/pods/ns-3/", storage.ListOptions{}, 1000},
		{"page", "/registry/pods/", storage.ListOptions{Limit: 500}, 500},
		{"label", "/registry/pods/", storage.ListOptions{Filter: func(i *storage.Item) bool { return i.Fields.Labels.Get("tier") == "7" }}, 100},
	} {
		b.Run(test.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				l, err := c.List(ctx, test.prefix, test.opts)
				if err != nil || len(l.Items) != test.want {
					b.Fatalf("%d items, %v", len(l.Items), err)
				}
			}
		})
	}
}

// BenchmarkGet gets one item of 10,000, fresh.
func BenchmarkGet(b *testing.B) {
	c := filled(b, 10_000)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := c.Get(context.Background(), "/registry/pods/ns-7/pod-005007", storage.GetOptions{}); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkFanOut updates one of 10,000 items while watchers follow; one
// operation is one event at one watcher.
func BenchmarkFanOut(b *testing.B) {
	for _, test := range []struct {
		name    string
		readers int
		filter  func(*storage.Item) bool
	}{
		{"watchers=1", 1, nil},
		{"watchers=100", 100, nil},
		{"watchers=1000", 1000, nil},
		{"watchers=1000,filtered", 1000, func(i *storage.Item) bool { return i.Fields.Labels.Get("app") == "web" }},
	} {
		b.Run(test.name, func(b *testing.B) {
			c := filled(b, 10_000)
			ctx := context.Background()
			events := max(1, b.N/test.readers)
			start, err := c.Current(ctx)
			if err != nil {
				b.Fatal(err)
			}
			const round = 200 // how far the writer runs ahead
			rounds := make([]sync.WaitGroup, events/round+1)
			var done sync.WaitGroup
			for i := range rounds {
				rounds[i].Add(test.readers)
			}
			for range test.readers {
				w := watch(b, c, "/registry/pods/", storage.WatchOptions{After: start, Filter: test.filter})
				done.Go(func() {
					for got := 0; got < events; {
						batch, nextErr := w.Next(ctx)
						if nextErr != nil {
							b.Error(nextErr)
							return
						}
						for range batch {
							if got++; got%round == 0 {
								rounds[got/round-1].Done()
							}
						}
					}
				})
			}
			const key = "/registry/pods/ns-7/pod-005007"
			item, err := c.Get(ctx, key, storage.GetOptions{})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.ResetTimer()
			revision := item.Revision
			for i := range events {
				if revision, err = c.Update(ctx, key, podValue, revision, 0); err != nil {
					b.Fatal(err)
				}
				if i >= 2*round && i%round == 0 {
					rounds[i/round-2].Wait()
				}
			}
			done.Wait()
		})
	}
}

// BenchmarkCreateOverEtcd creates items of 2 KiB through the cache, by 32
// writers, and reads each back fresh.
func BenchmarkCreateOverEtcd(b *testing.B) {
	s, err := etcd.Start(b.Context(), etcd.Config{DataDir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	c := open(b, watchcache.Config{Store: s})
	var mu sync.Mutex
	n := 0
	b.SetParallelism(16)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			mu.Lock()
			n++
			key := fmt.Sprintf("/registry/pods/default/pod-%08d", n)
			mu.Unlock()
			revision, err := c.Create(context.Background(), key, podValue, 0)
			if err != nil {
				b.Error(err)
				return
			}
			if item, err := c.Get(context.Background(), key, storage.GetOptions{}); err != nil || item.Revision != revision {
				b.Errorf("Get: revision %d, error %v, want %d", item.Revision, err, revision)
				return
			}
		}
	})
}
