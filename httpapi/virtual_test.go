package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi"
	"github.com/proa-project/proa/httpapi/dynamic"
	"github.com/proa-project/proa/openapi"
)

// toys is a provider that keeps its objects in a map.
type toys struct {
	mu      sync.Mutex
	objects map[string]*unstructured.Unstructured
	lists   int
	broken  error
}

func newToys(names ...string) *toys {
	p := &toys{objects: map[string]*unstructured.Unstructured{}}
	for _, name := range names {
		p.put(toy(name, map[string]any{"size": int64(len(name))}))
	}
	return p
}

func toy(name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "toys.example.com/v1", "kind": "Toy",
		"metadata": map[string]any{"name": name, "namespace": "default", "uid": "u-" + name, "labels": map[string]any{"name": name}},
		"spec":     spec,
	}}
}

var toysGR = schema.GroupResource{Group: "toys.example.com", Resource: "toys"}

func (p *toys) put(obj *unstructured.Unstructured) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.objects[obj.GetNamespace()+"/"+obj.GetName()] = obj.DeepCopy()
}

func (p *toys) drop(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.objects, "default/"+name)
}

func (p *toys) Get(_ context.Context, r *dynamic.Request) (*unstructured.Unstructured, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	obj := p.objects[r.Namespace+"/"+r.Name]
	if obj == nil {
		return nil, apierrors.NewNotFound(toysGR, r.Name)
	}
	return obj.DeepCopy(), p.broken
}

func (p *toys) List(_ context.Context, r *dynamic.Request) (*unstructured.UnstructuredList, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lists++
	if p.broken != nil {
		return nil, p.broken
	}
	list := &unstructured.UnstructuredList{}
	for _, obj := range p.objects {
		list.Items = append(list.Items, *obj.DeepCopy())
	}
	slices.SortFunc(list.Items, func(a, b unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) })
	if after := r.Continue; after != "" {
		list.Items = slices.DeleteFunc(list.Items, func(u unstructured.Unstructured) bool { return u.GetName() <= after })
	}
	if n := int(r.Limit); n > 0 && len(list.Items) > n {
		list.Items = list.Items[:n]
		list.SetContinue(list.Items[n-1].GetName())
	}
	return list, nil
}

func (p *toys) Create(_ context.Context, _ *dynamic.Request, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	p.mu.Lock()
	_, there := p.objects[obj.GetNamespace()+"/"+obj.GetName()]
	p.mu.Unlock()
	if there {
		return nil, apierrors.NewAlreadyExists(toysGR, obj.GetName())
	}
	obj.SetUID("u-new")
	p.put(obj)
	return obj, nil
}

func (p *toys) Update(_ context.Context, _ *dynamic.Request, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	p.put(obj)
	return obj, nil
}

func (p *toys) Delete(_ context.Context, r *dynamic.Request, _ *metav1.DeleteOptions) (*unstructured.Unstructured, error) {
	p.drop(r.Name)
	return nil, nil
}

// readOnly hides the writing half of a provider.
type readOnly struct{ dynamic.Provider }

func toysRow() *api.Resource {
	return &api.Resource{
		Group: "toys.example.com", Version: "v1", Kind: "Toy", Plural: "toys", Singular: "toy", Namespaced: true,
		ShortNames: []string{"ty"}, Categories: []string{"all"}, Fields: []string{"spec.color"},
	}
}

func virtualToys(p dynamic.Provider) dynamic.Virtual {
	return dynamic.Virtual{
		Resource: toysRow(), Provider: p, Poll: 20 * time.Millisecond,
		Columns: []dynamic.Column{{Name: "Size", Type: "integer", JSONPath: ".spec.size"}, {Name: "Color", Type: "string", JSONPath: ".spec.color"}},
	}
}

// newDynamicFixture is a fixture with a table of run-time kinds.
func newDynamicFixture(tb testing.TB, change ...func(*httpapi.Config)) (*fixture, *dynamic.Table) {
	tb.Helper()
	kinds := dynamic.New(dynamic.Config{})
	docs, err := openapi.Build(api.Resources(), &testVersion)
	if err != nil {
		tb.Fatal(err)
	}
	change = append(change, func(c *httpapi.Config) { c.Dynamic, c.Documents = kinds, docs })
	return newFixture(tb, change...), kinds
}

const toysPath = "/apis/toys.example.com/v1/namespaces/default/toys"

func TestVirtual(t *testing.T) {
	f, kinds := newDynamicFixture(t)
	if r := f.do(t, "GET", toysPath, ""); r.Code != 404 {
		t.Errorf("before: %d", r.Code)
	}
	p := newToys("ball", "kite")
	if err := kinds.SetVirtual("test", []dynamic.Virtual{virtualToys(p)}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method, path, body string
		code               int
		want               string
		header             []string
	}{
		{"GET", toysPath, "", 200, `{"kind":"ToyList","apiVersion":"toys.example.com/v1"`, nil},
		{"GET", "/apis/toys.example.com/v1/toys", "", 200, `"name":"kite"`, nil},
		{"GET", toysPath + "/ball", "", 200, `"spec":{"size":4}`, nil},
		{"GET", toysPath + "/none", "", 404, `toys.toys.example.com \"none\" not found`, nil},
		{"GET", toysPath + "?labelSelector=name%3Dkite", "", 200, `"name":"kite"`, nil},
		{"GET", toysPath + "?fieldSelector=spec.color%3Dred", "", 200, `"items":[]`, nil},
		{"GET", toysPath + "?fieldSelector=spec.nope%3Dred", "", 400, `field label not supported`, nil},
		{"GET", toysPath + "?fieldSelector=metadata.name%3Dball", "", 200, `"name":"ball"`, nil},
		{"GET", toysPath + "?limit=1", "", 200, `"continue":"ball"`, nil},
		{"GET", toysPath + "?limit=1&continue=ball", "", 200, `"name":"kite"`, nil},
		{"GET", toysPath, "", 200, `{"name":"Size","type":"integer"`, []string{"Accept", "application/json;as=Table;v=v1;g=meta.k8s.io"}},
		{"GET", toysPath, "", 200, `{"cells":["ball",4,null]`, []string{"Accept", "application/json;as=Table;v=v1;g=meta.k8s.io"}},
		{"GET", toysPath, "", 200, `"kind":"PartialObjectMetadataList"`, []string{"Accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}},
		{"GET", toysPath + "/ball", "", 200, "kind: Toy\n", []string{"Accept", "application/yaml"}},
		{"POST", toysPath, `{"apiVersion":"toys.example.com/v1","kind":"Toy","metadata":{"name":"top"}}`, 201, `"namespace":"default"`, nil},
		{"POST", toysPath, `{"apiVersion":"toys.example.com/v1","kind":"Toy","metadata":{"name":"top"}}`, 409, `AlreadyExists`, nil},
		{"POST", toysPath, `{"apiVersion":"toys.example.com/v2","kind":"Toy","metadata":{"name":"x"}}`, 400, `does not match the expected API version`, nil},
		{"POST", toysPath, `{"apiVersion":"toys.example.com/v1","kind":"Car","metadata":{"name":"x"}}`, 400, `kind of the object`, nil},
		{"POST", toysPath, `{"metadata":{"name":"x","namespace":"other"}}`, 400, `does not match the namespace`, nil},
		{"POST", toysPath, `{"metadata":5}`, 400, `cannot unmarshal number`, nil},
		{"POST", toysPath, `nonsense`, 400, `unrecognized`, nil},
		{"POST", "/apis/toys.example.com/v1/toys", `{}`, 405, ``, nil},
		{"POST", toysPath + "/x", `{}`, 405, ``, nil},
		{"PUT", toysPath, `{}`, 405, ``, nil},
		{"DELETE", toysPath, "", 405, ``, nil},
		{"GET", toysPath + "/ball/status", "", 404, ``, nil},
		{"PUT", toysPath + "/top", `{"metadata":{"name":"top"},"spec":{"size":1}}`, 200, `"uid":"u-new"`, nil},
		{"PUT", toysPath + "/top", `{"metadata":{"name":"top","resourceVersion":"7"},"spec":{"size":2}}`, 409, `Conflict`, nil},
		{"PUT", toysPath + "/gone", `{"metadata":{"name":"gone"}}`, 404, `NotFound`, nil},
		{"PATCH", toysPath + "/top", `{"spec":{"color":"red"}}`, 200, `"spec":{"color":"red","size":1}`, []string{"Content-Type", "application/merge-patch+json"}},
		{"PATCH", toysPath + "/top", `[{"op":"remove","path":"/spec/size"}]`, 200, `"spec":{"color":"red"}`, []string{"Content-Type", "application/json-patch+json"}},
		{"PATCH", toysPath + "/top", `{}`, 415, `application/merge-patch+json`, []string{"Content-Type", "application/strategic-merge-patch+json"}},
		{"GET", toysPath + "?fieldSelector=spec.color%3Dred", "", 200, `"name":"top"`, nil},
		{"DELETE", toysPath + "/top?dryRun=All", "", 200, `"status":"Success"`, nil},
		{"DELETE", toysPath + "/top", "", 200, `"status":"Success"`, nil},
		{"DELETE", toysPath + "/top", "", 404, `NotFound`, nil},
	} {
		if r := f.do(t, c.method, c.path, c.body, c.header...); r.Code != c.code || !strings.Contains(r.Body, c.want) {
			t.Errorf("%s %s %s: %d %s\nwant %d %s", c.method, c.path, c.body, r.Code, r.Body, c.code, c.want)
		}
	}
	p.broken = errors.New("out of order")
	if r := f.do(t, "GET", toysPath, ""); r.Code != 500 || !strings.Contains(r.Body, "out of order") {
		t.Errorf("%d %s", r.Code, r.Body)
	}
	if err := kinds.SetVirtual("test", nil); err != nil {
		t.Fatal(err)
	}
	if r := f.do(t, "GET", toysPath, ""); r.Code != 404 {
		t.Errorf("after: %d", r.Code)
	}
}

// TestVirtual_update uses a resourceVersion that the server has given out.
func TestVirtual_update(t *testing.T) {
	f, kinds := newDynamicFixture(t)
	p := newToys("ball")
	if err := kinds.SetVirtual("test", []dynamic.Virtual{virtualToys(p)}); err != nil {
		t.Fatal(err)
	}
	have := f.do(t, "GET", toysPath+"/ball", "").Body
	list := f.do(t, "GET", toysPath, "").Body // from here on the object has a revision
	again := f.do(t, "GET", toysPath+"/ball", "").Body
	if !strings.Contains(list, strings.TrimSpace(again)) {
		t.Errorf("list %s\nget %s", list, again)
	}
	next := strings.Replace(have, `"size":4`, `"size":5`, 1)
	if r := f.do(t, "PUT", toysPath+"/ball", next); r.Code != 200 {
		t.Fatalf("%d %s", r.Code, r.Body)
	}
	if r := f.do(t, "PUT", toysPath+"/ball", strings.Replace(again, `"size":4`, `"size":6`, 1)); r.Code != 409 {
		t.Errorf("%d %s", r.Code, r.Body)
	}
}

func TestVirtual_discovery(t *testing.T) {
	f, kinds := newDynamicFixture(t)
	before := f.do(t, "GET", "/openapi/v3", "").Body
	if err := kinds.SetVirtual("test", []dynamic.Virtual{virtualToys(readOnly{newToys()})}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][]string{
		"/apis":                                {`"toys.example.com/v1"`},
		"/apis/toys.example.com":               {`"preferredVersion":{"groupVersion":"toys.example.com/v1"`},
		"/apis/toys.example.com/v1":            {`"name":"toys"`, `"shortNames":["ty"]`, `"verbs":["get","list","watch"]`},
		"/openapi/v3":                          {`"apis/toys.example.com/v1":`},
		"/openapi/v3/apis/toys.example.com/v1": {`"com.example.toys.v1.Toy":{`, `"x-kubernetes-preserve-unknown-fields":true`, `"x-kubernetes-group-version-kind":[{"group":"toys.example.com","kind":"Toy","version":"v1"}]`, `/apis/toys.example.com/v1/namespaces/{namespace}/toys/{name}`},
		"/openapi/v2":                          {`"com.example.toys.v1.Toy"`, `"com.example.toys.v1.ToyList"`},
	} {
		r := f.do(t, "GET", path, "")
		for _, w := range want {
			if !strings.Contains(r.Body, w) {
				t.Errorf("%s: %d, no %s in %.3000s", path, r.Code, w, r.Body)
			}
		}
	}
	r := f.do(t, "GET", "/apis", "", "Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	if !strings.Contains(r.Body, `"resource":"toys"`) {
		t.Errorf("aggregated: %s", r.Body)
	}
	if r := f.do(t, "GET", "/openapi/v3/apis/toys.example.com/v1", "", "Accept", "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"); r.Code != 200 {
		t.Errorf("protobuf: %d %s", r.Code, r.Body)
	}
	if err := kinds.SetVirtual("test", nil); err != nil {
		t.Fatal(err)
	}
	if after := f.do(t, "GET", "/openapi/v3", "").Body; after != before {
		t.Error("the list of documents is not as before")
	}
	if r := f.do(t, "GET", "/apis/toys.example.com/v1", ""); r.Code != 404 {
		t.Errorf("%d", r.Code)
	}
}

func TestVirtual_watch(t *testing.T) {
	f, kinds := newDynamicFixture(t)
	p := newToys("ball", "kite")
	if err := kinds.SetVirtual("test", []dynamic.Virtual{virtualToys(p)}); err != nil {
		t.Fatal(err)
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal([]byte(f.do(t, "GET", toysPath, "").Body), &list); err != nil {
		t.Fatal(err)
	}
	all := f.watch(t, toysPath+"?watch=1&allowWatchBookmarks=true&resourceVersion="+list.ResourceVersion)
	some := f.watch(t, toysPath+"?watch=1&labelSelector=name%3Dball&resourceVersion=0")
	some.expect("ADDED ball")

	p.put(toy("ball", map[string]any{"size": int64(9)}))
	all.expect("MODIFIED ball")
	some.expect("MODIFIED ball")
	p.put(toy("top", nil))
	all.expect("ADDED top")
	p.drop("ball")
	all.expect("DELETED ball")
	some.expect("DELETED ball")
	other := toy("kite", nil)
	other.SetUID("another")
	p.put(other)
	all.expect("DELETED kite")
	all.expect("ADDED kite")

	if err := kinds.SetVirtual("test", nil); err != nil {
		t.Fatal(err)
	}
	all.expect("BOOKMARK")
	for _, w := range []*stream{all, some} {
		if e, ok := w.next(); ok {
			t.Errorf("after the end: %+v", e)
		}
	}
}

// TestVirtual_sharedPoll has many watchers and one that looks.
func TestVirtual_sharedPoll(t *testing.T) {
	f, kinds := newDynamicFixture(t)
	p := newToys("ball")
	v := virtualToys(p)
	v.Poll = time.Hour
	if err := kinds.SetVirtual("test", []dynamic.Virtual{v}); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		f.watch(t, toysPath+"?watch=1&resourceVersion=0").expect("ADDED ball")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lists != 1 {
		t.Errorf("%d looks for 10 watches", p.lists)
	}
}

// TestVirtual_twoOwners refuses what is there already, and keeps what stays.
func TestVirtual_twoOwners(t *testing.T) {
	f, kinds := newDynamicFixture(t)
	v := virtualToys(newToys("ball"))
	if err := kinds.SetVirtual("a", []dynamic.Virtual{v}); err != nil {
		t.Fatal(err)
	}
	if err := kinds.SetVirtual("b", []dynamic.Virtual{virtualToys(newToys())}); err == nil || !strings.Contains(err.Error(), "is served already") {
		t.Errorf("%v", err)
	}
	pods := dynamic.Virtual{Resource: &api.Resource{Group: "apps", Version: "v1", Kind: "Deployment", Plural: "deployments"}, Provider: newToys()}
	if err := kinds.SetVirtual("b", []dynamic.Virtual{pods}); err == nil {
		t.Error("a fixed kind was taken")
	}
	w := f.watch(t, toysPath+"?watch=1&resourceVersion=0")
	w.expect("ADDED ball")
	cars := dynamic.Virtual{Resource: &api.Resource{Group: "toys.example.com", Version: "v1", Kind: "Car", Plural: "cars"}, Provider: readOnly{newToys()}}
	if err := kinds.SetVirtual("a", []dynamic.Virtual{v, cars}); err != nil {
		t.Fatal(err)
	}
	p, ok := v.Provider.(*toys)
	if !ok {
		t.Fatal("no toys")
	}
	p.put(toy("top", nil))
	w.expect("ADDED top") // the watch has outlived the change
}

// TestDynamic_hammer adds and removes kinds while clients use them.
func TestDynamic_hammer(t *testing.T) {
	f, kinds := newDynamicFixture(t)
	p := newToys("ball")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	var running sync.WaitGroup
	for i := range 4 {
		running.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				name := fmt.Sprintf("t-%d-%d", i, n)
				r := f.do(t, "POST", toysPath, `{"metadata":{"name":"`+name+`"}}`)
				if r.Code != 201 && r.Code != 404 {
					t.Errorf("create: %d %s", r.Code, r.Body)
				}
				if r := f.do(t, "GET", toysPath, ""); r.Code != 200 && r.Code != 404 {
					t.Errorf("list: %d %s", r.Code, r.Body)
				}
				if r := f.do(t, "GET", "/openapi/v3", ""); r.Code != 200 {
					t.Errorf("documents: %d", r.Code)
				}
				if r := f.do(t, "GET", "/apis", ""); r.Code != 200 {
					t.Errorf("discovery: %d", r.Code)
				}
				p.drop(name)
			}
		})
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for n := 0; ctx.Err() == nil; n++ {
		var list []dynamic.Virtual
		if n%2 == 0 {
			list = []dynamic.Virtual{virtualToys(p)}
		}
		if err := kinds.SetVirtual("test", list); err != nil {
			t.Fatal(err)
		}
		<-tick.C
	}
	running.Wait()
}
