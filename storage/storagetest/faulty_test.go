package storagetest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/storage/memory"
	"github.com/proa-project/proa/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestFaultyHealthy checks that a Faulty without faults is a Store.
func TestFaultyHealthy(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, func(*testing.T) storage.Store {
		return storagetest.NewFaulty(memory.New(memory.Config{}))
	})
}

func TestFaulty(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	f := storagetest.NewFaulty(memory.New(memory.Config{}))
	defer f.Close()
	create := func(key string) error { _, err := f.Create(ctx, key, nil, 0); return err }

	f.FailNext(2, storage.ErrUnavailable, storagetest.Create)
	for i, want := range []error{storage.ErrUnavailable, storage.ErrUnavailable, nil, storage.ErrExists} {
		if err := create("/a"); !errors.Is(err, want) {
			t.Errorf("Create %d: %v, want %v", i, err, want)
		}
	}
	f.FailAfter(storage.ErrUnavailable, storagetest.Create)
	if err := create("/b"); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("Create with a lost answer: %v", err)
	}
	f.Heal()
	if err := create("/b"); !errors.Is(err, storage.ErrExists) {
		t.Errorf("Create after a lost answer: %v", err)
	}
	f.Hang(storagetest.Get)
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if _, err := f.Get(short, "/a", storage.GetOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Get that hangs: %v", err)
	}
	if n := f.Calls(storagetest.Get); n != 1 {
		t.Errorf("%d calls of Get", n)
	}
}

// TestFaultyWatcher checks that a fault reaches a watcher that waits.
func TestFaultyWatcher(t *testing.T) {
	t.Parallel()
	f := storagetest.NewFaulty(memory.New(memory.Config{}))
	defer f.Close()
	w, err := f.Watch(t.Context(), "/", storage.WatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	ended := make(chan error)
	go func() { _, err := w.Next(t.Context()); ended <- err }()
	f.Fail(storage.ErrUnavailable, storagetest.Next)
	if err := <-ended; !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("Next: %v", err)
	}
	f.Heal()
	if _, err := w.Next(t.Context()); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("Next of a watcher that has ended: %v", err)
	}
}
