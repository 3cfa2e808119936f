package replicaset

import (
	"context"
	"sync"
)

// ramp calls f up to n times: first one call, then as many at once as calls
// have succeeded, at most width. So a quota or a policy that refuses everything
// costs one call, not n. After the first failure, or when ctx is done, no more
// calls begin. It waits for all, and returns how many succeeded and the first
// error.
func ramp(ctx context.Context, n, width int, f func() error) (int, error) {
	var (
		wg      sync.WaitGroup
		work    = make(chan struct{})
		results = make(chan error)
		workers int
		busy    int
		begun   int
		done    int
		window  = 1
		first   error
	)
	for {
		for first == nil && ctx.Err() == nil && begun < n && busy < window {
			if workers == busy {
				workers++
				wg.Go(func() {
					for range work {
						results <- f()
					}
				})
			}
			work <- struct{}{}
			begun++
			busy++
		}
		if busy == 0 {
			break
		}
		err := <-results
		busy--
		switch {
		case err == nil:
			done++
			window = min(window+1, width)
		case first == nil:
			first = err
		}
	}
	close(work)
	wg.Wait()
	if first == nil {
		first = ctx.Err()
	}
	return done, first
}
