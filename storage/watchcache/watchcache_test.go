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
func open(t testing.TB, config watchcache.Config) *watchcache.Cache {
	t.Helper()
	c, err := watchcache.New(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
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
