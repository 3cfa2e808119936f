package runner

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/wasmplugins/engine"
)

// BreakerOpen is the reason of calls that are not made because too many have
// failed.
const BreakerOpen engine.Reason = "BreakerOpen"

// A Handle is an object and the guest that runs for it. It outlives changes of
// the object.
type Handle[T pluginsv1.Binding, G Guest] struct {
	r       *Runner[T, G]
	name    string
	object  atomic.Pointer[T]
	current atomic.Pointer[current[G]]
	breaker *breaker
	// before is what current has replaced, newest last, for those who have begun
	// with it.
	before  versions[G]
	metrics *metrics

	// The fields below belong to whoever syncs the plugin.
	running string // what the guest was started with
	failing string // what cannot be started, however often

	mu         sync.Mutex // guards the fields below
	generation int64      // of the object that was looked at last
	inForce    []string   // capabilities
	problem    *problem
	failures   int64 // not yet in the object's status
	last       failure
	written    time.Time // of the last status with failures
}

// current is a guest, or why there is none.
type current[G Guest] struct {
	guest  G
	why    string
	digest string
	until  time.Time // of one that was replaced: when it is closed
}

// A failure is a call without an answer.
type failure struct {
	at             time.Time
	reason, detail string
}

func newHandle[T pluginsv1.Binding, G Guest](r *Runner[T, G], name string) *Handle[T, G] {
	h := &Handle[T, G]{r: r, name: name, metrics: r.c.Metrics.of(r.point.Kind, name)}
	h.breaker = newBreaker(r.c.Breaker, h.tripped)
	h.current.Store(&current[G]{why: "the plugin is not loaded yet"})
	return h
}

// Name is that of the object.
func (h *Handle[T, G]) Name() string { return h.name }

// Object is the latest state of the object. It is shared and must not be
// changed.
func (h *Handle[T, G]) Object() T { return *h.object.Load() }

// Digest is of the module's version that runs; empty if none does.
func (h *Handle[T, G]) Digest() string { return h.current.Load().digest }

// Running returns the guest; false if none runs. It may be closed at any time,
// so calls go through Use.
func (h *Handle[T, G]) Running() (G, bool) {
	g, _ := h.get()
	var none G
	return g, g != none
}

func (h *Handle[T, G]) get() (G, string) {
	c := h.current.Load()
	return c.guest, c.why
}

// Use calls f with the guest, again with its successor if it is replaced at
// this very moment. The errors are the context's and *engine.Error: those of f,
// NotReady if nothing runs and BreakerOpen if too many calls have failed. What
// fails is counted, and said in the object's status. Of a plugin that has just
// been deleted nobody is asked: Use returns ErrRemoved.
func (h *Handle[T, G]) Use(ctx context.Context, f func(g G) (engine.Usage, error)) (engine.Usage, error) {
	return h.call(ctx, h.get, f)
}

// UseVersion is Use with the guest of a version that may have been replaced a
// moment ago: whoever asks several times about one thing gets answers of one
// version. If it is no longer there, its successor is called.
func (h *Handle[T, G]) UseVersion(ctx context.Context, digest string, f func(g G) (engine.Usage, error)) (engine.Usage, error) {
	return h.call(ctx, func() (G, string) {
		c := h.current.Load()
		if digest != "" && c.digest != digest {
			if b := h.before.find(digest); b != nil {
				return b.guest, ""
			}
		}
		return c.guest, c.why
	}, f)
}

// call calls what get returns.
func (h *Handle[T, G]) call(ctx context.Context, get func() (G, string), f func(g G) (engine.Usage, error)) (engine.Usage, error) {
	if wait, open := h.breaker.allow(time.Now()); open {
		return engine.Usage{}, h.errorf(BreakerOpen, "not called since too many calls have failed; the next is tried in "+wait.Round(100*time.Millisecond).String())
	}
	var none G
	for {
		g, why := get()
		switch {
		case g == none && why == removed:
			h.breaker.cancel()
			return engine.Usage{}, ErrRemoved
		case g == none:
			h.breaker.cancel()
			return engine.Usage{}, h.errorf(engine.NotReady, why)
		}
		begin := time.Now()
		usage, err := f(g)
		if errors.Is(err, engine.ErrClosed) {
			if ctx.Err() != nil {
				h.breaker.cancel()
				return usage, ctx.Err()
			}
			continue
		}
		h.metrics.observe(time.Since(begin), usage)
		h.judge(ctx, err)
		return usage, err
	}
}

// ErrRemoved is returned by Use when the object was deleted.
var ErrRemoved = errors.New("the plugin was removed")

func (h *Handle[T, G]) errorf(r engine.Reason, detail string) error {
	return &engine.Error{Plugin: h.name, Reason: r, Detail: detail}
}

// judge counts the outcome of a call.
func (h *Handle[T, G]) judge(ctx context.Context, err error) {
	if err == nil {
		h.breaker.good()
		return
	}
	reason := engine.ReasonOf(err)
	if reason == "" || reason == engine.Canceled || ctx.Err() != nil {
		h.breaker.cancel()
		return
	}
	h.Failed(reason, err)
}

// Failed counts a call whose answer turned out to be of no use. Use does it for
// the errors that it returns.
func (h *Handle[T, G]) Failed(reason engine.Reason, err error) {
	now := time.Now()
	detail := err.Error()
	if ee, ok := errors.AsType[*engine.Error](err); ok {
		detail = ee.Detail
	}
	h.metrics.failed(string(reason))
	h.mu.Lock()
	h.failures++
	h.last = failure{now, string(reason), detail}
	delay := max(0, time.Until(h.written.Add(h.r.c.StatusInterval)))
	h.mu.Unlock()
	h.breaker.bad(now)
	h.r.status.AddAfter(h.name, delay)
}

// tripped is called when the breaker opens and closes.
func (h *Handle[T, G]) tripped(open bool) {
	h.metrics.opened(open)
	o := h.Object()
	if open {
		h.mu.Lock()
		last := h.last
		h.mu.Unlock()
		h.r.c.Events.Event(o, corev1.EventTypeWarning, "PluginDegraded", "no longer called, since too many calls have failed, the last with "+last.reason+": "+last.detail)
		h.r.c.Log.Warn().Str("kind", h.r.point.Kind).Str("plugin", h.name).Str("reason", last.reason).Msg("plugin is no longer called")
	} else {
		h.r.c.Events.Event(o, corev1.EventTypeNormal, "PluginRecovered", "called again")
		h.r.c.Log.Info().Str("kind", h.r.point.Kind).Str("plugin", h.name).Msg("plugin is called again")
	}
	h.r.status.Add(h.name)
}

// grace is how long a guest that was replaced stays for those who have begun
// with it.
const grace = 2 * time.Second

// swap puts a guest of a version in place. The one before stays for a moment if
// it has a successor, and is closed at once if not; Close waits for its calls.
func (h *Handle[T, G]) swap(g G, digest, why string) {
	old := h.current.Load() // only whoever syncs the plugin changes it
	var none G
	if old.guest != none && g != none {
		// It is found there before it is no longer found here.
		h.before.add(&current[G]{guest: old.guest, digest: old.digest, until: time.Now().Add(grace)})
		h.r.retired.AddAfter(h.name, grace)
	}
	h.current.Store(&current[G]{guest: g, why: why, digest: digest})
	if g != none {
		return
	}
	h.mu.Lock()
	h.inForce = nil
	h.mu.Unlock()
	h.before.expire(time.Time{})
	if old.guest != none {
		old.guest.Close()
	}
}

// started notes what runs now.
func (h *Handle[T, G]) started(with string, inForce []string) {
	h.running, h.failing = with, ""
	h.breaker.reset()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inForce = inForce
}

// looked notes the outcome of a sync, and reports whether it is news.
func (h *Handle[T, G]) looked(generation int64, p *problem) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	news := (p == nil) != (h.problem == nil) || p != nil && *p != *h.problem
	h.generation, h.problem = generation, p
	return news
}

func (h *Handle[T, G]) problemNow() *problem {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.problem
}
