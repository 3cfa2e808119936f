package library_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/wasmplugins/library"
)

// A failing store refuses writes of code while it is down.
type failing struct {
	storage.Store
	down *atomic.Bool
}

func (s failing) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (int64, error) {
	if s.down.Load() && strings.HasPrefix(key, "/proa/") {
		return 0, storage.ErrUnavailable
	}
	return s.Store.Create(ctx, key, value, ttl)
}

func (s failing) Get(ctx context.Context, key string, o storage.GetOptions) (storage.Item, error) {
	if s.down.Load() && strings.HasPrefix(key, "/proa/") {
		return storage.Item{}, storage.ErrUnavailable
	}
	return s.Store.Get(ctx, key, o)
}

// TestStoreDown: what the store of code cannot do is done later, and nothing is
// listed that could not be had.
func TestStoreDown(t *testing.T) {
	var down atomic.Bool
	down.Store(true)
	f := newFixture(t, func(c *library.Config) { c.Store = failing{c.Store, &down} })
	f.module("a", code(guest(1)))
	m := f.wait("a", "Unavailable")
	if len(m.Status.Versions) > 0 {
		t.Errorf("versions %v", digestsOf(m))
	}
	if err := f.upload("b", guest(2)); err == nil || !strings.Contains(err.Error(), "unavailable") {
		t.Errorf("got %v", err)
	}
	down.Store(false)
	f.until("the version is listed", func() bool { return len(f.wait("a", "Compiled").Status.Versions) == 1 })
	down.Store(true)
	f.get("a", "") // is in memory
	f.module("a", code(guest(2)))
	f.wait("a", "Unavailable")
	down.Store(false)
	f.wait("a", "Compiled")
	f.get("a", "")
}

// TestOrphans: what was uploaded and is named by nothing goes away, and what is
// uploaded again in time stays.
func TestOrphans(t *testing.T) {
	f := newFixture(t, func(c *library.Config) { c.OrphanGrace = 20 * time.Millisecond })
	if err := f.upload("a", guest(1)); err != nil {
		t.Fatal(err)
	}
	f.wait("a", "Compiled")
	if err := f.upload("a", []byte("\x00asm\x01\x00\x00\x00\xff")); err != nil {
		t.Fatal(err)
	}
	bad := f.wait("a", "InvalidModule").Status.Digest
	if err := f.upload("a", guest(2)); err != nil {
		t.Fatal(err)
	}
	f.wait("a", "Compiled")
	f.until("the bad code is removed", func() bool { return !f.stored(bad) })
	for _, d := range guestDigests(1, 2) {
		if !f.stored(d) {
			t.Errorf("%s is gone", d)
		}
	}
}
