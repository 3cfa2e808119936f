package storage

import (
	"errors"
	"fmt"
)

// The errors of a Store. Test for them with errors.Is.
var (
	ErrNotFound       = errors.New("key not found")
	ErrExists         = errors.New("key exists")
	ErrConflict       = errors.New("revision conflict")
	ErrCompacted      = errors.New("revision has been compacted")
	ErrFutureRevision = errors.New("revision is in the future")
	ErrUnavailable    = errors.New("storage unavailable")
	ErrClosed         = errors.New("storage closed")
	// ErrTooLarge is a value that the store does not take; nothing has happened.
	ErrTooLarge = errors.New("value too large for the storage")
)

// A ConflictError is an ErrConflict that carries the item as it is now.
type ConflictError struct {
	Current Item
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("key %q is at revision %d: %v", e.Current.Key, e.Current.Revision, ErrConflict)
}

// Unwrap makes errors.Is(err, ErrConflict) true.
func (e *ConflictError) Unwrap() error { return ErrConflict }

// A RevisionError is an ErrCompacted or ErrFutureRevision with its figures.
type RevisionError struct {
	Requested int64
	// Limit is the oldest revision that is left for ErrCompacted, and the
	// current revision for ErrFutureRevision; 0 if it is not known.
	Limit int64
	Err   error
}

func (e *RevisionError) Error() string {
	return fmt.Sprintf("revision %d (limit %d): %v", e.Requested, e.Limit, e.Err)
}

// Unwrap returns the sentinel.
func (e *RevisionError) Unwrap() error { return e.Err }
