// Package admission is the contract of what may change or refuse a write
// between its decoding and its storing.
package admission

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/request"
)

// An Operation is the kind of a write.
type Operation string

// The operations.
const (
	Create  Operation = "CREATE"
	Update  Operation = "UPDATE"
	Delete  Operation = "DELETE"
	Connect Operation = "CONNECT"
)

// A Request is one write on its way to storage. It belongs to one goroutine.
type Request struct {
	UID         string // of this request, for logs and answers
	Operation   Operation
	Resource    *api.Resource
	Subresource string
	Namespace   string
	Name        string // "" for generateName before it is resolved
	User        *request.User
	DryRun      bool
	Options     runtime.Object // metav1.CreateOptions and the like, nil if none

	// Object is the new object, nil for Delete. A Mutator may change it in
	// place or put another of the same type here; it calls Changed after.
	Object runtime.Object
	// OldObject is the stored object, nil for Create. Never change it.
	OldObject runtime.Object

	// Warnings go to the client as Warning headers.
	Warnings []string
	// Annotations go to the audit log.
	Annotations map[string]string

	// Session is what the policies keep between the two phases.
	Session any

	json, oldJSON []byte
}

// Changed says that Object is not what it was: cached forms are dropped.
func (r *Request) Changed() { r.json = nil }

// ObjectJSON returns Object as JSON, encoded once for all plugins. Nil stays
// nil. The bytes must not be modified.
func (r *Request) ObjectJSON() ([]byte, error) {
	var err error
	if r.json == nil && r.Object != nil {
		r.json, err = api.Encode(r.Object)
	}
	return r.json, err
}

// Encoded hands in Object's JSON where it is known, without resourceVersion,
// so that ObjectJSON need not make it.
func (r *Request) Encoded(json []byte) { r.json = json }

// OldObjectJSON returns OldObject as JSON, like ObjectJSON.
func (r *Request) OldObjectJSON() ([]byte, error) {
	var err error
	if r.oldJSON == nil && r.OldObject != nil {
		r.oldJSON, err = api.Encode(r.OldObject)
	}
	return r.oldJSON, err
}

// Warn adds a warning for the client.
func (r *Request) Warn(text string) { r.Warnings = append(r.Warnings, text) }

// Annotate adds an audit annotation.
func (r *Request) Annotate(key, value string) {
	if r.Annotations == nil {
		r.Annotations = map[string]string{}
	}
	r.Annotations[key] = value
}

// A Mutator may change the object of a write. To refuse the write it returns
// a *Denial; any other error fails the request as an internal error.
type Mutator interface {
	Mutate(ctx context.Context, r *Request) error
}

// A Validator may refuse a write, as a Mutator does. It changes nothing.
type Validator interface {
	Validate(ctx context.Context, r *Request) error
}

// A Chain is admission as a whole, in the order in which it is called. The
// server's configuration is the one place that states the order.
type Chain struct {
	Mutators   []Mutator
	Validators []Validator
}

// Mutate calls the mutators in order, up to the first error.
func (c *Chain) Mutate(ctx context.Context, r *Request) error {
	for _, m := range c.Mutators {
		if err := m.Mutate(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// Validate calls the validators in order, up to the first error.
func (c *Chain) Validate(ctx context.Context, r *Request) error {
	for _, v := range c.Validators {
		if err := v.Validate(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// A Denial is a refusal with the answer that the client gets.
type Denial struct { //nolint:errname // it is an answer
	Status metav1.Status
}

func (d *Denial) Error() string { return d.Status.Message }
