package nodeagent_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi"
	"github.com/proa-project/proa/httpapi/authz"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/httpapi/pki"
	"github.com/proa-project/proa/httpapi/request"
	"github.com/proa-project/proa/nodeagent"
	"github.com/proa-project/proa/nodeagent/cri"
	"github.com/proa-project/proa/nodeagent/critest"
	"github.com/proa-project/proa/openapi"
	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/storage/memory"
	"github.com/proa-project/proa/storage/watchcache"
	"github.com/proa-project/proa/test/hosts"
)

func TestMain(m *testing.M) {
	os.Exit(hosts.Run(func() int {
		code := m.Run()
		// client-go leaves the pulse of a WebSocket beating for a while
		pulse := goleak.IgnoreAnyFunction("k8s.io/client-go/tools/remotecommand.(*heartbeat).start")
		if err := goleak.Find(pulse); err != nil && code == 0 {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	}))
}

// anybody lets everybody do everything: what nodes may do is tested elsewhere.
type anybody struct{}

func (anybody) Authorize(context.Context, *request.User, *request.Info) (authz.Decision, string, error) {
	return authz.Allow, "", nil
}

func (anybody) Authenticate(*http.Request) (*request.User, error) {
	return &request.User{Name: "somebody", Groups: []string{"system:authenticated", "system:masters"}}, nil
}

// A plane is an API server in memory, without anything that writes but the
// test and the agents.
type plane struct {
	server    *httpapi.Server
	rest      *client.REST
	pods      *client.Client[*corev1.Pod]
	authority *pki.Authority
}

func newPlane(tb testing.TB) *plane {
	tb.Helper()
	cache, err := watchcache.New(context.Background(), watchcache.Config{
		Store: memory.New(memory.Config{}), Decorate: api.SetRevision, Extract: extract,
	})
	if err != nil {
		tb.Fatal(err)
	}
	documents, err := openapi.Build(api.Resources(), &version.Info{Major: "1", Minor: "37"})
	if err != nil {
		tb.Fatal(err)
	}
	authority, err := pki.Open(pki.Config{Dir: tb.TempDir()})
	if err != nil {
		tb.Fatal(err)
	}
	identity, err := authority.Client("proa-server", "system:masters")
	if err != nil {
		tb.Fatal(err)
	}
	nodes, err := authority.NodeClientTLS(identity)
	if err != nil {
		tb.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: nodes}
	server, err := httpapi.New(httpapi.Config{
		Store: cache, Resources: api.Resources(), Documents: documents, Authenticator: anybody{}, Authorizer: anybody{},
		Nodes: transport, Log: zerolog.Nop(),
	})
	if err != nil {
		tb.Fatal(err)
	}
	if err = server.Bootstrap(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		server.Stop()
		transport.CloseIdleConnections()
		if failed := cache.Close(); failed != nil {
			tb.Error(failed)
		}
	})
	inProcess, err := client.New(client.Config{URL: "http://in-process", Transport: client.InProcess(server)})
	if err != nil {
		tb.Fatal(err)
	}
	return &plane{server: server, rest: inProcess, pods: client.For[*corev1.Pod](inProcess), authority: authority}
}

func extract(key string, value []byte) (storage.Fields, error) {
	for _, row := range api.Resources() {
		if strings.HasPrefix(key, row.Storage) {
			labels, fields, err := row.Extract(value)
			return storage.Fields{Labels: labels, Fields: fields}, err
		}
	}
	return storage.Fields{}, nil
}

// A node is an agent that can be stopped and started.
type node struct {
	*plane
	name     string
	endpoint string // of the runtime
	config   nodeagent.Config
	stop     func() error
}

// start starts the agent; it is stopped when the test ends.
func (n *node) start(tb testing.TB) {
	tb.Helper()
	r, err := cri.Dial(cri.Config{Endpoint: n.endpoint})
	if err != nil {
		tb.Fatal(err)
	}
	c := n.config
	c.Runtime = r
	a, err := nodeagent.New(c)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	n.stop = func() error {
		n.stop = func() error { return nil }
		cancel()
		err := <-ended
		if !errors.Is(err, context.Canceled) {
			return errors.Join(fmt.Errorf("the agent ended with: %w", err), r.Close())
		}
		return r.Close()
	}
	tb.Cleanup(func() {
		if err := n.stop(); err != nil {
			tb.Error(err)
		}
	})
}

// fakeNode returns a running agent on an in-memory runtime.
func fakeNode(tb testing.TB, change ...func(*nodeagent.Config)) (*node, *critest.Server) {
	tb.Helper()
	s := critest.Start(tb)
	n := &node{plane: newPlane(tb), endpoint: s.Endpoint(), name: "fake-" + strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(tb.Name()))}
	n.config = nodeagent.Config{
		REST: n.rest, NodeName: n.name, NodeIPs: []string{"127.0.0.1"}, RootDir: tb.TempDir(),
		CgroupParent: "/proa-test-" + n.name, Log: logger(tb),
	}
	for _, c := range change {
		c(&n.config)
	}
	n.start(tb)
	return n, s
}

func logger(tb testing.TB) zerolog.Logger {
	tb.Helper()
	if os.Getenv("PROA_TEST_LOG") == "debug" {
		zerolog.TimeFieldFormat = time.RFC3339Nano
		return zerolog.New(zerolog.ConsoleWriter{Out: os.Stderr, TimeFormat: "15:04:05.000"}).With().Timestamp().Logger()
	}
	return zerolog.Nop()
}

// create makes a pod from YAML, bound to the node.
func (n *node) create(tb testing.TB, text string) *corev1.Pod {
	tb.Helper()
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(text), pod); err != nil {
		tb.Fatal(err)
	}
	pod.Namespace = "default"
	pod.Spec.NodeName = n.name
	created, err := n.pods.Create(tb.Context(), pod)
	if err != nil {
		tb.Fatal(err)
	}
	return created
}

// await watches a pod until ok says so.
func (n *node) await(tb testing.TB, name, what string, ok func(*corev1.Pod) bool) *corev1.Pod {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 60*time.Second)
	defer cancel()
	var last *corev1.Pod
	for {
		pod, err := n.pods.Get(ctx, "default", name)
		if err != nil {
			if last == nil {
				tb.Fatal(err)
			}
			tb.Fatalf("%s: %v; the pod's last status was %s", what, err, show(last))
		}
		last = pod
		if ok(pod) {
			return pod
		}
		w, err := n.pods.Watch(ctx, "default", metav1.ListOptions{FieldSelector: "metadata.name=" + name, ResourceVersion: pod.ResourceVersion})
		if err != nil {
			tb.Fatalf("%s: %v; the pod's status is %s", what, err, show(last))
		}
		for {
			e, err := w.Next(ctx)
			if err != nil {
				w.Close()
				if ctx.Err() != nil {
					tb.Fatalf("%s: %v; the pod's status is %s", what, err, show(last))
				}
				if !errors.Is(err, io.EOF) && !apierrors.IsGone(err) {
					tb.Fatal(err)
				}
				break
			}
			last = e.Object
			if ok(e.Object) {
				w.Close()
				return e.Object
			}
		}
	}
}

// awaitGone waits until a pod is out of the API.
func (n *node) awaitGone(tb testing.TB, name string) {
	tb.Helper()
	poll(tb, "pod "+name+" is gone", func() bool {
		_, err := n.pods.Get(tb.Context(), "default", name)
		return apierrors.IsNotFound(err)
	})
}

// poll asks until the answer is yes, for a minute.
func poll(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 60*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			tb.Fatalf("not within a minute: %s", what)
		case <-tick.C:
		}
	}
}

func show(pod *corev1.Pod) string {
	b, err := yaml.Marshal(pod.Status)
	if err != nil {
		return err.Error()
	}
	return "\n" + string(b)
}

func ready(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// events returns the reasons and messages of the events about a pod.
func (n *node) events(tb testing.TB, name string) string {
	tb.Helper()
	list, err := client.For[*corev1.Event](n.rest).List(tb.Context(), "default", metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
	if err != nil {
		tb.Fatal(err)
	}
	var b strings.Builder
	for _, e := range list.Items {
		fmt.Fprintf(&b, "%s %s %s: %s\n", e.Type, e.InvolvedObject.FieldPath, e.Reason, e.Message)
	}
	return b.String()
}

// logs reads a container's log through the API.
func (n *node) logs(tb testing.TB, pod, query string) (string, error) {
	tb.Helper()
	q := map[string][]string{}
	for part := range strings.SplitSeq(query, "&") {
		if k, v, _ := strings.Cut(part, "="); k != "" {
			q[k] = append(q[k], v)
		}
	}
	resp, err := n.rest.Do(tb.Context(), client.Request{Path: "/api/v1/namespaces/default/pods/" + pod + "/log", Query: q, Accept: "*/*"})
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

// serve serves the API on a socket and returns how to reach it.
func (p *plane) serve(tb testing.TB) *rest.Config {
	tb.Helper()
	s := httptest.NewServer(p.server)
	tb.Cleanup(s.Close)
	return &rest.Config{Host: s.URL}
}

func mustParse(tb testing.TB, s string) *url.URL {
	tb.Helper()
	u, err := url.Parse(s)
	if err != nil {
		tb.Fatal(err)
	}
	return u
}

// nodeTLS returns what a node's server is configured with.
func (p *plane) nodeTLS(tb testing.TB, name, ip string) *tls.Config {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{IPAddresses: []net.IP{net.ParseIP(ip)}}, key)
	if err != nil {
		tb.Fatal(err)
	}
	cert, err := p.authority.SignNodeServing(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), name)
	if err != nil {
		tb.Fatal(err)
	}
	block, _ := pem.Decode(cert)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{block.Bytes}, PrivateKey: key}},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: p.authority.Pool(), MinVersion: tls.VersionTLS12,
	}
}

// clientOf returns how a user of the cluster introduces itself.
func (p *plane) clientOf(tb testing.TB, user, group string) *rest.Config {
	tb.Helper()
	pair, err := p.authority.Client(user, group)
	if err != nil {
		tb.Fatal(err)
	}
	return &rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: pair.Certificate, KeyData: pair.Key}}
}
