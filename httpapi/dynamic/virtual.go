// Package dynamic is the table of kinds that appear at run time, beside the
// fixed ones of package api: virtual resources, which a Go provider answers for
// in place of storage, and the kinds of CustomResourceDefinitions.
//
// Whoever has virtual resources hands them to Table.SetVirtual and may replace
// or withdraw them at any time. The server reads immutable Sets, so that a
// request sees the old kinds or the new ones, never some of both.
package dynamic

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/request"
)

// A Virtual is a resource whose objects are not stored.
type Virtual struct {
	// Resource describes it as rows of package api do, without Storage. Verbs
	// that are empty follow from the provider. New and NewList may be nil: then
	// the published schema is free-form; a New that returns a Go type gives the
	// type's schema, and its columns in api/table if Columns is nil.
	Resource *api.Resource
	Provider Provider
	// Columns are what kubectl get prints after the name; nil is the age.
	Columns []Column
	// Poll is the time between two looks at the list while somebody watches,
	// shared by all watchers; 0 means 10 s.
	Poll time.Duration
}

// A Column is a column of a table of objects.
type Column struct {
	Name, Type, Format, Description string // Type is string, integer, number, boolean or date
	Priority                        int32  // above 0 is for wide output only
	JSONPath                        string // where the value is: .spec.size
}

// A Request is what a provider is asked for.
type Request struct {
	// User is who asks. Watches share one list, for which the server itself
	// asks as Server: what one user may not see in it must not be there.
	User *request.User
	// AuditID names the request; "" for the list behind watches.
	AuditID         string
	Namespace, Name string // Namespace is "" for cluster-scoped resources and for all
	// LabelSelector and FieldSelector are as the client wrote them, and
	// well-formed. A provider may leave them, and Limit, alone: the server
	// drops what does not match.
	LabelSelector, FieldSelector string
	Limit                        int64  // 0 is all
	Continue                     string // what the list before had in its metadata
}

// Server is who asks on behalf of all watchers.
var Server = &request.User{Name: "system:apiserver", Groups: []string{"system:masters", "system:authenticated"}} //nolint:gochecknoglobals // a constant in all but name

// A Provider answers for a virtual resource. It is called by many requests at
// once. Errors that are apierrors become the answer as they are, others an
// internal error. Objects belong to the server from then on; apiVersion, kind
// and resourceVersion are the server's to set. Objects without uid count as the
// same as long as namespace and name are.
type Provider interface {
	Get(ctx context.Context, r *Request) (*unstructured.Unstructured, error)
	List(ctx context.Context, r *Request) (*unstructured.UnstructuredList, error)
}

// A Creator is a Provider that makes objects. It returns the object as it is
// now. The request's Name may be "" for an object with generateName.
type Creator interface {
	Create(ctx context.Context, r *Request, obj *unstructured.Unstructured) (*unstructured.Unstructured, error)
}

// An Updater is a Provider that changes objects, for PUT and PATCH. The server
// has compared the client's resourceVersion, if there was one, with what Get
// returned just before; obj has the resourceVersion of that.
type Updater interface {
	Update(ctx context.Context, r *Request, obj *unstructured.Unstructured) (*unstructured.Unstructured, error)
}

// A Deleter is a Provider that removes objects. It may return the last state,
// or nil.
type Deleter interface {
	Delete(ctx context.Context, r *Request, opts *metav1.DeleteOptions) (*unstructured.Unstructured, error)
}

// ToUnstructured returns an object with a Go type as providers hand it out.
func ToUnstructured(obj runtime.Object) (*unstructured.Unstructured, error) {
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("convert a %T: %w", obj, err)
	}
	return &unstructured.Unstructured{Object: m}, nil
}

// verbsOf returns what a provider can do.
func verbsOf(p Provider) []string {
	verbs := []string{"get", "list", "watch"}
	if _, ok := p.(Creator); ok {
		verbs = append(verbs, "create")
	}
	if _, ok := p.(Updater); ok {
		verbs = append(verbs, "patch", "update")
	}
	if _, ok := p.(Deleter); ok {
		verbs = append(verbs, "delete")
	}
	slices.Sort(verbs)
	return verbs
}
