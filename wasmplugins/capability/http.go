package capability

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
)

const (
	maxHTTPBody      = 1 << 20 // of a request and of an answer, each
	maxHTTPHeaders   = 64
	maxHTTPRedirects = 5
)

// newTransport returns a transport that goes straight to where it is told:
// a proxy from the environment would hide which host is meant.
func newTransport() *http.Transport {
	d := &net.Dialer{Timeout: 5 * time.Second}
	return &http.Transport{
		DialContext: d.DialContext, TLSHandshakeTimeout: 5 * time.Second,
		MaxIdleConnsPerHost: 2, IdleConnTimeout: 30 * time.Second, MaxResponseHeaderBytes: 64 << 10,
	}
}

// An httpQuery is a request of http.
type httpQuery struct {
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Body    []byte            `json:"body"` // base64
}

type httpReply struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
}

// http sends a request to a host that both the binding and the operator allow.
func (b *Broker) http(ctx context.Context, _ *holder, c *pluginsv1.Capability, req []byte) ([]byte, error) {
	var q httpQuery
	if err := decode(c.Name, req, &q); err != nil {
		return nil, err
	}
	r, err := q.request(ctx)
	if err != nil {
		return nil, fmt.Errorf("http: %w", err)
	}
	if err = b.reachable(c, r.URL); err != nil {
		return nil, err
	}
	hc := &http.Client{Transport: b.c.HTTP, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		if len(via) > maxHTTPRedirects {
			return errors.New("too many redirects")
		}
		if next.URL.Host != r.URL.Host || next.URL.Scheme != r.URL.Scheme {
			return errors.New("redirected to another host")
		}
		return nil
	}}
	resp, err := hc.Do(r)
	if err != nil {
		return nil, fmt.Errorf("http: %w", err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxHTTPBody+1))
	if err != nil {
		return nil, fmt.Errorf("http: read the answer: %w", err)
	}
	if len(body) > maxHTTPBody {
		return nil, fmt.Errorf("http: the answer has more than %d bytes", maxHTTPBody)
	}
	reply := httpReply{Status: resp.StatusCode, Headers: map[string]string{}, Body: base64.StdEncoding.EncodeToString(body)}
	for k, v := range resp.Header {
		reply.Headers[strings.ToLower(k)] = strings.Join(v, ", ")
	}
	return json.Marshal(reply)
}

// request makes the request that a guest asks for.
func (q *httpQuery) request(ctx context.Context) (*http.Request, error) {
	switch q.Method {
	case "":
		q.Method = http.MethodGet
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
	default:
		return nil, fmt.Errorf("the method %q is not allowed", q.Method)
	}
	if len(q.Body) > maxHTTPBody {
		return nil, fmt.Errorf("the body has more than %d bytes", maxHTTPBody)
	}
	if len(q.Headers) > maxHTTPHeaders {
		return nil, fmt.Errorf("there are more than %d headers", maxHTTPHeaders)
	}
	r, err := http.NewRequestWithContext(ctx, q.Method, q.URL, bytes.NewReader(q.Body))
	if err != nil {
		return nil, err
	}
	if r.URL.Scheme != "http" && r.URL.Scheme != "https" || r.URL.Hostname() == "" {
		return nil, fmt.Errorf("the URL %q is not http://host or https://host", q.URL)
	}
	if r.URL.User != nil {
		return nil, errors.New("the URL has a password; it belongs into the header Authorization")
	}
	for k, v := range q.Headers {
		switch http.CanonicalHeaderKey(k) {
		case "Host", "Connection", "Content-Length", "Transfer-Encoding", "Upgrade", "Te", "Trailer", "Proxy-Authorization", "Proxy-Connection":
			return nil, fmt.Errorf("the header %q is not the plugin's", k)
		}
		r.Header.Set(k, v)
	}
	return r, nil
}

// reachable returns nil if both sides allow the host.
func (b *Broker) reachable(c *pluginsv1.Capability, u *url.URL) error {
	switch {
	case !listsHost(c.Hosts, u):
		return denied("called %q for the host %s, which the binding does not grant", c.Name, u.Host)
	case len(b.c.Hosts) == 0:
		return denied("called %q, which is off in the server's configuration", c.Name)
	case !listsHost(b.c.Hosts, u):
		return denied("called %q for the host %s, which the server's configuration does not allow", c.Name, u.Host)
	}
	return nil
}

// listsHost reports whether a list has the URL's host. An entry without a port
// means the usual port of the URL's scheme.
func listsHost(list []string, u *url.URL) bool {
	host, port := strings.ToLower(u.Hostname()), u.Port()
	usual := "80"
	if u.Scheme == "https" {
		usual = "443"
	}
	if port == "" {
		port = usual
	}
	return slices.ContainsFunc(list, func(entry string) bool {
		h, p, err := net.SplitHostPort(entry)
		if err != nil {
			h, p = strings.Trim(entry, "[]"), usual
		}
		return strings.ToLower(h) == host && p == port
	})
}
