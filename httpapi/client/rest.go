package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/proa-project/proa/api"
)

// Media types that this client speaks.
const (
	mediaJSON     = "application/json"
	mediaMetadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	mediaMetaList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

const (
	// maxRetries bounds how often an idempotent call is repeated when the
	// server asks for it with Retry-After.
	maxRetries = 5
	// maxRetryAfter bounds how long the server may make a call wait.
	maxRetryAfter = 10 * time.Second
	// maxAnswer bounds the body of an answer that is read as a whole.
	maxAnswer = 1 << 30
)

// Config says where the API is and who calls it.
type Config struct {
	// URL is the server's address, "https://10.0.0.1:6443". Empty is right
	// for an in-process transport.
	URL string
	// Transport carries the requests; nil is http.DefaultTransport. See
	// NewTransport and InProcess.
	Transport http.RoundTripper
	// Token is sent as bearer token if it is not empty.
	Token string
	// UserAgent names the component; empty is "proa".
	UserAgent string
}

// A REST sends requests to one API server as one user.
type REST struct {
	scheme, host, prefix string
	transport            http.RoundTripper
	token, userAgent     string
	impersonate          string // "" is nobody
}

// New returns a REST, or an error if the URL is none.
func New(cfg Config) (*REST, error) {
	c := &REST{transport: cfg.Transport, userAgent: cfg.UserAgent, scheme: "http", host: "in-process"}
	if cfg.URL != "" {
		u, err := url.Parse(cfg.URL)
		if err != nil {
			return nil, fmt.Errorf("server address %q: %w", cfg.URL, err)
		}
		if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			return nil, fmt.Errorf("server address %q: want http(s)://host[:port]", cfg.URL)
		}
		c.scheme, c.host, c.prefix = u.Scheme, u.Host, strings.TrimSuffix(u.Path, "/")
	}
	if c.transport == nil {
		c.transport = http.DefaultTransport
	}
	if cfg.Token != "" {
		c.token = "Bearer " + cfg.Token
	}
	if c.userAgent == "" {
		c.userAgent = "proa"
	}
	return c, nil
}

// URL returns the address of the server.
func (c *REST) URL() string { return c.scheme + "://" + c.host + c.prefix }

// As returns a REST to the same server with another token and user agent.
func (c *REST) As(token, userAgent string) *REST {
	d := *c
	d.token, d.userAgent = "Bearer "+token, userAgent
	return &d
}

// Impersonate returns a REST to the same server whose requests are made as
// another user, which the own user must be allowed. Of the groups the server
// adds those that such a user always has.
func (c *REST) Impersonate(user string) *REST {
	d := *c
	d.impersonate = user
	return &d
}

// A Request is one call. Only Path is required.
type Request struct {
	Method      string // default GET
	Path        string // absolute and not escaped: "/api/v1/nodes"
	Query       url.Values
	Accept      string // default application/json
	ContentType string // of Body; default application/json
	Body        []byte
}

// Do sends the request and returns an answer with a 2xx status, whose body the
// caller closes. Any other status is returned as *errors.StatusError.
//
// GET, PUT and DELETE are sent again, a bounded number of times, if the server
// answers 429 or 503 with Retry-After.
func (c *REST) Do(ctx context.Context, q Request) (*http.Response, error) {
	for try := 0; ; try++ {
		resp, err := c.transport.RoundTrip(c.request(ctx, &q))
		if err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, fmt.Errorf("%s %q: %w", method(q.Method), q.Path, err)
		}
		if resp.StatusCode >= 200 && resp.StatusCode < 300 {
			return resp, nil
		}
		wait, again := retryAfter(resp, q.Method)
		statusErr := readStatus(resp, q.Method)
		if !again || try == maxRetries {
			return nil, statusErr
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, ctx.Err()
		}
	}
}

func method(m string) string {
	if m == "" {
		return http.MethodGet
	}
	return m
}

func (c *REST) request(ctx context.Context, q *Request) *http.Request {
	h := make(http.Header, 4)
	accept := q.Accept
	if accept == "" {
		accept = mediaJSON
	}
	h["Accept"] = []string{accept}
	h["User-Agent"] = []string{c.userAgent}
	if c.token != "" {
		h["Authorization"] = []string{c.token}
	}
	if c.impersonate != "" {
		h["Impersonate-User"] = []string{c.impersonate}
	}
	r := &http.Request{
		Method: method(q.Method),
		URL:    &url.URL{Scheme: c.scheme, Host: c.host, Path: c.prefix + q.Path, RawQuery: q.Query.Encode()},
		Host:   c.host, Header: h,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	if q.Body != nil {
		ct := q.ContentType
		if ct == "" {
			ct = mediaJSON
		}
		h["Content-Type"] = []string{ct}
		body := q.Body
		r.ContentLength = int64(len(body))
		r.Body = io.NopCloser(bytes.NewReader(body))
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	return r.WithContext(ctx)
}

// retryAfter tells whether, and after what time, the server wants the call
// again.
func retryAfter(resp *http.Response, m string) (time.Duration, bool) {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return 0, false
	}
	switch method(m) {
	case http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete:
	default:
		return 0, false
	}
	s, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil || s < 0 {
		return 0, false
	}
	return min(time.Duration(s)*time.Second, maxRetryAfter), true
}

// readStatus turns an answer that is not 2xx into a StatusError.
func readStatus(resp *http.Response, m string) error {
	body, readErr := readBody(resp, 1<<20)
	var st metav1.Status
	if readErr == nil && json.Unmarshal(body, &st) == nil && st.Kind == "Status" && st.Status != metav1.StatusSuccess {
		if st.Code == 0 {
			st.Code = int32(resp.StatusCode) //nolint:gosec // three digits
		}
		return &apierrors.StatusError{ErrStatus: st}
	}
	s, convErr := strconv.Atoi(resp.Header.Get("Retry-After"))
	if convErr != nil {
		s = 0
	}
	e := apierrors.NewGenericServerResponse(resp.StatusCode, strings.ToLower(method(m)),
		(&api.Resource{}).GR(), "", strings.TrimSpace(string(body)), s, true)
	return e
}

// readBody reads and closes the body. A buffered in-process body is handed
// over without a copy.
func readBody(resp *http.Response, limit int64) ([]byte, error) {
	if b, ok := resp.Body.(*bufferedBody); ok {
		return b.take(), nil
	}
	defer resp.Body.Close() //nolint:errcheck // the body was read
	var buf bytes.Buffer
	if n := resp.ContentLength; n > 0 && n < limit {
		buf.Grow(int(n) + bytes.MinRead)
	}
	n, err := buf.ReadFrom(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	if n > limit {
		return nil, errAnswerTooLarge
	}
	return buf.Bytes(), nil
}

var errAnswerTooLarge = errors.New("answer is too large")

// call sends the request and decodes the answer into out, unless out is nil.
func (c *REST) call(ctx context.Context, q Request, out runtime.Object) error {
	resp, err := c.Do(ctx, q)
	if err != nil {
		return err
	}
	body, err := readBody(resp, maxAnswer)
	if err != nil || out == nil {
		return err
	}
	if obj, ok := out.(api.Object); ok {
		err = api.DecodeStored(body, obj)
	} else {
		_, err = api.Decode(body, mediaJSON, out, api.Ignore)
	}
	if err != nil {
		return fmt.Errorf("decode answer to %s %q: %w", method(q.Method), q.Path, err)
	}
	return nil
}

// Path returns the path of a resource: of the collection if name is empty.
func Path(r *api.Resource, namespace, name string, subresource ...string) string {
	n := len("/apis/") + len(r.Group) + len(r.Version) + len(r.Plural) + len(namespace) + len(name) + 32
	var b strings.Builder
	b.Grow(n)
	if r.Group == "" {
		b.WriteString("/api/")
	} else {
		b.WriteString("/apis/")
		b.WriteString(r.Group)
		b.WriteByte('/')
	}
	b.WriteString(r.Version)
	if r.Namespaced && namespace != "" {
		b.WriteString("/namespaces/")
		b.WriteString(namespace)
	}
	b.WriteByte('/')
	b.WriteString(r.Plural)
	if name != "" {
		b.WriteByte('/')
		b.WriteString(name)
	}
	for _, s := range subresource {
		b.WriteByte('/')
		b.WriteString(s)
	}
	return b.String()
}

// checkName refuses names that would change the path. The server would answer
// for another object.
func checkName(r *api.Resource, namespace, name string) error {
	if name == "" {
		return apierrors.NewBadRequest("resource name may not be empty")
	}
	if r.Namespaced && namespace == "" {
		return apierrors.NewBadRequest("an empty namespace may not be set when a resource name is provided")
	}
	for _, s := range [...]string{namespace, name} {
		if msgs := content.IsPathSegmentName(s); len(msgs) != 0 {
			return apierrors.NewBadRequest(fmt.Sprintf("invalid resource name %q: %s", s, strings.Join(msgs, ", ")))
		}
	}
	return nil
}

// Post creates a subresource, such as the binding of a pod. It decodes the
// answer into out unless out is nil.
func (c *REST) Post(ctx context.Context, r *api.Resource, namespace, name, subresource string, body, out runtime.Object) error {
	if err := checkName(r, namespace, name); err != nil {
		return err
	}
	data, err := api.Encode(body)
	if err != nil {
		return fmt.Errorf("encode %s: %w", subresource, err)
	}
	return c.call(ctx, Request{Method: http.MethodPost, Path: Path(r, namespace, name, subresource), Body: data}, out)
}

// Create adds an object that is encoded already, and decodes the answer into
// out unless that is nil. It is for whoever creates many of the same: a
// *metav1.PartialObjectMetadata as out spares decoding the rest.
func (c *REST) Create(ctx context.Context, r *api.Resource, namespace string, body []byte, out runtime.Object) error {
	return c.call(ctx, Request{Method: http.MethodPost, Path: Path(r, namespace, ""), Body: body}, out)
}

// Put replaces a subresource, such as the finalizers of a namespace.
func (c *REST) Put(ctx context.Context, r *api.Resource, namespace, name, subresource string, body, out runtime.Object) error {
	if err := checkName(r, namespace, name); err != nil {
		return err
	}
	data, err := api.Encode(body)
	if err != nil {
		return fmt.Errorf("encode %s: %w", subresource, err)
	}
	return c.call(ctx, Request{Method: http.MethodPut, Path: Path(r, namespace, name, subresource), Body: data}, out)
}

// DeleteCollection deletes the objects of a namespace that the list options
// select.
func (c *REST) DeleteCollection(ctx context.Context, r *api.Resource, namespace string, o metav1.DeleteOptions, sel metav1.ListOptions) error {
	body, err := deleteBody(&o)
	if err != nil {
		return err
	}
	return c.call(ctx, Request{Method: http.MethodDelete, Path: Path(r, namespace, ""), Query: listQuery(&sel), Body: body}, nil)
}
