package informers

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/client"
)

// A Source is what a Reflector reads from. Errors are those of httpapi/client.
type Source[T api.Object] interface {
	// List returns one page, or everything if o.Limit is 0.
	List(ctx context.Context, o metav1.ListOptions) (client.List[T], error)
	// Watch begins a stream of changes. The caller closes it.
	Watch(ctx context.Context, o metav1.ListOptions) (Stream[T], error)
}

// A Stream is a watch, as *client.Watch is one.
type Stream[T api.Object] interface {
	Next(ctx context.Context) (client.Event[T], error)
	Close()
}

// FromClient returns the Source that reads a kind through its client: one
// namespace or all with "", narrowed by selectors, which may be empty.
func FromClient[T api.Object](c *client.Client[T], namespace, labelSelector, fieldSelector string) Source[T] {
	return clientSource[T]{c: c, namespace: namespace, labels: labelSelector, fields: fieldSelector}
}

type clientSource[T api.Object] struct {
	c                         *client.Client[T]
	namespace, labels, fields string
}

func (s clientSource[T]) List(ctx context.Context, o metav1.ListOptions) (client.List[T], error) {
	o.LabelSelector, o.FieldSelector = s.labels, s.fields
	return s.c.List(ctx, s.namespace, o)
}

func (s clientSource[T]) Watch(ctx context.Context, o metav1.ListOptions) (Stream[T], error) {
	o.LabelSelector, o.FieldSelector = s.labels, s.fields
	w, err := s.c.Watch(ctx, s.namespace, o)
	if err != nil {
		return nil, err // a nil *Watch must not become a Stream
	}
	return w, nil
}
