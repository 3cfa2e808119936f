package client

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"

	"github.com/proa-project/proa/api"
)

// Unstructured returns a client that reads and writes the objects of any
// resource as decoded JSON, of kinds that are in the table as of others. Of the
// row only group, version, kind, plural and scope count.
func Unstructured(c *REST, r *api.Resource) *Client[*unstructured.Unstructured] {
	return &Client[*unstructured.Unstructured]{
		rest: c, resource: r, accept: mediaJSON, acceptList: mediaJSON,
		newT: func() *unstructured.Unstructured { return newFree(r) },
	}
}

func newFree(r *api.Resource) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(r.GVK())
	return u
}

// decodeList decodes a list. The items of unstructured lists need not say what
// they are.
func (c *Client[T]) decodeList(body []byte, into *wireList[T]) error {
	var zero T
	if _, free := any(zero).(*unstructured.Unstructured); !free {
		return kjson.UnmarshalCaseSensitivePreserveInts(body, into)
	}
	var w struct {
		Metadata metav1.ListMeta  `json:"metadata"`
		Items    []map[string]any `json:"items"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, &w); err != nil {
		return err
	}
	into.Metadata = w.Metadata
	for _, object := range w.Items {
		u := newFree(c.resource)
		maps.Copy(u.Object, object)
		into.Items = append(into.Items, any(u).(T)) //nolint:errcheck,forcetypeassert // T is that type
	}
	return nil
}
