package guest

import (
	"errors"
	"strings"
	"testing"
)

func same(t *testing.T, got []byte, want string) {
	t.Helper()
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAuthorize(t *testing.T) {
	defer OnAuthorize(nil)
	OnAuthorize(func(r *AccessRequest) Decision {
		switch {
		case r.Path() == "/debug" && r.Verb() == "get":
			return AllowAccess("debug")
		case r.InGroup("dev") && r.Username() == "ann" && r.Verb() == "delete" && r.Group() == "apps" && r.Resource() == "deployments" &&
			r.SubResource() == "scale" && r.Namespace() == "prod" && r.Name() == "web" && r.Field("uid").Is("7"):
			return DenyAccess("not in prod")
		}
		return NoOpinion()
	})
	same(t, Authorize([]byte(`{"spec":{"user":"x","nonResourceAttributes":{"path":"/debug","verb":"get"}}}`)), `{"decision":"Allow","reason":"debug"}`)
	same(t, Authorize([]byte(`{"spec":{"user":"ann","uid":"7","groups":["a","dev"],"resourceAttributes":{"verb":"delete","group":"apps","resource":"deployments","subresource":"scale","namespace":"prod","name":"web"}}}`)),
		`{"decision":"Deny","reason":"not in prod"}`)
	same(t, Authorize([]byte(`{"spec":{}}`)), `{"decision":"NoOpinion","reason":""}`)
}

func TestAuthenticate(t *testing.T) {
	defer OnAuthenticate(nil)
	OnAuthenticate(func(token string, audiences []string) (*User, error) {
		switch token {
		case "good":
			return &User{Username: "ann", UID: "7", Groups: audiences, Extra: map[string][]string{"k": {"v"}}}, nil
		case "old":
			return nil, errors.New("expired")
		}
		return nil, nil
	})
	same(t, Authenticate([]byte(`{"token":"good","audiences":["a","b"]}`)), `{"authenticated":true,"user":{"username":"ann","uid":"7","groups":["a","b"],"extra":{"k":["v"]}}}`)
	same(t, Authenticate([]byte(`{"token":"old"}`)), `{"authenticated":false,"error":"expired"}`)
	same(t, Authenticate([]byte(`{"token":"x"}`)), `{"authenticated":false}`)
}

func TestConvert(t *testing.T) {
	defer OnConvert(nil)
	OnConvert(func(object Value, to string) (any, error) {
		if object.Get("spec").Missing() {
			return nil, errors.New("no spec")
		}
		spec := Edit(object.Get("spec")).Rename("size", "replicas").Delete("old").Set("new", true)
		return Edit(object).Set("spec", spec), nil
	})
	same(t, Convert([]byte(`{"desiredAPIVersion":"g/v2","objects":[{"apiVersion":"g/v1","spec":{"size":2,"old":1}},{"spec":{}}]}`)),
		`{"objects":[{"apiVersion":"g/v2","spec":{"replicas":2,"new":true}},{"spec":{"new":true},"apiVersion":"g/v2"}]}`)
	same(t, Convert([]byte(`{"desiredAPIVersion":"g/v2","objects":[{}]}`)), `{"error":"no spec"}`)
}

func TestServe(t *testing.T) {
	defer OnServe(nil)
	OnServe(func(r *APIRequest) APIReply {
		switch r.Verb {
		case "list":
			return Items([]any{NewObject().Set("n", r.Limit), Raw(`{"for":"` + r.Groups[0] + r.Username + `"}`)}, "more")
		case "create":
			return Found(r.Object)
		}
		return NotFound(r)
	})
	same(t, Serve([]byte(`{"verb":"list","limit":5,"user":{"username":"ann","groups":["g"]}}`)), `{"items":[{"n":5},{"for":"gann"}],"continue":"more"}`)
	same(t, Serve([]byte(`{"verb":"create","object":{"a":1}}`)), `{"object":{"a":1}}`)
	same(t, Serve([]byte(`{"verb":"get","resource":"things","name":"x"}`)), `{"status":{"code":404,"reason":"NotFound","message":"things \"x\" not found"}}`)
}

func TestReconcile(t *testing.T) {
	defer OnReconcile(nil)
	OnReconcile(func(r *ReconcileRequest) Reconciled {
		if r.Deleting {
			return Reconciled{Finalized: r.Owned.Len() == 0}
		}
		if r.Object.Get("bad").Bool() {
			return Reconciled{Error: errors.New("bad")}
		}
		return Reconciled{Objects: []any{Edit(r.Object)}, Status: map[string]string{"phase": "Ready"}, RequeueAfterSeconds: 30}
	})
	same(t, Reconcile([]byte(`{"object":{"a":1},"owned":[]}`)), `{"objects":[{"a":1}],"status":{"phase":"Ready"},"requeueAfterSeconds":30}`)
	same(t, Reconcile([]byte(`{"object":{"bad":true}}`)), `{"error":"bad"}`)
	same(t, Reconcile([]byte(`{"object":{},"deleting":true}`)), `{"objects":[],"finalized":true}`)
}

func TestHostCalls(t *testing.T) {
	if _, err := Now(); err == nil {
		t.Error("a call without a server succeeds")
	}
	defer Mock(nil)
	var calls []string
	replies := map[string]string{
		"kube.get": `{"kind":"Pod"}`, "kube.list": `{"items":[1,2]}`, "authz.can_i": `{"allowed":true}`, "clock.wall": `{"unixNanos":1700000000000000001}`,
		"random": `{"base64":"AQI="}`, "http": `{"status":200,"headers":{"A":"b"},"body":"aGk="}`, "config.read": `{"data":{"k":"v"}}`,
	}
	Mock(func(op string, request []byte) ([]byte, error) {
		calls = append(calls, op+" "+string(request))
		return []byte(replies[op]), nil
	})
	pods := Resource{Version: "v1", Resource: "pods"}
	get, err1 := KubeGet(pods, "ns", "a")
	items, err2 := KubeList(pods, "", "a=b")
	can, err3 := CanI("get", pods, "ns", "")
	now, err4 := Now()
	random, err5 := Random(2)
	web, err6 := HTTP("POST", "https://a.test", map[string]string{"X": "y"}, []byte("body"))
	data, err7 := Config("ns", "c")
	if err := errors.Join(err1, err2, err3, err4, err5, err6, err7); err != nil {
		t.Fatal(err)
	}
	if !get.Get("kind").Is("Pod") || items.Len() != 2 || !can || now != 1700000000000000001 || string(random) != "\x01\x02" ||
		web.Status != 200 || string(web.Body) != "hi" || !web.Headers.Get("A").Is("b") || !data.Get("k").Is("v") {
		t.Errorf("%s %s %v %d %x %+v %s", get.Raw(), items.Raw(), can, now, random, web, data.Raw())
	}
	want := `kube.get {"version":"v1","resource":"pods","namespace":"ns","name":"a"}
kube.list {"version":"v1","resource":"pods","labelSelector":"a=b"}
authz.can_i {"verb":"get","resource":"pods","namespace":"ns"}
clock.wall {}
random {"bytes":2}
http {"method":"POST","url":"https://a.test","headers":{"X":"y"},"body":"Ym9keQ=="}
config.read {"namespace":"ns","name":"c"}`
	if got := strings.Join(calls, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
