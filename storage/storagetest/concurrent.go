//nolint:thelper // these are tests, not helpers: the line that fails matters
package storagetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/proa-project/proa/storage"
)

// churn has workers write random changes to few keys until each has made n,
// and returns the acknowledged revisions in order.
func churn(ctx context.Context, t *testing.T, s storage.Store, workers, n int) []int64 {
	t.Helper()
	var mu sync.Mutex // guards acknowledged
	var acknowledged []int64
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(worker), 1)) //nolint:gosec // no secret
			for made := 0; made < n; {
				key := fmt.Sprintf("/registry/pods/%c/%d", 'a'+random.IntN(3), random.IntN(6))
				revision, err := step(ctx, s, random, key)
				switch {
				case err == nil:
					made++
					mu.Lock()
					acknowledged = append(acknowledged, revision)
					mu.Unlock()
				case errors.Is(err, storage.ErrConflict), errors.Is(err, storage.ErrNotFound), errors.Is(err, storage.ErrExists):
				default:
					t.Errorf("worker %d: %v", worker, err)
					return
				}
			}
		})
	}
	wg.Wait()
	slices.Sort(acknowledged)
	return acknowledged
}

// step makes one change that suits the state of key.
func step(ctx context.Context, s storage.Store, random *rand.Rand, key string) (int64, error) {
	value := []byte(fmt.Sprint("value ", random.IntN(1000)))
	item, err := s.Get(ctx, key, storage.GetOptions{Match: storage.NotOlderThan})
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return s.Create(ctx, key, value, 0)
	case err != nil:
		return 0, err
	case random.IntN(4) == 0:
		return s.Delete(ctx, key, item.Revision)
	}
	return s.Update(ctx, key, value, item.Revision, 0)
}

// testConcurrent checks that watchers which begin at any moment see every
// acknowledged change once, in order, with the right state before it.
func testConcurrent(t *testing.T, s storage.Store) {
	ctx := bounded(t)
	const workers, n = 4, 150
	start := current(t, s)
	written := make(chan []int64)
	go func() { written <- churn(ctx, t, s, workers, n) }()

	const watchers = 12
	var mu sync.Mutex // guards seen
	seen := map[int][]change{}
	starts := map[int]int64{}
	watchCtx, stop := context.WithCancel(ctx)
	var final atomic.Int64
	var wg sync.WaitGroup
	for i := range watchers {
		after := start
		if i%3 != 0 {
			after = current(t, s)
		}
		w := watch(t, s, "/registry/pods/", storage.WatchOptions{After: after})
		starts[i] = after
		wg.Go(func() {
			changes, err := follow(ctx, watchCtx, w, &final)
			if err != nil {
				t.Errorf("watcher %d: %v", i, err)
			}
			mu.Lock()
			seen[i] = changes
			mu.Unlock()
		})
	}
	acknowledged := <-written
	if t.Failed() {
		stop()
		return
	}
	final.Store(acknowledged[len(acknowledged)-1])
	stop()
	wg.Wait()
	state := entries(list(t, s, "/registry/pods/", storage.ListOptions{}))
	for i := range watchers {
		first, _ := slices.BinarySearch(acknowledged, starts[i]+1)
		checkStory(t, s, i, starts[i], seen[i], acknowledged[first:], state)
	}
}

// follow returns the changes of a watcher. When all is written, writing ends
// and final is the last revision: then it reads the rest.
func follow(ctx, writing context.Context, w storage.Watcher, final *atomic.Int64) ([]change, error) {
	var changes []change
	for last := int64(0); last == 0 || w.Progress() < last; last = final.Load() {
		events, err := w.Next(writing)
		if err != nil && writing.Err() != nil && final.Load() > 0 {
			if w.Progress() >= final.Load() {
				break
			}
			events, err = w.Next(ctx)
		}
		if err != nil {
			return changes, err
		}
		for i := range events {
			changes = append(changes, changeOf(&events[i]))
		}
	}
	return changes, nil
}

// replay applies a change to a state.
func replay(state map[string]entry, c change) {
	if c.Type == storage.Delete {
		delete(state, c.Item.Key)
	} else {
		state[c.Item.Key] = c.Item
	}
}

// inOrder returns the entries of a state sorted by key.
func inOrder(state map[string]entry) []entry {
	all := []entry{}
	for _, e := range state {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b entry) int { return strings.Compare(a.Key, b.Key) })
	return all
}

// checkStory replays what a watcher saw.
func checkStory(t *testing.T, s storage.Store, id int, after int64, changes []change, revisions []int64, final []entry) {
	t.Helper()
	got := []int64{}
	for _, c := range changes {
		got = append(got, c.Item.Revision)
	}
	if !slices.Equal(got, revisions) {
		t.Errorf("watcher %d after %d saw %d revisions, %d were written; first difference at index %d",
			id, after, len(got), len(revisions), firstDifference(got, revisions))
		return
	}
	state := map[string]entry{}
	for _, e := range entries(list(t, s, "/registry/pods/", storage.ListOptions{Match: storage.Exact, Revision: after})) {
		state[e.Key] = e
	}
	for _, c := range changes {
		if before := state[c.Item.Key]; c.Prev != before {
			t.Errorf("watcher %d: change %+v, but the state was %+v", id, c, before)
		}
		replay(state, c)
	}
	wantEntries(t, fmt.Sprintf("state that watcher %d arrived at", id), inOrder(state), final)
}

func firstDifference(a, b []int64) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// testConcurrentList checks that lists which are taken during writes show the
// state as of their revision, and never go back.
func testConcurrentList(t *testing.T, s storage.Store) {
	ctx := bounded(t)
	start := current(t, s)
	w := watch(t, s, "/registry/pods/", storage.WatchOptions{After: start})
	done := make(chan []int64)
	go func() { done <- churn(ctx, t, s, 2, 150) }()
	var lists []storage.List
	var acknowledged []int64
	last := int64(0)
	for acknowledged == nil {
		select {
		case acknowledged = <-done:
			if len(acknowledged) == 0 {
				return
			}
		default:
		}
		for _, match := range []storage.Match{storage.Fresh, storage.NotOlderThan} {
			l := list(t, s, "/registry/pods/", storage.ListOptions{Match: match, Revision: last})
			if l.Revision < last {
				t.Fatalf("a list at %d follows one at %d", l.Revision, last)
			}
			last = l.Revision
			if len(lists) == 0 || lists[len(lists)-1].Revision < last {
				lists = append(lists, l)
			}
		}
	}
	if len(lists) > 100 { // the others would tell the same
		lists = lists[len(lists)-100:]
	}
	changes := next(t, w, len(acknowledged))
	state := map[string]entry{}
	at := 0
	for _, l := range lists {
		for ; at < len(changes) && changes[at].Item.Revision <= l.Revision; at++ {
			replay(state, changes[at])
		}
		wantEntries(t, fmt.Sprintf("list at %d", l.Revision), entries(l), inOrder(state))
	}
}
