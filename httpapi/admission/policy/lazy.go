package policy

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// A Lazy is a Source that makes its set when somebody asks after a change. It
// is safe for concurrent use.
type Lazy struct {
	// What names the policies in errors.
	What string
	// Ready waits until what the set is made of is known, or returns the error
	// of ctx; nil does not wait.
	Ready func(ctx context.Context) error
	// Build makes the set. It is called by one at a time.
	Build func() *Set

	changes atomic.Uint64 // how often Invalidate was called
	current atomic.Pointer[built]
	ready   atomic.Bool
	mu      sync.Mutex // held while the set is made
}

type built struct {
	set     *Set
	changes uint64 // that it knows of
}

// Invalidate says that something has changed: the next write sees it. It never
// blocks.
func (l *Lazy) Invalidate() { l.changes.Add(1) }

// Policies implements Source.
func (l *Lazy) Policies(ctx context.Context) (*Set, error) {
	if now := l.current.Load(); now != nil && now.changes == l.changes.Load() {
		return now.set, nil
	}
	if !l.ready.Load() && l.Ready != nil {
		if err := l.Ready(ctx); err != nil { // each caller for as long as it likes
			return nil, fmt.Errorf("wait for %s: %w", l.What, err)
		}
	}
	l.ready.Store(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := l.changes.Load() // before the lists are read
	if now := l.current.Load(); now != nil && now.changes == seen {
		return now.set, nil
	}
	set := l.Build()
	l.current.Store(&built{set: set, changes: seen})
	return set, nil
}
