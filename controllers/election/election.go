// Package election lets one process of several lead, by a Lease.
package election

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rs/zerolog"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/httpapi/client"
)

// errLost ends a term whose lease could not be renewed.
var errLost = errors.New("lease was lost")

// A sighting is a lease as it was last seen, and when this process first saw
// it so: the clocks of others are not trusted.
type sighting struct {
	holder string
	renew  metav1.MicroTime
	at     time.Time
}

// see returns the sighting after a look at the lease.
func (s sighting) see(l *coordinationv1.Lease, now time.Time) sighting {
	next := sighting{holder: value(l.Spec.HolderIdentity), at: now}
	if l.Spec.RenewTime != nil {
		next.renew = *l.Spec.RenewTime
	}
	if next.holder == s.holder && next.renew.Equal(&s.renew) && !s.at.IsZero() {
		next.at = s.at
	}
	return next
}

// free tells whether me may take the lease: it is released, it is mine, or its
// holder has not renewed it for as long as it says.
func (s sighting) free(me string, l *coordinationv1.Lease, def time.Duration, now time.Time) bool {
	if s.holder == "" || s.holder == me {
		return true
	}
	d := def
	if l.Spec.LeaseDurationSeconds != nil {
		d = time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second
	}
	return now.Sub(s.at) > d
}

// claim returns the lease as its holder writes it.
func claim(l *coordinationv1.Lease, me string, d time.Duration, now time.Time) *coordinationv1.Lease {
	up := l.DeepCopy()
	t := metav1.NewMicroTime(now)
	secs := int32(max(1, d/time.Second)) //nolint:gosec // seconds of a lease
	if value(up.Spec.HolderIdentity) != me {
		var n int32
		if up.Spec.LeaseTransitions != nil && value(up.Spec.HolderIdentity) != me {
			n = *up.Spec.LeaseTransitions + 1
		}
		up.Spec.LeaseTransitions = &n
		up.Spec.AcquireTime = &t
	}
	up.Spec.HolderIdentity, up.Spec.LeaseDurationSeconds, up.Spec.RenewTime = &me, &secs, &t
	return up
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// Config is what an Election needs. REST, Lease and Identity are required.
type Config struct {
	REST *client.REST
	Log  zerolog.Logger
	// Lease is the name of the Lease in kube-system by which processes agree
	// who leads.
	Lease string
	// Identity names this process among those that want to lead. A process
	// that comes back under the identity of the leader leads at once.
	Identity string
	// Duration is how long others wait for a leader that is silent, default
	// 15 s. RenewDeadline is when a leader that cannot renew stops, default
	// 10 s. RetryPeriod is the time between tries, default 2 s.
	Duration, RenewDeadline, RetryPeriod time.Duration
}

// ErrIncomplete is a Config without what it requires.
var ErrIncomplete = errors.New("leader election needs a client, a lease and an identity")

// An Election is the wish of one process to lead. It belongs to the goroutine
// that calls Run.
type Election struct {
	cfg        Config
	leases     *client.Client[*coordinationv1.Lease]
	namespaces *client.Client[*corev1.Namespace]
	log        zerolog.Logger

	seen sighting
	held *coordinationv1.Lease // as this process wrote it last; nil if it does not lead
}

// New returns an Election, or ErrIncomplete.
func New(cfg Config) (*Election, error) {
	if cfg.REST == nil || cfg.Lease == "" || cfg.Identity == "" {
		return nil, ErrIncomplete
	}
	def := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	def(&cfg.Duration, 15*time.Second)
	def(&cfg.RenewDeadline, 10*time.Second)
	def(&cfg.RetryPeriod, 2*time.Second)
	return &Election{
		cfg:        cfg,
		leases:     client.For[*coordinationv1.Lease](cfg.REST),
		namespaces: client.For[*corev1.Namespace](cfg.REST),
		log:        cfg.Log.With().Str("lease", cfg.Lease).Str("identity", cfg.Identity).Logger(),
	}, nil
}

// Run calls lead whenever this process leads, with a context that ends when it
// does not any more, until ctx is done or lead returns an error of its own.
// The lease is given back when lead returns.
func (e *Election) Run(ctx context.Context, lead func(context.Context) error) error {
	for {
		ok, err := e.acquire(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			e.log.Debug().Err(err).Msg("cannot acquire lease, trying again")
		case ok:
			if err := e.term(ctx, lead); err != nil {
				return err
			}
			continue
		}
		if !e.wait(ctx) {
			return ctx.Err()
		}
	}
}

func (e *Election) wait(ctx context.Context) bool {
	t := time.NewTimer(e.cfg.RetryPeriod + rand.N(e.cfg.RetryPeriod/5+1)) //nolint:gosec // jitter
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// term leads until the lease is lost or ctx is done. Its error is one that
// ends the election.
func (e *Election) term(ctx context.Context, lead func(context.Context) error) error {
	e.log.Info().Msg("leading")
	termCtx, stop := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		stop(e.keep(termCtx))
	}()
	err := lead(termCtx)
	stop(context.Canceled)
	<-done
	lost := errors.Is(context.Cause(termCtx), errLost)
	e.release(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case lost:
		e.log.Warn().Msg("lease was lost, not leading any more")
		return nil
	}
	return err
}

// keep renews the lease until ctx is done, or returns errLost when it could
// not for the renew deadline, or when somebody else has it.
func (e *Election) keep(ctx context.Context) error {
	last := time.Now()
	for e.wait(ctx) {
		tryCtx, cancel := context.WithDeadline(ctx, last.Add(e.cfg.RenewDeadline))
		ok, err := e.acquire(tryCtx)
		cancel()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && ok:
			last = time.Now()
			continue
		case err == nil:
			return errLost // somebody else has it
		}
		e.log.Debug().Err(err).Msg("cannot renew lease")
		if time.Since(last) >= e.cfg.RenewDeadline {
			return errLost
		}
	}
	return ctx.Err()
}

// acquire takes or renews the lease, and tells whether this process has it.
func (e *Election) acquire(ctx context.Context) (bool, error) {
	l := e.held
	if l == nil {
		var err error
		if l, err = e.leases.Get(ctx, metav1.NamespaceSystem, e.cfg.Lease); apierrors.IsNotFound(err) {
			return e.create(ctx)
		} else if err != nil {
			return false, err
		}
		now := time.Now()
		e.seen = e.seen.see(l, now)
		if !e.seen.free(e.cfg.Identity, l, e.cfg.Duration, now) {
			return false, nil
		}
	}
	up, err := e.leases.Update(ctx, claim(l, e.cfg.Identity, e.cfg.Duration, time.Now()))
	if err != nil {
		e.held = nil // it has to be looked at again
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return e.lookAgain(ctx, l)
		}
		return false, fmt.Errorf("write lease: %w", err)
	}
	e.held = up
	return true, nil
}

// lookAgain finds out who was faster.
func (e *Election) lookAgain(ctx context.Context, mine *coordinationv1.Lease) (bool, error) {
	l, err := e.leases.Get(ctx, metav1.NamespaceSystem, e.cfg.Lease)
	if err != nil {
		return false, fmt.Errorf("look at lease: %w", err)
	}
	e.seen = e.seen.see(l, time.Now())
	if value(l.Spec.HolderIdentity) == e.cfg.Identity && value(mine.Spec.HolderIdentity) == e.cfg.Identity {
		e.held = l // a write of ours whose answer was lost
		return true, nil
	}
	return false, nil
}

func (e *Election) create(ctx context.Context) (bool, error) {
	l := claim(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: e.cfg.Lease},
	}, e.cfg.Identity, e.cfg.Duration, time.Now())
	up, err := e.leases.Create(ctx, l)
	if apierrors.IsNotFound(err) { // the namespace loop, which makes it, waits for this lease
		_, err = e.namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return false, fmt.Errorf("create namespace of lease: %w", err)
		}
		up, err = e.leases.Create(ctx, l)
	}
	switch {
	case apierrors.IsAlreadyExists(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("create lease: %w", err)
	}
	e.held = up
	return true, nil
}

// release gives the lease back, so that the next leader need not wait for its
// end. It takes little time even if the server does not answer.
func (e *Election) release(ctx context.Context) {
	l := e.held
	e.held = nil
	if l == nil || value(l.Spec.HolderIdentity) != e.cfg.Identity {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	up := l.DeepCopy()
	one, now := int32(1), metav1.NewMicroTime(time.Now())
	up.Spec.HolderIdentity, up.Spec.LeaseDurationSeconds, up.Spec.RenewTime = new(string), &one, &now
	if _, err := e.leases.Update(ctx, up); err != nil {
		e.log.Debug().Err(err).Msg("cannot release lease")
	}
}
