package integration_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// anonymous gets a URL as nobody and returns status and body.
func anonymous(ctx context.Context, kubeconfig, url string) (int, string) {
	c, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return 0, err.Error()
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(c.CAData)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err.Error()
	}
	resp, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(body)
}

// A rawClient sends what no library would.
type rawClient struct {
	url  string
	http *http.Client
}

func newRawClient(t testing.TB, c *rest.Config) *rawClient {
	t.Helper()
	hc, err := rest.HTTPClientFor(c)
	if err != nil {
		t.Fatal(err)
	}
	hc.Timeout = 60 * time.Second
	return &rawClient{url: c.Host, http: hc}
}

// An answer is what came back; Status is empty if it is none.
type answer struct {
	code   int
	body   string
	status metav1.Status
	took   time.Duration
}

// do sends a request. A body goes with the media type.
func (c *rawClient) do(t testing.TB, method, path, mediaType, body string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, c.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	// The path goes out as it is written.
	req.URL.Opaque = "//" + req.URL.Host + path
	if mediaType != "" {
		req.Header.Set("Content-Type", mediaType)
	}
	begin := time.Now()
	resp, err := c.http.Do(req)
	if err != nil {
		t.Errorf("%s %.100s: %v", method, path, err)
		return answer{}
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		t.Errorf("%s %.100s: read the answer: %v", method, path, err)
	}
	a := answer{code: resp.StatusCode, body: string(data), took: time.Since(begin)}
	if json.Unmarshal(data, &a.status) != nil || a.status.Kind != "Status" {
		a.status = metav1.Status{}
	}
	return a
}
