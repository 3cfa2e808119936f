package integration_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/test/cluster"
)

// A badRequest is one that no honest client sends, and how it is refused.
type badRequest struct {
	name, method, path, mediaType, body string
	code                                int
	reason                              metav1.StatusReason // "" is not looked at
	message                             string              // a part of it
}

const (
	jsonType = "application/json"
	pods     = "/api/v1/namespaces/default/pods"
)

func badBodies() []badRequest {
	const bad = metav1.StatusReasonBadRequest
	post := func(name, body string, code int, reason metav1.StatusReason, message string) badRequest {
		return badRequest{name, "POST", configMaps, jsonType, body, code, reason, message}
	}
	strict := configMaps + "?fieldValidation=Strict"
	deep := strings.Repeat(`{"a":`, 20000) + "1" + strings.Repeat("}", 20000)
	return []badRequest{
		post("no body", "", 400, bad, ""),
		post("no JSON", "nonsense", 400, bad, ""),
		post("cut JSON", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":`, 400, bad, ""),
		post("a list", `[]`, 400, bad, ""),
		post("null", `null`, 422, metav1.StatusReasonInvalid, "name or generateName is required"),
		post("two values", configMapJSON("x", "")+configMapJSON("x", ""), 400, bad, ""),
		post("invalid UTF-8", "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\xff\"}}", 422, metav1.StatusReasonInvalid, "metadata.name"),
		post("NUL in the name", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a\u0000b"}}`, 422, metav1.StatusReasonInvalid, "metadata.name"),
		post("slash in the name", configMapJSON("a/b", ""), 422, metav1.StatusReasonInvalid, "metadata.name"),
		post("dots for a name", configMapJSON("..", ""), 422, metav1.StatusReasonInvalid, "metadata.name"),
		post("no name", `{"apiVersion":"v1","kind":"ConfigMap"}`, 422, metav1.StatusReasonInvalid, "name or generateName is required"),
		post("a name of 10,000", configMapJSON(strings.Repeat("n", 10000), ""), 422, metav1.StatusReasonInvalid, "253"),
		post("wrong kind", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x"}}`, 400, bad, ""),
		post("unknown kind", `{"apiVersion":"v9","kind":"Nothing","metadata":{"name":"x"}}`, 400, bad, ""),
		post("wrong type of data", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":7}`, 400, bad, ""),
		post("wrong type of metadata", `{"apiVersion":"v1","kind":"ConfigMap","metadata":[]}`, 400, bad, ""),
		post("wrong type of kind", `{"apiVersion":7,"kind":{}}`, 400, bad, ""),
		post("deep nesting", deep, 400, bad, ""),
		post("deep nesting in a known field", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","annotations":`+deep+`}}`, 400, bad, ""),
		post("other namespace", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"other"}}`, 400, bad, "namespace"),
		{"unknown field, strict", "POST", strict, jsonType, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"dat":{}}`, 400, bad, `unknown field "dat"`},
		{"duplicate field, strict", "POST", strict, jsonType, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{},"data":{}}`, 400, bad, `duplicate field "data"`},
		{"absurd strictness", "POST", configMaps + "?fieldValidation=Perhaps", jsonType, configMapJSON("x", ""), 422, metav1.StatusReasonInvalid, ""},
		{"absurd dry run", "POST", configMaps + "?dryRun=Some", jsonType, configMapJSON("x", ""), 422, metav1.StatusReasonInvalid, ""},
		{"huge number", "POST", "/apis/apps/v1/namespaces/default/deployments", jsonType, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x"},"spec":{"replicas":1e400}}`, 400, bad, ""},
		{"number that overflows", "POST", "/apis/apps/v1/namespaces/default/deployments", jsonType, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x"},"spec":{"replicas":99999999999999999999}}`, 400, bad, ""},
		{"text for a number", "POST", "/apis/apps/v1/namespaces/default/deployments", jsonType, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x"},"spec":{"replicas":"3"}}`, 400, bad, ""},
		{"bad quantity", "POST", pods, jsonType, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"spec":{"containers":[{"name":"a","image":"a","resources":{"limits":{"cpu":"lots"}}}]}}`, 400, bad, ""},
		{"pod without containers", "POST", pods, jsonType, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"spec":{}}`, 422, metav1.StatusReasonInvalid, "spec.containers"},
		{"3 MiB and 1", "POST", configMaps, jsonType, configMapJSON("x", strings.Repeat("x", 3<<20+1-len(configMapJSON("x", "")))), 413, metav1.StatusReasonRequestEntityTooLarge, "limit is 3145728"},
		{"more data than a ConfigMap has", "POST", configMaps, jsonType, configMapJSON("x", strings.Repeat("x", 2<<20)), 422, metav1.StatusReasonInvalid, ""},
		{"media type of others", "POST", configMaps, "text/html", configMapJSON("x", ""), 415, metav1.StatusReasonUnsupportedMediaType, ""},
		{"media type that is none", "POST", configMaps, ";;;", configMapJSON("x", ""), 415, metav1.StatusReasonUnsupportedMediaType, ""},
		{"protobuf that is none", "POST", configMaps, protobuf, "k8s\x00\x0a\xff\xff\xff\xff\x0f", 400, bad, ""},
		{"protobuf without its prefix", "POST", configMaps, protobuf, configMapJSON("x", ""), 400, bad, ""},
		{"YAML that is none", "POST", configMaps, "application/yaml", "a: [\n\t- }", 400, bad, ""},
		{"YAML of aliases", "POST", configMaps, "application/yaml", yamlBomb(), 400, bad, ""},
	}
}

// yamlBomb is small and would be huge.
func yamlBomb() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < 10; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [", i, i)
		b.WriteString(strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 10), ",") + "]\n")
	}
	return b.String()
}

func badPaths() []badRequest {
	const bad, missing = metav1.StatusReasonBadRequest, metav1.StatusReasonNotFound
	get := func(name, path string, code int, reason metav1.StatusReason, message string) badRequest {
		return badRequest{name, "GET", path, "", "", code, reason, message}
	}
	token := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	return []badRequest{
		get("unknown resource", "/api/v1/namespaces/default/nothings", 404, missing, ""),
		get("unknown group", "/apis/nothing.example.com/v1/things", 404, missing, ""),
		get("unknown version", "/apis/apps/v9/deployments", 404, missing, ""),
		get("unknown subresource", pods+"/x/nothing", 404, missing, ""),
		get("slash in a name", configMaps+"/a%2fb", 404, missing, ""),
		get("dots", configMaps+"/%2e%2e", 404, missing, ""),
		get("dots in the path", "/api/v1/namespaces/default/../kube-system/secrets/x/y/z/a", 404, missing, ""),
		get("NUL in a name", configMaps+"/a%00b", 404, missing, ""),
		get("invalid UTF-8 in a name", configMaps+"/%ff%fe", 404, missing, ""),
		get("a name of 6,000", configMaps+"/"+strings.Repeat("n", 6000), 404, missing, ""),
		get("future revision", configMaps+"?resourceVersion=999999999999", 504, metav1.StatusReasonTimeout, "Too large resource version"),
		get("garbage revision", configMaps+"?resourceVersion=abc", 400, bad, ""),
		get("negative revision", configMaps+"?resourceVersion=-7", 400, bad, ""),
		get("revision that overflows", configMaps+"?resourceVersion=99999999999999999999999", 400, bad, ""),
		get("garbage revision of one", configMaps+"/x?resourceVersion=abc", 400, bad, ""),
		get("garbage match", configMaps+"?resourceVersion=1&resourceVersionMatch=Roughly", 422, metav1.StatusReasonInvalid, ""),
		get("match without revision", configMaps+"?resourceVersionMatch=Exact", 422, metav1.StatusReasonInvalid, ""),
		get("garbage continue token", configMaps+"?limit=1&continue=abc", 400, bad, "continue key is not valid"),
		get("continue token of nonsense", configMaps+"?limit=1&continue="+token(`{"v":"meta.k8s.io/v9","rv":-4,"start":7}`), 400, bad, "continue key is not valid"),
		get("continue token that leaves", configMaps+"?limit=1&continue="+token(`{"v":"meta.k8s.io/v1","rv":1,"start":"../../secrets/"}`), 400, bad, "continue key is not valid"),
		get("garbage limit", configMaps+"?limit=abc", 400, bad, ""),
		get("limit that overflows", configMaps+"?limit=99999999999999999999", 400, bad, ""),
		get("garbage timeout", configMaps+"?watch=1&timeoutSeconds=abc", 400, bad, ""),
		get("label selector that is none", configMaps+"?labelSelector=a%20in%20%28", 400, bad, ""),
		get("label selector of 100 KiB", configMaps+"?labelSelector="+strings.Repeat("%28", 100<<10/3), 400, bad, ""),
		get("field selector of no field", configMaps+"?fieldSelector=spec.nothing%3Dx", 400, bad, ""),
		get("field selector that is none", pods+"?fieldSelector=%2C%2C%3D%3D%21", 400, bad, ""),
		get("watch of a garbage revision", configMaps+"?watch=1&resourceVersion=abc", 400, bad, ""),
		get("initial events without a match", configMaps+"?watch=1&sendInitialEvents=true", 422, metav1.StatusReasonInvalid, ""),
		get("query that is none", configMaps+"?%zz=%zz", 400, bad, "invalid URL escape"),
		get("logs of no pod", pods+"/x/log", 404, missing, ""),
		{"method of another world", "PROPFIND", configMaps, "", "", 405, metav1.StatusReasonMethodNotAllowed, ""},
		{"PUT on a collection", "PUT", configMaps, jsonType, configMapJSON("x", ""), 405, metav1.StatusReasonMethodNotAllowed, ""},
		{"POST on one", "POST", configMaps + "/x", jsonType, configMapJSON("x", ""), 405, metav1.StatusReasonMethodNotAllowed, ""},
		{"other name in the body", "PUT", configMaps + "/x", jsonType, configMapJSON("y", ""), 400, bad, "name"},
		{"update of what is not there", "PUT", configMaps + "/x", jsonType, configMapJSON("x", ""), 404, missing, ""},
		{"delete of what is not there", "DELETE", configMaps + "/x", "", "", 404, missing, ""},
		{"delete options that are none", "DELETE", configMaps + "/kube-root-ca.crt", jsonType, `{"gracePeriodSeconds":"x"}`, 400, bad, ""},
		{"absurd propagation", "DELETE", configMaps + "/kube-root-ca.crt?propagationPolicy=Sideways", "", "", 422, metav1.StatusReasonInvalid, ""},
		{"patch of no type", "PATCH", configMaps + "/kube-root-ca.crt", jsonType, `{}`, 415, metav1.StatusReasonUnsupportedMediaType, ""},
		{"JSON patch that is none", "PATCH", configMaps + "/kube-root-ca.crt", "application/json-patch+json", `{"op":"x"}`, 400, bad, ""},
		{"JSON patch of a path that is not there", "PATCH", configMaps + "/kube-root-ca.crt", "application/json-patch+json", `[{"op":"remove","path":"/data/x/y/z"}]`, 422, metav1.StatusReasonInvalid, ""},
		{"JSON patch of 20,000 operations", "PATCH", configMaps + "/kube-root-ca.crt", "application/json-patch+json", "[" + strings.Repeat(`{"op":"test","path":"","value":1},`, 20000) + `{"op":"test","path":"","value":1}]`, 413, metav1.StatusReasonRequestEntityTooLarge, ""},
		{"merge patch that is none", "PATCH", configMaps + "/kube-root-ca.crt", "application/merge-patch+json", `[`, 400, bad, ""},
		{"merge patch of the wrong type", "PATCH", configMaps + "/kube-root-ca.crt", "application/merge-patch+json", `{"data":7}`, 422, metav1.StatusReasonInvalid, "cannot unmarshal"},
		{"strategic patch of an absurd directive", "PATCH", configMaps + "/kube-root-ca.crt", "application/strategic-merge-patch+json", `{"data":{"$patch":"explode"}}`, 422, metav1.StatusReasonInvalid, "unknown patch type"},
		{"change of the name", "PATCH", configMaps + "/kube-root-ca.crt", "application/merge-patch+json", `{"metadata":{"name":"y"}}`, 400, bad, "name"},
	}
}

// TestBadInput sends a corpus of nonsense: each has the answer that upstream
// gives, and the server is there afterwards.
func TestBadInput(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Config{})
	raw := newRawClient(t, adminConfig(t, c.Kubeconfig))
	for _, r := range append(badBodies(), badPaths()...) {
		a := raw.do(t, r.method, r.path, r.mediaType, r.body)
		wrong := a.code != r.code || a.status.Status != metav1.StatusFailure || int(a.status.Code) != a.code ||
			!strings.Contains(a.status.Message, r.message) || (r.reason != "" && a.status.Reason != r.reason)
		if wrong {
			t.Errorf("%s: %s %.120s: %d %s %.300q; want %d %s %q", r.name, r.method, r.path, a.code, a.status.Reason, a.body, r.code, r.reason, r.message)
		}
		if a.code >= 500 && r.code < 500 {
			t.Errorf("%s: a fault of the server", r.name)
		}
	}
	for _, path := range []string{ // absurd, but to be answered
		configMaps + "?limit=9223372036854775807", configMaps + "?timeoutSeconds=1&watch=1", configMaps + "?timeoutSeconds=-5",
		configMaps + "?labelSelector=" + strings.Repeat("a%2C", 2000) + "a", configMaps + "?watch=1&timeoutSeconds=1&resourceVersion=0",
		configMaps + "?nothing=known",
	} {
		if a := raw.do(t, "GET", path, "", ""); a.code != http.StatusOK {
			t.Errorf("GET %.120s: %d %.300q", path, a.code, a.body)
		}
	}
	if a := raw.do(t, "GET", "/readyz", "", ""); a.code != http.StatusOK {
		t.Errorf("after all that the server is not ready: %d %.300q", a.code, a.body)
	}
	if a := raw.do(t, "POST", configMaps, jsonType, configMapJSON("x", "")); a.code != http.StatusCreated {
		t.Errorf("after all that a create: %d %.300q", a.code, a.body)
	}
}
