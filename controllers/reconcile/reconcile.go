// Package reconcile is what the loops of the controller manager have in
// common: how a loop declares itself, how workers take keys, and who owns what.
package reconcile

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/proa-project/proa/informers/workqueue"
)

// A Scope is what a loop is called, what it looks at, and what it alone
// writes. The manager refuses two loops that write the same.
type Scope struct {
	Name string
	// Reads are resources: "pods".
	Reads []string
	// Writes are resources, or parts of one after a slash: "pods/create",
	// "deployments/status".
	Writes []string
}

// A Loop keeps one aspect of the cluster as it should be. It looks at state,
// never at which event came, so that it can be killed at any point.
type Loop interface {
	Scope() Scope
	// Run works until ctx is done and returns when all its goroutines have
	// ended. A Loop is run once.
	Run(ctx context.Context) error
}

// ErrLater is returned by a Sync that has done what it could and waits for
// others: the key is tried again after its back-off, and nothing is logged.
var ErrLater = errors.New("waits for others")

// A Sync looks at one key and brings it one step further. It may ask to be
// called again after some time by returning it; 0 is not. An error means that
// the key is tried again after its back-off.
type Sync[K comparable] func(ctx context.Context, k K) (again time.Duration, err error)

// Workers takes keys from the queue with n goroutines until ctx is done, then
// shuts the queue down and returns when the last call of sync has.
func Workers[K comparable](ctx context.Context, n int, q *workqueue.Queue[K], log zerolog.Logger, step Sync[K]) {
	defer q.ShutDown()
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for {
				k, ok := q.Get(ctx)
				if !ok {
					return
				}
				work(ctx, q, log, k, step)
			}
		})
	}
	wg.Wait()
}

func work[K comparable](ctx context.Context, q *workqueue.Queue[K], log zerolog.Logger, k K, step Sync[K]) {
	defer q.Done(k)
	again, err := step(ctx, k)
	if err != nil {
		if ctx.Err() != nil {
			return
		}
		if !errors.Is(err, ErrLater) {
			level := zerolog.DebugLevel
			if q.Requeues(k) > 10 {
				level = zerolog.WarnLevel
			}
			log.WithLevel(level).Err(err).Str("key", fmt.Sprint(k)).Msg("cannot reconcile, trying again")
		}
		q.AddRateLimited(k)
		return
	}
	q.Forget(k)
	if again > 0 {
		q.AddAfter(k, again)
	}
}

// Every calls f at once and then every d, with a tenth of jitter, until ctx is
// done.
func Every(ctx context.Context, d time.Duration, f func(ctx context.Context)) {
	for {
		f(ctx)
		t := time.NewTimer(d + rand.N(d/10+1)) //nolint:gosec // jitter
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}

// Parallel calls f for 0 to n-1 with at most width at once, waits for all, and
// returns the first error. After ctx is done no more are begun.
func Parallel(ctx context.Context, n, width int, f func(i int) error) error {
	if n == 1 {
		return f(0)
	}
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		next  int
		first error
	)
	for range min(n, width) {
		wg.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= n || ctx.Err() != nil {
					return
				}
				if err := f(i); err != nil {
					mu.Lock()
					if first == nil {
						first = err
					}
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if first == nil {
		first = ctx.Err()
	}
	return first
}
