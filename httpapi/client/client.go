package client

import (
	"context"
	"fmt"
	"net/http"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/api"
)

// A Client reads and writes the objects of one kind. Objects that it returns
// belong to the caller; objects handed in are not changed.
type Client[T api.Object] struct {
	rest     *REST
	resource *api.Resource
	newT     func() T
	// accept is asked for in answers with one object, acceptList with many.
	accept, acceptList string
}

// For returns the client of the kind T. It panics if T is not in the table of
// kinds: that is a mistake in the program.
func For[T api.Object](c *REST) *Client[T] {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Pointer {
		panic(fmt.Sprintf("client.For: %v is not a pointer to a kind", t))
	}
	obj := reflect.New(t.Elem()).Interface().(T) //nolint:errcheck // it is that type
	r := api.ByType(obj)
	if r == nil {
		panic(fmt.Sprintf("client.For: %v is not in the table of kinds", t))
	}
	return &Client[T]{
		rest: c, resource: r, accept: mediaJSON, acceptList: mediaJSON,
		newT: func() T { return r.New().(T) }, //nolint:errcheck // rows hold their type
	}
}

// Metadata returns a client that sees only the metadata of a resource's
// objects. Its Create and Update must not be used.
func Metadata(c *REST, r *api.Resource) *Client[*metav1.PartialObjectMetadata] {
	return &Client[*metav1.PartialObjectMetadata]{
		rest: c, resource: r, accept: mediaMetadata, acceptList: mediaMetaList,
		newT: func() *metav1.PartialObjectMetadata { return new(metav1.PartialObjectMetadata) },
	}
}

// Resource returns the row of the kind.
func (c *Client[T]) Resource() *api.Resource { return c.resource }

// REST returns what the client sends its requests with.
func (c *Client[T]) REST() *REST { return c.rest }

// Get reads one object. The namespace is ignored for cluster-wide kinds.
func (c *Client[T]) Get(ctx context.Context, namespace, name string) (T, error) {
	return c.object(ctx, Request{Accept: c.accept}, namespace, name)
}

// object sends a request that names an object and decodes the answer.
func (c *Client[T]) object(ctx context.Context, q Request, namespace, name string, sub ...string) (T, error) {
	var zero T
	if err := checkName(c.resource, namespace, name); err != nil {
		return zero, err
	}
	q.Path = Path(c.resource, namespace, name, sub...)
	out := c.newT()
	if err := c.rest.call(ctx, q, out); err != nil {
		return zero, err
	}
	return out, nil
}

// A List is a list of objects, or a page of one.
type List[T api.Object] struct {
	Items []T
	// ResourceVersion is the state that the list shows.
	ResourceVersion string
	// Continue asks for the next page; empty on the last.
	Continue string
}

// wireList is a list as it is on the wire; the items are decoded in the same
// pass as the frame.
type wireList[T api.Object] struct {
	Metadata metav1.ListMeta `json:"metadata"`
	Items    []T             `json:"items"`
}

// List reads the objects of a namespace, or of all with "". It returns one
// page if o.Limit is set, and everything otherwise.
func (c *Client[T]) List(ctx context.Context, namespace string, o metav1.ListOptions) (List[T], error) {
	p := Path(c.resource, namespace, "")
	resp, err := c.rest.Do(ctx, Request{Path: p, Query: listQuery(&o), Accept: c.acceptList})
	if err != nil {
		return List[T]{}, err
	}
	body, err := readBody(resp, maxAnswer)
	if err != nil {
		return List[T]{}, err
	}
	var w wireList[T]
	if err := c.decodeList(body, &w); err != nil {
		return List[T]{}, fmt.Errorf("decode answer to GET %q: %w", p, err)
	}
	return List[T]{Items: w.Items, ResourceVersion: w.Metadata.ResourceVersion, Continue: w.Metadata.Continue}, nil
}

// Create adds the object and returns it as it was stored.
func (c *Client[T]) Create(ctx context.Context, obj T) (T, error) {
	var zero T
	body, err := api.Encode(obj)
	if err != nil {
		return zero, fmt.Errorf("encode %s: %w", c.resource.Kind, err)
	}
	out := c.newT()
	q := Request{Method: http.MethodPost, Path: Path(c.resource, obj.GetNamespace(), ""), Body: body}
	if err := c.rest.call(ctx, q, out); err != nil {
		return zero, err
	}
	return out, nil
}

// Update replaces the object and returns it as it was stored. With a
// resourceVersion in obj it fails with a conflict if the object has changed.
func (c *Client[T]) Update(ctx context.Context, obj T) (T, error) { return c.put(ctx, obj) }

// UpdateStatus replaces the status of the object, and leaves the rest.
func (c *Client[T]) UpdateStatus(ctx context.Context, obj T) (T, error) {
	return c.put(ctx, obj, "status")
}

func (c *Client[T]) put(ctx context.Context, obj T, sub ...string) (T, error) {
	body, err := api.Encode(obj)
	if err != nil {
		var zero T
		return zero, fmt.Errorf("encode %s: %w", c.resource.Kind, err)
	}
	return c.object(ctx, Request{Method: http.MethodPut, Body: body}, obj.GetNamespace(), obj.GetName(), sub...)
}

// Patch changes the object, or a subresource of it, by a JSON patch, merge
// patch or strategic merge patch.
func (c *Client[T]) Patch(ctx context.Context, namespace, name string, pt types.PatchType, data []byte, subresource ...string) (T, error) {
	q := Request{Method: http.MethodPatch, Accept: c.accept, ContentType: string(pt), Body: data}
	return c.object(ctx, q, namespace, name, subresource...)
}

// Delete deletes the object. An object with finalizers, or a pod with a grace
// period, is still there when Delete returns.
func (c *Client[T]) Delete(ctx context.Context, namespace, name string, o metav1.DeleteOptions) error {
	if err := checkName(c.resource, namespace, name); err != nil {
		return err
	}
	body, err := deleteBody(&o)
	if err != nil {
		return err
	}
	return c.rest.call(ctx, Request{Method: http.MethodDelete, Path: Path(c.resource, namespace, name), Body: body}, nil)
}
