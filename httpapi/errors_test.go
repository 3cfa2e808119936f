package httpapi_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	podsPath = "/api/v1/namespaces/default/pods"
	mapsPath = "/api/v1/namespaces/default/configmaps"
)

func podJSON(name string, more ...string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q},"spec":{"containers":[{"name":"c","image":"i:1"}]%s}}`,
		name, strings.Join(more, ""))
}

func mapJSON(name, meta string) string {
	if meta != "" {
		meta = "," + meta
	}
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q%s},"data":{"k":"v"}}`, name, meta)
}

// TestErrors has the answers to requests that are refused: the code, the
// reason and the text of upstream.
func TestErrors(t *testing.T) {
	f := newFixture(t)
	if r := f.do(t, "POST", podsPath, podJSON("web")); r.Code != http.StatusCreated {
		t.Fatal(r)
	}
	if r := f.do(t, "POST", mapsPath, mapJSON("cm", "")); r.Code != http.StatusCreated {
		t.Fatal(r)
	}
	lease := `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"l"%s},"spec":{"holderIdentity":"x"}}`
	if r := f.do(t, "POST", "/apis/coordination.k8s.io/v1/namespaces/default/leases", fmt.Sprintf(lease, "")); r.Code != http.StatusCreated {
		t.Fatal(r)
	}
	token := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	big := mapJSON("big", `"annotations":{"a":"`+strings.Repeat("x", 3<<20)+`"}`)

	for name, c := range map[string]struct {
		method, path, body string
		header             []string
		code               int
		reason             metav1.StatusReason
		message            string // the beginning, if it ends in ...
	}{
		"not found":           {"GET", podsPath + "/x", "", nil, 404, "NotFound", `pods "x" not found`},
		"not found in group":  {"GET", "/apis/apps/v1/namespaces/default/deployments/x", "", nil, 404, "NotFound", `deployments.apps "x" not found`},
		"exists":              {"POST", podsPath, podJSON("web"), nil, 409, "AlreadyExists", `pods "web" already exists`},
		"unknown resource":    {"GET", "/api/v1/gizmos", "", nil, 404, "NotFound", "the server could not find the requested resource"},
		"unknown group":       {"GET", "/apis/no.such/v1/gizmos/x", "", nil, 404, "NotFound", "the server could not find the requested resource"},
		"unknown path":        {"GET", "/no/such/path", "", nil, 404, "NotFound", "the server could not find the requested resource"},
		"unknown subresource": {"GET", podsPath + "/web/no", "", nil, 404, "NotFound", "the server could not find the requested resource"},
		"namespaced without":  {"GET", "/api/v1/pods/web", "", nil, 404, "NotFound", "the server could not find the requested resource"},
		"method":              {"POST", podsPath + "/web", "{}", nil, 405, "MethodNotAllowed", "the server does not allow this method on the requested resource"},
		"collection of ns":    {"DELETE", "/api/v1/namespaces", "", nil, 405, "MethodNotAllowed", "the server does not allow this method on the requested resource"},
		"not acceptable": {
			"GET", podsPath + "/web", "",
			[]string{"Accept", "text/html"},
			406, "NotAcceptable",
			"only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf",
		},
		"media type": {
			"POST", podsPath, podJSON("a"),
			[]string{"Content-Type", "text/plain"},
			415, "UnsupportedMediaType",
			"the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf",
		},
		"cbor": {
			"POST", podsPath, podJSON("a"),
			[]string{"Content-Type", "application/cbor"},
			415, "UnsupportedMediaType",
			"the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf",
		},
		"too large": {"POST", mapsPath, big, nil, 413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728"},
		"wrong kind": {
			"POST", mapsPath, podJSON("a"), nil, 400, "BadRequest",
			`Pod in version "v1" cannot be handled as a ConfigMap: ...`,
		},
		"wrong version": {"POST", podsPath, `{"apiVersion":"apps/v1","kind":"Pod"}`, nil, 400, "BadRequest", `...`},
		"wrong type": {
			"POST", podsPath, `{"apiVersion":"v1","kind":"Pod","spec":{"containers":"x"}}`, nil, 400, "BadRequest",
			`Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal string into Go struct field ...`,
		},
		"no JSON":    {"POST", podsPath, `{`, nil, 400, "BadRequest", "the object provided is unrecognized (must be of type Pod): couldn't get version/kind; json parse error: ..."},
		"empty body": {"POST", podsPath, "", []string{"Content-Type", "application/json"}, 400, "BadRequest", "the object provided is unrecognized (must be of type Pod): ..."},
		"namespace mismatch": {
			"POST", podsPath, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"kube-system"}}`, nil, 400, "BadRequest",
			"the namespace of the provided object does not match the namespace sent on the request",
		},
		"namespace missing": {"POST", "/api/v1/namespaces/none/pods", podJSON("a"), nil, 404, "NotFound", `namespaces "none" not found`},
		"revision in create": {
			"POST", mapsPath, mapJSON("a", `"resourceVersion":"5"`), nil, 400, "BadRequest",
			"resourceVersion should not be set on objects to be created",
		},
		"strict": {
			"POST", podsPath + "?fieldValidation=Strict", podJSON("a", `,"foo":1`), nil, 400, "BadRequest",
			`Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.foo"`,
		},
		"strict twice": {
			"POST", podsPath + "?fieldValidation=Strict", podJSON("a", `,"foo":1,"hostNetwork":true,"hostNetwork":true`), nil, 400, "BadRequest",
			`Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.foo", duplicate field "spec.hostNetwork"`,
		},
		"field validation": {
			"POST", podsPath + "?fieldValidation=Maybe", podJSON("a"), nil, 422, "Invalid",
			`CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "Maybe": supported values: "", "Ignore", "Strict", "Warn"`,
		},
		"dry run": {
			"POST", podsPath + "?dryRun=Some", podJSON("a"), nil, 422, "Invalid",
			`CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"`,
		},
		"field manager": {
			"POST", podsPath + "?fieldManager=" + strings.Repeat("x", 129), podJSON("a"), nil, 422, "Invalid",
			`CreateOptions.meta.k8s.io "" is invalid: fieldManager: ...`,
		},

		"update name": {"PUT", mapsPath + "/other", mapJSON("cm", ""), nil, 400, "BadRequest", "the name of the object (cm) does not match the name on the URL (other)"},
		"update without name": {
			"PUT", mapsPath + "/cm", `{"apiVersion":"v1","kind":"ConfigMap"}`, nil, 400, "BadRequest",
			"the name of the object (cm based on URL) was undeterminable: name must be provided",
		},
		"update missing": {"PUT", mapsPath + "/none", mapJSON("none", ""), nil, 404, "NotFound", `configmaps "none" not found`},
		"update old": {
			"PUT", mapsPath + "/cm", mapJSON("cm", `"resourceVersion":"1"`), nil, 409, "Conflict",
			`Operation cannot be fulfilled on configmaps "cm": the object has been modified; please apply your changes to the latest version and try again`,
		},
		"update other uid": {
			"PUT", mapsPath + "/cm", mapJSON("cm", `"uid":"nope"`), nil, 409, "Conflict",
			`Operation cannot be fulfilled on configmaps "cm": Precondition failed: UID in precondition: nope, UID in object meta: ...`,
		},
		"update without revision": {
			"PUT", "/apis/coordination.k8s.io/v1/namespaces/default/leases/l", fmt.Sprintf(lease, ""), nil, 422, "Invalid",
			`Lease.coordination.k8s.io "l" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update`,
		},

		"patch type": {
			"PATCH", podsPath + "/web", "{}", nil, 415, "UnsupportedMediaType",
			"the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json",
		},
		"apply": {"PATCH", podsPath + "/web", "{}", []string{"Content-Type", "application/apply-patch+yaml"}, 415, "UnsupportedMediaType", "..."},
		"strategic for own kinds": {
			"PATCH", "/apis/plugins.proa.io/v1/wasmmodules/m", "{}",
			[]string{"Content-Type", "application/strategic-merge-patch+json"},
			415, "UnsupportedMediaType",
			"the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json",
		},
		"patch missing":    {"PATCH", podsPath + "/none", "{}", []string{"Content-Type", "application/merge-patch+json"}, 404, "NotFound", `pods "none" not found`},
		"patch no JSON":    {"PATCH", podsPath + "/web", "{[", []string{"Content-Type", "application/merge-patch+json"}, 400, "BadRequest", "error decoding patch: ..."},
		"patch no list":    {"PATCH", podsPath + "/web", `{"op":1}`, []string{"Content-Type", "application/json-patch+json"}, 400, "BadRequest", "error decoding patch: ..."},
		"patch path":       {"PATCH", podsPath + "/web", `[{"op":"remove","path":"/spec/nope"}]`, []string{"Content-Type", "application/json-patch+json"}, 422, "Invalid", "..."},
		"patch test":       {"PATCH", podsPath + "/web", `[{"op":"test","path":"/metadata/name","value":"x"}]`, []string{"Content-Type", "application/json-patch+json"}, 422, "Invalid", "..."},
		"patch operation":  {"PATCH", podsPath + "/web", `[{"op":"explode","path":"/metadata/name"}]`, []string{"Content-Type", "application/json-patch+json"}, 400, "BadRequest", "error decoding patch: ..."},
		"patch wrong type": {"PATCH", podsPath + "/web", `{"spec":{"containers":"x"}}`, []string{"Content-Type", "application/merge-patch+json"}, 422, "Invalid", ` "" is invalid: patch: Invalid value: ...`},
		"patch strict": {
			"PATCH", podsPath + "/web?fieldValidation=Strict", `{"spec":{"foo":1}}`,
			[]string{"Content-Type", "application/merge-patch+json"},
			422, "Invalid",
			` "" is invalid: patch: Invalid value: "{\"spec\":{\"foo\":1}}": strict decoding error: unknown field "spec.foo"`,
		},
		"patch strategic":      {"PATCH", podsPath + "/web", `{"spec":{"containers":[{"image":"x"}]}}`, []string{"Content-Type", "application/strategic-merge-patch+json"}, 422, "Invalid", "..."},
		"patch directive":      {"PATCH", podsPath + "/web", `{"spec":{"containers":[{"$patch":"explode","name":"c"}]}}`, []string{"Content-Type", "application/strategic-merge-patch+json"}, 422, "Invalid", "..."},
		"patch name":           {"PATCH", mapsPath + "/cm", `{"metadata":{"name":"x"}}`, []string{"Content-Type", "application/merge-patch+json"}, 400, "BadRequest", "the name of the object (x) does not match the name on the URL (cm)"},
		"patch with revision":  {"PATCH", mapsPath + "/cm", `{"metadata":{"resourceVersion":"1"}}`, []string{"Content-Type", "application/merge-patch+json"}, 409, "Conflict", `Operation cannot be fulfilled on configmaps "cm": the object has been modified; please apply your changes to the latest version and try again`},
		"patch kind":           {"PATCH", mapsPath + "/cm", `{"kind":"Secret"}`, []string{"Content-Type", "application/merge-patch+json"}, 422, "Invalid", "..."},
		"delete missing":       {"DELETE", mapsPath + "/none", "", nil, 404, "NotFound", `configmaps "none" not found`},
		"delete precondition":  {"DELETE", mapsPath + "/cm", `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"nope"}}`, nil, 409, "Conflict", `Operation cannot be fulfilled on configmaps "cm": Precondition failed: UID in precondition: nope, UID in object meta: ...`},
		"delete revision":      {"DELETE", mapsPath + "/cm", `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"resourceVersion":"1"}}`, nil, 409, "Conflict", `Operation cannot be fulfilled on configmaps "cm": Precondition failed: ResourceVersion in precondition: 1, ResourceVersion in object meta: ...`},
		"delete policy":        {"DELETE", mapsPath + "/cm?propagationPolicy=Maybe", "", nil, 422, "Invalid", `DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Maybe": ...`},
		"delete grace":         {"DELETE", mapsPath + "/cm?gracePeriodSeconds=x", "", nil, 400, "BadRequest", `strconv.ParseInt: parsing "x": invalid syntax`},
		"immortal namespace":   {"DELETE", "/api/v1/namespaces/default", "", nil, 403, "Forbidden", `namespaces "default" is forbidden: this namespace may not be deleted`},
		"label selector":       {"GET", podsPath + "?labelSelector=a+in+(b", "", nil, 400, "BadRequest", "unable to parse requirement: ..."},
		"label selector value": {"GET", podsPath + "?labelSelector=a%3D%3D%3Db", "", nil, 400, "BadRequest", "..."},
		"field selector":       {"GET", podsPath + "?fieldSelector=a", "", nil, 400, "BadRequest", "invalid selector: 'a'; can't understand 'a'"},
		"field label":          {"GET", podsPath + "?fieldSelector=foo.bar%3Dx", "", nil, 400, "BadRequest", "field label not supported: foo.bar"},
		"field label of none": {
			"GET", mapsPath + "?fieldSelector=foo.bar%3Dx", "", nil, 400, "BadRequest",
			`"foo.bar" is not a known field selector: only "metadata.name", "metadata.namespace"`,
		},
		"limit":         {"GET", podsPath + "?limit=x", "", nil, 400, "BadRequest", `strconv.ParseInt: parsing "x": invalid syntax`},
		"revision":      {"GET", podsPath + "?resourceVersion=x", "", nil, 400, "BadRequest", `invalid resource version: resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax`},
		"revision of 1": {"GET", podsPath + "/web?resourceVersion=-1", "", nil, 400, "BadRequest", "invalid resource version: ..."},
		"match alone": {
			"GET", podsPath + "?resourceVersionMatch=Exact", "", nil, 422, "Invalid",
			`ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided`,
		},
		"match exact 0": {
			"GET", podsPath + "?resourceVersionMatch=Exact&resourceVersion=0", "", nil, 422, "Invalid",
			`ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"`,
		},
		"initial events of a list": {
			"GET", podsPath + "?sendInitialEvents=true", "", nil, 422, "Invalid",
			`ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list`,
		},
		"initial events without match": {
			"GET", podsPath + "?watch=1&sendInitialEvents=true", "", nil, 422, "Invalid",
			`ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan`,
		},
		"watch match": {
			"GET", podsPath + "?watch=1&resourceVersionMatch=NotOlderThan&resourceVersion=1", "", nil, 422, "Invalid",
			`ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided`,
		},
		"continue":          {"GET", podsPath + "?continue=%25%25", "", nil, 400, "BadRequest", "continue key is not valid: ..."},
		"continue version":  {"GET", podsPath + "?continue=" + token(`{"v":"x","rv":1,"start":"a"}`), "", nil, 400, "BadRequest", `continue key is not valid: server does not recognize this encoded version "x"`},
		"continue key":      {"GET", podsPath + "?continue=" + token(`{"v":"meta.k8s.io/v1","rv":1,"start":"../x"}`), "", nil, 400, "BadRequest", "continue key is not valid: invalid key ..."},
		"continue revision": {"GET", podsPath + "?continue=" + token(`{"v":"meta.k8s.io/v1","rv":0,"start":"x"}`), "", nil, 400, "BadRequest", "continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)"},
		"continue and revision": {
			"GET", podsPath + "?resourceVersion=3&continue=" + token(`{"v":"meta.k8s.io/v1","rv":3,"start":"x"}`), "", nil, 400, "BadRequest",
			"specifying resource version is not allowed when using continue",
		},
		"watch as YAML": {"GET", podsPath + "?watch=1", "", []string{"Accept", "application/yaml"}, 406, "NotAcceptable", "..."},
		"bad token":     {"GET", podsPath, "", []string{"Authorization", "Bearer bad"}, 401, "Unauthorized", "Unauthorized"},
		"no token":      {"GET", podsPath, "", []string{"Authorization", ""}, 401, "Unauthorized", "Unauthorized"},
		"forbidden list": {
			"GET", podsPath, "",
			[]string{"Authorization", "Bearer bob"},
			403, "Forbidden",
			`pods is forbidden: User "bob" cannot list resource "pods" in API group "" in the namespace "default"`,
		},
		"forbidden get": {
			"GET", podsPath + "/web", "",
			[]string{"Authorization", "Bearer bob"},
			403, "Forbidden",
			`pods "web" is forbidden: User "bob" cannot get resource "pods" in API group "" in the namespace "default"`,
		},
		"forbidden subresource": {
			"GET", podsPath + "/web/log", "",
			[]string{"Authorization", "Bearer bob"},
			403, "Forbidden",
			`pods "web" is forbidden: User "bob" cannot get resource "pods/log" in API group "" in the namespace "default"`,
		},
		"forbidden cluster": {
			"GET", "/api/v1/nodes", "",
			[]string{"Authorization", "Bearer bob"},
			403, "Forbidden",
			`nodes is forbidden: User "bob" cannot list resource "nodes" in API group "" at the cluster scope`,
		},
		"forbidden by name": {
			"GET", podsPath + "?fieldSelector=metadata.name%3Dweb", "",
			[]string{"Authorization", "Bearer bob"},
			403, "Forbidden",
			`pods "web" is forbidden: User "bob" cannot list resource "pods" in API group "" in the namespace "default"`,
		},
		"forbidden path": {"GET", "/metrics", "", []string{"Authorization", "Bearer bob"}, 403, "Forbidden", `forbidden: User "bob" cannot get path "/metrics"`},
		"forbidden in group": {
			"DELETE", "/apis/apps/v1/namespaces/x/deployments", "",
			[]string{"Authorization", "Bearer bob"},
			403, "Forbidden",
			`deployments.apps is forbidden: User "bob" cannot deletecollection resource "deployments" in API group "apps" in the namespace "x"`,
		},
		"log of none":         {"GET", podsPath + "/none/log", "", nil, 404, "NotFound", `pods "none" not found`},
		"log without node":    {"GET", podsPath + "/web/log", "", nil, 400, "BadRequest", "pod web does not have a host assigned"},
		"log of container":    {"GET", podsPath + "/web/log?container=x", "", nil, 400, "BadRequest", "container x is not valid for pod web"},
		"log tail":            {"GET", podsPath + "/web/log?tailLines=x", "", nil, 400, "BadRequest", "..."},
		"exec without":        {"GET", podsPath + "/web/exec", "", nil, 400, "BadRequest", "Upgrade request required"},
		"binding of none":     {"POST", podsPath + "/none/binding", `{"target":{"name":"n"}}`, nil, 404, "NotFound", `pods "none" not found`},
		"binding to nothing":  {"POST", podsPath + "/web/binding", `{"target":{"kind":"Pod"}}`, nil, 422, "Invalid", `Binding "web" is invalid: [target.kind: Unsupported value: "Pod": ...`},
		"scale of none":       {"GET", "/apis/apps/v1/namespaces/default/deployments/x/scale", "", nil, 404, "NotFound", `deployments.apps "x" not found`},
		"query":               {"GET", podsPath + "?limit=%zz", "", nil, 400, "BadRequest", `invalid URL escape "%zz"`},
		"no token issuer":     {"POST", "/api/v1/namespaces/default/serviceaccounts/x/token", "{}", nil, 405, "MethodNotAllowed", "..."},
		"include object":      {"GET", podsPath + "?includeObject=All", "", []string{"Accept", "application/json;as=Table;v=v1;g=meta.k8s.io"}, 400, "BadRequest", "..."},
		"protobuf of own":     {"POST", "/apis/plugins.proa.io/v1/wasmmodules", "k8s\x00", []string{"Content-Type", "application/vnd.kubernetes.protobuf"}, 415, "UnsupportedMediaType", "..."},
		"protobuf that isn't": {"POST", podsPath, "k8s\x00\xff\xff\xff", []string{"Content-Type", "application/vnd.kubernetes.protobuf"}, 400, "BadRequest", "..."},
	} {
		t.Run(name, func(t *testing.T) {
			r := f.do(t, c.method, c.path, c.body, c.header...)
			if ct := r.Header.Get("Content-Type"); ct != "application/json" {
				t.Errorf("content type %q", ct)
			}
			st := r.status(t)
			if r.Code != c.code || int(st.Code) != c.code || st.Reason != c.reason || st.Status != metav1.StatusFailure || st.Kind != "Status" {
				t.Errorf("answer is %d %s", r.Code, r.Body)
			}
			want, part := strings.CutSuffix(c.message, "...")
			if good := st.Message == want || part && strings.HasPrefix(st.Message, want); !good {
				t.Errorf("message is %q\nwant       %q", st.Message, c.message)
			}
			if r.Header.Get("Audit-Id") == "" {
				t.Error("no Audit-Id")
			}
		})
	}
}
