package library_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/library"
)

const wasmLayer = "application/vnd.wasm.content.layer.v1+wasm"

// A testRegistry is a registry on the loopback interface.
type testRegistry struct {
	t      *testing.T
	server *httptest.Server
	host   string
	pulls  atomic.Int32 // of manifests
	auth   string       // "", "basic" or "bearer"
	down   atomic.Bool
}

func newRegistry(t *testing.T, secure bool, auth string) *testRegistry {
	t.Helper()
	r := &testRegistry{t: t, auth: auth}
	inner := registry.New(registry.Logger(log.New(t.Output(), "", 0)))
	outer := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodGet && strings.Contains(q.URL.Path, "/manifests/") {
			r.pulls.Add(1)
		}
		switch {
		case r.down.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		case q.URL.Path == "/token":
			r.token(w, q)
		case q.Method == http.MethodGet && !r.authorized(w, q):
			w.WriteHeader(http.StatusUnauthorized)
		default:
			inner.ServeHTTP(w, q)
		}
	})
	r.server = httptest.NewUnstartedServer(outer)
	r.server.Config.ErrorLog = log.New(t.Output(), "", 0)
	if secure {
		r.server.StartTLS()
	} else {
		r.server.Start()
	}
	t.Cleanup(r.server.Close)
	r.host = r.server.Listener.Addr().String()
	return r
}

func (r *testRegistry) authorized(w http.ResponseWriter, q *http.Request) bool {
	user, password, _ := q.BasicAuth()
	switch r.auth {
	case "basic":
		w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
		return user == "bob" && password == "secret"
	case "bearer":
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s/token",service="registry, of tests",scope="repository:x:pull"`, r.server.URL))
		return q.Header.Get("Authorization") == "Bearer t0ken"
	}
	return true
}

func (r *testRegistry) token(w http.ResponseWriter, q *http.Request) {
	user, password, _ := q.BasicAuth()
	if user != "bob" || password != "secret" || q.URL.Query().Get("service") != "registry, of tests" || q.URL.Query().Get("scope") != "repository:policies/a:pull" {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	_, _ = w.Write([]byte(`{"token":"t0ken"}`))
}

// transport trusts the registry.
func (r *testRegistry) transport(c *library.Config) {
	pool := x509.NewCertPool()
	if r.server.Certificate() != nil {
		pool.AddCert(r.server.Certificate())
	}
	c.HTTP = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	r.t.Cleanup(c.HTTP.CloseIdleConnections)
}

func (r *testRegistry) send(method, path, contentType string, b []byte) {
	r.t.Helper()
	q, err := http.NewRequestWithContext(r.t.Context(), method, r.server.URL+path, bytes.NewReader(b))
	if err != nil {
		r.t.Fatal(err)
	}
	q.Header.Set("Content-Type", contentType)
	resp, err := r.server.Client().Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		r.t.Fatalf("%s %s: %s", method, path, resp.Status)
	}
}

// push pushes layers, of a media type each, and returns the manifest's digest.
func (r *testRegistry) push(tag string, layers ...any) string {
	r.t.Helper()
	type descriptor struct {
		MediaType string `json:"mediaType"`
		Digest    string `json:"digest"`
		Size      int    `json:"size"`
	}
	blob := func(mediaType string, b []byte) descriptor {
		r.send(http.MethodPost, "/v2/policies/a/blobs/uploads/?digest="+engine.Digest(b), "application/octet-stream", b)
		return descriptor{mediaType, engine.Digest(b), len(b)}
	}
	var ds []descriptor
	for i := 0; i < len(layers); i += 2 {
		ds = append(ds, blob(layers[i].(string), layers[i+1].([]byte)))
	}
	const kind = "application/vnd.oci.image.manifest.v1+json"
	m, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": kind, "config": blob("application/vnd.wasm.config.v1+json", []byte("{}")), "layers": ds})
	if err != nil {
		r.t.Fatal(err)
	}
	r.send(http.MethodPut, "/v2/policies/a/manifests/"+tag, kind, m)
	return engine.Digest(m)
}

// index pushes an index of manifests by architecture.
func (r *testRegistry) index(tag string, members map[string]string) {
	r.t.Helper()
	var list []any
	for arch, digest := range members {
		list = append(list, map[string]any{
			"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest, "size": 1, "platform": map[string]string{"os": "wasi", "architecture": arch},
		})
	}
	const kind = "application/vnd.oci.image.index.v1+json"
	b, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": kind, "manifests": list})
	if err != nil {
		r.t.Fatal(err)
	}
	r.send(http.MethodPut, "/v2/policies/a/manifests/"+tag, kind, b)
}

// image points a module at what is in the registry.
func (r *testRegistry) image(tag string) func(*pluginsv1.WasmModuleSpec) {
	sep := ":"
	if strings.Contains(tag, ":") {
		sep = "@"
	}
	return func(s *pluginsv1.WasmModuleSpec) {
		s.Code, s.Digest = nil, ""
		s.Image = &pluginsv1.ModuleImage{Reference: r.host + "/policies/a" + sep + tag, PlainHTTP: r.server.Certificate() == nil}
		if r.auth != "" {
			s.Image.PullSecret = &pluginsv1.SecretReference{Namespace: "default", Name: "pull"}
		}
	}
}

// secret makes the pull secret.
func (r *testRegistry) secret(f *fixture, host, user, password string) {
	f.t.Helper()
	config := fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
	_, err := client.For[*corev1.Secret](f.rest).Create(f.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pull"}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(config)},
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

func TestPull(t *testing.T) {
	for _, tc := range []struct {
		secure bool
		auth   string
	}{{false, ""}, {true, ""}, {false, "basic"}, {true, "basic"}, {false, "bearer"}, {true, "bearer"}} {
		t.Run(fmt.Sprintf("tls %v auth %s", tc.secure, tc.auth), func(t *testing.T) {
			r := newRegistry(t, tc.secure, tc.auth)
			digest := r.push("v1", "application/vnd.oci.image.layer.v1.tar", []byte("readme"), wasmLayer, guest(1))
			r.push("v2", "application/wasm", guest(2))
			f := newFixture(t, r.transport)
			if tc.auth != "" {
				r.secret(f, "https://"+r.host+"/v2/", "bob", "secret")
			}
			f.module("a", r.image(digest))
			if m := f.wait("a", "Compiled"); m.Status.Digest != guestDigests(1)[0] {
				t.Errorf("digest %s", m.Status.Digest)
			}
			if got, err := f.download("a", ""); err != nil || !bytes.Equal(got, guest(1)) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			f.module("a", r.image("v2"))
			f.wait("a", "Compiled")
			if ref := f.get("a", ""); ref.Digest != guestDigests(2)[0] {
				t.Errorf("digest %s", ref.Digest)
			}
		})
	}
}

// TestPullOnce: a tag is looked up when spec.image changes, and at no other
// time; what was pulled needs no registry.
func TestPullOnce(t *testing.T) {
	r := newRegistry(t, false, "")
	r.push("v1", wasmLayer, guest(1))
	f := newFixture(t)
	f.module("a", r.image("v1"))
	f.wait("a", "Compiled")
	r.push("v1", wasmLayer, guest(2))
	limit := int32(5)
	f.module("a", func(s *pluginsv1.WasmModuleSpec) { s.VersionHistoryLimit = &limit })
	f.wait("a", "Compiled")
	f.until("the version is listed", func() bool { return len(f.wait("a", "Compiled").Status.Versions) == 1 })
	r.down.Store(true)
	f = f.restart()
	if ref := f.get("a", ""); ref.Digest != guestDigests(1)[0] || r.pulls.Load() != 1 {
		t.Errorf("digest %s after %d pulls", ref.Digest, r.pulls.Load())
	}

	// Another tag has to be pulled; meanwhile and at a start nobody waits.
	f.module("a", r.image("v2"))
	f.wait("a", "PullFailed")
	f = f.restart()
	if ref, err := f.lib.Get(t.Context(), "a", ""); err == nil {
		ref.Release()
		t.Error("there is code before the pull")
	}
	r.down.Store(false)
	r.push("v2", wasmLayer, guest(3))
	if m := f.wait("a", "Compiled"); m.Status.Digest != guestDigests(3)[0] {
		t.Errorf("digest %s", m.Status.Digest)
	}

	// The digest is a rollback for images, too.
	f.module("a", func(s *pluginsv1.WasmModuleSpec) { s.Digest = guestDigests(1)[0] })
	if m := f.wait("a", "Compiled"); m.Status.Digest != guestDigests(1)[0] {
		t.Errorf("digest %s", m.Status.Digest)
	}
}

func TestPullFails(t *testing.T) {
	r := newRegistry(t, false, "")
	r.push("none", "application/vnd.oci.image.layer.v1.tar", guest(1))
	r.push("two", wasmLayer, guest(1), wasmLayer, guest(2))
	r.push("text", wasmLayer, []byte("no module"))
	r.push("large", wasmLayer, make([]byte, 16<<20+1))
	arm := r.push("arm", wasmLayer, guest(1))
	wasm := r.push("wasm", wasmLayer, guest(2))
	r.index("index", map[string]string{"arm64": arm, "wasm": wasm})
	r.index("only", map[string]string{"arm64": arm})
	r.index("many", map[string]string{"arm64": arm, "amd64": wasm})
	f := newFixture(t)
	for tag, want := range map[string]string{
		"none": "no layer that is a module", "two": "2 layers that are modules", "text": "no WebAssembly module", "large": "larger than the limit",
		"missing": "404 MANIFEST_UNKNOWN", "many": "none of them for the architecture wasm", engine.Digest(nil): "404",
	} {
		name := "m-" + tag[:3]
		f.module(name, r.image(tag))
		m := f.wait(name, "PullFailed")
		if text := conditionText(m); !strings.Contains(text, want) || !strings.Contains(text, r.host) {
			t.Errorf("%s: %s, want %s", tag, text, want)
		}
	}
	for tag, n := range map[string]byte{"index": 2, "only": 1} {
		f.module(tag, r.image(tag))
		if m := f.wait(tag, "Compiled"); m.Status.Digest != guestDigests(n)[0] {
			t.Errorf("%s: digest %s", tag, m.Status.Digest)
		}
	}
	for reference, want := range map[string]string{
		"a:b": "must begin with the registry's host", r.host + "/a": "neither tag nor digest", r.host + "/A:b": "repository is invalid",
		r.host + "/a@sha256:0": "digest must be", "a.b/c:d/e": "tag is invalid",
	} {
		f.module("ref", func(s *pluginsv1.WasmModuleSpec) { s.Image = &pluginsv1.ModuleImage{Reference: reference} })
		if text := conditionText(f.wait("ref", "PullFailed")); !strings.Contains(text, want) {
			t.Errorf("%s: %s, want %s", reference, text, want)
		}
	}
	f.module("pinned", func(s *pluginsv1.WasmModuleSpec) { r.image("wasm")(s); s.Digest = guestDigests(9)[0] })
	f.wait("pinned", "DigestMismatch")
	if err := f.upload("pinned", guest(9)); err == nil || !strings.Contains(err.Error(), "spec.image") {
		t.Errorf("got %v", err)
	}
}

func conditionText(m *pluginsv1.WasmModule) string {
	for _, c := range m.Status.Conditions {
		if c.Type == "Ready" {
			return c.Message
		}
	}
	return ""
}

func TestPullSecrets(t *testing.T) {
	r := newRegistry(t, false, "basic")
	r.push("v1", wasmLayer, guest(1))
	f := newFixture(t)
	f.module("a", r.image("v1"))
	if text := conditionText(f.wait("a", "PullFailed")); !strings.Contains(text, `secrets "pull" not found`) {
		t.Error(text)
	}
	f.module("b", func(s *pluginsv1.WasmModuleSpec) { r.image("v1")(s); s.Image.PullSecret = nil })
	if text := conditionText(f.wait("b", "PullFailed")); !strings.Contains(text, "401 and there is no pull secret") {
		t.Error(text)
	}
	secrets := client.For[*corev1.Secret](f.rest)
	for _, s := range []struct{ host, user, password, want string }{
		{"example.test", "bob", "secret", "no credentials for the registry"},
		{r.host, "bob", "wrong", "401"},
		{r.host + "/policies", "bob", "secret", ""},
	} {
		_ = secrets.Delete(t.Context(), "default", "pull", metav1.DeleteOptions{})
		r.secret(f, s.host, s.user, s.password)
		f.module("a", func(spec *pluginsv1.WasmModuleSpec) { // so that it does not wait for the back-off
			n := int32(len(s.host) % 10)
			spec.VersionHistoryLimit = &n
		})
		if s.want == "" {
			f.wait("a", "Compiled")
			continue
		}
		f.until("it fails with "+s.want, func() bool { return strings.Contains(conditionText(f.wait("a", "PullFailed")), s.want) })
	}
}

// TestPullUntrusted: a registry whose certificate is unknown is not believed,
// nor one that hands over to a server without TLS.
func TestPullUntrusted(t *testing.T) {
	r := newRegistry(t, true, "")
	r.push("v1", wasmLayer, guest(1))
	f := newFixture(t)
	f.module("a", r.image("v1"))
	if text := conditionText(f.wait("a", "PullFailed")); !strings.Contains(text, "certificate") {
		t.Error(text)
	}

	plain := newRegistry(t, false, "")
	plain.push("v1", wasmLayer, guest(1))
	redirect := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		http.Redirect(w, q, plain.server.URL+q.URL.Path, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(redirect.Close)
	r = &testRegistry{t: t, server: redirect, host: redirect.Listener.Addr().String()}
	f = newFixture(t, r.transport)
	f.module("a", r.image("v1"))
	if text := conditionText(f.wait("a", "PullFailed")); !strings.Contains(text, "not https") {
		t.Error(text)
	}
}

func TestPullTimeout(t *testing.T) {
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() }))
	t.Cleanup(slow.Close)
	r := &testRegistry{t: t, server: slow, host: slow.Listener.Addr().String()}
	f := newFixture(t, func(c *library.Config) { c.PullTimeout = 50 * time.Millisecond })
	f.module("a", r.image("v1"))
	if text := conditionText(f.wait("a", "PullFailed")); !strings.Contains(text, "took longer than 50ms") {
		t.Error(text)
	}
}
