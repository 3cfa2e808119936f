package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/admission/policy"
	"github.com/proa-project/proa/httpapi/admission/webhook"
)

const (
	calling = `500 Internal error occurred: failed calling webhook "a.example.test": `
	post    = `failed to call webhook: Post "https://server/path?timeout=10s": `
	invalid = "failed: BadReply: " + calling + "received invalid webhook response: "
)

func raw(code int, contentType, body string) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, _ *http.Request, _ string) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body)) // the client may have gone
	}
}

func TestJudge(t *testing.T) {
	patch := `"patch":"` + encoded(`[{"op":"add","path":"/metadata/labels/a","value":"b"}]`) + `"`
	for _, tt := range []struct {
		name    string
		answer  func(http.ResponseWriter, *http.Request, string)
		mutates bool
		more    string
		want    string
	}{
		{"allows", reply(`"allowed":true`), false, "", "allowed"},
		{"denies", reply(`"allowed":false,"status":{"message":"no","code":418,"reason":"Teapot"}`), false, "", `denied: 418 Teapot admission webhook "a.example.test" denied the request: no`},
		{"denies with a reason", reply(`"allowed":false,"status":{"code":200,"reason":"Teapot"}`), false, "", `denied: 400 Teapot admission webhook "a.example.test" denied the request: Teapot`},
		{"denies without a word", reply(`"allowed":false`), false, "", `denied: 400  admission webhook "a.example.test" denied the request without explanation`},
		{"denies, ignored or not", reply(`"allowed":false`), false, "failurePolicy: Ignore", `denied: 400  admission webhook "a.example.test" denied the request without explanation`},
		{"mutates", reply(`"allowed":true,"patchType":"JSONPatch",` + patch), true, "", `patched: [{"op":"add","path":"/metadata/labels/a","value":"b"}]`},
		{"mutates nothing", reply(`"allowed":true`), true, "", "allowed"},
		{"mutates by nothing", reply(`"allowed":true,"patchType":"JSONPatch","patch":"` + encoded("[]") + `"`), true, "", "allowed"},
		{"mutates by nonsense", reply(`"allowed":true,"patchType":"JSONPatch","patch":"` + encoded("nonsense") + `"`), true, "", "failed: BadReply: 500 Internal error occurred: invalid character 'o' in literal null (expecting 'u')"},
		{"mutates without a type", reply(`"allowed":true,` + patch), true, "", invalid + "webhook returned response.patch but not response.patchType"},
		{"mutates without a patch", reply(`"allowed":true,"patchType":"JSONPatch"`), true, "", invalid + "webhook returned response.patchType but not response.patch"},
		{"mutates by another type", reply(`"allowed":true,"patchType":"Odd",` + patch), true, "", "failed: BadReply: " + calling + `unsupported patch type "Odd"`},
		{"mutates while validating", reply(`"allowed":true,"patchType":"JSONPatch",` + patch), false, "", invalid + "validating webhook may not return response.patch"},
		{"a patch type while validating", reply(`"allowed":true,"patchType":"JSONPatch"`), false, "", invalid + "validating webhook may not return response.patchType"},
		{"v1beta1", raw(200, "application/json", `{"response":{"allowed":true,`+patch+`}}`), true, "admissionReviewVersions: [v2, v1beta1]", `patched: [{"op":"add","path":"/metadata/labels/a","value":"b"}]`},
		{"no version", reply(`"allowed":true`), false, "admissionReviewVersions: [v2]", "failed: BadConfiguration: " + calling + "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)"},
		{"wrong uid", raw(200, "application/json", `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"x","allowed":true}}`), false, "", invalid + `expected response.uid="<uid>", got "x"`},
		{"wrong kind", func(w http.ResponseWriter, _ *http.Request, uid string) {
			_, _ = fmt.Fprintf(w, `{"apiVersion":"v1","kind":"Pod","response":{"uid":%q,"allowed":true}}`, uid) // the client may have gone
		}, false, "", invalid + "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /v1, Kind=Pod"},
		{"no response", raw(200, "application/json", `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`), false, "", invalid + "webhook response was absent"},
		{"garbage", raw(200, "application/json", "garbage"), false, "", "failed: BadReply: " + calling + "failed to call webhook: couldn't get version/kind; json parse error: invalid character 'g' looking for beginning of value"},
		{"garbage, ignored", raw(200, "application/json", "garbage"), false, "failurePolicy: Ignore", `ignored: BadReply: failed calling webhook "a.example.test": failed to call webhook: couldn't get version/kind; json parse error: invalid character 'g' looking for beginning of value`},
		{"nothing", raw(200, "application/json", ""), false, "", "failed: BadReply: " + calling + "failed to call webhook: couldn't get version/kind; json parse error: unexpected end of JSON input"},
		{"other types", raw(200, "application/json", `{"response":{"allowed":"yes"}}`), false, "", "failed: BadReply: " + calling + "failed to call webhook: couldn't get version/kind; json parse error: json: cannot unmarshal string into Go struct field response.response.allowed of type bool"},
		{"internal error", raw(500, "text/plain", "oh no"), false, "", "failed: CallFailed: " + calling + `failed to call webhook: an error on the server ("oh no") has prevented the request from succeeding`},
		{"not found", raw(404, "text/plain", ""), false, "", "failed: CallFailed: " + calling + "failed to call webhook: the server could not find the requested resource"},
		{"elsewhere", func(w http.ResponseWriter, r *http.Request, _ string) {
			http.Redirect(w, r, "/other", http.StatusTemporaryRedirect)
		}, false, "", "failed: CallFailed: " + calling + "failed to call webhook: the server responded with the status code 307 but did not return more information"},
		{"hangs up", func(http.ResponseWriter, *http.Request, string) { panic(http.ErrAbortHandler) }, false, "", "failed: CallFailed: " + calling + post + "EOF"},
		{"too much", func(w http.ResponseWriter, _ *http.Request, _ string) {
			_, _ = w.Write([]byte(strings.Repeat("x", 9<<20))) // the client hangs up
		}, false, "", "failed: CallFailed: " + calling + "failed to call webhook: the response is larger than 8388608 bytes"},
		{"another CA", reply(`"allowed":true`), false, `clientConfig: {url: "https://server/path"}`, "failed: CallFailed: " + calling + post + "tls: failed to verify certificate: x509: certificate signed by unknown authority"},
		{"no CA", reply(`"allowed":true`), false, `clientConfig: {url: "https://server/path", caBundle: eA==}`, "failed: BadConfiguration: " + calling + "could not get REST client: unable to load root certificates: unable to parse bytes as PEM block"},
		{"unknown service", reply(`"allowed":true`), false, `clientConfig: {service: {name: svc, namespace: ns, path: /x}}`, "failed: CallFailed: " + calling + `failed to call webhook: Post "https://svc.ns.svc:443/x?timeout=10s": service "svc" not found`},
		{"condition does not hold", reply(`"allowed":false`), false, `matchConditions: [{name: a, expression: "object.metadata.name != 'p'"}]`, "skipped"},
		{"condition holds", reply(`"allowed":true`), false, `matchConditions: [{name: a, expression: "authorizer.path('/').check('get').allowed() == false && request.namespace == 'shop'"}]`, "allowed"},
		{"condition fails", reply(`"allowed":true`), false, `matchConditions: [{name: a, expression: "object.nope == 1"}]`, `failed: EvaluationFailed: 403 pods "p" is forbidden: expression 'object.nope == 1' resulted in error: no such key: nope`},
		{"condition fails, ignored", reply(`"allowed":true`), false, `failurePolicy: Ignore, matchConditions: [{name: a, expression: "object.nope == 1"}]`, `ignored: EvaluationFailed: expression 'object.nope == 1' resulted in error: no such key: nope`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, tt.answer)
			p := hook(t, webhook.Config{}, s, tt.mutates, strings.ReplaceAll(tt.more, "https://server", s.URL))
			v, err := p.Judge(context.Background(), write(t, admission.Create, pod))
			got := outcome(s, v, err)
			if i := strings.Index(got, `response.uid="`); i >= 0 {
				got = got[:i] + `response.uid="<uid>` + got[i+len(`response.uid="`)+36:]
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What goes over the wire is upstream's AdmissionReview.
func TestJudge_request(t *testing.T) {
	s := serve(t, reply(`"allowed":true`))
	for _, tt := range []struct {
		op   admission.Operation
		want string
	}{
		{admission.Create, `,"object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"shop","labels":{"app":"web"}},"spec":{"containers":[{"name":"a","image":"web:1","resources":{}}]},"status":{}},"oldObject":null,"dryRun":false`},
		{admission.Delete, `,"object":null,"oldObject":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"shop","labels":{"app":"web"}},"spec":{"containers":[{"name":"a","image":"web:1","resources":{}}]},"status":{}},"dryRun":false`},
	} {
		if v, err := hook(t, webhook.Config{}, s, false, "timeoutSeconds: 3").Judge(context.Background(), write(t, tt.op, pod)); err != nil || v.Denied != nil {
			t.Fatal(v, err)
		}
		got := *s.last.Load()
		i := strings.Index(got, `"uid":"`) + len(`"uid":"`)
		got = got[:i] + got[i+36:]
		want := "/path?timeout=3s\n" + `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"","kind":{"group":"","version":"v1","kind":"Pod"},"resource":{"group":"","version":"v1","resource":"pods"},` +
			`"requestKind":{"group":"","version":"v1","kind":"Pod"},"requestResource":{"group":"","version":"v1","resource":"pods"},"name":"p","namespace":"shop","operation":"` + string(tt.op) + `",` +
			`"userInfo":{"username":"ann","uid":"7","groups":["devs"],"extra":{"k":["v"]}}` + tt.want + `,"options":{"apiVersion":"meta.k8s.io/v1","fieldManager":"me","kind":"CreateOptions"}}}`
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

// A call ends with its own timeout, with the request's budget, or with the
// request, whichever is first.
func TestJudge_slow(t *testing.T) {
	release := make(chan struct{})
	s := serve(t, func(_ http.ResponseWriter, r *http.Request, _ string) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	defer close(release)
	p := hook(t, webhook.Config{}, s, false, "")
	in := write(t, admission.Create, pod)
	in.Deadline = time.Now().Add(50 * time.Millisecond)
	v, err := p.Judge(context.Background(), in)
	if got, want := outcome(s, v, err), "failed: DeadlineExceeded: "+calling+strings.ReplaceAll(post, "10s", "1s")+"context deadline exceeded"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := p.Judge(ctx, write(t, admission.Create, pod)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if testing.Short() {
		return
	}
	begin := time.Now()
	v, err = hook(t, webhook.Config{}, s, false, "timeoutSeconds: 1, failurePolicy: Ignore").Judge(context.Background(), write(t, admission.Create, pod))
	if got := outcome(s, v, err); !strings.HasPrefix(got, "ignored: DeadlineExceeded: ") || time.Since(begin) > 5*time.Second {
		t.Error(got, time.Since(begin))
	}
}

func TestJudge_dryRun(t *testing.T) {
	s := serve(t, reply(`"allowed":true`))
	for class, want := range map[string]string{
		"None": "allowed", "NoneOnDryRun": "allowed",
		"Some": `denied: 400 BadRequest admission webhook "a.example.test" does not support dry run`,
	} {
		in := write(t, admission.Create, pod)
		in.Request.DryRun = true
		v, err := hook(t, webhook.Config{}, s, false, "sideEffects: "+class).Judge(context.Background(), in)
		if got := outcome(s, v, err); got != want {
			t.Errorf("%s: got %s, want %s", class, got, want)
		}
	}
}

// Warnings and annotations go on, the latter under the webhook's name.
func TestJudge_annotations(t *testing.T) {
	s := serve(t, reply(`"allowed":true,"warnings":["careful"],"auditAnnotations":{"k":"v"},"patchType":"JSONPatch","patch":"`+encoded(`[{"op":"remove","path":"/spec"}]`)+`"`))
	in := write(t, admission.Create, pod)
	p := hook(t, webhook.Config{}, s, true, "")
	for _, round := range []string{"0", "1"} {
		v, err := p.Judge(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{
			"a.example.test/k": "v",
			"mutation.webhook.admission.k8s.io/round_" + round + "_index_0": `{"configuration":"conf","webhook":"a.example.test","mutated":true}`,
		}
		if round == "0" {
			want["patch.webhook.admission.k8s.io/round_0_index_0"] = `{"configuration":"conf","webhook":"a.example.test","patch":[{"op":"remove","path":"/spec"}],"patchType":"JSONPatch"}`
		} else {
			want["patch.webhook.admission.k8s.io/round_1_index_0"] = `{"configuration":"conf","webhook":"a.example.test","patch":[{"op":"remove","path":"/spec"}],"patchType":"JSONPatch"}`
		}
		if diff := cmp.Diff(want, v.Annotations); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"careful"}, v.Warnings); diff != "" {
			t.Error(diff)
		}
		for k, text := range v.Annotations {
			in.Request.Annotate(k, text)
		}
	}
	v, err := p.Judge(context.Background(), write(t, admission.Create, `{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: shop}, stringData: {a: b}}`))
	if _, told := v.Annotations["patch.webhook.admission.k8s.io/round_0_index_0"]; err != nil || told {
		t.Error("what is in a Secret is told", v, err)
	}
	s.Close()
	if _, err := hook(t, webhook.Config{}, s, false, "failurePolicy: Ignore").Judge(context.Background(), in); err == nil {
		t.Fatal("a closed server answers")
	}
	if got := in.Request.Annotations["failed-open.validating.webhook.admission.k8s.io/round_0_index_0"]; got != "a.example.test" {
		t.Error(in.Request.Annotations)
	}
}

// A service is reached where it is resolved to, under its own name.
func TestJudge_service(t *testing.T) {
	s := serve(t, reply(`"allowed":true`))
	var asked string
	c := webhook.Config{Resolve: func(_ context.Context, namespace, name string, port int32) (string, error) {
		asked = fmt.Sprintf("%s/%s:%d", namespace, name, port)
		return s.Listener.Addr().String(), nil
	}}
	p := hook(t, c, nil, false, `clientConfig: {service: {name: svc, namespace: ns, port: 8443}, caBundle: `+s.ca()+`}`)
	v, err := p.Judge(context.Background(), write(t, admission.Create, pod))
	// the certificate of the test is for example.com
	if got := outcome(s, v, err); asked != "ns/svc:8443" || !strings.Contains(got, `Post "https://svc.ns.svc:8443/?timeout=10s": tls: failed to verify certificate: x509: certificate is valid for example.com`) {
		t.Error(asked, got)
	}
}

// Calls share connections, also those of another version of the configuration.
func TestJudge_connections(t *testing.T) {
	s := serve(t, reply(`"allowed":true`))
	o := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	decode(t, `{metadata: {name: conf, resourceVersion: "1"}, webhooks: [{name: a.example.test, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {url: "`+s.URL+`", caBundle: `+s.ca()+`}, `+rules+`}]}`, o)
	src := webhook.New(webhook.Config{Validating: func() []*admissionregistrationv1.ValidatingWebhookConfiguration {
		return []*admissionregistrationv1.ValidatingWebhookConfiguration{o}
	}})
	defer src.Close()
	for i := range 20 {
		if i%5 == 0 {
			o = o.DeepCopy()
			o.ResourceVersion = fmt.Sprint(i)
			src.Invalidate()
		}
		set, err := src.Policies(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if v, err := set.Validate[0].Judge(context.Background(), write(t, admission.Create, pod)); err != nil || v.Denied != nil {
			t.Fatal(v, err)
		}
	}
	if n := s.conns.Load(); n != 1 {
		t.Errorf("%d connections for 20 calls", n)
	}
}

func TestMatches(t *testing.T) {
	c := webhook.Config{Namespace: func(_ context.Context, name string) (labels.Set, error) {
		if name != "shop" {
			return nil, errors.New("no such namespace")
		}
		return labels.Set{"tier": "front"}, nil
	}}
	const event = `{apiVersion: v1, kind: Event, metadata: {name: a, namespace: shop}, involvedObject: {kind: Pod, namespace: shop, name: p}, message: hello}`
	for _, tt := range []struct {
		name, more, object string
		want               bool
	}{
		{"all", "", pod, true},
		{"other kind", `rules: [{operations: ["*"], apiGroups: [apps], apiVersions: ["*"], resources: ["*"]}]`, pod, false},
		{"namespace", `namespaceSelector: {matchLabels: {tier: front}}`, pod, true},
		{"other namespace", `namespaceSelector: {matchLabels: {tier: back}}`, pod, false},
		{"object", `objectSelector: {matchLabels: {app: web}}`, pod, true},
		{"other object", `objectSelector: {matchLabels: {app: api}}`, pod, false},
		{"equivalent", `rules: [{operations: ["*"], apiGroups: [events.k8s.io], apiVersions: [v1], resources: ["*"]}]`, event, true},
		{"exact", `matchPolicy: Exact, rules: [{operations: ["*"], apiGroups: [events.k8s.io], apiVersions: [v1], resources: ["*"]}]`, event, false},
		{"webhooks", "", `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: a}}`, false},
		{"plugins", "", `{apiVersion: plugins.proa.io/v1, kind: WasmModule, metadata: {name: a}}`, false},
	} {
		p := hook(t, c, nil, false, tt.more)
		if got, err := p.Matches(context.Background(), write(t, admission.Create, tt.object).Request); got != tt.want || err != nil {
			t.Errorf("%s: %v, %v", tt.name, got, err)
		}
	}
	in := write(t, admission.Create, strings.Replace(pod, "shop", "other", 1))
	if _, err := hook(t, c, nil, false, `namespaceSelector: {matchLabels: {tier: front}}`).Matches(context.Background(), in.Request); err == nil {
		t.Error("what is not known does not match")
	}
}

// A webhook for one form of a kind sees and changes writes of the other.
func TestJudge_equivalent(t *testing.T) {
	s := serve(t, reply(`"allowed":true,"patchType":"JSONPatch","patch":"`+encoded(`[{"op":"replace","path":"/note","value":"bye"}]`)+`"`))
	p := hook(t, webhook.Config{}, s, true, `rules: [{operations: ["*"], apiGroups: [events.k8s.io], apiVersions: [v1], resources: [events]}]`)
	v, err := p.Judge(context.Background(), write(t, admission.Create, `{apiVersion: v1, kind: Event, metadata: {name: a, namespace: shop}, involvedObject: {kind: Pod, namespace: shop, name: p}, message: hello}`))
	if err != nil || !strings.Contains(string(v.Object), `"message":"bye"`) || !strings.Contains(string(v.Object), `"kind":"Event","apiVersion":"v1"`) {
		t.Fatal(v, err)
	}
	if got := *s.last.Load(); !strings.Contains(got, `"note":"hello"`) || !strings.Contains(got, `"kind":{"group":"events.k8s.io","version":"v1","kind":"Event"}`) || !strings.Contains(got, `"requestKind":{"group":"","version":"v1","kind":"Event"}`) {
		t.Error(got)
	}
}

// In the chain, webhooks stand after CEL policies and see what they have left.
func TestChain(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request, uid string) {
		if strings.Contains(r.URL.Path, "validate") {
			reply(`"allowed":false,"status":{"message":"no","code":403,"reason":"Forbidden"}`)(w, r, uid)
			return
		}
		reply(`"allowed":true,"patchType":"JSONPatch","patch":"`+encoded(`[{"op":"add","path":"/metadata/labels/b","value":"c"}]`)+`"`)(w, r, uid)
	})
	config := func(path string) string {
		return `webhooks: [{name: a.example.test, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {url: "` + s.URL + path + `", caBundle: ` + s.ca() + `}, ` + rules + `}]`
	}
	m, v := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
	decode(t, `{metadata: {name: m, annotations: {plugins.proa.io/order: "7"}}, `+config("/mutate")+`}`, m)
	decode(t, `{metadata: {name: v}, `+config("/validate")+`}`, v)
	src := webhook.New(webhook.Config{
		Mutating: func() []*admissionregistrationv1.MutatingWebhookConfiguration {
			return []*admissionregistrationv1.MutatingWebhookConfiguration{m}
		},
		Validating: func() []*admissionregistrationv1.ValidatingWebhookConfiguration {
			return []*admissionregistrationv1.ValidatingWebhookConfiguration{v}
		},
	})
	defer src.Close()
	if set, err := src.Policies(context.Background()); err != nil || set.Mutate[0].Order() != 7 || set.Mutate[0].ID() != (policy.ID{Kind: "MutatingWebhook", Name: "m/a.example.test"}) {
		t.Error(set, err)
	}
	chain := policy.New(policy.Config{Sources: []policy.Source{src}})
	r := write(t, admission.Create, pod).Request
	if err := chain.Mutator().Mutate(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	err := chain.Validator().Validate(context.Background(), r)
	d := (*admission.Denial)(nil)
	if !errors.As(err, &d) || d.Status.Message != `admission webhook "a.example.test" denied the request: no` || d.Status.Code != 403 {
		t.Error(err)
	}
	if got := *s.last.Load(); !strings.Contains(got, `"labels":{"app":"web","b":"c"}`) {
		t.Error(got)
	}
}

// The webhooks of one configuration are called in the order in which they stand
// there, configurations in that of their names.
func TestChain_order(t *testing.T) {
	var got []string
	s := serve(t, func(w http.ResponseWriter, r *http.Request, uid string) {
		got = append(got, r.URL.Path)
		reply(`"allowed":true`)(w, r, uid)
	})
	one := func(name string) string {
		return `{name: ` + name + `.example.test, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {url: "` + s.URL + `/` + name + `", caBundle: ` + s.ca() + `}, ` + rules + `}`
	}
	var list []*admissionregistrationv1.ValidatingWebhookConfiguration
	for _, text := range []string{
		`{metadata: {name: beta}, webhooks: [` + one("zz") + `, ` + one("aa") + `, ` + one("mm") + `]}`, `{metadata: {name: alpha}, webhooks: [` + one("kk") + `]}`,
	} {
		o := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		decode(t, text, o)
		list = append(list, o)
	}
	src := webhook.New(webhook.Config{Validating: func() []*admissionregistrationv1.ValidatingWebhookConfiguration { return list }})
	defer src.Close()
	chain := policy.New(policy.Config{Sources: []policy.Source{src}})
	if err := chain.Validator().Validate(context.Background(), write(t, admission.Create, pod).Request); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/kk", "/zz", "/aa", "/mm"}, got); diff != "" {
		t.Error(diff)
	}
}

func BenchmarkJudge(b *testing.B) {
	s := serve(b, reply(`"allowed":true`))
	p := hook(b, webhook.Config{}, s, false, "")
	in := write(b, admission.Create, pod)
	b.ReportAllocs()
	for b.Loop() {
		if v, err := p.Judge(context.Background(), in); err != nil || v.Denied != nil {
			b.Fatal(v, err)
		}
	}
}

// Calls go on while configurations change and the server drops connections;
// nothing is left behind (see TestMain).
func TestJudge_hammer(t *testing.T) {
	var n atomic.Int32
	s := serve(t, func(w http.ResponseWriter, r *http.Request, uid string) {
		if n.Add(1)%7 == 0 {
			panic(http.ErrAbortHandler)
		}
		reply(`"allowed":true`)(w, r, uid)
	})
	var version atomic.Int32
	src := webhook.New(webhook.Config{Validating: func() []*admissionregistrationv1.ValidatingWebhookConfiguration {
		v := strconv.Itoa(int(version.Load()))
		o := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		decode(t, `{metadata: {name: conf, resourceVersion: "`+v+`"}, webhooks: [{name: a.example.test, failurePolicy: Ignore, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {url: "`+s.URL+`/`+v+`", caBundle: `+s.ca()+`}, `+rules+`}]}`, o)
		return []*admissionregistrationv1.ValidatingWebhookConfiguration{o}
	}})
	defer src.Close()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				version.Add(1)
				src.Invalidate()
				set, err := src.Policies(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				v, err := set.Validate[0].Judge(context.Background(), write(t, admission.Create, pod))
				if got := outcome(s, v, err); got != "allowed" && !strings.HasPrefix(got, "ignored: CallFailed: ") {
					t.Error(got)
				}
			}
		})
	}
	wg.Wait()
}
