package webhook

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An address is where a webhook is and how it proves that it is it.
type address struct {
	url       string // "" for a service
	namespace string
	service   string
	path      string
	port      int32
	ca        string
}

func addressOf(c *admissionregistrationv1.WebhookClientConfig) address {
	a := address{ca: string(c.CABundle)}
	if c.URL != nil {
		a.url = *c.URL
		return a
	}
	if s := c.Service; s != nil {
		a.namespace, a.service, a.port = s.Namespace, s.Name, 443
		if s.Port != nil {
			a.port = *s.Port
		}
		if s.Path != nil {
			a.path = *s.Path
		}
	}
	return a
}

// key tells addresses apart.
func (a *address) key() string {
	sum := sha256.Sum256([]byte(a.ca))
	return strings.Join([]string{a.url, a.namespace, a.service, a.path, strconv.Itoa(int(a.port)), hex.EncodeToString(sum[:])}, " ")
}

// host is the name under which a service's certificate is.
func (a *address) host() string { return a.service + "." + a.namespace + ".svc" }

// clients keeps one client with its connections per address.
type clients struct {
	resolve func(ctx context.Context, namespace, name string, port int32) (string, error)

	mu   sync.Mutex // guards the field below
	made map[string]*caller
}

// get returns the client for an address.
func (c *clients) get(a *address) (*caller, error) {
	key := a.key()
	c.mu.Lock()
	defer c.mu.Unlock()
	if have := c.made[key]; have != nil {
		return have, nil
	}
	made, err := c.caller(a)
	if err == nil {
		c.made[key] = made
	}
	return made, err
}

// keep forgets the clients that are not in used.
func (c *clients) keep(used map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, have := range c.made {
		if !used[key] {
			delete(c.made, key)
			have.client.CloseIdleConnections()
		}
	}
}

// A caller posts to one address.
type caller struct {
	url    *url.URL
	client *http.Client
}

// Bounds of connections.
const (
	handshakeTimeout = 10 * time.Second
	idleTimeout      = 90 * time.Second
	idlePerHost      = 32
)

func (c *clients) caller(a *address) (*caller, error) {
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: handshakeTimeout, IdleConnTimeout: idleTimeout, MaxIdleConnsPerHost: idlePerHost,
	}
	if a.ca != "" {
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM([]byte(a.ca)) {
			return nil, errors.New("unable to load root certificates: unable to parse bytes as PEM block")
		}
	}
	u, err := url.Parse(a.url)
	if err != nil {
		return nil, fmt.Errorf("Unparsable URL: %w", err) //nolint:staticcheck // upstream's text
	}
	switch {
	case a.service != "":
		t.TLSClientConfig.ServerName = a.host()
		u = &url.URL{Scheme: "https", Host: net.JoinHostPort(a.host(), strconv.Itoa(int(a.port))), Path: a.path}
		t.Proxy, t.DialContext = nil, c.dialer(a, t.DialContext)
	case a.url == "":
		return nil, errors.New("webhook configuration must have either service or URL")
	}
	if u.Path == "" {
		u.Path = "/"
	}
	return &caller{url: u, client: &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}}, nil
}

// dialer connects to a service wherever it is at the moment.
func (c *clients) dialer(a *address, dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		if c.resolve == nil {
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "service"}, a.service)
		}
		to, err := c.resolve(ctx, a.namespace, a.service, a.port)
		if err != nil {
			return nil, err
		}
		return dial(ctx, network, to)
	}
}

// maxReply is the largest answer, in bytes: the patch of the largest object fits
// in base64.
const maxReply = 8 << 20

// post calls the webhook and returns the body of its answer.
func (c *caller) post(ctx context.Context, body []byte, limit time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	u := *c.url
	seconds := (limit + time.Second - 1).Truncate(time.Second)
	u.RawQuery = "timeout=" + strconv.Itoa(max(1, int(seconds/time.Second))) + "s"
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, */*")
	r.Header.Set("User-Agent", "kube-apiserver-admission") // some webhooks look at it
	w, err := c.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer w.Body.Close() //nolint:errcheck // what matters was read
	answer, err := io.ReadAll(io.LimitReader(w.Body, maxReply+1))
	if err != nil {
		return nil, fmt.Errorf("unexpected error when reading response body: %w", err)
	}
	if len(answer) > maxReply {
		return nil, fmt.Errorf("the response is larger than %d bytes", maxReply)
	}
	if w.StatusCode < http.StatusOK || w.StatusCode > http.StatusPartialContent {
		return nil, statusError(w, answer)
	}
	return answer, nil
}

// maxText is how much of a body that is no answer goes into an error.
const maxText = 2048

func statusError(w *http.Response, body []byte) error {
	message := "unknown"
	if t := w.Header.Get("Content-Type"); t == "" || strings.HasPrefix(t, "text/") {
		message = strings.TrimSpace(string(body[:min(len(body), maxText)]))
	}
	return apierrors.NewGenericServerResponse(w.StatusCode, http.MethodPost, schema.GroupResource{}, "", message, 0, true)
}
