package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// Client is a thin HTTP client for one API server. Workers pick a pool by
// index so that --conns spreads them over several TCP connections.
type Client struct {
	base  string
	token string
	gzip  bool
	pools []*http.Client
}

func newClient(c *Config) *Client {
	tc := &tls.Config{InsecureSkipVerify: c.Insecure} // only when told to
	if c.Kubeconfig != "" {
		fatal(fromKubeconfig(c, tc))
	}
	cl := &Client{base: strings.TrimRight(c.Server, "/"), token: c.Token, gzip: c.Gzip}
	if c.CA != "" {
		pem, err := os.ReadFile(c.CA)
		fatal(err)
		tc.RootCAs = x509.NewCertPool()
		tc.RootCAs.AppendCertsFromPEM(pem)
	}
	if c.Cert != "" {
		crt, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		fatal(err)
		tc.Certificates = []tls.Certificate{crt}
	}
	for range max(1, c.Conns) {
		var p http.Protocols
		switch {
		case c.HTTP1:
			p.SetHTTP1(true)
		case c.H2C:
			p.SetUnencryptedHTTP2(true)
		default:
			p.SetHTTP1(true)
			p.SetHTTP2(true)
		}
		t := &http.Transport{
			TLSClientConfig:     tc.Clone(),
			Protocols:           &p,
			MaxIdleConnsPerHost: 4096,
			DisableCompression:  true, // ask for gzip only when told to
			WriteBufferSize:     32 << 10,
			ReadBufferSize:      64 << 10,
		}
		cl.pools = append(cl.pools, &http.Client{Transport: t})
	}
	return cl
}

// fromKubeconfig takes server, CA and credential from the file's current
// context.
func fromKubeconfig(c *Config, tc *tls.Config) error {
	kc, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return err
	}
	c.Server, c.Token = kc.Host, kc.BearerToken
	if len(kc.CAData) > 0 {
		tc.RootCAs = x509.NewCertPool()
		tc.RootCAs.AppendCertsFromPEM(kc.CAData)
	}
	if len(kc.CertData) > 0 {
		crt, err := tls.X509KeyPair(kc.CertData, kc.KeyData)
		if err != nil {
			return err
		}
		tc.Certificates = []tls.Certificate{crt}
	}
	return nil
}

// do sends one request and returns status and body. The body is read into buf.
func (cl *Client) do(worker int, method, path, ctype string, body []byte, buf *bytes.Buffer) (int, error) {
	return cl.doHdr(worker, method, path, ctype, "application/json", cl.gzip, body, buf)
}

func (cl *Client) doHdr(worker int, method, path, ctype, accept string, gz bool, body []byte, buf *bytes.Buffer) (int, error) {
	var rd io.Reader
	if body != nil {
		rd = bytes.NewReader(body)
	}
	req, err := http.NewRequest(method, cl.base+path, rd)
	if err != nil {
		return 0, err
	}
	cl.head(req, ctype, accept, gz)
	resp, err := cl.pools[worker%len(cl.pools)].Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	buf.Reset()
	_, err = buf.ReadFrom(resp.Body)
	return resp.StatusCode, err
}

func (cl *Client) head(req *http.Request, ctype, accept string, gz bool) {
	if cl.token != "" {
		req.Header.Set("Authorization", "Bearer "+cl.token)
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("User-Agent", "loadgen/1")
	if ctype != "" {
		req.Header.Set("Content-Type", ctype)
	}
	if gz {
		req.Header.Set("Accept-Encoding", "gzip")
	}
}

// stream opens a watch and returns the response, whose body yields JSON lines.
func (cl *Client) stream(ctx context.Context, worker int, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, cl.base+path, nil)
	if err != nil {
		return nil, err
	}
	cl.head(req, "", "application/json", false)
	resp, err := cl.pools[worker%len(cl.pools)].Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		return nil, fmt.Errorf("watch %s: %d %s", path, resp.StatusCode, b)
	}
	return resp, nil
}

// must sends a set-up request and stops the program unless the status is 2xx
// or one of ok.
func (cl *Client) must(method, path, ctype string, body []byte, ok ...int) []byte {
	var buf bytes.Buffer
	var code int
	var err error
	for range 5 { // tolerate transient set-up failures
		code, err = cl.do(0, method, path, ctype, body, &buf)
		if err == nil && code < 300 {
			return buf.Bytes()
		}
		if slices.Contains(ok, code) {
			return buf.Bytes()
		}
		time.Sleep(200 * time.Millisecond)
	}
	fatal(fmt.Errorf("%s %s: %d %v %s", method, path, code, err, buf.String())) //nolint:errorlint // it may be nil
	return nil
}

// ensureNamespace creates a namespace and, because pod admission needs it and
// no controller may be running, its default service account.
func (cl *Client) ensureNamespace(ns string) {
	cl.must("POST", "/api/v1/namespaces", jsonType, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, ns), 409)
	cl.must("POST", "/api/v1/namespaces/"+ns+"/serviceaccounts", jsonType, []byte(`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}}`), 409)
}

const jsonType = "application/json"

var rvKey = []byte(`"resourceVersion":"`)

// findRV extracts the first metadata.resourceVersion from compact JSON.
func findRV(b []byte) uint64 {
	_, after, ok := bytes.Cut(b, rvKey)
	if !ok {
		return 0
	}
	var v uint64
	for _, ch := range after {
		if ch < '0' || ch > '9' {
			break
		}
		v = v*10 + uint64(ch-'0')
	}
	return v
}
