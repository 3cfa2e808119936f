package capability

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/proa-project/proa/api"
	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/authz"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/httpapi/request"
)

const (
	defaultLimit = 500
	maxLimit     = 5000
	// maxAnswer bounds what is read of the API for one call. The engine has
	// a limit of its own for what a guest gets in all.
	maxAnswer = 16 << 20
)

// A query is a request of kube.get and kube.list.
type query struct {
	Group    string `json:"group"`
	Version  string `json:"version"`
	Resource string `json:"resource"`
	// Kind is in place of a Resource that the caller can only guess.
	Kind          string `json:"kind"`
	Namespace     string `json:"namespace"`
	Name          string `json:"name"`
	LabelSelector string `json:"labelSelector"`
	FieldSelector string `json:"fieldSelector"`
	Limit         int    `json:"limit"`
}

// A mask is what of an object a guest gets; nil is everything.
type mask struct{ *api.Selection }

func newMask(fields []string) *mask {
	if len(fields) == 0 {
		return nil
	}
	return &mask{api.Select(fields...)}
}

func (m *mask) append(b, object []byte) []byte {
	if m == nil {
		return append(b, object...)
	}
	return m.Append(b, object)
}

// read is the outcome of the checks of a query.
type read struct {
	query
	row  *api.Resource
	mask *mask
}

// kubeGet answers with an object.
func (b *Broker) kubeGet(ctx context.Context, h *holder, c *pluginsv1.Capability, req []byte) ([]byte, error) {
	r, err := h.query(c, req)
	if err != nil {
		return nil, err
	}
	if err = r.checkPath(); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	if err = b.allowed(ctx, h, r, "get"); err != nil {
		return nil, err
	}
	body, err := b.get(ctx, client.Path(r.row, r.Namespace, r.Name), url.Values{"resourceVersion": {"0"}})
	if err != nil {
		return nil, err
	}
	return r.mask.append(nil, body), nil
}

// kubeList answers with the objects of a namespace, or of all.
func (b *Broker) kubeList(ctx context.Context, h *holder, c *pluginsv1.Capability, req []byte) ([]byte, error) {
	r, err := h.query(c, req)
	if err != nil {
		return nil, err
	}
	r.Name = ""
	if r.Limit <= 0 {
		r.Limit = defaultLimit
	}
	if err = b.allowed(ctx, h, r, "list"); err != nil {
		return nil, err
	}
	q := url.Values{"resourceVersion": {"0"}, "limit": {strconv.Itoa(min(r.Limit, maxLimit))}}
	if r.LabelSelector != "" {
		q.Set("labelSelector", r.LabelSelector)
	}
	if r.FieldSelector != "" {
		q.Set("fieldSelector", r.FieldSelector)
	}
	body, err := b.get(ctx, client.Path(r.row, r.Namespace, ""), q)
	if err != nil {
		return nil, err
	}
	return r.mask.list(body)
}

// list makes the answer of a list's body.
func (m *mask) list(body []byte) ([]byte, error) {
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("kube.list: the list cannot be read: %w", err)
	}
	out := append(make([]byte, 0, len(body)), `{"items":[`...)
	for i, item := range list.Items {
		if i > 0 {
			out = append(out, ',')
		}
		out = m.append(out, item)
	}
	return append(out, `]}`...), nil
}

// query reads a request and checks it against the grant.
func (h *holder) query(c *pluginsv1.Capability, req []byte) (*read, error) {
	r := &read{}
	if err := decode(c.Name, req, &r.query); err != nil {
		return nil, err
	}
	r.row = r.resource()
	r.Resource = r.row.Plural
	if !r.row.Namespaced {
		r.Namespace = ""
	}
	why := ""
	for i := range c.Resources {
		g := &c.Resources[i]
		if g.Group != r.Group || g.Version != r.Version || g.Resource != r.Resource {
			continue
		}
		if len(g.Namespaces) == 0 || r.Namespace != "" && slices.Contains(g.Namespaces, r.Namespace) {
			r.mask = h.masks[g]
			return r, nil
		}
		why = " in all namespaces"
		if r.Namespace != "" {
			why = fmt.Sprintf(" in the namespace %q", r.Namespace)
		}
	}
	return nil, denied("called %q for %s%s, which the binding does not grant", c.Name, schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource}, why)
}

// resource returns the row of the kind, or what is needed of one for a kind
// that is not in the table.
func (r *read) resource() *api.Resource {
	if row := api.ByGVR(r.Group, r.Version, r.Resource); row != nil {
		return row
	}
	if r.Kind != "" {
		if row := api.ByKind(schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}); row != nil {
			return row
		}
	}
	row := *authz.Named(r.Group, r.Version, r.Resource)
	row.Namespaced = r.Namespace != ""
	return &row
}

// checkPath refuses names that would make another path of it.
func (r *read) checkPath() error {
	if r.Name == "" {
		return errors.New("the request has no name")
	}
	if r.row.Namespaced && r.Namespace == "" {
		return errors.New("the request has no namespace")
	}
	return nil
}

// allowed returns nil if the plugin's ServiceAccount may do what is asked, and
// else the answer that it would get from the API.
func (b *Broker) allowed(ctx context.Context, h *holder, r *read, verb string) error {
	for _, s := range []string{r.Group, r.Version, r.Resource, r.Namespace, r.Name} {
		if msgs := content.IsPathSegmentName(s); s != "" && len(msgs) > 0 {
			return fmt.Errorf("invalid resource name %q: %s", s, strings.Join(msgs, ", "))
		}
	}
	if h.user == nil {
		return errors.New("forbidden: the plugin has no serviceAccount, so it can read nothing")
	}
	info := &request.Info{
		Verb: verb, Path: client.Path(r.row, r.Namespace, r.Name), Resource: r.row, Namespace: r.Namespace, Name: r.Name,
		LabelSelector: r.LabelSelector, FieldSelector: r.FieldSelector,
	}
	decision, reason, err := b.c.Authorize(ctx, h.user, info)
	if err != nil {
		return fmt.Errorf("authorize: %w", err)
	}
	if decision == authz.Allow {
		return nil
	}
	return forbidden(h.user, info, reason)
}

// forbidden is the answer in the words of the API.
func forbidden(user *request.User, info *request.Info, reason string) error {
	gr := info.Resource.GR()
	what := fmt.Sprintf("User %q cannot %s resource %q in API group %q", user.Name, info.Verb, gr.Resource, gr.Group)
	if info.Namespace != "" {
		what += fmt.Sprintf(" in the namespace %q", info.Namespace)
	} else {
		what += " at the cluster scope"
	}
	if reason != "" {
		what += ": " + reason
	}
	return fmt.Errorf("forbidden: %w", apierrors.NewForbidden(gr, info.Name, errors.New(what)))
}

// get reads a path of the API, from the server's cache.
func (b *Broker) get(ctx context.Context, path string, q url.Values) ([]byte, error) {
	resp, err := b.c.REST.Do(ctx, client.Request{Path: path, Query: q})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	var buf bytes.Buffer
	n, err := buf.ReadFrom(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("read the API: %w", err)
	}
	if n > maxAnswer {
		return nil, fmt.Errorf("the answer has more than %d bytes; a lower limit or fields help", maxAnswer)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// configRead answers with the data of a ConfigMap that the binding names. That
// is grant enough: no ServiceAccount is needed.
func (b *Broker) configRead(ctx context.Context, _ *holder, c *pluginsv1.Capability, req []byte) ([]byte, error) {
	var q struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	}
	if err := decode(c.Name, req, &q); err != nil {
		return nil, err
	}
	if !slices.Contains(c.ConfigMaps, q.Namespace+"/"+q.Name) {
		return nil, denied("called %q for %s/%s, which the binding does not grant", c.Name, q.Namespace, q.Name)
	}
	body, err := b.get(ctx, client.Path(api.ByGVR("", "v1", "configmaps"), q.Namespace, q.Name), url.Values{"resourceVersion": {"0"}})
	if err != nil {
		return nil, err
	}
	data := api.Member(body, "data")
	if data == nil {
		data = []byte("{}")
	}
	return append(append([]byte(`{"data":`), data...), '}'), nil
}

// canI answers whether a user, or the plugin's ServiceAccount, may do something.
func (b *Broker) canI(ctx context.Context, h *holder, c *pluginsv1.Capability, req []byte) ([]byte, error) {
	var q struct {
		query
		Verb        string              `json:"verb"`
		Subresource string              `json:"subresource"`
		User        string              `json:"user"`
		Groups      []string            `json:"groups"`
		Extra       map[string][]string `json:"extra"`
	}
	if err := decode(c.Name, req, &q); err != nil {
		return nil, err
	}
	if q.Verb == "" || q.Resource == "" {
		return nil, errors.New("authz.can_i: the request needs a verb and a resource")
	}
	user := h.user
	if q.User != "" || len(q.Groups) > 0 {
		user = &request.User{Name: q.User, Groups: q.Groups, Extra: q.Extra}
	}
	if user == nil {
		return nil, errors.New("authz.can_i: the request names no user, and the plugin has no serviceAccount")
	}
	decision, reason, err := b.c.Authorize(ctx, user, &request.Info{
		Verb: q.Verb, Resource: authz.Named(q.Group, q.Version, q.Resource), Subresource: q.Subresource,
		Namespace: q.Namespace, Name: q.Name,
	})
	if err != nil {
		return nil, fmt.Errorf("authorize: %w", err)
	}
	return json.Marshal(struct {
		Allowed bool   `json:"allowed"`
		Reason  string `json:"reason,omitempty"`
	}{decision == authz.Allow, reason})
}
