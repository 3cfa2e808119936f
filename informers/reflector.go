package informers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/rs/zerolog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/client"
)

const (
	minBackoff = 50 * time.Millisecond
	maxBackoff = 30 * time.Second
	// steadyAfter is how long a watch must live so that its end does not
	// count as a failure.
	steadyAfter = time.Second
	// Watches are renewed after a random time between these.
	minWatch, maxWatch = 5 * time.Minute, 10 * time.Minute
	pageSize           = 500
)

// A Sink takes in what a Reflector reads. Its methods are called from one
// goroutine at a time.
type Sink[T api.Object] interface {
	// Replace sets the whole content: the objects as of one state. The slice
	// belongs to the sink.
	Replace(items []T)
	// Apply takes one change: Added, Modified or Deleted. Added and Modified
	// both mean that the object is now as given.
	Apply(typ watch.EventType, obj T)
}

// ReflectorConfig is what a Reflector needs. Source and Sink are required.
type ReflectorConfig[T api.Object] struct {
	Source Source[T]
	Sink   Sink[T]
	// Log gets failures, at debug level while they look transient.
	Log zerolog.Logger
	// NoWatchList lists first even if the server could stream the list.
	NoWatchList bool
}

// A Reflector makes a Sink mirror a Source. It never loses a change: what
// happens while the connection is down is made up for by resuming from the
// last revision seen, or by a new list when the server has forgotten it.
type Reflector[T api.Object] struct {
	cfg ReflectorConfig[T]
	// revision is the state that the sink shows, "" if there is none to
	// resume from. number is the same, 0 if it is no number.
	revision  string
	number    uint64
	watchList bool
	backoff   time.Duration
}

// NewReflector returns a Reflector that does nothing before Run.
func NewReflector[T api.Object](cfg ReflectorConfig[T]) *Reflector[T] {
	return &Reflector[T]{cfg: cfg, watchList: !cfg.NoWatchList}
}

// Run mirrors until ctx is done, and returns its error.
func (r *Reflector[T]) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		began := time.Now()
		err := r.step(ctx)
		switch {
		case err == nil, ctx.Err() != nil:
			r.backoff = 0
			continue
		case gone(err):
			r.cfg.Log.Debug().Err(err).Str("resource_version", r.revision).Msg("revision is gone, listing again")
			r.revision = ""
			if time.Since(began) >= steadyAfter {
				r.backoff = 0
				continue
			}
		case errors.Is(err, io.EOF):
			if time.Since(began) >= steadyAfter {
				r.backoff = 0
				continue
			}
		default:
			if time.Since(began) >= steadyAfter {
				r.backoff = 0
			}
			r.logFailure(err)
		}
		r.wait(ctx)
	}
	return ctx.Err()
}

func (r *Reflector[T]) logFailure(err error) {
	level := zerolog.DebugLevel
	if r.backoff >= maxBackoff/8 {
		level = zerolog.WarnLevel
	}
	r.cfg.Log.WithLevel(level).Err(err).Str("resource_version", r.revision).Msg("cannot list or watch, trying again")
}

// wait backs off with jitter.
func (r *Reflector[T]) wait(ctx context.Context) {
	r.backoff = min(max(minBackoff, 2*r.backoff), maxBackoff)
	t := time.NewTimer(r.backoff/2 + rand.N(r.backoff)) //nolint:gosec // jitter
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// gone tells whether the revision to resume from cannot be used any more.
func gone(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// refused tells whether the server does not know the streaming list.
func refused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err)
}

// step does one thing: make the first copy, or watch until the watch ends.
func (r *Reflector[T]) step(ctx context.Context) error {
	if r.revision != "" {
		return r.watch(ctx)
	}
	if r.watchList {
		err := r.streamList(ctx)
		if err == nil || !refused(err) {
			return err
		}
		r.cfg.Log.Debug().Err(err).Msg("server does not stream lists")
		r.watchList = false
	}
	return r.list(ctx)
}

func (r *Reflector[T]) options() metav1.ListOptions {
	s := int64((minWatch + rand.N(maxWatch-minWatch)) / time.Second) //nolint:gosec // jitter
	return metav1.ListOptions{AllowWatchBookmarks: true, TimeoutSeconds: &s}
}

// streamList makes the first copy from the initial events of a watch, and goes
// on with the same watch.
func (r *Reflector[T]) streamList(ctx context.Context) error {
	yes := true
	o := r.options()
	o.SendInitialEvents, o.ResourceVersionMatch = &yes, metav1.ResourceVersionMatchNotOlderThan
	w, err := r.cfg.Source.Watch(ctx, o)
	if err != nil {
		return fmt.Errorf("stream list: %w", err)
	}
	defer w.Close()
	var items []T
	at := map[Key]int{} // where in items an object is; -1 once it was deleted
	for {
		ev, err := w.Next(ctx)
		if err != nil {
			return fmt.Errorf("stream list: %w", err)
		}
		if ev.Type == watch.Bookmark {
			if !ev.InitialEnd {
				continue
			}
			kept := items[:0]
			for i, obj := range items {
				if at[KeyOf(obj)] == i {
					kept = append(kept, obj)
				}
			}
			clear(items[len(kept):])
			r.cfg.Sink.Replace(kept)
			r.seen(ev.ResourceVersion)
			r.backoff = 0
			break
		}
		k := KeyOf(ev.Object)
		i, known := at[k]
		switch {
		case ev.Type == watch.Deleted:
			at[k] = -1
		case known && i >= 0:
			items[i] = ev.Object
		default:
			at[k] = len(items)
			items = append(items, ev.Object)
		}
	}
	return r.follow(ctx, w)
}

// list makes the first copy page by page.
func (r *Reflector[T]) list(ctx context.Context) error {
	var items []T
	o := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := r.cfg.Source.List(ctx, o)
		if err != nil {
			if gone(err) && o.Limit > 0 { // the pages took longer than the server remembers
				items, o = nil, metav1.ListOptions{}
				continue
			}
			return fmt.Errorf("list: %w", err)
		}
		if items == nil {
			items = page.Items
		} else {
			items = append(items, page.Items...)
		}
		if page.Continue == "" {
			r.cfg.Sink.Replace(items)
			r.seen(page.ResourceVersion)
			return nil
		}
		o.Continue = page.Continue
	}
}

// watch resumes from the last revision.
func (r *Reflector[T]) watch(ctx context.Context) error {
	o := r.options()
	o.ResourceVersion = r.revision
	w, err := r.cfg.Source.Watch(ctx, o)
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	defer w.Close()
	return r.follow(ctx, w)
}

// follow applies events until the stream ends.
func (r *Reflector[T]) follow(ctx context.Context, w Stream[T]) error {
	for {
		ev, err := w.Next(ctx)
		if err != nil {
			if errors.Is(err, io.EOF) {
				return io.EOF
			}
			return fmt.Errorf("watch: %w", err)
		}
		if r.old(ev) {
			continue
		}
		if ev.Type != watch.Bookmark {
			r.cfg.Sink.Apply(ev.Type, ev.Object)
		}
		r.seen(ev.ResourceVersion)
	}
}

// old tells whether an event was seen before, which a server may repeat after
// a watch was resumed. Several events may share one revision.
func (r *Reflector[T]) old(ev client.Event[T]) bool {
	n := number(ev.ResourceVersion)
	return n != 0 && n < r.number
}

func (r *Reflector[T]) seen(rv string) {
	if rv != "" {
		r.revision, r.number = rv, number(rv)
	}
}

func number(rv string) uint64 {
	n, err := strconv.ParseUint(rv, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
