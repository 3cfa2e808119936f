package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/proa-project/proa/api"
)

// maxFrame bounds one watch event. Objects are at most a few MiB.
const maxFrame = 64 << 20

// An Event is one change of one object, or a bookmark.
type Event[T api.Object] struct {
	// Type is Added, Modified, Deleted or Bookmark.
	Type watch.EventType
	// Object is the object after the change, for Deleted as it was last. In a
	// bookmark nothing but its resourceVersion and annotations is set.
	Object T
	// ResourceVersion is the state that the watch has reached.
	ResourceVersion string
	// InitialEnd is true for the bookmark that ends the initial events of a
	// watch with sendInitialEvents.
	InitialEnd bool
}

// A Watch is a stream of events. Next belongs to one goroutine; Close may be
// called from any. The owner must Close it.
type Watch[T api.Object] struct {
	ctx    context.Context //nolint:containedctx // the life of the stream
	body   io.ReadCloser
	frames frames
	newT   func() T
}

// Watch begins to watch the objects of a namespace, or of all with "". The
// stream ends with ctx, with Close, or when the server ends it.
func (c *Client[T]) Watch(ctx context.Context, namespace string, o metav1.ListOptions) (*Watch[T], error) {
	q := listQuery(&o)
	q["watch"] = []string{"true"}
	resp, err := c.rest.Do(ctx, Request{Path: Path(c.resource, namespace, ""), Query: q, Accept: c.accept}) //nolint:bodyclose // Watch.Close closes it
	if err != nil {
		return nil, err
	}
	return &Watch[T]{ctx: ctx, body: resp.Body, frames: frames{src: resp.Body}, newT: c.newT}, nil
}

// Close ends the stream and frees what it holds.
func (w *Watch[T]) Close() { w.body.Close() } //nolint:errcheck // there is nothing left to lose

// Next waits for the next event. It returns io.EOF when the server has ended
// the stream, the *errors.StatusError that the server sent in an ERROR event
// (errors.IsGone and errors.IsResourceExpired tell a revision that is gone),
// and the context's error. After any error the watch is useless. If ctx is
// done while Next waits, the stream is closed.
func (w *Watch[T]) Next(ctx context.Context) (Event[T], error) {
	frame, ok := w.frames.buffered()
	if !ok {
		if ctx != w.ctx && ctx.Done() != nil {
			stop := context.AfterFunc(ctx, w.Close)
			defer stop()
		}
		var err error
		if frame, err = w.frames.next(); err != nil {
			switch {
			case ctx.Err() != nil:
				return Event[T]{}, ctx.Err()
			case w.ctx.Err() != nil:
				return Event[T]{}, w.ctx.Err()
			case errors.Is(err, io.EOF):
				return Event[T]{}, io.EOF
			}
			return Event[T]{}, fmt.Errorf("read watch: %w", err)
		}
	}
	return w.decode(frame)
}

func (w *Watch[T]) decode(frame []byte) (Event[T], error) {
	typ, raw, err := splitFrame(frame)
	if err != nil {
		return Event[T]{}, err
	}
	if typ == watch.Error {
		var st metav1.Status
		if err := json.Unmarshal(raw, &st); err != nil {
			return Event[T]{}, fmt.Errorf("decode watch error: %w", err)
		}
		return Event[T]{}, &apierrors.StatusError{ErrStatus: st}
	}
	obj := w.newT()
	if err := api.DecodeStored(raw, obj); err != nil {
		return Event[T]{}, fmt.Errorf("decode watch event: %w", err)
	}
	ev := Event[T]{Type: typ, Object: obj, ResourceVersion: obj.GetResourceVersion()}
	if typ == watch.Bookmark {
		ev.InitialEnd = obj.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
	}
	return ev, nil
}

// splitFrame takes {"type":"T","object":{...}} apart. The usual order of the
// members is cut without parsing.
func splitFrame(frame []byte) (watch.EventType, []byte, error) {
	const open, mid = `{"type":"`, `","object":`
	if rest, ok := bytes.CutPrefix(frame, []byte(open)); ok {
		if i := bytes.IndexByte(rest, '"'); i > 0 {
			if obj, ok := bytes.CutPrefix(rest[i:], []byte(mid)); ok && bytes.HasSuffix(obj, []byte("}}")) {
				return eventType(rest[:i]), obj[:len(obj)-1], nil
			}
		}
	}
	var ev struct {
		Type   watch.EventType `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	if err := json.Unmarshal(frame, &ev); err != nil {
		return "", nil, fmt.Errorf("decode watch frame: %w", err)
	}
	return ev.Type, ev.Object, nil
}

// eventType avoids an allocation for the types that there are.
func eventType(b []byte) watch.EventType {
	for _, t := range [...]watch.EventType{watch.Modified, watch.Added, watch.Deleted, watch.Bookmark} {
		if string(b) == string(t) {
			return t
		}
	}
	return watch.EventType(b)
}

// frames cuts a stream into lines: each watch event is one.
type frames struct {
	src  io.Reader
	buf  []byte
	r, w int // the unread part is buf[r:w]
	seen int // buf[r:seen] holds no newline
}

// buffered returns the next frame if it has been read already. It is valid
// until the next call of a method.
func (f *frames) buffered() ([]byte, bool) {
	for {
		i := bytes.IndexByte(f.buf[f.seen:f.w], '\n')
		if i < 0 {
			f.seen = f.w
			return nil, false
		}
		line := bytes.TrimSpace(f.buf[f.r : f.seen+i])
		f.r = f.seen + i + 1
		f.seen = f.r
		if len(line) > 0 {
			return line, true
		}
	}
}

// next reads until there is a frame. At the end of the stream it returns
// io.EOF; a frame that was cut short is an io.ErrUnexpectedEOF.
func (f *frames) next() ([]byte, error) {
	for {
		if line, ok := f.buffered(); ok {
			return line, nil
		}
		f.room()
		if f.w-f.r > maxFrame {
			return nil, errAnswerTooLarge
		}
		n, err := f.src.Read(f.buf[f.w:])
		f.w += n
		if n > 0 {
			continue // an error comes again
		}
		if errors.Is(err, io.EOF) && f.w > f.r {
			return nil, io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
	}
}

// room makes space to read into: it moves what is left to the front, and grows
// the buffer when that is not enough.
func (f *frames) room() {
	if f.r > 0 {
		copy(f.buf, f.buf[f.r:f.w])
		f.w -= f.r
		f.seen -= f.r
		f.r = 0
	}
	switch {
	case f.buf == nil:
		f.buf = make([]byte, 4<<10)
	case f.w == len(f.buf):
		f.buf = append(f.buf, make([]byte, len(f.buf))...)
	}
}
