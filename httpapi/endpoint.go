package httpapi

import (
	"context"
	"net/http"
	"net/url"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/dynamic"
	"github.com/proa-project/proa/httpapi/registry"
	"github.com/proa-project/proa/httpapi/request"
	"github.com/proa-project/proa/storage"
)

// An endpoint is a resource as the server shows it.
type endpoint struct {
	*registry.Resource
	protobuf bool // there is a protobuf form
	messages *memo
	store    watchable // what lists and watches read
	// converted says that items are not in the form in which they are shown.
	converted bool
	kind      *dynamic.Kind // nil for kinds of the fixed table
}

// watchable is the part of a store that a watch needs.
type watchable interface {
	List(ctx context.Context, prefix string, opts storage.ListOptions) (storage.List, error)
	Watch(ctx context.Context, prefix string, opts storage.WatchOptions) (storage.Watcher, error)
}

func newEndpoint(row *api.Resource, cfg registry.Config) *endpoint {
	return &endpoint{
		Resource: registry.New(row, cfg), protobuf: api.HasProtobuf(row.New()), messages: newMemo(memoLimit),
		store: cfg.Store, converted: row.StoredAs != nil,
	}
}

// own returns an item as JSON in the form of the resource, with its
// resourceVersion.
func (ep *endpoint) own(ctx context.Context, item *storage.Item) ([]byte, error) {
	switch {
	case !ep.converted:
		return item.Value, nil
	case ep.kind != nil:
		return ep.ownDynamic(ctx, item)
	}
	s, err := ep.Decode(ctx, *item)
	return s.Value, err
}

// A call is one request for a resource.
type call struct {
	*endpoint
	x    *exchange
	info *request.Info
}

func (c *call) query() url.Values { return c.x.query }

// registryCall returns what the registry wants to know of the request.
func (c *call) registryCall() *registry.Call {
	return &registry.Call{
		UID: c.x.state.AuditID, User: c.x.state.User,
		Namespace: c.info.Namespace, Name: c.info.Name, Subresource: c.info.Subresource,
	}
}

// A verb answers a request for a resource. Either it has written the answer,
// or it returns an error and has written nothing.
type verb func(w http.ResponseWriter, r *http.Request, c *call) error

// resource returns the handler that has the verb answer requests for ep.
func (s *Server) resource(ep *endpoint, v verb) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		x := exchangeOf(w)
		if err := v(w, r, &call{endpoint: ep, x: x, info: &x.state.Info}); err != nil {
			s.fail(w, r, err)
		}
	}
}
