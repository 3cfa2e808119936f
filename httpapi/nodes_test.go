package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/httpapi"
)

// webSocket opens a path as a browser does, and returns a reader of messages.
func webSocket(t *testing.T, f *fixture, path string) func() string {
	t.Helper()
	u, err := url.Parse(f.URL)
	if err != nil {
		t.Fatal(err)
	}
	cfg := &websocket.Config{
		Location: &url.URL{Scheme: "wss", Host: u.Host, Path: strings.SplitN(path, "?", 2)[0], RawQuery: strings.SplitN(path, "?", 2)[1]},
		Origin:   &url.URL{Scheme: "https", Host: "dashboard.example"}, Version: websocket.ProtocolVersionHybi13,
		TlsConfig: &tls.Config{InsecureSkipVerify: true}, Header: http.Header{"Authorization": {"Bearer alice"}},
	}
	ws, err := cfg.DialContext(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Close() })
	return func() string {
		t.Helper()
		ws.SetReadDeadline(time.Now().Add(20 * time.Second))
		var m string
		if err := websocket.Message.Receive(ws, &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
}

// newNode returns a fixture with a node whose agent is h, and the pods p,
// with one container, and q, with two, on it.
func newNode(t *testing.T, h http.HandlerFunc) *fixture {
	t.Helper()
	agent := httptest.NewTLSServer(h)
	t.Cleanup(agent.Close)
	nodes := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(nodes.CloseIdleConnections)
	f := newFixture(t, func(c *httpapi.Config) { c.Nodes = nodes })
	ctx := t.Context()
	host, port, err := net.SplitHostPort(agent.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "no.such.host"}, {Type: corev1.NodeInternalIP, Address: host}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(n)}},
	}}
	if _, err := f.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"p", "q"} {
		p := newPod(name)
		p.Spec.NodeName = "n"
		if name == "q" {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "d", Image: "i:1"})
		}
		if _, err := f.client.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func TestPodLog(t *testing.T) {
	f := newNode(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "":
			http.Error(w, "the agent got the client's credential", http.StatusInternalServerError)
		case r.URL.Query().Get("previous") != "":
			http.Error(w, "previous terminated container not found", http.StatusBadRequest)
		default:
			fmt.Fprintf(w, "%s?%s\n", r.URL.Path, r.URL.RawQuery)
		}
	})
	ctx := t.Context()
	logs := func(pod string, o corev1.PodLogOptions) (string, error) {
		b, err := f.client.CoreV1().Pods("default").GetLogs(pod, &o).DoRaw(ctx)
		return string(b), err
	}
	five := int64(5)
	got, err := logs("p", corev1.PodLogOptions{TailLines: &five, Timestamps: true})
	if want := "/containerLogs/default/p/c?tailLines=5&timestamps=true\n"; err != nil || got != want {
		t.Errorf("%q %v", got, err)
	}
	if got, err := logs("q", corev1.PodLogOptions{Container: "d"}); err != nil || got != "/containerLogs/default/q/d?\n" {
		t.Errorf("%q %v", got, err)
	}
	if r := f.do(t, "GET", podsPath+"/q/log", ""); r.Code != http.StatusBadRequest ||
		r.status(t).Message != "a container name must be specified for pod q, choose one of: [c d]" {
		t.Errorf("%+v", r)
	}
	if r := f.do(t, "GET", podsPath+"/p/log?previous=true", ""); r.Code != http.StatusBadRequest || r.Body != "previous terminated container not found\n" {
		t.Errorf("%+v", r)
	}
	f.mustPatch(t, "/api/v1/nodes/n/status", `{"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":1}}}}`)
	if r := f.do(t, "GET", podsPath+"/p/log", ""); r.Code != http.StatusInternalServerError || !strings.Contains(r.Body, "connection refused") {
		t.Errorf("%+v", r)
	}
	f.mustDelete(t, "/api/v1/nodes/n")
	if r := f.do(t, "GET", podsPath+"/p/log", ""); r.Code != http.StatusNotFound || r.status(t).Message != `nodes "n" not found` {
		t.Errorf("%+v", r)
	}
}

func TestPodLogFollow(t *testing.T) {
	next := make(chan string)
	ended := make(chan struct{})
	f := newNode(t, func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		for {
			select {
			case line := <-next:
				fmt.Fprintln(w, line)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	rc := make(chan io.ReadCloser, 1)
	go func() {
		body, err := f.client.CoreV1().Pods("default").GetLogs("p", &corev1.PodLogOptions{Follow: true}).Stream(ctx)
		if err != nil {
			t.Error(err)
		}
		rc <- body
	}()
	next <- "one"
	body := <-rc
	defer body.Close()
	lines := bufio.NewScanner(body)
	for _, want := range []string{"one", "two"} {
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("got %q, %v", lines.Text(), lines.Err())
		}
		if want == "one" {
			next <- "two"
		}
	}
	cancel()
	<-ended
}

// TestUpgrade joins a client with an agent, both ways, for the protocols of
// exec, attach and portforward: the server does not look into them.
func TestUpgrade(t *testing.T) {
	f := newNode(t, func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: %s\r\nConnection: Upgrade\r\nX-Path: %s %s?%s\r\n\r\n",
			r.Header.Get("Upgrade"), r.Method, r.URL.Path, r.URL.RawQuery)
		rw.Flush()
		line, _ := rw.ReadString('\n')
		rw.WriteString("echo " + line)
		rw.Flush()
	})
	for _, c := range []struct{ method, path, upgrade, want string }{
		{"GET", "/p/exec?command=ls&stdout=true", "websocket", "GET /exec/default/p/c?command=ls&stdout=true"},
		{"POST", "/q/exec?command=ls&container=d", "SPDY/3.1", "POST /exec/default/q/d?command=ls&container=d"},
		{"POST", "/p/attach?stdin=true", "SPDY/3.1", "POST /attach/default/p/c?stdin=true"},
		{"GET", "/p/portforward?ports=80", "websocket", "GET /portForward/default/p?ports=80"},
	} {
		t.Run(c.method+c.path, func(t *testing.T) {
			conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(t.Context(), "tcp", f.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(20 * time.Second))
			fmt.Fprintf(conn, "%s %s%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer alice\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", c.method, podsPath, c.path, c.upgrade)
			r := bufio.NewReader(conn)
			resp, err := http.ReadResponse(r, nil) // the body is the connection
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("X-Path") != c.want || resp.Header.Get("Upgrade") != c.upgrade {
				t.Fatalf("%d %v", resp.StatusCode, resp.Header)
			}
			fmt.Fprintln(conn, "hello")
			rest, err := io.ReadAll(r)
			if !bytes.Equal(rest, []byte("echo hello\n")) {
				t.Errorf("%q %v", rest, err)
			}
		})
	}
}
