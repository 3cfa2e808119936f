package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdynamic "k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/proa-project/proa/httpapi/dynamic/crd"
	"github.com/proa-project/proa/storage"
)

const (
	crdsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	tabsPath = "/apis/stable.example.com/v1/namespaces/default/crontabs"
)

const crontabs = `{
"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"crontabs.stable.example.com"},
"spec":{"group":"stable.example.com","scope":"Namespaced",
 "names":{"plural":"crontabs","singular":"crontab","kind":"CronTab","shortNames":["ct"],"categories":["all"]},
 "versions":[
  {"name":"v1","served":true,"storage":true,
   "subresources":{"status":{},"scale":{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas","labelSelectorPath":".status.selector"}},
   "selectableFields":[{"jsonPath":".spec.image"}],
   "additionalPrinterColumns":[{"name":"Spec","type":"string","jsonPath":".spec.cronSpec"},{"name":"Replicas","type":"integer","jsonPath":".spec.replicas"},{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}],
   "schema":{"openAPIV3Schema":{"type":"object","description":"CronTab runs things.","properties":{
    "spec":{"type":"object","required":["cronSpec"],"x-kubernetes-validations":[{"rule":"self.replicas <= 10","message":"replicas must be at most 10"}],
     "properties":{
      "cronSpec":{"type":"string","pattern":"^[0-9* ]+$","description":"When to run."},
      "image":{"type":"string","default":"none"},
      "replicas":{"type":"integer","default":1,"minimum":1},
      "mode":{"type":"string","enum":["a","b"]},
      "ports":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["port"],"items":{"type":"object","required":["port"],"properties":{"port":{"type":"integer"}}}},
      "any":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}},
    "status":{"type":"object","properties":{"replicas":{"type":"integer"},"selector":{"type":"string"}}}}}}},
  {"name":"v1beta1","served":true,"storage":false,"subresources":{"status":{}},
   "schema":{"openAPIV3Schema":{"type":"object","properties":{
    "spec":{"type":"object","properties":{"cronSpec":{"type":"string"},"old":{"type":"string","default":"yes"}}},
    "status":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}
 ]}}`

// newDefined is a fixture with a controller of definitions.
func newDefined(tb testing.TB, converters *crd.Converters) *fixture {
	tb.Helper()
	f, kinds := newDynamicFixture(tb)
	c := crd.New(crd.Config{Store: f.store, Table: kinds, Server: f.api, Converters: converters, Log: zerolog.New(zerolog.NewTestWriter(tb))})
	ctx, cancel := context.WithCancel(tb.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(ctx)
	}()
	tb.Cleanup(func() {
		cancel()
		<-done
	})
	return f
}

// until asks again until the answer is as wanted.
func (f *fixture) until(tb testing.TB, path string, want func(reply) bool) reply {
	tb.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for {
		r := f.do(tb, "GET", path, "")
		if want(r) {
			return r
		}
		select {
		case <-deadline:
			tb.Fatalf("%s: %d %s", path, r.Code, r.Body)
		case <-tick.C:
		}
	}
}

func hasText(text string) func(reply) bool {
	return func(r reply) bool { return strings.Contains(r.Body, text) }
}

// define creates a definition and waits until it is served.
func (f *fixture) define(tb testing.TB, definition string) {
	tb.Helper()
	if r := f.do(tb, "POST", crdsPath, definition); r.Code != 201 {
		tb.Fatalf("%d %s", r.Code, r.Body)
	}
	var d struct{ Metadata metav1.ObjectMeta }
	if err := json.Unmarshal([]byte(definition), &d); err != nil {
		tb.Fatal(err)
	}
	f.until(tb, crdsPath+"/"+d.Metadata.Name, func(r reply) bool {
		return strings.Contains(r.Body, `"reason":"InitialNamesAccepted"`) && strings.Contains(r.Body, `"reason":"NoConflicts"`)
	})
}

func tab(name, spec string) string {
	return `{"apiVersion":"stable.example.com/v1","kind":"CronTab","metadata":{"name":"` + name + `","labels":{"n":"` + name + `"}},"spec":` + spec + `}`
}

func TestCustomResources(t *testing.T) {
	f := newDefined(t, nil)
	f.define(t, crontabs)
	const merge, jsonPatch, table = "application/merge-patch+json", "application/json-patch+json", "application/json;as=Table;v=v1;g=meta.k8s.io"
	for _, c := range []struct {
		method, path, body string
		code               int
		want               string
		header             []string
	}{
		{"POST", tabsPath, tab("a", `{"cronSpec":"* *","strange":1}`), 201, `"spec":{"cronSpec":"* *","image":"none","replicas":1}`, nil},
		{"GET", tabsPath + "/a", "", 200, `"generation":1`, nil},
		{"POST", tabsPath, tab("a", `{"cronSpec":"* *"}`), 409, `crontabs.stable.example.com \"a\" already exists`, nil},
		{"POST", tabsPath + "?fieldValidation=Strict", tab("b", `{"cronSpec":"* *","strange":1}`), 400, `CronTab in version \"v1\" cannot be handled as a CronTab: strict decoding error: unknown field \"spec.strange\"`, nil},
		{"POST", tabsPath + "?fieldValidation=Strict", `{"apiVersion":"stable.example.com/v1","kind":"CronTab","metadata":{"name":"b","odd":1},"spec":{"cronSpec":"1"}}`, 400, `unknown field \"metadata.odd\"`, nil},
		{"POST", tabsPath, tab("b", `{}`), 422, `CronTab.stable.example.com \"b\" is invalid: [spec.cronSpec: Required value, `, nil},
		{"POST", tabsPath, tab("b", `{"cronSpec":"x"}`), 422, `spec.cronSpec: Invalid value: \"x\": spec.cronSpec in body should match '^[0-9* ]+$'`, nil},
		{"POST", tabsPath, tab("b", `{"cronSpec":"1","replicas":11}`), 422, `spec: Invalid value: replicas must be at most 10`, nil},
		{"POST", tabsPath, tab("b", `{"cronSpec":"1","replicas":0}`), 422, `spec.replicas: Invalid value: 0: spec.replicas in body should be greater than or equal to 1`, nil},
		{"POST", tabsPath, tab("b", `{"cronSpec":"1","mode":"c"}`), 422, `spec.mode: Unsupported value: \"c\": supported values: \"a\", \"b\"`, nil},
		{"POST", tabsPath, tab("b", `{"cronSpec":"1","ports":[{"port":1},{"port":1}]}`), 422, `spec.ports[1]: Duplicate value: {\"port\":1}`, nil},
		{"POST", tabsPath, tab("b", `{"cronSpec":"1","any":{"x":{"y":[1]}}}`), 201, `"any":{"x":{"y":[1]}}`, nil},
		{"POST", tabsPath, strings.Replace(tab("c", `{"cronSpec":"1"}`), "CronTab", "Other", 1), 422, `kind: Invalid value: \"Other\": must be CronTab`, nil},
		{"POST", tabsPath, strings.Replace(tab("c", `{"cronSpec":"1"}`), "v1", "v2", 1), 400, `the API version in the data (stable.example.com/v2) does not match the expected API version (stable.example.com/v1)`, nil},
		{"POST", tabsPath, tab("C_", `{"cronSpec":"1"}`), 422, `metadata.name: Invalid value: \"C_\"`, nil},
		{"POST", tabsPath, `{"apiVersion":"stable.example.com/v1","kind":"CronTab","metadata":{"name":"c","labels":5},"spec":{"cronSpec":"1"}}`, 400, `cannot be handled as a CronTab`, nil},
		{"POST", tabsPath, `{"apiVersion":"stable.example.com/v1","kind":"CronTab","metadata":{"generateName":"g-"},"spec":{"cronSpec":"1"}}`, 201, `"name":"g-`, nil},
		{"GET", tabsPath + "?labelSelector=n%3Db", "", 200, `"name":"b"`, nil},
		{"GET", tabsPath + "?labelSelector=n%3Dnone", "", 200, `"items":[]`, nil},
		{"GET", tabsPath + "?limit=1", "", 200, `"remainingItemCount":2`, nil},
		{"GET", tabsPath + "?fieldSelector=spec.image%3Dnone", "", 200, `"name":"a"`, nil},
		{"GET", tabsPath + "?fieldSelector=spec.image%3Dx", "", 200, `"items":[]`, nil},
		{"GET", tabsPath + "?fieldSelector=spec.mode%3Dx", "", 400, `field label not supported`, nil},
		{"GET", tabsPath, "", 200, `{"cells":["a","* *",1,"`, []string{"Accept", table}},
		{"GET", tabsPath + "/a", "", 200, `"kind":"PartialObjectMetadata"`, []string{"Accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}},
		{"GET", tabsPath + "/a", "", 200, "spec:\n  cronSpec: '* *'\n", []string{"Accept", "application/yaml"}},
		{"PUT", tabsPath + "/a", tab("a", `{"cronSpec":"1"}`), 422, `metadata.resourceVersion: Invalid value: 0: must be specified for an update`, nil},
		{"PATCH", tabsPath + "/a", `{"spec":{"replicas":3},"status":{"replicas":9}}`, 200, `"generation":2`, []string{"Content-Type", merge}},
		{"PATCH", tabsPath + "/a", `{"metadata":{"labels":{"x":"y"}}}`, 200, `"generation":2`, []string{"Content-Type", merge}},
		{"PATCH", tabsPath + "/a", `{"spec":{"bad":3}}`, 200, `"generation":2`, []string{"Content-Type", merge}},
		{"PATCH", tabsPath + "/a?fieldValidation=Strict", `{"spec":{"bad":3}}`, 422, `unknown field \"spec.bad\"`, []string{"Content-Type", merge}},
		{"PATCH", tabsPath + "/a", `[{"op":"replace","path":"/spec/cronSpec","value":"2"}]`, 200, `"generation":3`, []string{"Content-Type", jsonPatch}},
		{"PATCH", tabsPath + "/a", `{}`, 415, `accepted media types include: application/json-patch+json, application/merge-patch+json`, []string{"Content-Type", "application/strategic-merge-patch+json"}},
		{"PATCH", tabsPath + "/a/status", `{"spec":{"replicas":7},"status":{"replicas":2,"selector":"a=b"},"metadata":{"labels":{"z":"z"}}}`, 200, `"spec":{"cronSpec":"2","image":"none","replicas":3},"status":{"replicas":2,"selector":"a=b"}`, []string{"Content-Type", merge}},
		{"PATCH", tabsPath + "/a/status", `{"status":{"replicas":"x"}}`, 422, `status.replicas: Invalid value: \"string\": replicas in body must be of type integer: \"string\"`, []string{"Content-Type", merge}},
		{"GET", tabsPath + "/a", "", 200, `"labels":{"n":"a","x":"y"}`, nil},
		{"GET", tabsPath + "/a/scale", "", 200, `"spec":{"replicas":3},"status":{"replicas":2,"selector":"a=b"}`, nil},
		{"PATCH", tabsPath + "/a/scale", `{"spec":{"replicas":4}}`, 200, `"spec":{"replicas":4}`, []string{"Content-Type", merge}},
		{"GET", tabsPath + "/a", "", 200, `"generation":4`, nil},
		{"GET", strings.Replace(tabsPath, "v1", "v1beta1", 1) + "/a", "", 200, `{"apiVersion":"stable.example.com/v1beta1","kind":"CronTab"`, nil},
		{"GET", strings.Replace(tabsPath, "v1", "v1beta1", 1) + "/a", "", 200, `"spec":{"cronSpec":"2","old":"yes"}`, nil},
		{"GET", strings.Replace(tabsPath, "v1", "v1beta1", 1) + "/a/scale", "", 404, ``, nil},
		{"POST", strings.Replace(tabsPath, "v1", "v1beta1", 1), strings.Replace(tab("old", `{"cronSpec":"1","old":"no"}`), "v1", "v1beta1", 1), 201, `"old":"no"`, nil},
		{"GET", tabsPath + "/old", "", 200, `{"apiVersion":"stable.example.com/v1","kind":"CronTab"`, nil},
		{"DELETE", tabsPath + "/old", "", 200, `"status":"Success"`, nil},
		{"DELETE", tabsPath + "?labelSelector=n%3Db", "", 200, `"name":"b"`, nil},
		{"GET", tabsPath + "/b", "", 404, `crontabs.stable.example.com \"b\" not found`, nil},
		{"GET", "/apis/stable.example.com", "", 200, `"preferredVersion":{"groupVersion":"stable.example.com/v1"`, nil},
		{"GET", "/openapi/v3/apis/stable.example.com/v1", "", 200, `"com.example.stable.v1.CronTab":{"description":"CronTab runs things."`, nil},
		{"GET", "/openapi/v2", "", 200, `"com.example.stable.v1.CronTab":{"description":"CronTab runs things."`, nil},
	} {
		if r := f.do(t, c.method, c.path, c.body, c.header...); r.Code != c.code || !strings.Contains(r.Body, c.want) {
			t.Errorf("%s %s %s: %d %s\nwant %d %s", c.method, c.path, c.body, r.Code, r.Body, c.code, c.want)
		}
	}
	if r := f.do(t, "POST", tabsPath, tab("w", `{"cronSpec":"1","odd":1}`)); !strings.Contains(r.Header.Get("Warning"), `unknown field \"spec.odd\"`) {
		t.Errorf("warning %q", r.Header.Get("Warning"))
	}
}

// TestDefinition_faults shows upstream's texts.
func TestDefinition_faults(t *testing.T) {
	f := newDefined(t, nil)
	for change, want := range map[string]string{
		`"name":"crontabs.stable`:                            `metadata.name: Invalid value: \"other.stable.example.com\": must be spec.names.plural+\".\"+spec.group`,
		`"scope":"Namespaced"`:                               `spec.scope: Unsupported value: \"Somewhere\": supported values: \"Cluster\", \"Namespaced\"`,
		`"status":{"type":"object","properties":{"replicas"`: `properties[status].type: Required value: must not be empty for specified object fields`,
		`"rule":"self.replicas <= 10"`:                       `rule: Invalid value: `,
		`"name":"v1","served":true,"storage":true`:           `must have exactly one version marked as storage version`,
		`"default":1,"minimum":1`:                            `default: Invalid value: 0`,
	} {
		into := map[string]string{
			`"name":"crontabs.stable`:                            `"name":"other.stable`,
			`"scope":"Namespaced"`:                               `"scope":"Somewhere"`,
			`"status":{"type":"object","properties":{"replicas"`: `"status":{"properties":{"replicas"`,
			`"rule":"self.replicas <= 10"`:                       `"rule":"self.nothing <= 10"`,
			`"name":"v1","served":true,"storage":true`:           `"name":"v1","served":true,"storage":false`,
			`"default":1,"minimum":1`:                            `"default":0,"minimum":1`,
		}[change]
		r := f.do(t, "POST", crdsPath, strings.Replace(crontabs, change, into, 1))
		if r.Code != 422 || !strings.Contains(r.Body, want) {
			t.Errorf("%s: %d %s\nwant %s", into, r.Code, r.Body, want)
		}
	}
}

// TestDefinition_names has two definitions want the same names.
func TestDefinition_names(t *testing.T) {
	f := newDefined(t, nil)
	f.define(t, crontabs)
	second := strings.NewReplacer(`"crontabs.stable`, `"crons.stable`, `"plural":"crontabs","singular":"crontab","kind":"CronTab"`, `"plural":"crons","singular":"cron","kind":"CronTab"`).Replace(crontabs)
	if r := f.do(t, "POST", crdsPath, second); r.Code != 201 {
		t.Fatal(r)
	}
	f.until(t, crdsPath+"/crons.stable.example.com", hasText(`"reason":"ListKindConflict","message":"\"CronTabList\" is already in use"`))
	if r := f.do(t, "GET", strings.Replace(tabsPath, "crontabs", "crons", 1), ""); r.Code != 404 {
		t.Errorf("%d", r.Code)
	}
	f.mustDelete(t, crdsPath+"/crontabs.stable.example.com")
	f.until(t, crdsPath+"/crons.stable.example.com", hasText(`"reason":"InitialNamesAccepted"`)) // now they are free
}

// TestDefinition_delete deletes a definition with objects, one of which is held.
func TestDefinition_delete(t *testing.T) {
	f := newDefined(t, nil)
	f.define(t, crontabs)
	held := strings.Replace(tab("held", `{"cronSpec":"1"}`), `"name":"held"`, `"name":"held","finalizers":["example.com/f"]`, 1)
	for _, body := range []string{tab("a", `{"cronSpec":"1"}`), held} {
		if r := f.do(t, "POST", tabsPath, body); r.Code != 201 {
			t.Fatal(r)
		}
	}
	w := f.watch(t, tabsPath+"?watch=1&resourceVersion=0")
	w.expect("ADDED a", "ADDED held")
	if r := f.do(t, "DELETE", crdsPath+"/crontabs.stable.example.com", ""); r.Code != 200 || !strings.Contains(r.Body, `customresourcecleanup.apiextensions.k8s.io`) {
		t.Errorf("%d %s", r.Code, r.Body)
	}
	f.until(t, tabsPath+"/a", func(r reply) bool { return r.Code == 404 })
	f.until(t, crdsPath+"/crontabs.stable.example.com", hasText(`"reason":"InstanceDeletionInProgress"`))
	if r := f.do(t, "POST", tabsPath, tab("late", `{"cronSpec":"1"}`)); r.Code != 405 {
		t.Errorf("create while it goes: %d %s", r.Code, r.Body)
	}
	item, err := f.store.Get(t.Context(), "/registry/stable.example.com/crontabs/default/held", storage.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.store.Delete(t.Context(), item.Key, item.Revision); err != nil {
		t.Fatal(err)
	}
	f.until(t, crdsPath+"/crontabs.stable.example.com", func(r reply) bool { return r.Code == 404 })
	f.until(t, "/apis", func(r reply) bool { return !strings.Contains(r.Body, "stable.example.com") })
	f.until(t, tabsPath, func(r reply) bool { return r.Code == 404 })
	for {
		if _, ok := w.next(); !ok {
			break
		}
	}
}

// TestDefinition_change changes a definition with objects: what is stored is
// shown as the schema now has it.
func TestDefinition_change(t *testing.T) {
	f := newDefined(t, nil)
	f.define(t, crontabs)
	if r := f.do(t, "POST", tabsPath, tab("a", `{"cronSpec":"1"}`)); r.Code != 201 {
		t.Fatal(r)
	}
	r := f.do(t, "PATCH", crdsPath+"/crontabs.stable.example.com",
		`[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/fresh","value":{"type":"string","default":"new"}},
		{"op":"replace","path":"/spec/versions/0/storage","value":false},{"op":"replace","path":"/spec/versions/1/storage","value":true}]`,
		"Content-Type", "application/json-patch+json")
	if r.Code != 200 || !strings.Contains(r.Body, `"storedVersions":["v1","v1beta1"]`) {
		t.Fatal(r)
	}
	f.until(t, tabsPath+"/a", hasText(`"fresh":"new"`))
	if r := f.do(t, "POST", tabsPath, tab("b", `{"cronSpec":"1"}`)); r.Code != 201 {
		t.Fatal(r)
	}
	item, err := f.store.Get(t.Context(), "/registry/stable.example.com/crontabs/default/b", storage.GetOptions{})
	if err != nil || !bytes.Contains(item.Value, []byte(`"apiVersion":"stable.example.com/v1beta1"`)) {
		t.Errorf("%s %v", item.Value, err)
	}
	list := f.do(t, "GET", tabsPath, "").Body
	if strings.Contains(list, "v1beta1") || !strings.Contains(list, `"name":"b"`) {
		t.Error(list)
	}
}

// swapper is a converter between v1 and v1beta1.
type swapper struct {
	mu    sync.Mutex
	calls int
	fail  error
}

func (s *swapper) Convert(_ context.Context, _ string, objs [][]byte, to string) ([][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	var out [][]byte
	for _, o := range objs {
		var u map[string]any
		if err := json.Unmarshal(o, &u); err != nil {
			return nil, err
		}
		spec, _ := u["spec"].(map[string]any)
		if strings.HasSuffix(to, "/v1") {
			spec["image"] = spec["old"]
		} else {
			spec["old"] = spec["image"]
		}
		u["apiVersion"] = to
		next, err := json.Marshal(u)
		if err != nil {
			return nil, err
		}
		out = append(out, next)
	}
	return out, s.fail
}

func TestDefinition_converter(t *testing.T) {
	s := &swapper{}
	converters := &crd.Converters{}
	f := newDefined(t, converters)
	f.define(t, crontabs)
	// The converter comes when the kind is served already.
	w := f.watch(t, tabsPath+"?watch=1")
	converters.Set("crontabs.stable.example.com", s)
	if _, ok := w.next(); ok {
		t.Error("the watch goes on with another converter")
	}
	old := strings.Replace(tabsPath, "v1", "v1beta1", 1)
	for i := range 5 {
		body := strings.Replace(tab(fmt.Sprint("t", i), `{"cronSpec":"1","old":"img"}`), "v1", "v1beta1", 1)
		if r := f.do(t, "POST", old, body); r.Code != 201 {
			t.Fatal(r)
		}
	}
	if r := f.do(t, "GET", tabsPath+"/t0", ""); !strings.Contains(r.Body, `"image":"img"`) {
		t.Error(r)
	}
	s.mu.Lock()
	before := s.calls
	s.mu.Unlock()
	if r := f.do(t, "GET", old, ""); strings.Count(r.Body, `"old":"img"`) != 5 {
		t.Error(r)
	}
	s.mu.Lock()
	if s.calls != before+1 {
		t.Errorf("%d calls for a list", s.calls-before)
	}
	s.fail = errors.New("no idea")
	s.mu.Unlock()
	if r := f.do(t, "POST", old, strings.Replace(tab("x", `{"cronSpec":"1"}`), "v1", "v1beta1", 1)); r.Code != 500 || !strings.Contains(r.Body, "no idea") {
		t.Error(r)
	}
}

// TestCustomResource_informer has client-go keep a copy.
func TestCustomResource_informer(t *testing.T) {
	f := newDefined(t, nil)
	f.define(t, crontabs)
	c, err := clientdynamic.NewForConfig(f.config)
	if err != nil {
		t.Fatal(err)
	}
	gvr := schema.GroupVersionResource{Group: "stable.example.com", Version: "v1", Resource: "crontabs"}
	tabs := c.Resource(gvr).Namespace("default")
	events := make(chan string, 100)
	factory := dynamicinformer.NewDynamicSharedInformerFactory(c, 0)
	note := func(kind string, obj any) {
		if u, ok := obj.(*unstructured.Unstructured); ok {
			replicas, _, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
			events <- fmt.Sprint(kind, " ", u.GetName(), " ", replicas)
		}
	}
	factory.ForResource(gvr).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { note("add", obj) },
		UpdateFunc: func(_, obj any) { note("update", obj) },
		DeleteFunc: func(obj any) { note("delete", obj) },
	})
	ctx, cancel := context.WithCancel(t.Context())
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	defer cancel()
	factory.WaitForCacheSync(ctx.Done())

	var u unstructured.Unstructured
	if err := u.UnmarshalJSON([]byte(tab("a", `{"cronSpec":"1"}`))); err != nil {
		t.Fatal(err)
	}
	made, err := tabs.Create(ctx, &u, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedField(made.Object, int64(5), "spec", "replicas"); err != nil {
		t.Fatal(err)
	}
	if _, err := tabs.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := tabs.Update(ctx, made, metav1.UpdateOptions{}); err == nil || !strings.Contains(err.Error(), "the object has been modified") {
		t.Errorf("%v", err)
	}
	if err := tabs.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for range 3 {
		select {
		case e := <-events:
			got = append(got, e)
		case <-time.After(20 * time.Second):
			t.Fatalf("no event after %q", got)
		}
	}
	if d := cmp.Diff([]string{"add a 1", "update a 5", "delete a 5"}, got); d != "" {
		t.Error(d)
	}
}

// TestDefinition_hammer defines and deletes a kind while clients write.
func TestDefinition_hammer(t *testing.T) {
	f := newDefined(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	var running sync.WaitGroup
	for i := range 3 {
		running.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				name := fmt.Sprintf("t-%d-%d", i, n)
				if r := f.do(t, "POST", tabsPath, tab(name, `{"cronSpec":"1"}`)); r.Code != 201 && r.Code != 404 && r.Code != 405 {
					t.Errorf("create: %d %s", r.Code, r.Body)
				}
				if r := f.do(t, "GET", tabsPath, ""); r.Code != 200 && r.Code != 404 {
					t.Errorf("list: %d %s", r.Code, r.Body)
				}
			}
		})
	}
	rounds := 0
	for ; ctx.Err() == nil; rounds++ {
		f.define(t, crontabs)
		f.mustDelete(t, crdsPath+"/crontabs.stable.example.com")
		f.until(t, crdsPath+"/crontabs.stable.example.com", func(r reply) bool { return r.Code == 404 })
	}
	running.Wait()
	t.Logf("%d definitions", rounds)
	found, err := f.store.List(t.Context(), "/registry/stable.example.com/", storage.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(found.Items); n > 0 {
		t.Errorf("%d objects have outlived their definition", n)
	}
}
