package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/proa-project/proa/wasmplugins/fuel"
)

// quantum is how much fuel a guest gets at a time: some 50 to 100 microseconds
// of work, after which Go looks at the clock.
const quantum = 100_000

// errStop ends a guest; the meter knows why.
var errStop = errors.New("stopped by the meter")

// A meter counts what one use of an instance takes.
type meter struct {
	ctx      context.Context //nolint:containedctx // of the request, for one use
	deadline time.Time
	timeout  time.Duration // 0 if the deadline is the request's
	limit    int64
	budget   int64 // not yet granted; below zero when overdrawn
	refills  int
	// busy, if not 0, is the thread's running time at which the guest has had
	// its timeout; the deadline alone does not end it. See Session.
	busy time.Duration
	stop *Error
}

func (m *meter) used() int64 { return m.limit - m.budget }

// grant moves a quantum from the budget into the guest.
func (i *Instance) grant() {
	n := min(quantum, max(i.meter.budget, 0))
	i.meter.budget -= n
	i.fuel.Set(uint64(n))
}

// settle takes back what the guest has left.
func (i *Instance) settle() {
	i.meter.budget += int64(i.fuel.Get())
	i.fuel.Set(0)
}

// refill is called by a guest that is out of fuel: it ends it, or goes on.
func (i *Instance) refill() {
	m := &i.meter
	i.settle()
	if m.budget < 0 {
		i.stop(FuelExhausted, fmt.Sprintf("took more than %d units", m.limit))
	}
	i.checkTime()
	if m.refills++; m.refills > 2 {
		runtime.Gosched() // a long call gives way to short ones
	}
	i.grant()
}

// checkTime ends the guest's call if its time is over.
func (i *Instance) checkTime() {
	m := &i.meter
	switch now := time.Now(); {
	case now.After(m.deadline) && m.timeout == 0:
		i.stop(DeadlineExceeded, "the time for all plugins of the request was used up")
	case now.After(m.deadline) && !m.idled(now):
		i.stop(DeadlineExceeded, fmt.Sprintf("ran longer than %v", m.timeout))
	case m.ctx.Err() != nil:
		i.stop(reasonOfContext(m.ctx), "the request has ended")
	}
}

// idled reports whether the guest's time has gone by while the thread did not
// run, though not far too much of it.
func (m *meter) idled(now time.Time) bool {
	if m.busy == 0 || now.After(m.deadline.Add(9*m.timeout)) {
		return false
	}
	t, ok := threadTime()
	return ok && t < m.busy
}

// stop ends the guest's call from within a function of the host.
func (i *Instance) stop(r Reason, detail string) {
	if i.meter.stop == nil {
		i.meter.stop = i.p.fail(r, detail, nil)
	}
	panic(errStop)
}

// Charge takes fuel for work that the host does for the guest. It does not
// return if the guest is out of fuel or time.
func (i *Instance) Charge(units int64) {
	left := int64(i.fuel.Get()) - units
	i.fuel.Set(uint64(left))
	if left < 0 {
		i.refill()
	}
}

func meterImports() []Import {
	return []Import{
		{Module: fuel.Module, Name: fuel.Refill, Call: func(i *Instance, _ []uint64) { i.refill() }},
		{Module: fuel.Module, Name: fuel.Overflow, Call: func(i *Instance, _ []uint64) {
			i.stop(StackOverflow, fmt.Sprintf("nested more than %d calls", i.p.c.Limits.Depth))
		}},
	}
}
