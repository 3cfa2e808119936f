package httpapi

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/storage"
)

// minWatch is the time after which a watch ends whose client does not say how
// long it should go on; up to as much again is added, so that the clients of a
// server do not all come back at once.
const minWatch = 30 * time.Minute

// watch answers with the changes of a collection until the client goes away,
// the time is up or the server stops.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, c *call) error {
	out, err := negotiate(r, c, offers{protobuf: c.protobuf, shapes: true, stream: true})
	if err != nil {
		return err
	}
	opts, err := c.parseListOptions(true)
	if err != nil {
		return err
	}
	sel, err := c.parseSelector()
	if err != nil {
		return err
	}
	timeout := time.Duration(opts.timeout) * time.Second
	if timeout <= 0 || timeout > 24*time.Hour {
		timeout = minWatch + rand.N(minWatch) //nolint:gosec // spreads load
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	if !s.beginStream() {
		return errStopping
	}
	defer s.streams.Done()
	defer context.AfterFunc(s.stopping, cancel)()

	if c.kind != nil {
		defer context.AfterFunc(c.kind.Context(), cancel)()
	}
	wt := &watching{ctx: ctx, s: s, c: c, opts: opts, sel: sel, out: &out}
	var empty bool
	if wt.prefix, empty = sel.prefix(c.info.Namespace); !empty {
		wt.prefix, wt.never = c.Prefix(c.info.Namespace), true
	}
	if isWebSocket(r) {
		return wt.overWebSocket(ctx, w, r)
	}
	frames := newFrames(w, wt)
	defer frames.release()
	return wt.run(ctx, frames)
}

// watching is one watch under way.
type watching struct {
	ctx    context.Context //nolint:containedctx // of the request, for conversions
	s      *Server
	c      *call
	opts   *listOptions
	sel    *selector
	out    *output
	prefix string
	never  bool // the selectors contradict the URL
}

func (wt *watching) matches(item *storage.Item) bool { return !wt.never && wt.sel.matches(item) }

// run sends the initial state, if it is wanted, and what follows. It returns
// an error only if nothing has been sent.
func (wt *watching) run(ctx context.Context, f *frames) error {
	after, err := wt.initial(ctx, f)
	if err != nil {
		return err
	}
	wo := storage.WatchOptions{After: after}
	if !wt.sel.everything() || wt.never {
		wo.Filter = wt.matches
	}
	w, err := wt.c.store.Watch(ctx, wt.prefix, wo)
	if err != nil {
		switch {
		case !f.started && !errors.Is(err, storage.ErrCompacted):
			return err
		case ctx.Err() != nil: // over before it went on
			return nil
		}
		f.start()
		f.fail(err)
		return nil
	}
	defer w.Close()
	f.start()
	wt.s.metrics.watches.Inc()
	defer wt.s.metrics.watches.Dec()
	wt.follow(ctx, w, f)
	return nil
}

// initial sends the state at the start of the watch, if the client wants it,
// and returns the revision that the watch goes on from: 0 is the present.
func (wt *watching) initial(ctx context.Context, f *frames) (int64, error) {
	o := wt.opts
	send := o.revision == 0
	if o.initial != nil {
		send = *o.initial
	}
	if !send {
		return o.revision, nil
	}
	lo := storage.ListOptions{Filter: wt.sel.filter()}
	if wt.never {
		lo.Filter = wt.matches
	}
	if o.hasRevision {
		lo.Match, lo.Revision = storage.NotOlderThan, o.revision
	}
	found, err := wt.c.store.List(ctx, wt.prefix, lo)
	if err != nil {
		return 0, err
	}
	f.start()
	for i := range found.Items {
		if !f.add("ADDED", &found.Items[i]) {
			return found.Revision, nil
		}
	}
	if o.initial != nil && o.bookmarks {
		f.bookmark(found.Revision, true)
	}
	f.flush()
	return found.Revision, nil
}

// follow sends changes until ctx is done or the client is gone.
func (wt *watching) follow(ctx context.Context, w storage.Watcher, f *frames) {
	for !f.broken {
		due, cancel := context.WithTimeout(ctx, wt.s.cfg.Bookmarks)
		err := wt.untilBookmark(due, w, f)
		cancel()
		switch {
		case err == nil: // the client is gone
			return
		case ctx.Err() != nil: // the time is up, or the server stops
			if wt.opts.bookmarks && !f.broken {
				f.bookmark(w.Progress(), false)
				f.flush()
			}
			return
		case errors.Is(err, context.DeadlineExceeded): // time for a bookmark
			if wt.opts.bookmarks {
				f.bookmark(w.Progress(), false)
				f.flush()
			}
		case errors.Is(err, storage.ErrClosed), errors.Is(err, storage.ErrUnavailable):
			return // the client comes back to where it is
		default:
			f.fail(err)
			return
		}
	}
}

// untilBookmark sends changes until ctx is done. It returns nil if the client
// is gone, and else the reason of the end.
func (wt *watching) untilBookmark(ctx context.Context, w storage.Watcher, f *frames) error {
	for {
		events, err := w.Next(ctx)
		if err != nil {
			return err
		}
		for i := range events {
			if !wt.send(&events[i], f) {
				return nil
			}
		}
		if !f.flush() {
			return nil
		}
	}
}

// send sends a change as the watch's selectors see it.
func (wt *watching) send(e *storage.Event, f *frames) bool {
	is := wt.matches(e.Item)
	if e.Type == storage.Delete {
		return !is || f.add("DELETED", e.Item)
	}
	was := e.Prev != nil && wt.matches(e.Prev)
	switch {
	case is && was:
		return f.add("MODIFIED", e.Item)
	case is:
		return f.add("ADDED", e.Item)
	case was:
		return f.add("DELETED", e.Left())
	default:
		return true
	}
}

// bookmarkOf returns the object of a bookmark.
func (ep *endpoint) bookmarkOf(revision int64, initialEnd bool) api.Object {
	obj := ep.New()
	obj.GetObjectKind().SetGroupVersionKind(ep.GVK())
	setResourceVersion(obj, revision)
	if initialEnd {
		obj.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	return obj
}
