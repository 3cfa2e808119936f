package capability_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/authz"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/httpapi/request"
	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/capability"
	"github.com/proa-project/proa/wasmplugins/engine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// apiServer answers with what stands under a path.
type apiServer map[string]string

func (a apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.URL.Path
	q := r.URL.Query()
	q.Del("resourceVersion")
	if len(q) > 0 {
		key += "?" + q.Encode()
	}
	w.Header().Set("Content-Type", "application/json")
	body, ok := a[key]
	if !ok || r.URL.Query().Get("resourceVersion") != "0" {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"%s not found"}`, key)
		return
	}
	fmt.Fprintln(w, body)
}

// may allows what is listed, as "user verb group/resource namespace/name".
type may []string

func (m may) authorize(_ context.Context, u *request.User, i *request.Info) (authz.Decision, string, error) {
	what := fmt.Sprintf("%s %s %s/%s %s/%s", u.Name, i.Verb, i.Resource.Group, i.Resource.Plural, i.Namespace, i.Name)
	if slices.Contains(m, what) {
		return authz.Allow, "listed", nil
	}
	return authz.NoOpinion, "", nil
}

const account = "system:serviceaccount:shop:policy"

func broker(t testing.TB, c capability.Config) *capability.Broker {
	t.Helper()
	if c.REST == nil {
		c.REST = rest(t, apiServer{})
	}
	if c.Authorize == nil {
		c.Authorize = may{}.authorize
	}
	b, err := capability.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func rest(t testing.TB, h http.Handler) *client.REST {
	t.Helper()
	r, err := client.New(client.Config{Transport: client.InProcess(h)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

type callFunc func(operation, request string) (string, error)

// grant returns the calls of a module that wants what the binding grants.
func grant(t testing.TB, b *capability.Broker, granted ...pluginsv1.Capability) callFunc {
	t.Helper()
	var m abi.Manifest
	for i := range granted {
		m.Capabilities = append(m.Capabilities, granted[i].Name)
	}
	f, _ := b.Grant(&pluginsv1.Common{Capabilities: granted, ServiceAccount: &pluginsv1.ServiceAccountReference{Namespace: "shop", Name: "policy"}}, m)
	ctx := t.Context()
	return func(operation, request string) (string, error) {
		reply, err := f(ctx, operation, []byte(request))
		return string(reply), err
	}
}

func TestBothSides(t *testing.T) {
	b := broker(t, capability.Config{Now: func() time.Time { return time.Unix(1, 5) }})
	f, inForce := b.Grant(&pluginsv1.Common{Capabilities: []pluginsv1.Capability{{Name: "random"}, {Name: "clock.wall"}, {Name: "http", Hosts: []string{"a.test"}}}},
		abi.Manifest{Capabilities: []string{"clock.wall", "authz.can_i", "http"}})
	if diff := cmp.Diff([]string{"clock.wall"}, inForce); diff != "" {
		t.Error(diff)
	}
	for operation, want := range map[string]string{
		"random":      `called "random", which the binding grants but the module's manifest does not name`,
		"authz.can_i": `called "authz.can_i", which the module's manifest names but the binding does not grant`,
		"kube.get":    `called "kube.get", which neither the module's manifest names nor the binding grants`,
		"file.read":   `called "file.read", which this server does not offer`,
	} {
		_, err := f(t.Context(), operation, []byte("{}"))
		if engine.ReasonOf(err) != engine.CapabilityDenied || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", operation, err, want)
		}
	}
	reply, err := f(t.Context(), "clock.wall", nil)
	if string(reply) != `{"unixNanos":1000000005}` || err != nil {
		t.Errorf("%s, %v", reply, err)
	}
}

func TestRandom(t *testing.T) {
	call := grant(t, broker(t, capability.Config{}), pluginsv1.Capability{Name: "random"})
	var seen []string
	for range 2 {
		reply, err := call("random", `{"bytes":4096}`)
		var r struct{ Base64 []byte }
		if err != nil || json.Unmarshal([]byte(reply), &r) != nil || len(r.Base64) != 4096 {
			t.Errorf("%d bytes, %v", len(r.Base64), err)
		}
		seen = append(seen, string(r.Base64))
	}
	if seen[0] == seen[1] {
		t.Error("the same bytes twice")
	}
	for _, bad := range []string{`{"bytes":0}`, `{"bytes":4097}`, `{"bytes":-1}`, `{"bytes":"x"}`, `[`} {
		if _, err := call("random", bad); err == nil || engine.ReasonOf(err) != "" {
			t.Errorf("%s: %v, want an error for the guest", bad, err)
		}
	}
}

func TestKube(t *testing.T) {
	b := broker(t, capability.Config{
		REST: rest(t, apiServer{
			"/api/v1/namespaces/shop/pods/web":                         `{"metadata":{"name":"web","labels":{"a":"b"}},"spec":{"nodeName":"n1","containers":[{"name":"c","image":"i"}]}}`,
			"/api/v1/namespaces/shop/pods?labelSelector=a%3Db&limit=2": `{"items":[{"metadata":{"name":"web"},"spec":{"nodeName":"n1"}},{"metadata":{"name":"db"}}]}`,
			"/api/v1/pods?limit=500":                                   `{"items":[]}`,
			"/api/v1/pods?limit=5000":                                  `{"items":[{"metadata":{"name":"many"}}]}`,
			"/apis/example.test/v1/namespaces/shop/sites/s":            `{"spec":{"size":3}}`,
			"/api/v1/nodes/n1":                                         `{"metadata":{"name":"n1"}}`,
		}),
		Authorize: may{
			account + " get /pods shop/web", account + " get /pods shop/gone", account + " list /pods shop/", account + " list /pods /",
			account + " get example.test/sites shop/s", account + " get /nodes /n1",
		}.authorize,
	})
	call := grant(t, b,
		pluginsv1.Capability{Name: "kube.get", Resources: []pluginsv1.CapabilityResource{
			{Version: "v1", Resource: "pods", Namespaces: []string{"shop"}, Fields: []string{"metadata.labels", "spec.containers[].image"}},
			{Group: "example.test", Version: "v1", Resource: "sites"},
			{Version: "v1", Resource: "nodes"},
			{Version: "v1", Resource: "secrets"},
		}},
		pluginsv1.Capability{Name: "kube.list", Resources: []pluginsv1.CapabilityResource{
			{Version: "v1", Resource: "pods", Namespaces: []string{"shop"}, Fields: []string{"metadata.name"}},
			{Version: "v1", Resource: "pods"},
		}})
	for name, tc := range map[string]struct{ operation, request, want, problem string }{
		"masked":         {"kube.get", `{"version":"v1","resource":"pods","namespace":"shop","name":"web"}`, `{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"image":"i"}]}}`, ""},
		"custom":         {"kube.get", `{"group":"example.test","version":"v1","resource":"sites","namespace":"shop","name":"s"}`, `{"spec":{"size":3}}`, ""},
		"by kind":        {"kube.get", `{"version":"v1","resource":"nodeses","kind":"Node","name":"n1"}`, `{"metadata":{"name":"n1"}}`, ""},
		"cluster-wide":   {"kube.get", `{"version":"v1","resource":"nodes","namespace":"ignored","name":"n1"}`, `{"metadata":{"name":"n1"}}`, ""},
		"not there":      {"kube.get", `{"version":"v1","resource":"pods","namespace":"shop","name":"gone"}`, "", "/api/v1/namespaces/shop/pods/gone not found"},
		"list":           {"kube.list", `{"version":"v1","resource":"pods","namespace":"shop","labelSelector":"a=b","limit":2}`, `{"items":[{"metadata":{"name":"web"}},{"metadata":{"name":"db"}}]}`, ""},
		"all":            {"kube.list", `{"version":"v1","resource":"pods"}`, `{"items":[]}`, ""},
		"limit":          {"kube.list", `{"version":"v1","resource":"pods","limit":100000}`, `{"items":[{"metadata":{"name":"many"}}]}`, ""},
		"forbidden":      {"kube.get", `{"version":"v1","resource":"secrets","namespace":"shop","name":"s"}`, "", `forbidden: secrets "s" is forbidden: User "` + account + `" cannot get resource "secrets" in API group "" in the namespace "shop"`},
		"forbidden node": {"kube.get", `{"version":"v1","resource":"nodes","name":"n2"}`, "", `forbidden: nodes "n2" is forbidden: User "` + account + `" cannot get resource "nodes" in API group "" at the cluster scope`},
		"no name":        {"kube.get", `{"version":"v1","resource":"nodes"}`, "", "kube.get: the request has no name"},
		"no namespace":   {"kube.get", `{"version":"v1","resource":"secrets","name":"s"}`, "", "kube.get: the request has no namespace"},
		"path":           {"kube.get", `{"version":"v1","resource":"nodes","name":"../x"}`, "", `invalid resource name "../x"`},
		"garbage":        {"kube.get", `{"version":1}`, "", "kube.get: the request cannot be read"},
	} {
		got, err := call(tc.operation, tc.request)
		if got != tc.want || (err == nil) != (tc.problem == "") || err != nil && (!strings.Contains(err.Error(), tc.problem) || engine.ReasonOf(err) != "") {
			t.Errorf("%s: %q, %v\nwant %q, %s", name, got, err, tc.want, tc.problem)
		}
	}
	for request, want := range map[string]string{
		`{"version":"v1","resource":"pods","namespace":"kube-system","name":"x"}`: `called "kube.get" for /v1, Resource=pods in the namespace "kube-system", which the binding does not grant`,
		`{"version":"v1","resource":"configmaps","namespace":"shop","name":"x"}`:  `called "kube.get" for /v1, Resource=configmaps, which the binding does not grant`,
	} {
		if _, err := call("kube.get", request); engine.ReasonOf(err) != engine.CapabilityDenied || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", request, err, want)
		}
	}
}

func TestKubeWithoutAccount(t *testing.T) {
	b := broker(t, capability.Config{})
	f, _ := b.Grant(&pluginsv1.Common{Capabilities: []pluginsv1.Capability{{Name: "kube.get", Resources: []pluginsv1.CapabilityResource{{Version: "v1", Resource: "nodes"}}}}},
		abi.Manifest{Capabilities: []string{"kube.get"}})
	if _, err := f(t.Context(), "kube.get", []byte(`{"version":"v1","resource":"nodes","name":"n1"}`)); err == nil || !strings.HasPrefix(err.Error(), "forbidden: the plugin has no serviceAccount") {
		t.Error(err)
	}
}

func TestConfigRead(t *testing.T) {
	b := broker(t, capability.Config{REST: rest(t, apiServer{
		"/api/v1/namespaces/shop/configmaps/rules": `{"metadata":{"name":"rules"},"data":{"a":"1"}}`,
		"/api/v1/namespaces/shop/configmaps/empty": `{"metadata":{"name":"empty"}}`,
	})})
	call := grant(t, b, pluginsv1.Capability{Name: "config.read", ConfigMaps: []string{"shop/rules", "shop/empty", "shop/gone"}})
	for name, want := range map[string]string{"rules": `{"data":{"a":"1"}}`, "empty": `{"data":{}}`} {
		if got, err := call("config.read", `{"namespace":"shop","name":"`+name+`"}`); got != want || err != nil {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	if _, err := call("config.read", `{"namespace":"shop","name":"gone"}`); err == nil || engine.ReasonOf(err) != "" {
		t.Errorf("gone: %v", err)
	}
	if _, err := call("config.read", `{"namespace":"shop","name":"other"}`); engine.ReasonOf(err) != engine.CapabilityDenied {
		t.Errorf("other: %v", err)
	}
}

func TestCanI(t *testing.T) {
	b := broker(t, capability.Config{Authorize: may{account + " list /pods shop/", "bob delete apps/deployments shop/web"}.authorize})
	call := grant(t, b, pluginsv1.Capability{Name: "authz.can_i"})
	for request, want := range map[string]string{
		`{"verb":"list","resource":"pods","namespace":"shop"}`:                                                       `{"allowed":true,"reason":"listed"}`,
		`{"verb":"list","resource":"pods"}`:                                                                          `{"allowed":false}`,
		`{"verb":"delete","group":"apps","resource":"deployments","namespace":"shop","name":"web","user":"bob"}`:     `{"allowed":true,"reason":"listed"}`,
		`{"verb":"delete","group":"apps","resource":"deployments","namespace":"shop","name":"web","user":"mallory"}`: `{"allowed":false}`,
	} {
		if got, err := call("authz.can_i", request); got != want || err != nil {
			t.Errorf("%s: %s, %v, want %s", request, got, err, want)
		}
	}
	if _, err := call("authz.can_i", `{"resource":"pods"}`); err == nil {
		t.Error("no verb: no error")
	}
}

// TestCircle has an authorizer that asks the plugin that asks it.
func TestCircle(t *testing.T) {
	var again func(context.Context, string, []byte) ([]byte, error)
	var calls int
	b := broker(t, capability.Config{Authorize: func(ctx context.Context, _ *request.User, _ *request.Info) (authz.Decision, string, error) {
		calls++
		_, err := again(ctx, "authz.can_i", []byte(`{"verb":"get","resource":"pods","user":"bob"}`))
		return authz.NoOpinion, "", err
	}})
	again, _ = b.Grant(&pluginsv1.Common{Capabilities: []pluginsv1.Capability{{Name: "authz.can_i"}}}, abi.Manifest{Capabilities: []string{"authz.can_i"}})
	_, err := again(t.Context(), "authz.can_i", []byte(`{"verb":"get","resource":"pods","user":"bob"}`))
	if err == nil || !strings.Contains(err.Error(), "plugins ask each other in a circle") || calls != 3 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

func TestHTTP(t *testing.T) {
	elsewhere := httptest.NewServer(http.NotFoundHandler())
	defer elsewhere.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, elsewhere.URL, http.StatusFound)
		case "/here":
			http.Redirect(w, r, "/", http.StatusSeeOther)
		case "/large":
			_, _ = w.Write(make([]byte, 1<<20+1)) // the guest's side is what counts
		case "/slow":
			<-r.Context().Done()
		default:
			w.Header().Set("X-Said", r.Header.Get("X-Say"))
			fmt.Fprintf(w, "%s %d", r.Method, r.ContentLength)
		}
	}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	b := broker(t, capability.Config{Hosts: []string{host, "usual.test"}})
	call := grant(t, b, pluginsv1.Capability{Name: "http", Hosts: []string{host, "only.granted.test"}})

	got, err := call("http", `{"method":"POST","url":"`+server.URL+`/x","headers":{"x-say":"hello"},"body":"`+base64.StdEncoding.EncodeToString([]byte("body"))+`"}`)
	var reply struct {
		Status  int
		Headers map[string]string
		Body    []byte
	}
	if err != nil || json.Unmarshal([]byte(got), &reply) != nil || reply.Status != 200 || string(reply.Body) != "POST 4" || reply.Headers["x-said"] != "hello" {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := call("http", `{"url":"`+server.URL+`/here"}`); err != nil || !strings.Contains(got, base64.StdEncoding.EncodeToString([]byte("GET 0"))) {
		t.Errorf("redirected: %s, %v", got, err)
	}
	for request, want := range map[string]string{
		`{"url":"` + server.URL + `/away"}`:                            "redirected to another host",
		`{"url":"` + server.URL + `/large"}`:                           "the answer has more than 1048576 bytes",
		`{"method":"CONNECT","url":"` + server.URL + `"}`:              `the method "CONNECT" is not allowed`,
		`{"url":"` + server.URL + `","headers":{"host":"x"}}`:          `the header "host" is not the plugin's`,
		`{"url":"unix:///var/run/x.sock"}`:                             "is not http://host or https://host",
		`{"url":"http://u:p@` + host + `"}`:                            "the URL has a password",
		`{"url":"` + server.URL + `","body":"!"}`:                      "cannot be read",
		`{"url":"` + server.URL + `","headers":{"a":"b\u0000\r\nc"}}`:  "invalid header field value",
		`{"url":"` + server.URL + `","headers":{"a b":"c"}}`:           "invalid header field name",
		`{"url":"http://` + strings.ToUpper("127.0.0.1") + `:99999/"}`: "",
	} {
		_, err := call("http", request)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", request, err, want)
		}
	}
	for u, want := range map[string]string{
		elsewhere.URL:               "which the binding does not grant",
		"https://" + host:           "", // another scheme, the same port: allowed by name, fails to connect
		"http://only.granted.test/": "which the server's configuration does not allow",
		"http://usual.test/":        "which the binding does not grant",
	} {
		_, err := call("http", `{"url":"`+u+`"}`)
		if err == nil || want != "" && (engine.ReasonOf(err) != engine.CapabilityDenied || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", u, err, want)
		}
	}

	off := grant(t, broker(t, capability.Config{}), pluginsv1.Capability{Name: "http", Hosts: []string{host}})
	if _, err := off("http", `{"url":"`+server.URL+`"}`); engine.ReasonOf(err) != engine.CapabilityDenied || !strings.Contains(err.Error(), "off in the server's configuration") {
		t.Error(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	f, _ := b.Grant(&pluginsv1.Common{Capabilities: []pluginsv1.Capability{{Name: "http", Hosts: []string{host}}}}, abi.Manifest{Capabilities: []string{"http"}})
	if _, err := f(ctx, "http", []byte(`{"url":"`+server.URL+`/slow"}`)); err == nil || ctx.Err() == nil {
		t.Errorf("a slow host: %v", err)
	}
}

// TestUsualPorts shows what an entry without a port means.
func TestUsualPorts(t *testing.T) {
	for u, want := range map[string]bool{
		"http://a.test": true, "https://a.test": true, "http://a.test:80": true, "https://A.test:443": true,
		"http://a.test:443": false, "http://a.test:8080": false, "https://b.test:8443": true, "https://b.test": false, "http://[::1]": true,
	} {
		p, err := url.Parse(u)
		if err != nil {
			t.Fatal(err)
		}
		if got := capability.ListsHost([]string{"a.test", "b.test:8443", "::1"}, p); got != want {
			t.Errorf("%s: %v", u, got)
		}
	}
}

var errRefused = errors.New("refused")

// refuse is the dialer of a network in which nobody answers.
func refuse(_ context.Context, _, addr string) (net.Conn, error) {
	if addr != "a.test:80" && addr != "a.test:443" {
		panic("dialed " + addr)
	}
	return nil, errRefused
}

// FuzzCall feeds requests to all operations: they answer or fail, and reach
// nothing that is not granted.
func FuzzCall(f *testing.F) {
	operations := []string{"kube.get", "kube.list", "authz.can_i", "clock.wall", "random", "http", "config.read"}
	for i := range operations {
		f.Add(i, []byte(`{"version":"v1","resource":"pods","namespace":"shop","name":"web","verb":"get","bytes":3,"url":"http://a.test"}`))
		f.Add(i, []byte(`{"method":"GET","url":"http://a.test@b.test/","headers":{"a":"b"},"body":"aGk="}`))
		f.Add(i, []byte(`{`))
	}
	b := broker(f, capability.Config{
		REST: rest(f, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/shop/pods") && r.URL.Path != "/api/v1/namespaces/shop/configmaps/rules" {
				panic("read " + r.URL.Path)
			}
			fmt.Fprint(w, `{"items":[{}]}`)
		})),
		Authorize: func(context.Context, *request.User, *request.Info) (authz.Decision, string, error) {
			return authz.Allow, "", nil
		},
		Hosts: []string{"a.test"}, HTTP: &http.Transport{DisableKeepAlives: true, DialContext: refuse},
	})
	pods := []pluginsv1.CapabilityResource{{Version: "v1", Resource: "pods", Namespaces: []string{"shop"}, Fields: []string{"metadata.name"}}}
	call := grant(f, b, pluginsv1.Capability{Name: "kube.get", Resources: pods}, pluginsv1.Capability{Name: "kube.list", Resources: pods},
		pluginsv1.Capability{Name: "authz.can_i"}, pluginsv1.Capability{Name: "clock.wall"}, pluginsv1.Capability{Name: "random"},
		pluginsv1.Capability{Name: "http", Hosts: []string{"a.test"}}, pluginsv1.Capability{Name: "config.read", ConfigMaps: []string{"shop/rules"}})
	f.Fuzz(func(t *testing.T, n int, request []byte) {
		reply, err := call(operations[uint(n)%uint(len(operations))], string(request))
		if err == nil && !json.Valid([]byte(reply)) {
			t.Errorf("%s", reply)
		}
	})
}
