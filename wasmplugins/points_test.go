package wasmplugins_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/api"
	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/authn"
	"github.com/proa-project/proa/httpapi/authz"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/httpapi/request"
	"github.com/proa-project/proa/wasmplugins/convert"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

// bind makes an object that binds a module of its name, and waits until its
// condition Ready has the status want.
func bind[T pluginsv1.Binding](f *fixture, wasm []byte, obj T, want metav1.ConditionStatus) {
	f.t.Helper()
	common, _ := obj.Bound()
	if common.Module == "" {
		common.Module = obj.GetName()
	}
	f.module(common.Module, wasm)
	c := client.For[T](f.rest)
	if _, err := c.Create(f.t.Context(), obj); err != nil {
		f.t.Fatal(err)
	}
	f.until(obj.GetName()+" is Ready="+string(want), func() bool {
		o, err := c.Get(f.t.Context(), "", obj.GetName())
		if err != nil {
			f.t.Fatal(err)
		}
		_, s := o.Bound()
		return meta.IsStatusConditionPresentAndEqual(s.Conditions, "Ready", want)
	})
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

func TestAuthorization(t *testing.T) {
	f := newFixture(t)
	before, after := f.host.Authorization.Before(), f.host.Authorization.After()
	alice := &request.User{Name: "alice", Groups: []string{"devs"}}
	info := &request.Info{Verb: "get", Resource: api.ByGVR("", "v1", "secrets"), Namespace: "default", Name: "s"}
	ask := func(z authz.Authorizer, u *request.User) (authz.Decision, string) {
		t.Helper()
		d, reason, err := z.Authorize(t.Context(), u, info)
		if err != nil {
			t.Fatal(err)
		}
		return d, reason
	}
	if d, _ := ask(after, alice); d != authz.NoOpinion {
		t.Errorf("without plugins: %v", d)
	}
	bind(f, Answering("proa_authorize", `{"decision":"Allow","reason":"because"}`), &pluginsv1.AuthorizationPlugin{
		ObjectMeta: named("allows"), Spec: pluginsv1.AuthorizationPluginSpec{Order: 1, Users: []string{"al*"}, CacheSeconds: 1},
	}, metav1.ConditionTrue)
	for range 2 { // the second from the cache
		if d, reason := ask(after, alice); d != authz.Allow || reason != "because" {
			t.Errorf("%v %q", d, reason)
		}
	}
	if d, _ := ask(after, &request.User{Name: "bob"}); d != authz.NoOpinion {
		t.Errorf("about a user that it is not for: %v", d)
	}
	if d, _ := ask(before, alice); d != authz.NoOpinion {
		t.Errorf("before RBAC: %v", d)
	}
	bind(f, Answering("proa_authorize", `{"decision":"Deny","reason":"no devs"}`), &pluginsv1.AuthorizationPlugin{
		ObjectMeta: named("denies"), Spec: pluginsv1.AuthorizationPluginSpec{Order: -1, Groups: []string{"devs"}},
	}, metav1.ConditionTrue)
	if d, reason := ask(before, alice); d != authz.Deny || reason != "no devs" {
		t.Errorf("%v %q", d, reason)
	}
	bind(f, Trapping("proa_authorize"), &pluginsv1.AuthorizationPlugin{ObjectMeta: named("a-trap")}, metav1.ConditionTrue)
	if d, reason := ask(after, alice); d != authz.Deny || !strings.Contains(reason, `authorization plugin "a-trap" failed: Trapped`) {
		t.Errorf("%v %q", d, reason)
	}
	bind(f, Answering("proa_admit", ""), &pluginsv1.AuthorizationPlugin{ObjectMeta: named("wrong")}, metav1.ConditionFalse)
}

func TestAuthentication(t *testing.T) {
	f := newFixture(t)
	verify := func(token string) (*request.User, error) {
		return f.host.Authentication.VerifyToken(t.Context(), token)
	}
	if u, err := verify("x-1"); u != nil || err != nil {
		t.Errorf("without plugins: %v, %v", u, err)
	}
	bind(f, Answering("proa_authenticate", `{"authenticated":true,"user":{"username":"carol","groups":["ops"],"extra":{"k":["v"]}}}`), &pluginsv1.AuthenticationPlugin{
		ObjectMeta: named("knows"), Spec: pluginsv1.AuthenticationPluginSpec{TokenPrefix: "x-"},
	}, metav1.ConditionTrue)
	u, err := verify("x-1")
	if err != nil || u == nil || u.Name != "carol" || !u.InGroup("ops") || !u.InGroup(request.Authenticated) || u.Extra["k"][0] != "v" {
		t.Errorf("%+v, %v", u, err)
	}
	if u, err := verify("y-1"); u != nil || err != nil {
		t.Errorf("of another prefix: %v, %v", u, err)
	}
	bind(f, Answering("proa_authenticate", `{"authenticated":true,"user":{"username":"mallory","groups":["system:masters"]}}`), &pluginsv1.AuthenticationPlugin{
		ObjectMeta: named("grabs"), Spec: pluginsv1.AuthenticationPluginSpec{TokenPrefix: "z-"},
	}, metav1.ConditionTrue)
	if u, err := verify("z-1"); u != nil || !errors.Is(err, authn.ErrUnauthenticated) || !strings.Contains(err.Error(), "BadReply") {
		t.Errorf("a plugin that makes masters: %+v, %v", u, err)
	}
}

func TestConversion(t *testing.T) {
	f := newFixture(t)
	const crd = "things.example.test"
	in := [][]byte{[]byte(`{"apiVersion":"example.test/v1","kind":"Thing","metadata":{"name":"a"}}`)}
	if _, err := f.host.Conversion.Convert(t.Context(), crd, in, "example.test/v2"); !errors.Is(err, convert.ErrNoPlugin) {
		t.Errorf("without plugins: %v", err)
	}
	bind(f, Answering("proa_convert", `{"objects":[{"apiVersion":"example.test/v2","kind":"Thing","metadata":{"name":"a"},"spec":{}}]}`), &pluginsv1.ConversionPlugin{
		ObjectMeta: named("converts"), Spec: pluginsv1.ConversionPluginSpec{CustomResourceDefinition: crd},
	}, metav1.ConditionTrue)
	out, err := f.host.Conversion.Convert(t.Context(), crd, in, "example.test/v2")
	if err != nil || len(out) != 1 || !strings.Contains(string(out[0]), `"spec"`) {
		t.Errorf("%s, %v", out, err)
	}
	for desired, objects := range map[string][][]byte{
		"example.test/v3": in,                       // the guest answers with v2
		"example.test/v2": {in[0], in[0]},           // one for two
		"example.test/v1": {[]byte(`{"kind":"x"}`)}, // another object
	} {
		if out, err := f.host.Conversion.Convert(t.Context(), crd, objects, desired); err == nil {
			t.Errorf("to %s: %s", desired, out)
		}
	}
}

func TestVirtualAPI(t *testing.T) {
	f := newFixture(t)
	const item = `{"metadata":{"name":"a","labels":{"x":"y"}},"spec":{"size":3}}`
	bind(f, Answering("proa_serve", `{"object":`+item+`,"items":[`+item+`]}`), &pluginsv1.VirtualAPI{
		ObjectMeta: named("v1.weather.example.test"),
		Spec: pluginsv1.VirtualAPISpec{Group: "weather.example.test", Version: "v1", Resources: []pluginsv1.VirtualResource{
			{Plural: "forecasts", Kind: "Forecast", Verbs: []string{"get", "list", "create", "delete"}},
		}},
	}, metav1.ConditionTrue)
	const path = "/apis/weather.example.test/v1/forecasts"
	body := func(method, path, send string) (int, string) {
		t.Helper()
		return f.exchange(method, path, send)
	}
	if code, text := body(http.MethodGet, path+"/a", ""); code != 200 || !strings.Contains(text, `"kind":"Forecast"`) || !strings.Contains(text, `"size":3`) {
		t.Errorf("get: %d %s", code, text)
	}
	if code, text := body(http.MethodGet, path, ""); code != 200 || !strings.Contains(text, `"kind":"ForecastList"`) {
		t.Errorf("list: %d %s", code, text)
	}
	if code, text := body(http.MethodGet, path+"?labelSelector=x%3Dz", ""); code != 200 || strings.Contains(text, `"size"`) {
		t.Errorf("list of others: %d %s", code, text)
	}
	if code, text := body(http.MethodGet, path+"/b", ""); code != 503 || !strings.Contains(text, "BadReply") {
		t.Errorf("get of another name: %d %s", code, text)
	}
	if code, text := body(http.MethodPut, path+"/a", item); code != 405 {
		t.Errorf("update, which is not among the verbs: %d %s", code, text)
	}
	f.module("v1.weather.example.test", Answering("proa_serve", `{"status":{"code":404}}`))
	f.until("the new version answers", func() bool {
		code, text := body(http.MethodGet, path+"/a", "")
		return code == 404 && strings.Contains(text, `forecasts.weather.example.test \"a\" not found`)
	})
	if err := client.For[*pluginsv1.VirtualAPI](f.rest).Delete(t.Context(), "", "v1.weather.example.test", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.until("the API is gone", func() bool { code, _ := body(http.MethodGet, path+"/a", ""); return code == 404 })
}
