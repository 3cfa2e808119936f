package httpapi_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/storage/memory"
)

func TestHealth(t *testing.T) {
	broken := errors.New("secret reason")
	var mu sync.Mutex
	var state error
	f := newFixture(t, func(c *httpapi.Config) {
		c.Ready = []httpapi.Check{{Name: "parts", Check: func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			return state
		}}}
	})
	for path, want := range map[string]string{
		"/livez": "ok", "/healthz": "ok", "/readyz": "ok", "/readyz/parts": "ok",
		"/livez?verbose":  "[+]ping ok\nlivez check passed\n",
		"/readyz?verbose": "[+]ping ok\n[+]storage ok\n[+]start ok\n[+]parts ok\n[+]shutdown ok\nreadyz check passed\n",
	} {
		if r := f.do(t, "GET", path, ""); r.Code != http.StatusOK || r.Body != want {
			t.Errorf("%s: %d %q", path, r.Code, r.Body)
		}
	}
	mu.Lock()
	state = broken
	mu.Unlock()
	if r := f.do(t, "GET", "/readyz", ""); r.Code != http.StatusInternalServerError || !strings.Contains(r.Body, "[-]parts failed: reason withheld\n") ||
		strings.Contains(r.Body, "secret") {
		t.Errorf("%d %q", r.Code, r.Body)
	}
	if r := f.do(t, "GET", "/readyz?exclude=parts", ""); r.Code != http.StatusOK {
		t.Errorf("%d %q", r.Code, r.Body)
	}
	if r := f.do(t, "GET", "/livez", ""); r.Code != http.StatusOK {
		t.Errorf("%d %q", r.Code, r.Body)
	}
	if r := f.do(t, "GET", "/version", ""); !strings.Contains(r.Body, `"gitVersion": "v1.37.0+proa"`) {
		t.Error(r.Body)
	}
}

func TestMetrics(t *testing.T) {
	f := newFixture(t)
	f.mustMap(t, "a", "")
	f.do(t, "GET", mapsPath+"/none", "")
	r := f.do(t, "GET", "/metrics", "")
	for _, want := range []string{
		`apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="configmaps",scope="namespace",subresource="",verb="POST",version="v1"} 1`,
		`apiserver_request_total{code="404",component="apiserver",dry_run="",group="",resource="configmaps",scope="resource",subresource="",verb="GET",version="v1"} 1`,
		`apiserver_request_duration_seconds_count{component="apiserver",dry_run="",group="",resource="configmaps",scope="namespace",subresource="",verb="POST",version="v1"} 1`,
		`apiserver_current_inflight_requests{request_kind="mutating"} 0`,
	} {
		if !strings.Contains(r.Body, want) {
			t.Errorf("no %s", want)
		}
	}
}

// A blocker is a mutator that holds requests until it is told to let go.
type blocker struct{ in, out chan struct{} }

func (b blocker) Mutate(ctx context.Context, r *admission.Request) error {
	if r.Name != "blocked" {
		return nil
	}
	select {
	case b.in <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-b.out:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestLimit(t *testing.T) {
	b := blocker{make(chan struct{}), make(chan struct{})}
	f := newFixture(t, func(c *httpapi.Config) {
		c.MaxWrites = 2
		c.Admission = &admission.Chain{Mutators: []admission.Mutator{b}}
	})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { f.do(t, "POST", mapsPath, mapJSON("blocked", "")) })
		<-b.in
	}
	r := f.do(t, "POST", mapsPath, mapJSON("a", ""))
	if r.Code != http.StatusTooManyRequests || r.Header.Get("Retry-After") != "1" || r.status(t).Reason != "TooManyRequests" {
		t.Errorf("%+v", r)
	}
	if r := f.do(t, "GET", mapsPath, ""); r.Code != http.StatusOK {
		t.Errorf("a read: %+v", r)
	}
	close(b.out)
	wg.Wait()
	if r := f.do(t, "POST", mapsPath, mapJSON("a", "")); r.Code != http.StatusCreated {
		t.Errorf("%+v", r)
	}
}

func TestTimeout(t *testing.T) {
	b := blocker{make(chan struct{}, 1), make(chan struct{})}
	f := newFixture(t, func(c *httpapi.Config) { c.Admission = &admission.Chain{Mutators: []admission.Mutator{b}} })
	r := f.do(t, "POST", mapsPath+"?timeout=50ms", mapJSON("blocked", ""))
	if r.Code != http.StatusGatewayTimeout || r.status(t).Message != "Timeout: request did not complete within the allotted timeout" {
		t.Errorf("%+v", r)
	}
}

// panics is a plugin with a fault.
type panics struct{}

func (panics) Validate(context.Context, *admission.Request) error { panic("boom") }

func TestPanic(t *testing.T) {
	f := newFixture(t)
	f.mustMap(t, "a", "")
	bad := newFixtureOver(t, f.store, func(c *httpapi.Config) { c.Admission.Validators = []admission.Validator{panics{}} })
	r := bad.do(t, "DELETE", mapsPath+"/a", "")
	if st := r.status(t); r.Code != http.StatusInternalServerError || st.Reason != "InternalError" || strings.Contains(r.Body, "boom") {
		t.Errorf("%+v", r)
	}
	if r := bad.do(t, "GET", mapsPath+"/a", ""); r.Code != http.StatusOK {
		t.Errorf("after a panic: %+v", r)
	}
}

// broken is a store whose writes fail.
type broken struct {
	storage.Store
	err error
}

func (b broken) Create(context.Context, string, []byte, time.Duration) (int64, error) {
	return 0, b.err
}

func (b broken) Update(context.Context, string, []byte, int64, time.Duration) (int64, error) {
	return 0, b.err
}
func (b broken) Delete(context.Context, string, int64) (int64, error) { return 0, b.err }

// TestStoreFails has writes answered with 503 while reads go on.
func TestStoreFails(t *testing.T) {
	f := newFixture(t)
	f.mustMap(t, "a", "")
	bad := newFixtureOver(t, broken{f.store, errors.Join(storage.ErrUnavailable, errors.New("no space left on device"))})
	for _, c := range [][3]string{
		{"POST", mapsPath, mapJSON("b", "")},
		{"PUT", mapsPath + "/a", `{"metadata":{"name":"a"},"data":{"k":"w"}}`},
		{"DELETE", mapsPath + "/a", ""},
	} {
		r := bad.do(t, c[0], c[1], c[2])
		if st := r.status(t); r.Code != http.StatusServiceUnavailable || st.Reason != "ServiceUnavailable" ||
			!strings.Contains(st.Message, "no space left on device") || r.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %+v", c[0], r)
		}
	}
	if r := bad.do(t, "GET", mapsPath, ""); r.Code != http.StatusOK {
		t.Errorf("a read: %+v", r)
	}
}

// unwatchable is a store whose watches fail.
type unwatchable struct{ storage.Store }

func (unwatchable) Watch(context.Context, string, storage.WatchOptions) (storage.Watcher, error) {
	return nil, storage.ErrUnavailable
}

// TestWatchFails has a watch fail after its initial state was sent: what
// follows is an event, never a bare Status.
func TestWatchFails(t *testing.T) {
	f := newFixture(t)
	f.mustMap(t, "a", "")
	bad := newFixtureOver(t, unwatchable{f.store})
	r := bad.do(t, "GET", mapsPath+"?watch=1", "")
	lines := strings.Split(strings.TrimSpace(r.Body), "\n")
	if r.Code != http.StatusOK || len(lines) != 2 ||
		!strings.HasPrefix(lines[0], `{"type":"ADDED",`) ||
		!strings.HasPrefix(lines[1], `{"type":"ERROR",`) || !strings.Contains(lines[1], `"code":503`) {
		t.Errorf("%d: %s", r.Code, r.Body)
	}
	if r := bad.do(t, "GET", mapsPath+"?watch=1&resourceVersion=1", ""); r.Code != http.StatusServiceUnavailable {
		t.Errorf("without initial state: %+v", r)
	}
}

// serving is a server with its own listener, until stop is called.
func serving(t *testing.T, grace time.Duration) (addr string, stop func()) {
	t.Helper()
	cert := httptest.NewUnstartedServer(nil)
	cert.StartTLS()
	certs := cert.TLS.Certificates
	cert.Close()

	store := newCache(t, memory.New(memory.Config{}))
	s, err := httpapi.New(httpapi.Config{
		Store: store, Resources: api.Resources(), Documents: documents(), Authenticator: byToken{}, Authorizer: allowAll{}, StopGrace: grace,
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l, &tls.Config{Certificates: certs, MinVersion: tls.VersionTLS12}) }()
	stop = sync.OnceFunc(func() {
		t.Helper()
		cancel()
		select {
		case err := <-served:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(20 * time.Second):
			t.Error("the server does not stop")
		}
		store.Close()
	})
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

// TestServe is the life of a server.
func TestServe(t *testing.T) {
	addr, stop := serving(t, 0)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	get := func(path string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+addr+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer alice")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	for ready := false; !ready; {
		resp := get("/readyz")
		resp.Body.Close()
		if resp.ProtoMajor != 2 {
			t.Errorf("protocol is %s", resp.Proto)
		}
		ready = resp.StatusCode == http.StatusOK
	}
	w := get(mapsPath + "?watch=1") // closed below
	defer w.Body.Close()
	ended := make(chan error, 1)
	go func() {
		_, err := w.Body.Read(make([]byte, 1))
		ended <- err
	}()
	stop()
	if err := <-ended; err == nil {
		t.Error("the watch goes on")
	}
}

// TestServeStalled has a server stop although a client does not read what it
// has asked for.
func TestServeStalled(t *testing.T) {
	addr, stop := serving(t, 50*time.Millisecond)
	conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /api/v1/configmaps?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer alice\r\n\r\n")
	if _, err := conn.Read(make([]byte, 64)); err != nil { // the header is there: the watch is under way
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	for i := range 20 {
		body := mapJSON(fmt.Sprint("m", i), `"annotations":{"a":"`+strings.Repeat("x", 250<<10)+`"}`)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+addr+mapsPath, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer alice")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusCreated {
			t.Fatal(resp.Status)
		}
	}
	stop()
}

func TestWebSocketWatch(t *testing.T) {
	f := newFixture(t)
	f.mustMap(t, "a", "")
	read := webSocket(t, f, mapsPath+"?watch=1")
	if got := read(); !strings.HasPrefix(got, `{"type":"ADDED","object":{"kind":"ConfigMap"`) || strings.HasSuffix(got, "\n") {
		t.Errorf("message is %q", got)
	}
	f.mustDelete(t, mapsPath+"/a")
	if got := read(); !strings.HasPrefix(got, `{"type":"DELETED"`) {
		t.Errorf("message is %q", got)
	}
}
