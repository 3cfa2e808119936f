package engine

import (
	"errors"
	"fmt"
)

// A Reason is why a call ended without an answer.
type Reason string

// The reasons.
const (
	DeadlineExceeded Reason = "DeadlineExceeded"
	FuelExhausted    Reason = "FuelExhausted"
	OutOfMemory      Reason = "OutOfMemory"
	StackOverflow    Reason = "StackOverflow"
	Trapped          Reason = "Trapped"
	BadReply         Reason = "BadReply"
	CapabilityDenied Reason = "CapabilityDenied"
	// Canceled says that the caller went away; it is not the guest's fault.
	Canceled Reason = "Canceled"
	// NotReady says that the code is not there or not compiled yet.
	NotReady Reason = "NotReady"
)

// ErrClosed is returned by Do on a program that was closed. Nothing has been
// called; the caller takes the program's successor.
var ErrClosed = errors.New("program closed")

// ErrInvalid is wrapped by Load's errors about the module itself: loading the
// same bytes again fails again.
var ErrInvalid = errors.New("invalid module")

// An Error is a call without an answer.
type Error struct {
	Plugin string
	Reason Reason
	// Detail says which limit at which figure, or what the guest did.
	Detail string
	// Err is the engine's error, nil if there is nothing to add.
	Err error
}

func (e *Error) Error() string {
	return fmt.Sprintf("plugin %q: %s: %s", e.Plugin, e.Reason, e.Detail)
}

// Unwrap returns the engine's error.
func (e *Error) Unwrap() error { return e.Err }

// ReasonOf returns the reason of an error, "" if it has none.
func ReasonOf(err error) Reason {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return ""
}
