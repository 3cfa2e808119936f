package registry

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proa-project/proa/storage"
)

// A Reason is the kind of an Error.
type Reason int

// The reasons.
const (
	NotFound        Reason = iota + 1
	Exists                 // there is an object of that name
	NoFreeName             // each generated name was taken
	Conflict               // the object is not what the client thinks it is
	Invalid                // Fields says what is wrong with the object
	BadRequest             // Err says what is wrong with the request
	Forbidden              // Err says why
	NotAllowed             // the resource does not know the operation that Err names
	TooManyRequests        // Err says what to wait for
)

// ErrModified is the detail of a Conflict over resourceVersion.
var ErrModified = errors.New("the object has been modified; please apply your changes to the latest version and try again")

// An Error is why a write did not happen, in terms of the resource.
type Error struct {
	Reason   Reason
	Resource schema.GroupResource
	Kind     schema.GroupKind // for Invalid
	Name     string
	Fields   field.ErrorList      // for Invalid
	Causes   []metav1.StatusCause // that clients look for
	Err      error                // the detail, where the reason needs one
}

func (e *Error) Error() string {
	detail := e.Err
	if len(e.Fields) > 0 {
		detail = e.Fields.ToAggregate()
	}
	return fmt.Sprintf("%s %q: reason %d: %v", e.Resource, e.Name, e.Reason, detail)
}

// Unwrap returns the detail.
func (e *Error) Unwrap() error { return e.Err }

// fail returns an Error about the object that a call names.
func (r *Resource) fail(c *Call, reason Reason, err error) *Error {
	return &Error{Reason: reason, Resource: r.GR(), Kind: r.GVK().GroupKind(), Name: c.Name, Err: err}
}

// invalid returns an Error about one field.
func (r *Resource) invalid(c *Call, f *field.Error) *Error {
	e := r.fail(c, Invalid, nil)
	e.Fields = field.ErrorList{f}
	return e
}

// badRequest returns an Error about a request that makes no sense.
func (r *Resource) badRequest(c *Call, format string, args ...any) *Error {
	return r.fail(c, BadRequest, fmt.Errorf(format, args...))
}

// StorageError says in terms of the resource what went wrong in storage. What
// says nothing about the resource comes back as it is.
func (r *Resource) StorageError(c *Call, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, storage.ErrNotFound):
		return r.fail(c, NotFound, nil)
	case errors.Is(err, storage.ErrExists):
		return r.fail(c, Exists, nil)
	case errors.Is(err, storage.ErrConflict):
		return r.fail(c, Conflict, ErrModified)
	default:
		return err
	}
}

// is reports whether an error is an Error of the reason.
func is(err error, reason Reason) bool {
	e := (*Error)(nil)
	return errors.As(err, &e) && e.Reason == reason
}
