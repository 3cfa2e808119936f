package webhook_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/proa-project/proa/api"
	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/admission/policy"
	"github.com/proa-project/proa/httpapi/admission/webhook"
	"github.com/proa-project/proa/httpapi/request"
)

// A server answers reviews on loopback.
type server struct {
	*httptest.Server
	conns atomic.Int32 // that were opened
	last  atomic.Pointer[string]
}

// serve starts a server; answer gets the review's uid and writes the answer.
func serve(t testing.TB, answer func(w http.ResponseWriter, r *http.Request, uid string)) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client has gone
		}
		text := r.URL.String() + "\n" + string(body)
		s.last.Store(&text)
		var review struct{ Request struct{ UID string } }
		if err := json.Unmarshal(body, &review); err != nil {
			t.Error(err)
		}
		answer(w, r, review.Request.UID)
	}))
	s.Config.ConnState = connCounter(&s.conns)
	s.Config.ErrorLog = quiet()
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// reply is the answer with some members of a response.
func reply(members string) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, _ *http.Request, uid string) {
		_, _ = fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,%s}}`, uid, members) // the client may have gone
	}
}

// ca returns the certificate of a server as a caBundle.
func (s *server) ca() string {
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

const rules = `rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*/*"]}]`

// hook returns the one policy of a webhook at the server; more overrides its
// members.
func hook(t testing.TB, c webhook.Config, s *server, mutates bool, more string) policy.Policy {
	t.Helper()
	members := map[string]any{
		"name": "a.example.test", "sideEffects": "None", "admissionReviewVersions": []string{"v1", "v1beta1"},
	}
	if s != nil {
		members["clientConfig"] = map[string]string{"url": s.URL + "/path", "caBundle": s.ca()}
	}
	for _, text := range []string{rules, more} {
		extra := map[string]any{}
		if err := yaml.Unmarshal([]byte("{"+text+"}"), &extra); err != nil {
			t.Fatal(err)
		}
		maps.Copy(members, extra)
	}
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"name": "conf"}, "webhooks": []any{members}})
	if err != nil {
		t.Fatal(err)
	}
	if mutates {
		o := &admissionregistrationv1.MutatingWebhookConfiguration{}
		decode(t, string(text), o)
		c.Mutating = func() []*admissionregistrationv1.MutatingWebhookConfiguration {
			return []*admissionregistrationv1.MutatingWebhookConfiguration{o}
		}
	} else {
		o := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		decode(t, string(text), o)
		c.Validating = func() []*admissionregistrationv1.ValidatingWebhookConfiguration {
			return []*admissionregistrationv1.ValidatingWebhookConfiguration{o}
		}
	}
	src := webhook.New(c)
	t.Cleanup(src.Close)
	set, err := src.Policies(context.Background())
	if err != nil || len(set.Mutate)+len(set.Validate) != 1 {
		t.Fatal(set, err)
	}
	return append(set.Mutate, set.Validate...)[0]
}

func decode(t testing.TB, text string, obj api.Object) {
	t.Helper()
	if _, err := api.Decode([]byte(text), api.MediaYAML, obj, api.Strict); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

const pod = `{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop, labels: {app: web}}, spec: {containers: [{name: a, image: "web:1"}]}}`

// write makes the input for a write of an object in YAML.
func write(t testing.TB, op admission.Operation, text string) *policy.Input {
	t.Helper()
	var meta metav1.TypeMeta
	if err := yaml.Unmarshal([]byte(text), &meta); err != nil {
		t.Fatal(err)
	}
	obj := api.ByKind(meta.GroupVersionKind()).New()
	decode(t, text, obj)
	data, err := api.Encode(obj)
	if err != nil {
		t.Fatal(err)
	}
	in := &policy.Input{Phase: pluginsv1.PhaseValidate, Request: &admission.Request{
		Operation: op, Resource: api.ByType(obj), Namespace: obj.GetNamespace(), Name: obj.GetName(),
		User: &request.User{Name: "ann", UID: "7", Groups: []string{"devs"}, Extra: map[string][]string{"k": {"v"}}}, Options: &metav1.CreateOptions{FieldManager: "me"},
	}}
	if op == admission.Delete {
		in.Request.OldObject, in.OldObject = obj, data
	} else {
		in.Request.Object, in.Object = obj, data
	}
	return in
}

// outcome is an answer in one line, without what differs from run to run.
func outcome(s *server, v *policy.Verdict, err error) string {
	f := (*policy.Failure)(nil)
	text := "allowed"
	switch {
	case errors.As(err, &f) && f.Ignore:
		text = "ignored: " + f.Reason + ": " + f.Detail
	case errors.As(err, &f):
		text = fmt.Sprintf("failed: %s: %d %s", f.Reason, f.Status.Code, f.Status.Message)
	case err != nil:
		text = "error: " + err.Error()
	case v.Denied != nil:
		text = fmt.Sprintf("denied: %d %s %s", v.Denied.Code, v.Denied.Reason, v.Denied.Message)
	case v.Skipped:
		text = "skipped"
	case v.Patch != nil:
		text = "patched: " + string(v.Patch)
	}
	if s != nil {
		text = strings.ReplaceAll(text, s.URL, "https://server")
		text = strings.ReplaceAll(text, s.Listener.Addr().String(), "server")
	}
	return text
}

// encoded is base64.
func encoded(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
