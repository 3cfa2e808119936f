package httpapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fuzzed sends a request to the handler. Whatever it is, the answer must be
// good, or a Status that says what the client did wrong: never the server's
// fault, never a panic (which would be a 500).
func (f *fixture) fuzzed(t *testing.T, method, target string, body []byte, header ...string) {
	t.Helper()
	u, err := url.ParseRequestURI(target)
	if err != nil || u.Host != "" || !strings.HasPrefix(u.Path, "/") {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	req := (&http.Request{
		Method: method, URL: u, Header: http.Header{}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Host: "x",
		Body: http.NoBody, RemoteAddr: "192.0.2.1:1", RequestURI: target,
	}).WithContext(ctx)
	if body != nil {
		req.Body, req.ContentLength = readCloser{strings.NewReader(string(body))}, int64(len(body))
	}
	req.Header.Set("Authorization", "Bearer alice")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	f.api.ServeHTTP(w, req)
	if w.Code == http.StatusInternalServerError {
		t.Fatalf("%s %s %q %v: %s", method, target, body, header, w.Body)
	}
	if w.Code >= 400 {
		var st metav1.Status
		if err := json.Unmarshal(w.Body.Bytes(), &st); err != nil || int(st.Code) != w.Code || st.Message == "" {
			t.Fatalf("%s %s %q: no Status: %d %s", method, target, body, w.Code, w.Body)
		}
	}
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }

func FuzzQuery(f *testing.F) {
	fx := newFixture(f)
	fx.mustMap(f, "a", "")
	for _, q := range []string{
		"", "limit=1", "limit=-5", "limit=99999999999999999999", "continue=AAAA", "continue=e30", "resourceVersion=1&resourceVersionMatch=Exact",
		"resourceVersion=0&resourceVersionMatch=Maybe", "watch=1&timeoutSeconds=-1", "watch=true&resourceVersion=7&allowWatchBookmarks=1",
		"watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", "labelSelector=a%3Db,c+in+(d,e),!f,g%3E1", "labelSelector=%00", "labelSelector=" + strings.Repeat("a,", 500),
		"fieldSelector=metadata.name%3D", "fieldSelector=metadata.name%3D..%2F..", "fieldSelector=metadata.namespace%3D%2F,metadata.name%3Dx", "fieldSelector=a%5C", "pretty", "pretty=&pretty=1",
		"dryRun=All&dryRun=", "gracePeriodSeconds=-1", "gracePeriodSeconds=9223372036854775807", "propagationPolicy=&orphanDependents", "timeout=1h", "timeout=-1s", "timeout=x", ";", "%", "a=b&&&==",
		"continue=" + url.QueryEscape("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiLi4vLi4vIn0"),
	} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, query string) {
		for _, path := range []string{mapsPath, "/api/v1/configmaps", mapsPath + "/a"} {
			fx.fuzzed(t, "GET", path+"?"+query, nil)
		}
		fx.fuzzed(t, "DELETE", mapsPath+"/a?dryRun=All&"+query, nil)
		fx.fuzzed(t, "DELETE", mapsPath+"?dryRun=All&"+query, nil)
	})
}

func FuzzPath(f *testing.F) {
	fx := newFixture(f)
	for _, p := range []string{
		"/", "//", "/api", "/api/", "/api/v1", "/api//v1", "/api/v1/namespaces//pods", "/api/v1/namespaces/default/pods/../../x", "/api/v1/namespaces/a%2Fb/pods/c%2Fd",
		"/apis", "/apis/apps", "/apis/apps/v1", "/apis/apps/v1/namespaces/default/deployments/x/scale/y", "/api/v1/namespaces/default/finalize", "/api/v1/pods/x/log",
		"/api/v1/nodes/%00", "/api/v1/nodes/" + strings.Repeat("x", 5000), "/openapi/v3/api/v1", "/openapi/v2", "/metrics", "/livez/ping", "/readyz/nope", "/debug/pprof/nope", "/version/", "/%2e%2e/api",
	} {
		f.Add(p, "GET")
		f.Add(p, "POST")
		f.Add(p, "BREW")
	}
	f.Fuzz(func(t *testing.T, path, method string) {
		if strings.Contains(path, "pprof/") || strings.HasPrefix(path, "/openapi") || strings.ContainsAny(method, " \r\n") || method == "" {
			return // profiles take their time; OpenAPI has tests of its own
		}
		req, err := http.NewRequestWithContext(t.Context(), method, "http://x/", nil)
		if err != nil || req.Method != method {
			return
		}
		fx.fuzzedPath(t, method, path)
	})
}

// fuzzedPath is fuzzed for paths that need not have an answer of the API.
func (f *fixture) fuzzedPath(t *testing.T, method, path string) {
	t.Helper()
	u, err := url.ParseRequestURI(path)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	req := (&http.Request{Method: method, URL: u, Header: http.Header{}, Body: http.NoBody, RequestURI: path}).WithContext(ctx)
	req.Header.Set("Authorization", "Bearer alice")
	w := httptest.NewRecorder()
	f.api.ServeHTTP(w, req)
	if w.Code == http.StatusInternalServerError {
		t.Fatalf("%s %q: %s", method, path, w.Body)
	}
}

func FuzzBody(f *testing.F) {
	fx := newFixture(f)
	types := []string{"application/json", "application/yaml", protobuf, "text/plain", "application/json;charset", ""}
	for _, b := range []string{
		"", "{}", "null", "[]", "1", `"x"`, "{", podJSON("a"), podJSON("A B"), podJSON(""), podJSON(strings.Repeat("x", 300)),
		podJSON("a", `,"nodeName":"\u0000"`), podJSON("a", `,"terminationGracePeriodSeconds":-9223372036854775808`), podJSON("a", `,"tolerations":[null]`),
		`{"metadata":null,"spec":null}`, `{"metadata":{"name":"a","labels":{"":""},"annotations":{"a b":"c"},"finalizers":["x"],"ownerReferences":[{}]}}`,
		`{"metadata":{"name":"a","creationTimestamp":"never"}}`, `{"metadata":{"generateName":"Ä"}}`, `{"metadata":{"name":"a","resourceVersion":"x"}}`,
		`{"spec":{"containers":[{"resources":{"limits":{"cpu":"1e999999999"}}}]}}`, `{"spec":{"containers":[{"name":"c","image":"i","ports":[{"containerPort":99999999}]}]}}`,
		strings.Repeat(`{"a":`, 20000), strings.Repeat("[", 20000), "a: &a [*a,*a]", "a: !!binary x", "\xff\xfe", "k8s\x00", "k8s\x00\x0a\x02\x0a\x00", "---\n---\n",
		`{"kind":"Pod","apiVersion":"v1","KIND":"x","kind":"Pod"}`, `{"kind":7}`, `{"apiVersion":"a/b/c","kind":"Pod"}`,
	} {
		for i := range types {
			f.Add([]byte(b), uint8(i))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, media uint8) {
		ct := types[int(media)%len(types)]
		for _, c := range [][2]string{
			{"POST", podsPath},
			{"PUT", podsPath + "/a"},
			{"DELETE", podsPath + "/a"},
			{"POST", podsPath + "/a/binding"},
			{"POST", podsPath + "/a/eviction"},
			{"POST", "/apis/apps/v1/namespaces/default/deployments"},
			{"PUT", "/apis/apps/v1/namespaces/default/deployments/a/scale"},
			{"POST", "/api/v1/namespaces"},
			{"PUT", "/api/v1/namespaces/default/finalize"},
			{"POST", "/apis/events.k8s.io/v1/namespaces/default/events"},
			{"POST", "/apis/plugins.proa.io/v1/admissionplugins"},
			{"POST", "/api/v1/nodes"},
			{"POST", "/apis/coordination.k8s.io/v1/namespaces/default/leases"},
		} {
			fx.fuzzed(t, c[0], c[1]+"?dryRun=All", body, "Content-Type", ct)
			fx.fuzzed(t, c[0], c[1]+"?dryRun=All&fieldValidation=Strict", body, "Content-Type", ct)
		}
	})
}

func FuzzPatch(f *testing.F) {
	fx := newFixture(f)
	if r := fx.do(f, "POST", podsPath, podJSON("a", `,"tolerations":[{"key":"k","operator":"Exists"}]`)); r.Code != http.StatusCreated {
		f.Fatal(r)
	}
	types := []string{"application/json-patch+json", mergePatch, "application/strategic-merge-patch+json"}
	for _, b := range []string{
		"", "{}", "[]", "null", "[null]", "[{}]", `[{"op":"add","path":"/metadata/labels","value":null}]`, `[{"op":"add","path":"","value":1}]`, `[{"op":"remove","path":""}]`,
		`[{"op":"replace","path":"/spec/containers/-1/image","value":"x"}]`, `[{"op":"copy","from":"/spec","path":"/spec/containers/0"}]`, `[{"op":"move","from":"/metadata","path":"/spec"}]`,
		`[{"op":"test","path":"/spec/nope","value":null}]`, `[{"op":"add","path":"/spec/containers/99999999999999999999","value":1}]`,
		`{"spec":null}`, `{"metadata":null}`, `{"spec":{"containers":null}}`, `{"spec":{"containers":[null]}}`, `{"spec":{"containers":[{"name":null}]}}`, `{"spec":{"containers":{"$patch":"replace"}}}`,
		`{"$patch":"delete"}`, `{"$patch":"replace"}`, `{"$patch":7}`, `{"spec":{"$retainKeys":["x"]}}`, `{"spec":{"$retainKeys":7}}`, `{"spec":{"$setElementOrder/containers":[{"name":"z"}]}}`,
		`{"spec":{"$setElementOrder/containers":7}}`, `{"spec":{"$deleteFromPrimitiveList/x":7}}`, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["x"]}}`, `{"metadata":{"$deleteFromPrimitiveList/finalizers":7}}`,
		`{"spec":{"containers":[{"$patch":"delete","name":"c"}]}}`, `{"spec":{"containers":[{"$patch":"delete"}]}}`, `{"spec":{"containers":[{"name":"c","env":[{"name":1}]}]}}`, `{"spec":{"volumes":[{"name":"a","emptyDir":{},"$retainKeys":["name"]}]}}`,
		`{"metadata":{"labels":{"a":null},"resourceVersion":"0"}}`, `{"metadata":{"uid":"x"}}`, `{"kind":"Node"}`, `{"apiVersion":7}`, "a: b", "- a",
	} {
		for i := range types {
			f.Add([]byte(b), uint8(i))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, media uint8) {
		ct := types[int(media)%len(types)]
		fx.fuzzed(t, "PATCH", podsPath+"/a?dryRun=All", body, "Content-Type", ct)
		fx.fuzzed(t, "PATCH", podsPath+"/a/status?dryRun=All&fieldValidation=Strict", body, "Content-Type", ct)
	})
}

func FuzzHeaders(f *testing.F) {
	fx := newFixture(f)
	fx.mustMap(f, "a", "")
	for _, h := range []string{"", ",", ";", "*/*;q=x", "application/json;as=Table", tableType + ";q=0.1", protobuf + ";as=Table;v=v1;g=meta.k8s.io", "a/b;c=\"", strings.Repeat("*/*,", 1000)} {
		f.Add(h, "gzip;q=0", "x")
		f.Add(h, "gzip, deflate", strings.Repeat("y", 100))
	}
	f.Fuzz(func(t *testing.T, accept, encoding, audit string) {
		fx.fuzzed(t, "GET", mapsPath, nil, "Accept", accept, "Accept-Encoding", encoding, "Audit-Id", audit)
		fx.fuzzed(t, "POST", mapsPath+"?dryRun=All", []byte(mapJSON("b", "")), "Content-Type", accept, "Accept", accept)
	})
}
