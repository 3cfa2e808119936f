package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/proa-project/proa/api"
	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/informers"
)

type object = *unstructured.Unstructured

// A kind is one that a Reconciler is for or owns, as the server has it.
type kind struct {
	row       *api.Resource
	hasStatus bool
	selector  labels.Selector
	text      string // of the selector
	api       *client.Client[object]
	copy      *informers.Informer[object]
}

// byOwner is the index of owned objects by the UID of their controller.
const byOwner = "owner"

// maxDiscovery bounds the list of a group's resources.
const maxDiscovery = 4 << 20

// discover finds out what a kind is. It wraps errUnserved if there is none.
func discover(ctx context.Context, rest *client.REST, w *pluginsv1.WatchedKind) (*kind, error) {
	path := "/apis/" + w.Group + "/" + w.Version
	if w.Group == "" {
		path = "/api/" + w.Version
	}
	name := (&api.Resource{Group: w.Group, Plural: w.Resource}).GR().String()
	resp, err := rest.Do(ctx, client.Request{Path: path})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%s of version %s %w", name, w.Version, errUnserved)
	}
	if err != nil {
		return nil, fmt.Errorf("discover %s: %w", name, err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxDiscovery))
	if err != nil {
		return nil, fmt.Errorf("discover %s: %w", name, err)
	}
	var list metav1.APIResourceList
	if err = json.Unmarshal(b, &list); err != nil {
		return nil, fmt.Errorf("discover %s: %w", name, err)
	}
	k := &kind{selector: labels.Everything()}
	for i := range list.APIResources {
		switch r := &list.APIResources[i]; r.Name {
		case w.Resource:
			k.row = &api.Resource{Group: w.Group, Version: w.Version, Kind: r.Kind, Plural: r.Name, Namespaced: r.Namespaced}
		case w.Resource + "/status":
			k.hasStatus = true
		}
	}
	if k.row == nil {
		return nil, fmt.Errorf("%s of version %s %w", name, w.Version, errUnserved)
	}
	if w.Selector != nil {
		if k.selector, err = metav1.LabelSelectorAsSelector(w.Selector); err != nil {
			return nil, fmt.Errorf("selector of %s: %w", name, err)
		}
		k.text = k.selector.String()
	}
	return k, nil
}

// is reports whether an object is of the kind.
func (k *kind) is(o object) bool {
	return o.GetAPIVersion() == k.row.GroupVersion().String() && o.GetKind() == k.row.Kind
}

// A source reads a kind as somebody who may not be allowed to, and tells.
type source struct {
	informers.Source[object]
	tell func(context.Context, error) // nil when it works again
}

// List implements informers.Source.
func (s *source) List(ctx context.Context, o metav1.ListOptions) (client.List[object], error) {
	l, err := s.Source.List(ctx, o)
	s.told(ctx, err)
	return l, err
}

// Watch implements informers.Source.
func (s *source) Watch(ctx context.Context, o metav1.ListOptions) (informers.Stream[object], error) {
	w, err := s.Source.Watch(ctx, o)
	s.told(ctx, err)
	return w, err
}

func (s *source) told(ctx context.Context, err error) {
	if ctx.Err() == nil {
		s.tell(ctx, err)
	}
}

// decodeJSON decodes as objects of the API are decoded: numbers are int64 if
// they can be.
func decodeJSON(b []byte) (any, error) {
	u := struct {
		V any `json:"v"`
	}{}
	err := unmarshal(append(append([]byte(`{"v":`), b...), '}'), &u)
	return u.V, err
}
