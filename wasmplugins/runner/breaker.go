package runner

import (
	"sync"
	"sync/atomic"
	"time"
)

// A Breaker says when a plugin that keeps failing is no longer called. Zero
// fields mean the defaults.
type Breaker struct {
	// Failures within Window open the breaker, if no call in between was
	// good. Default 10 in 30 s.
	Failures int
	Window   time.Duration
	// Pause is how long no call is made; then one is tried, and the pause is
	// doubled each time that it fails, up to MaxPause. Default 1 s and 1 min.
	Pause, MaxPause time.Duration
}

func (b Breaker) withDefaults() Breaker {
	if b.Failures == 0 {
		b.Failures = 10
	}
	if b.Window == 0 {
		b.Window = 30 * time.Second
	}
	if b.Pause == 0 {
		b.Pause = time.Second
	}
	if b.MaxPause == 0 {
		b.MaxPause = time.Minute
	}
	return b
}

// A breaker is closed while calls are made, open while none is, and half-open
// while one is tried.
type breaker struct {
	c       Breaker
	changed func(open bool)
	dirty   atomic.Bool // there were failures since the last good call

	mu      sync.Mutex // guards the fields below
	bads    []time.Time
	open    bool
	until   time.Time // while open: when a call is tried
	probing bool
	pause   time.Duration
}

func newBreaker(c Breaker, changed func(open bool)) *breaker {
	return &breaker{c: c, changed: changed}
}

// allow reports that no call may be made, and for how long. Otherwise the
// caller tells the outcome by good, bad or cancel.
func (b *breaker) allow(now time.Time) (wait time.Duration, open bool) {
	if !b.dirty.Load() {
		return 0, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !b.open:
		return 0, false
	case now.Before(b.until):
		return b.until.Sub(now), true
	case b.probing:
		return b.c.Pause, true
	}
	b.probing = true
	return 0, false
}

// cancel says that the call was not made or proves nothing.
func (b *breaker) cancel() {
	if !b.dirty.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
}

// good says that the call was answered.
func (b *breaker) good() {
	if b.dirty.Load() {
		b.reset()
	}
}

// reset closes the breaker.
func (b *breaker) reset() {
	b.mu.Lock()
	was := b.open
	b.open, b.probing, b.pause, b.bads = false, false, 0, b.bads[:0]
	b.dirty.Store(false)
	b.mu.Unlock()
	if was {
		b.changed(false)
	}
}

// bad says that the call failed.
func (b *breaker) bad(now time.Time) {
	b.mu.Lock()
	b.dirty.Store(true)
	opened := false
	switch {
	case b.open && b.probing:
		b.probing = false
		b.pause = min(2*b.pause, b.c.MaxPause)
		b.until = now.Add(b.pause)
	case b.open: // began before it opened
	default:
		for len(b.bads) > 0 && now.Sub(b.bads[0]) > b.c.Window {
			b.bads = b.bads[1:]
		}
		if b.bads = append(b.bads, now); len(b.bads) >= b.c.Failures {
			opened, b.open, b.pause = true, true, b.c.Pause
			b.until = now.Add(b.pause)
			b.bads = nil
		}
	}
	b.mu.Unlock()
	if opened {
		b.changed(true)
	}
}

// isOpen reports whether calls are not made.
func (b *breaker) isOpen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open
}
