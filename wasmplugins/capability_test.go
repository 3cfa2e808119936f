package wasmplugins_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/authz"
	"github.com/proa-project/proa/httpapi/request"
	"github.com/proa-project/proa/wasmplugins"
	"github.com/proa-project/proa/wasmplugins/capability"
	"github.com/proa-project/proa/wasmplugins/toolchain"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

// TestCapabilities has a real guest make host calls, from the server's
// configuration and the binding to the answer.
func TestCapabilities(t *testing.T) {
	slow := make(chan struct{})
	outside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			select {
			case <-r.Context().Done():
			case <-slow:
			}
		}
		fmt.Fprint(w, "hello")
	}))
	defer outside.Close()
	defer close(slow)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(outside.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	host := "127.0.0.1:" + port
	f := newFixture(t, func(c *wasmplugins.Config) {
		broker, err := capability.New(capability.Config{
			REST: c.REST, Hosts: []string{host}, HTTP: &http.Transport{DisableKeepAlives: true},
			Authorize: func(_ context.Context, u *request.User, i *request.Info) (authz.Decision, string, error) {
				if u.Name == "system:serviceaccount:default:caller" && i.Namespace == "default" && i.Resource.Plural == "pods" {
					return authz.Allow, "", nil
				}
				return authz.NoOpinion, "", nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		c.Grant = broker.Grant
	})
	wasm, err := toolchain.WithManifest(BuildC(t, "testdata/caller"), []byte(`{"capabilities":["kube.get","kube.list","http","clock.wall","config.read","authz.can_i"]}`))
	if err != nil {
		t.Fatal(err)
	}
	f.module("caller", wasm)
	pods := []pluginsv1.CapabilityResource{{Version: "v1", Resource: "pods", Fields: []string{"metadata.name", "spec.containers[].image"}}, {Version: "v1", Resource: "configmaps"}}
	p := f.plugin("caller", metav1.ConditionTrue, func(p *pluginsv1.AdmissionPlugin) {
		p.Spec.ServiceAccount = &pluginsv1.ServiceAccountReference{Namespace: "default", Name: "caller"}
		p.Spec.Capabilities = []pluginsv1.Capability{
			{Name: "kube.get", Resources: pods},
			{Name: "kube.list", Resources: pods},
			{Name: "random"},
			{Name: "authz.can_i"},
			{Name: "http", Hosts: []string{host}},
			{Name: "config.read", ConfigMaps: []string{"kube-system/rules"}},
		}
	})
	// Both sides are there for kubectl describe.
	if diff := cmp.Diff([]string{"authz.can_i", "config.read", "http", "kube.get", "kube.list"}, p.Status.Capabilities); diff != "" {
		t.Error(diff)
	}
	m, err := f.modules.Get(t.Context(), "", "caller")
	if err != nil || m.Status.Manifest == nil || len(m.Status.Manifest.Capabilities) != 6 {
		t.Errorf("%+v, %v", m.Status, err)
	}
	if _, err := f.pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i:1"}}},
	}); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ operation, request, want string }{
		"get":       {"kube.get", `{"version":"v1","resource":"pods","namespace":"default","name":"web"}`, `denied the request: {"metadata":{"name":"web"},"spec":{"containers":[{"image":"i:1"}]}}`},
		"list":      {"kube.list", `{"version":"v1","resource":"pods","namespace":"default"}`, `{"items":[{"metadata":{"name":"web"},"spec":{"containers":[{"image":"i:1"}]}}]}`},
		"forbidden": {"kube.list", `{"version":"v1","resource":"pods"}`, `forbidden: pods is forbidden: User "system:serviceaccount:default:caller" cannot list resource "pods" in API group "" at the cluster scope`},
		"not there": {"kube.get", `{"version":"v1","resource":"pods","namespace":"default","name":"gone"}`, `pods "gone" not found`},
		"can i":     {"authz.can_i", `{"verb":"get","resource":"pods","namespace":"default"}`, `{"allowed":true}`},
		"http":      {"http", `{"url":"http://` + host + `/"}`, `"body":"aGVsbG8="`},
		"slow http": {"http", `{"url":"http://` + host + `/slow"}`, "DeadlineExceeded: ran longer than 100ms"},
		"elsewhere": {"http", `{"url":"http://example.test/"}`, `CapabilityDenied: called "http" for the host example.test, which the binding does not grant`},
		"ungranted": {"clock.wall", `{}`, `CapabilityDenied: called "clock.wall", which the module's manifest names but the binding does not grant`},
		"unwanted":  {"random", `{"bytes":8}`, `CapabilityDenied: called "random", which the binding grants but the module's manifest does not name`},
		"beyond":    {"kube.get", `{"version":"v1","resource":"secrets","namespace":"default","name":"s"}`, `CapabilityDenied: called "kube.get" for /v1, Resource=secrets, which the binding does not grant`},
		"config":    {"config.read", `{"namespace":"default","name":"rules"}`, `CapabilityDenied: called "config.read" for default/rules, which the binding does not grant`},
		"no config": {"config.read", `{"namespace":"kube-system","name":"rules"}`, `configmaps "rules" not found`},
	} {
		_, err := f.configMaps.Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "default"}, Data: map[string]string{"operation": tc.operation, "request": tc.request},
		})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v\nwant %q", name, err, tc.want)
		}
	}
}
