package openapi

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	openapiclient "k8s.io/client-go/openapi3"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	protomodel "k8s.io/kube-openapi/pkg/util/proto"

	"github.com/proa-project/proa/api"
)

func TestMain(m *testing.M) {
	flag.Parse()
	goleak.VerifyTestMain(m)
}

// server serves the documents over TLS, and as much else as kubectl asks for.
func server(t *testing.T) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/", documents(t).Handler())
	mux.HandleFunc("/version", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.0"})
	})
	s := httptest.NewUnstartedServer(mux)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // kubectl hangs up in the middle of handshakes
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func restConfig(s *httptest.Server) *rest.Config {
	return &rest.Config{Host: s.URL, Transport: s.Client().Transport}
}

func discoveryClient(t *testing.T, s *httptest.Server) *clientdiscovery.DiscoveryClient {
	t.Helper()
	c, err := clientdiscovery.NewDiscoveryClientForConfig(restConfig(s))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDiscovery_clientGo(t *testing.T) {
	c := discoveryClient(t, server(t))
	groups, aggregated, failed, err := c.GroupsAndMaybeResources()
	if err != nil || len(failed) > 0 || aggregated == nil {
		t.Fatalf("aggregated discovery: %v %v %v", aggregated, failed, err)
	}
	var names []string
	for _, g := range groups.Groups {
		names = append(names, g.PreferredVersion.GroupVersion)
	}
	if d := cmp.Diff([]string{"v1", "apps/v1", "events.k8s.io/v1", "admissionregistration.k8s.io/v1", "coordination.k8s.io/v1", "plugins.proa.io/v1", "rbac.authorization.k8s.io/v1", "authentication.k8s.io/v1", "authorization.k8s.io/v1", "apiextensions.k8s.io/v1"}, names); d != "" {
		t.Error(d)
	}

	// What the old lists say is the same, but for what only they have.
	legacy := c.WithLegacy()
	oldGroups, lists, err := legacy.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	if len(oldGroups) != len(groups.Groups) {
		t.Errorf("%d groups in the old list, %d in the new", len(oldGroups), len(groups.Groups))
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.APIResources {
			r := &list.APIResources[i]
			parent, _, sub := strings.Cut(r.Name, "/")
			if row := api.ByGVR(gv.Group, gv.Version, parent); (sub || row.CreateOnly) != (r.StorageVersionHash == "") {
				t.Errorf("%s %s: storage version hash %q", gv, r.Name, r.StorageVersionHash)
			}
			r.StorageVersionHash = ""
			if sub { // client-go adds it to what it makes of the new form
				r.SingularName = api.ByGVR(gv.Group, gv.Version, parent).Singular
			}
			if r.Group == "" && r.Version == "" { // the old lists leave out their own
				r.Group, r.Version = gv.Group, gv.Version
			}
		}
		got := aggregated[gv].APIResources
		slices.SortFunc(got, func(a, b metav1.APIResource) int { return strings.Compare(a.Name, b.Name) })
		if d := cmp.Diff(list.APIResources, got); d != "" {
			t.Errorf("%s: the old list and the new differ:\n%s", gv, d)
		}
	}
}

func TestDiscovery_mapper(t *testing.T) {
	cached := memory.NewMemCacheClient(discoveryClient(t, server(t)))
	mapper := restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(cached), cached, nil)
	for short, want := range map[string]string{"po": "pods", "deploy": "deployments", "no": "nodes", "cm": "configmaps", "lease": "leases", "wasmmodule": "wasmmodules"} {
		got, err := mapper.ResourceFor(schema.GroupVersionResource{Resource: short})
		if err != nil || got.Resource != want {
			t.Errorf("%s is %v, %v", short, got, err)
		}
	}
}

// TestDiscovery_hashes compares with the hashes that kube-apiserver shows.
func TestDiscovery_hashes(t *testing.T) {
	for kind, want := range map[string]string{"pods": "xPOwRZ+Yhw8=", "secrets": "S6u1pOWzb84=", "namespaces": "Q3oi5N2YM8M=", "events": "r2yiGXH7wu8="} {
		if got := storageVersionHash(api.ByGVR("", "v1", kind).GVK()); got != want {
			t.Errorf("hash of %s is %s, want %s", kind, got, want)
		}
	}
	if got := storageVersionHash(api.ByGVR("apps", "v1", "deployments").GVK()); got != "8aSe+NMegvE=" {
		t.Errorf("hash of deployments is %s", got)
	}
}

// TestDiscovery_golden holds the structure of discovery.
func TestDiscovery_golden(t *testing.T) {
	h := documents(t).Handler()
	var got strings.Builder
	for _, req := range []struct{ path, accept string }{
		{"/api", ""},
		{"/apis", ""},
		{"/apis/apps", ""},
		{"/api/v1", ""},
		{"/apis/apps/v1", ""},
		{"/apis/events.k8s.io/v1", ""},
		{"/apis/coordination.k8s.io/v1", ""},
		{"/apis/plugins.proa.io/v1", ""},
		{"/api", aggregatedType},
		{"/apis", aggregatedType},
	} {
		w := ask(h, req.path, "Accept", req.accept)
		var v any
		if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
			t.Fatalf("%s: %v", req.path, err)
		}
		indented, err := json.MarshalIndent(v, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		got.WriteString("GET " + req.path + "\n" + w.Header().Get("Content-Type") + "\n" + string(indented) + "\n\n")
	}
	golden(t, "testdata/discovery.golden", got.String())
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-update rewrites it):\n%s", file, d)
	}
}

// ask sends a GET with headers given as names and values.
func ask(h http.Handler, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, path, nil)
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] != "" {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestHandler_negotiation(t *testing.T) {
	h := documents(t).Handler()
	const pb = "application/vnd.kubernetes.protobuf"
	for _, tt := range []struct {
		path, accept string
		code         int
		contentType  string
	}{
		{"/api", "", 200, "application/json"},
		{"/api/", "*/*", 200, "application/json"},
		{"/apis", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json", 200, aggregatedType},
		{"/apis", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer,application/json", 200, aggregatedType},
		{"/apis", "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json", 200, "application/json"},
		{"/apis", "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", 200, aggregatedType},
		{"/apis", "application/json, application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;q=0.9", 200, "application/json"},
		{"/api/v1", pb + ",application/json", 200, pb},
		{"/api/v1", pb, 200, pb},
		{"/api", pb, 200, pb},
		{"/apis/apps", pb, 200, pb},
		{"/apis", "application/yaml", 200, "application/yaml"},
		{"/apis", "text/html,application/xhtml+xml,*/*;q=0.8", 200, "application/json"},
		{"/apis", "text/html", 406, "application/json"},
		{"/api/v2", "", 404, "application/json"},
		{"/apis/nosuch", "", 404, "application/json"},
		{"/apis/apps/v2", "", 404, "application/json"},
		{"/apis/apps/v1/more", "", 404, "application/json"},
		{"/apis//v1", "", 404, "application/json"},
		{"/openapi", "", 404, "application/json"},
		{"/openapi/v2", "", 200, "application/json"},
		{"/openapi/v2", mediaV2Client, 200, mediaV2},
		{"/openapi/v2", "text/html", 406, "application/json"},
		{"/openapi/v3", "", 200, "application/json"},
		{"/openapi/v3/api/v1", "application/json", 200, "application/json"},
		{"/openapi/v3/apis/apps/v1", mediaV3Client, 200, mediaV3},
		{"/openapi/v3/apis/apps/v1", mediaV3, 200, mediaV3},
		{"/openapi/v3/apis/apps/v2", "", 404, "application/json"},
		{"/openapi/v3/apis/apps/v1", "image/png", 406, "application/json"},
	} {
		w := ask(h, tt.path, "Accept", tt.accept)
		if w.Code != tt.code || w.Header().Get("Content-Type") != tt.contentType {
			t.Errorf("GET %s as %q: %d %s", tt.path, tt.accept, w.Code, w.Header().Get("Content-Type"))
		}
		if tt.code != 200 {
			var s metav1.Status
			if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil || s.Kind != "Status" || int(s.Code) != tt.code {
				t.Errorf("GET %s: no Status: %s", tt.path, w.Body)
			}
		}
	}
	if w := ask(h, "/api", "User-Agent", "curl/8"); !strings.Contains(w.Body.String(), "\n  \"kind\"") {
		t.Errorf("not indented for people: %s", w.Body)
	}
	if w := ask(h, "/api?pretty=false", "User-Agent", "curl/8"); strings.Contains(w.Body.String(), "\n") {
		t.Errorf("indented without need: %s", w.Body)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/apis", nil)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != 405 {
		t.Errorf("POST: %d", w.Code)
	}
}

func TestHandler_caching(t *testing.T) {
	h := documents(t).Handler()
	var root struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	if err := json.Unmarshal(ask(h, "/openapi/v3").Body.Bytes(), &root); err != nil {
		t.Fatal(err)
	}
	u := root.Paths["apis/apps/v1"].ServerRelativeURL
	w := ask(h, u)
	if w.Code != 200 || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") || w.Header().Get("Expires") == "" {
		t.Fatalf("GET %s: %d %v", u, w.Code, w.Header())
	}
	path, _, _ := strings.Cut(u, "?")
	if w := ask(h, path); w.Code != 200 || strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
		t.Errorf("without a hash: %d %v", w.Code, w.Header())
	}
	if w := ask(h, path+"?hash=OLD"); w.Code != 301 || w.Header().Get("Location") != u {
		t.Errorf("with an old hash: %d %v", w.Code, w.Header())
	}
	for _, p := range []string{path, "/openapi/v2", "/openapi/v3"} {
		tag := ask(h, p).Header().Get("ETag")
		if w := ask(h, p, "If-None-Match", `"x", `+tag); tag == "" || w.Code != 304 || w.Body.Len() != 0 {
			t.Errorf("%s with its tag: %d", p, w.Code)
		}
	}
	a := ask(h, "/apis", "Accept", aggregatedType)
	if w := ask(h, "/apis", "Accept", aggregatedType, "If-None-Match", a.Header().Get("ETag")); w.Code != 304 || w.Header().Get("Vary") != "Accept" {
		t.Errorf("aggregated discovery with its tag: %d %v", w.Code, w.Header())
	}
	z := ask(h, u, "Accept-Encoding", "gzip")
	r, err := gzip.NewReader(z.Body)
	if err != nil || z.Header().Get("Content-Encoding") != "gzip" {
		t.Fatal(err, z.Header())
	}
	plain, err := io.ReadAll(r)
	if err != nil || string(plain) != w.Body.String() {
		t.Errorf("compressed and plain differ: %v", err)
	}
}

func TestOpenAPIv3_clientGo(t *testing.T) {
	root := openapiclient.NewRoot(discoveryClient(t, server(t)).OpenAPIV3())
	gvs, err := root.GroupVersions()
	if err != nil || len(gvs) != 10 {
		t.Fatal(gvs, err)
	}
	for _, gv := range gvs {
		spec, err := root.GVSpec(gv)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range api.Resources() {
			if r.GroupVersion() != gv || r.CreateOnly {
				continue
			}
			path := prefix(r.Group, r.Version) + "/" + r.Plural + "/{name}"
			if r.Namespaced {
				path = prefix(r.Group, r.Version) + "/namespaces/{namespace}/" + r.Plural + "/{name}"
			}
			item := spec.Paths.Paths[path]
			if item == nil || item.Patch == nil {
				t.Fatalf("no PATCH %s", path)
			}
			var params []string
			for _, p := range item.Patch.Parameters {
				params = append(params, p.Name)
			}
			if !slices.Contains(params, "fieldValidation") || !slices.Contains(params, "dryRun") || !slices.Contains(params, "fieldManager") {
				t.Errorf("PATCH %s has the parameters %q", path, params)
			}
			if strategic := item.Patch.RequestBody.Content["application/strategic-merge-patch+json"] != nil; strategic == ownGroup(r.Group) {
				t.Errorf("PATCH %s: strategic merge patch is %v", path, strategic)
			}
			if d := cmp.Diff(gvkExtension(r.GVK()), item.Patch.Extensions[gvkKey]); d != "" {
				t.Errorf("PATCH %s: %s", path, d)
			}
		}
	}
	spec, err := root.GVSpec(schema.GroupVersion{Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	containers := spec.Components.Schemas["io.k8s.api.core.v1.PodSpec"].Properties["containers"]
	if containers.Extensions["x-kubernetes-patch-merge-key"] != "name" || containers.Extensions["x-kubernetes-list-type"] != "map" || containers.Description == "" {
		t.Errorf("containers: %+v", containers)
	}
}

// TestOpenAPIv3_valid has kin-openapi validate the documents themselves.
func TestOpenAPIv3_valid(t *testing.T) {
	d := documents(t).current.Load()
	var versions []schema.GroupVersion
	for _, r := range d.resources {
		if !slices.Contains(versions, r.GroupVersion()) {
			versions = append(versions, r.GroupVersion())
		}
	}
	for _, gv := range append([]*schema.GroupVersion{nil}, pointers(versions)...) {
		doc, err := d.buildV3(gv)
		if err != nil {
			t.Fatal(err)
		}
		data, err := encode(doc)
		if err != nil {
			t.Fatal(err)
		}
		loaded, err := openapi3.NewLoader().LoadFromData(data)
		if err != nil {
			t.Fatal(err)
		}
		if err := loaded.Validate(context.Background()); err != nil {
			t.Errorf("%v: %v", gv, err)
		}
		again, err := d.encodeV3(gv)
		if err != nil || string(again) != string(data) {
			t.Errorf("%v: made twice, it differs: %v", gv, err)
		}
	}
}

func pointers(gvs []schema.GroupVersion) []*schema.GroupVersion {
	var p []*schema.GroupVersion
	for i := range gvs {
		p = append(p, &gvs[i])
	}
	return p
}

func TestOpenAPI_protobuf(t *testing.T) {
	h := documents(t).Handler()
	v3 := &openapi_v3.Document{}
	if err := proto.Unmarshal(ask(h, "/openapi/v3/api/v1", "Accept", mediaV3Client).Body.Bytes(), v3); err != nil {
		t.Fatal(err)
	}
	if n := len(v3.GetComponents().GetSchemas().GetAdditionalProperties()); n < 150 || v3.GetOpenapi() != "3.0.0" {
		t.Errorf("%d schemas", n)
	}
	v2 := &openapi_v2.Document{}
	if err := proto.Unmarshal(ask(h, "/openapi/v2", "Accept", mediaV2Client).Body.Bytes(), v2); err != nil {
		t.Fatal(err)
	}
	if n := len(v2.GetDefinitions().GetAdditionalProperties()); n < 200 {
		t.Errorf("%d definitions", n)
	}
}

// TestOpenAPIv2_clientGo reads v2 as kubectl's fallback does.
func TestOpenAPIv2_clientGo(t *testing.T) {
	doc, err := discoveryClient(t, server(t)).OpenAPISchema()
	if err != nil {
		t.Fatal(err)
	}
	models, err := protomodel.NewOpenAPIData(doc)
	if err != nil {
		t.Fatal(err)
	}
	pod, ok := models.LookupModel("io.k8s.api.core.v1.Pod").(*protomodel.Kind)
	if !ok {
		t.Fatal("no Pod")
	}
	if spec, ok := pod.Fields["spec"].(protomodel.Reference); !ok || spec.Reference() != "io.k8s.api.core.v1.PodSpec" {
		t.Errorf("spec is %T", pod.Fields["spec"])
	}
	quantity, ok := models.LookupModel("io.k8s.apimachinery.pkg.util.intstr.IntOrString").(*protomodel.Primitive)
	if !ok || quantity.Type != "string" || quantity.Format != "int-or-string" {
		t.Errorf("IntOrString is %+v", quantity)
	}
	for _, p := range doc.GetPaths().GetPath() {
		if p.GetName() == "/api/v1/namespaces/{namespace}/pods" {
			op := p.GetValue().GetPost()
			if !slices.Contains(op.GetProduces(), "application/json") || len(op.GetParameters()) != 4 {
				t.Errorf("POST pods: %v", op)
			}
		}
	}
}

// TestKubectl runs kubectl against the documents alone. It needs kubectl on
// the PATH.
func TestKubectl(t *testing.T) {
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		t.Skip("kubectl is not on the PATH; install it to run this")
	}
	s := server(t)
	home := t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		args = append([]string{"--server", s.URL, "--insecure-skip-tls-verify", "--cache-dir", filepath.Join(home, "cache"), "--token", "t"}, args...)
		cmd := exec.CommandContext(t.Context(), kubectl, args...)
		cmd.Env = append(os.Environ(), "HOME="+home, "KUBECONFIG=")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("kubectl %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	for _, tt := range []struct {
		args []string
		want []string
	}{
		{[]string{"api-resources"}, []string{"configmaps", "deploy", "apps/v1", "events.k8s.io/v1", "admissionplugins", "leases"}},
		{[]string{"api-resources", "--categories=all", "-o", "name"}, []string{"pods\n", "deployments.apps\n", "replicasets.apps\n"}},
		{[]string{"api-versions"}, []string{"v1\n", "coordination.k8s.io/v1\n"}},
		{[]string{"explain", "pod.spec.containers"}, []string{"KIND:       Pod", "FIELD: containers <[]Container>", "imagePullPolicy", "name\t<string> -required-"}},
		{[]string{"explain", "deploy.spec.strategy.rollingUpdate.maxSurge"}, []string{"GROUP:      apps", "<IntOrString>"}},
		{[]string{"explain", "admissionplugins.spec"}, []string{"GROUP:      plugins.proa.io", "failurePolicy", "refuses what it was asked"}},
		{[]string{"explain", "pod.spec", "--output", "plaintext-openapiv2"}, []string{"containers\t<[]Object> -required-"}},
		{[]string{"create", "deployment", "web", "--image=a", "--dry-run=client", "-o", "name"}, []string{"deployment.apps/web"}},
	} {
		out := run(tt.args...)
		for _, w := range tt.want {
			if !strings.Contains(out, w) {
				t.Errorf("kubectl %q lacks %q:\n%s", tt.args, w, out)
			}
		}
	}
}

// BenchmarkBuild makes all documents, as the first client of a new server has
// it done.
func BenchmarkBuild(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		d, err := Build(api.Resources(), nil)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := d.current.Load().root.json(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBuild_v2 makes the v2 document as protobuf.
func BenchmarkBuild_v2(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		d, err := Build(api.Resources(), nil)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := d.current.Load().v2.proto(); err != nil {
			b.Fatal(err)
		}
	}
}
