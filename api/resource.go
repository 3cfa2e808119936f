// Package api is the table of the kinds that Proa serves, and their codecs.
//
// There is one Go type per kind: the wire type of k8s.io/api. What differs
// between kinds is a row in the table (see Resources), not code elsewhere.
package api

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An Object is any kind that is stored: it has a type and metadata.
type Object interface {
	runtime.Object
	metav1.Object
}

// A Resource is one row of the table of kinds.
type Resource struct {
	Group, Version, Kind string
	Plural, Singular     string
	Namespaced           bool
	ShortNames           []string
	Categories           []string // "all" for kubectl get all
	// Verbs in discovery order: create, delete, deletecollection, get, list,
	// patch, update, watch.
	Verbs []string

	// Storage is the key prefix, with the trailing slash: "/registry/pods/".
	// An object's key is Storage + namespace + "/" + name, or Storage + name.
	Storage string
	// TTL is how long an object lives after its last write; 0 is for ever.
	TTL time.Duration

	// CreateOnly says that nothing of the kind is stored: an object can be created,
	// and the answer is all there is of it. Storage and NewList are not set.
	CreateOnly bool

	// New returns an empty object, NewList an empty list.
	New     func() Object
	NewList func() runtime.Object

	// Fields are the field labels that field selectors may name, beside
	// metadata.name and metadata.namespace.
	Fields []string

	Subresources []Subresource

	// StoredAs is the row whose form is stored, nil when it is this one. Two
	// versions of a kind, or two groups that show the same objects, share it.
	StoredAs     *Resource
	ToStored     func(Object) (Object, error)
	FromStored   func(Object) (Object, error)
	StoredFields map[string]string // field label here -> field label of StoredAs

	// GracefulDelete is true for kinds whose deletion somebody else finishes.
	GracefulDelete bool
	// CreateOnUpdate allows PUT to create; UnconditionalUpdate allows PUT
	// without a resourceVersion.
	CreateOnUpdate, UnconditionalUpdate bool

	extract *extractor // of Extract; set when the table is built
}

// A Subresource is a path below an object.
type Subresource struct {
	Name string // "status", "scale", "binding", "log"
	// Group, Version and Kind are of the body, if it differs from the parent.
	Group, Version, Kind string
	Verbs                []string
	// New returns an empty body; nil if the body is the parent's kind or not
	// an object.
	New func() runtime.Object
}

// GroupVersion returns the group and version.
func (r *Resource) GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: r.Group, Version: r.Version}
}

// GVK returns the group, version and kind.
func (r *Resource) GVK() schema.GroupVersionKind { return r.GroupVersion().WithKind(r.Kind) }

// GVR returns the group, version and resource.
func (r *Resource) GVR() schema.GroupVersionResource {
	return r.GroupVersion().WithResource(r.Plural)
}

// GR returns the group and resource, as upstream's error texts name it.
func (r *Resource) GR() schema.GroupResource { return r.GVR().GroupResource() }

// Stored returns the row whose form is in storage.
func (r *Resource) Stored() *Resource {
	if r.StoredAs != nil {
		return r.StoredAs
	}
	return r
}

// Subresource returns the subresource with the name, or nil.
func (r *Resource) Subresource(name string) *Subresource {
	for i := range r.Subresources {
		if r.Subresources[i].Name == name {
			return &r.Subresources[i]
		}
	}
	return nil
}

// Key returns the storage key of an object.
func (r *Resource) Key(namespace, name string) string {
	s := r.Stored()
	if s.Namespaced {
		return s.Storage + namespace + "/" + name
	}
	return s.Storage + name
}

// Prefix returns the storage prefix of a namespace, or of all with "".
func (r *Resource) Prefix(namespace string) string {
	s := r.Stored()
	if s.Namespaced && namespace != "" {
		return s.Storage + namespace + "/"
	}
	return s.Storage
}
