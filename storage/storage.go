package storage

import (
	"context"
	"time"
)

// An Item is one key with its value at some revision.
type Item struct {
	Key   string
	Value []byte // shared; never modify
	// Revision is the store revision of the write that made Value.
	Revision int64
	// Fields is what the watch cache extracted from Value. It is nil in items
	// that come from a Store which does not extract.
	Fields *Fields
}

// Fields are the parts of a value that readers select by.
type Fields struct {
	Labels Set
	Fields Set // by field label, such as "spec.nodeName"; never metadata.name or metadata.namespace
}

// A Set is a list of key and value pairs sorted by key. It satisfies
// labels.Labels and fields.Fields of apimachinery without a map per object.
type Set [][2]string

// Get returns the value for key, or "".
func (s Set) Get(key string) string { v, _ := s.Lookup(key); return v }

// Has reports whether key is in the set.
func (s Set) Has(key string) bool { _, ok := s.Lookup(key); return ok }

// Lookup returns the value for key and whether it is in the set.
func (s Set) Lookup(key string) (string, bool) {
	for i := range s { // sets are short: a scan beats a search
		if s[i][0] == key {
			return s[i][1], true
		}
	}
	return "", false
}

// A Store keeps items. All methods are safe for concurrent use and return when
// ctx is done. Errors are the sentinels of this package, possibly wrapped.
type Store interface {
	Reader
	Writer

	// Watch returns the changes below prefix after a revision, in revision
	// order, without gaps and without repeats. It returns ErrCompacted if
	// that part of the history is gone. The caller must Close the Watcher.
	Watch(ctx context.Context, prefix string, opts WatchOptions) (Watcher, error)

	// Current returns the store's revision as of some moment during the call
	// (a linearizable read): every write acknowledged before the call has a
	// revision not above it.
	Current(ctx context.Context) (int64, error)

	// Compact forgets history before revision. Items stay readable as of
	// revision and later, and changes from revision on can be watched. It
	// returns ErrFutureRevision for a revision that the store has not
	// reached; what is forgotten already is no error.
	Compact(ctx context.Context, revision int64) error

	// Close frees everything the Store holds and waits for its goroutines.
	// Watchers end with ErrClosed.
	Close() error
}

// A Reader is the reading half of a Store.
type Reader interface {
	// Get returns the item at key. It returns ErrNotFound, and for revisions
	// the same errors as List.
	Get(ctx context.Context, key string, opts GetOptions) (Item, error)

	// List returns the items whose key begins with prefix, sorted by key, as
	// of one revision. It returns ErrCompacted for an Exact revision that is
	// gone and ErrFutureRevision for one that the store has not reached.
	List(ctx context.Context, prefix string, opts ListOptions) (List, error)
}

// A Writer is the writing half of a Store. A write whose outcome is unknown
// (the context ended, the store was unreachable) returns ErrUnavailable or the
// context's error: it may or may not have happened. In any other case the
// write has happened exactly if the error is nil.
type Writer interface {
	// Create adds key and returns its revision, or ErrExists. An item with a
	// ttl is deleted by the store some time after ttl; 0 keeps it for ever.
	Create(ctx context.Context, key string, value []byte, ttl time.Duration) (int64, error)

	// Update replaces the value of key if its revision is still expected,
	// and returns the new revision. Otherwise it returns a *ConflictError, or
	// ErrNotFound if key is gone. The ttl is as in Create.
	Update(ctx context.Context, key string, value []byte, expected int64, ttl time.Duration) (int64, error)

	// Delete removes key if its revision is still expected and returns the
	// revision of the removal. Errors are those of Update.
	Delete(ctx context.Context, key string, expected int64) (int64, error)
}

// Match says how a revision in GetOptions and ListOptions is meant.
type Match int

const (
	// Fresh reads state at least as new as every write acknowledged before
	// the call. Revision is ignored.
	Fresh Match = iota
	// NotOlderThan reads any state at Revision or later, from a cache where
	// there is one. Revision 0 takes whatever is at hand. A revision ahead of
	// the store is waited for briefly (3 s), then ErrFutureRevision.
	NotOlderThan
	// Exact reads the state as of Revision.
	Exact
)

// GetOptions narrow a Get. The zero value is a fresh read.
type GetOptions struct {
	Match    Match
	Revision int64
}

// ListOptions narrow a List. The zero value lists everything, fresh.
type ListOptions struct {
	Match    Match
	Revision int64
	// Limit is the largest number of items to return; 0 is all. Items that
	// Filter drops are not counted.
	Limit int
	// After skips all keys up to and including it, to go on with a list.
	After string
	// Filter keeps the items for which it is true; nil keeps all. It must not
	// keep its argument.
	Filter func(*Item) bool
	// KeysOnly leaves the values out where that is cheaper.
	KeysOnly bool
}

// A List is the answer to Store.List. The caller owns the slice of Items.
type List struct {
	Items    []Item
	Revision int64 // the store revision that the list shows
	More     bool  // Limit cut the list and at least one more item follows; go on after the last item's key
	// Remaining is how many items follow when More is set and no Filter was
	// given; -1 if unknown.
	Remaining int64
}

// WatchOptions narrow a Watch.
type WatchOptions struct {
	// After is the revision after which changes are wanted. 0 means from now:
	// after the revision current at the call.
	After int64
	// Filter selects by item state, before or after the change; nil selects
	// all. A change that makes an item begin or stop to match is delivered:
	// the owner of the watcher tells which by trying Item and Prev.
	Filter func(*Item) bool
	// NoPrev says that the owner keeps the previous states itself: where that
	// is cheaper, Prev is nil, the Item of a Delete has no value, and Filter
	// sees the state after the change only.
	NoPrev bool
	// Progress makes Next also return, with no event and no error, when
	// Progress has moved past changes that do not concern the watcher.
	Progress bool
}

// A Watcher delivers changes in batches to one goroutine.
type Watcher interface {
	// Next waits for changes and returns at least one event, in order (see
	// WatchOptions.Progress for the exception). The slice is valid until the
	// next call and must not be modified; the events' values stay valid.
	//
	// It returns ErrCompacted when the caller was so slow that the store
	// forgot events, ErrUnavailable when the store was lost, ErrClosed after
	// Close, and the context's error. The Watcher is useless afterwards,
	// except after a context's error.
	Next(ctx context.Context) ([]Event, error)

	// Progress returns a revision such that every event up to and including
	// it has been returned by Next or does not concern this watcher.
	Progress() int64

	// Close ends the watch. It may be called at any time, more than once.
	Close()
}

// A ProgressRequester is a Watcher that learns its progress from afar, and
// late, but can be asked to hurry.
type ProgressRequester interface {
	// RequestProgress makes Progress move soon to the revision that the
	// store has now. It does not block and is cheap to repeat.
	RequestProgress()
}

// EventType is what happened to a key.
type EventType uint8

// The types of events.
const (
	Put    EventType = iota + 1 // created or changed
	Delete                      // removed
)
