package memory_test

import (
	"errors"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/storage/memory"
	"github.com/proa-project/proa/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, func(*testing.T) storage.Store { return memory.New(memory.Config{}) })
}

// TestHistory checks that the history is bounded.
func TestHistory(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Config{History: 100})
	defer s.Close()
	ctx := t.Context()
	var revision int64
	var err error
	for i := range 1000 {
		if revision, err = s.Create(ctx, fmt.Sprintf("/registry/pods/%d", i), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err = s.Watch(ctx, "/registry/", storage.WatchOptions{After: 1}); !errors.Is(err, storage.ErrCompacted) {
		t.Errorf("Watch from the beginning: %v", err)
	}
	w, err := s.Watch(ctx, "/registry/", storage.WatchOptions{After: revision - 90})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if events, err := w.Next(ctx); err != nil || len(events) != 90 {
		t.Errorf("%d recent events, error %v; want 90", len(events), err)
	}
}
