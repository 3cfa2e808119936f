package watchcache_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/storage/etcd"
	"github.com/proa-project/proa/storage/memory"
	"github.com/proa-project/proa/storage/storagetest"
	"github.com/proa-project/proa/storage/watchcache"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open puts a cache in front of a store.
func open(tb testing.TB, config watchcache.Config) *watchcache.Cache {
	tb.Helper()
	c, err := watchcache.New(tb.Context(), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
	return c
}

func TestOverMemory(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, func(t *testing.T) storage.Store {
		t.Helper()
		return open(t, watchcache.Config{Store: memory.New(memory.Config{})})
	})
}

func TestOverEtcd(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, func(t *testing.T) storage.Store {
		t.Helper()
		s, err := etcd.Start(t.Context(), etcd.Config{DataDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		return open(t, watchcache.Config{Store: s})
	})
}

// TestOverItself puts a cache in front of a cache.
func TestOverItself(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, func(t *testing.T) storage.Store {
		t.Helper()
		return open(t, watchcache.Config{Store: open(t, watchcache.Config{Store: memory.New(memory.Config{})})})
	})
}

// watch begins a watch that ends with the test.
func watch(tb testing.TB, c *watchcache.Cache, prefix string, opts storage.WatchOptions) storage.Watcher {
	tb.Helper()
	w, err := c.Watch(tb.Context(), prefix, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(w.Close)
	return w
}

// pods lists /registry/pods/ and wants no error.
func pods(tb testing.TB, c *watchcache.Cache, opts storage.ListOptions) storage.List {
	tb.Helper()
	l, err := c.List(tb.Context(), "/registry/pods/", opts)
	if err != nil {
		tb.Fatal(err)
	}
	return l
}
