package engine

import (
	"context"
	"runtime"
	"time"
)

// A Session is a use of one instance in several parts, with other work of the
// host between them, for which the clock stands still: the scheduler asks a
// guest several times about one pod. The guest keeps its state from part to
// part, and its limits are for all of them together.
//
// Many sessions are short, so a busy machine must not be taken for a slow guest:
// its timeout is for the time that the thread runs, and ten times as long on the
// clock.
//
// It belongs to the goroutine that began it and keeps it on its thread until
// End or Loosen.
type Session struct {
	p      *Program
	i      *Instance
	paused time.Time
	left   time.Duration // of the guest's timeout
	loose  bool
	err    error // the instance has failed
	ended  bool
}

// Begin takes an instance that is in the program's first state, as Do does. The
// caller must call End.
func (p *Program) Begin(ctx context.Context, c Call) (*Session, error) {
	select {
	case p.slots <- struct{}{}:
	default:
		if err := p.wait(ctx, c.Deadline); err != nil {
			return nil, err
		}
	}
	i, err := p.take(ctx)
	if err != nil {
		<-p.slots
		return nil, err
	}
	runtime.LockOSThread() // see Do
	i.begin(ctx, c, p.c.Limits.Timeout, p.c.Limits.Fuel)
	return &Session{p: p, i: i, paused: time.Now(), left: i.meter.timeout}, nil
}

// Run calls f with the instance and returns what that took. After an error
// every further call returns that error and does nothing.
func (s *Session) Run(ctx context.Context, f func(i *Instance) error) (Usage, error) {
	if s.err != nil {
		return Usage{}, s.err
	}
	i := s.i
	runtime.LockOSThread() // again, if it is loose
	defer runtime.UnlockOSThread()
	i.meter.ctx = ctx //nolint:fatcontext // of the part, in place of the one before
	i.meter.deadline = i.meter.deadline.Add(time.Since(s.paused))
	began, known := threadTime()
	if known && i.meter.timeout > 0 {
		i.meter.busy = began + s.left
	}
	before, calls := i.meter.used(), len(i.host.calls)
	s.err = ErrClosed // if f panics
	s.err = f(i)
	u := i.end()
	i.out.b, i.out.parts = i.out.b[:0], i.out.parts[:0]
	u.Fuel -= before
	u.HostCalls = u.HostCalls[calls:]
	s.paused = time.Now()
	if now, ok := threadTime(); ok {
		s.left = max(s.left-(now-began), 1)
	}
	return u, s.err
}

// Err is the error that ended the session, nil if it can go on.
func (s *Session) Err() error { return s.err }

// Loosen lets the session go on in other goroutines, one at a time. That makes
// End slower.
func (s *Session) Loosen() {
	if s.loose {
		return
	}
	s.loose, s.i.loose = true, true
	runtime.UnlockOSThread()
}

// End gives the instance back. Calling it again does nothing.
func (s *Session) End() {
	if s.ended {
		return
	}
	s.ended = true
	if s.err == nil {
		s.err = ErrClosed
	}
	good := s.i.reset()
	if !s.loose {
		runtime.UnlockOSThread()
	}
	s.p.put(s.i, good)
	<-s.p.slots
}

// View returns n bytes of the guest's memory for the host to read and change.
// They are valid until the next call of the guest.
func (i *Instance) View(ptr, n uint32) ([]byte, bool) { return i.Read(ptr, n) }
