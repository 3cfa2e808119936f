package client_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/test/apiserver"
)

func rest(t testing.TB, h http.HandlerFunc) *client.REST {
	t.Helper()
	c, err := client.New(client.Config{Transport: client.InProcess(h), Token: "secret", UserAgent: "me"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestErrorsAreStatusErrors(t *testing.T) {
	tests := []struct {
		name string
		code int
		body string
		is   func(error) bool
	}{
		{"a Status", 404, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"gone"}`, apierrors.IsNotFound},
		{"no body", 404, "", apierrors.IsNotFound},
		{"text", 403, "no", apierrors.IsForbidden},
		{"another object", 409, `{"kind":"Pod"}`, apierrors.IsConflict},
		{"a proxy's page", 502, "<html>", func(err error) bool { return !apierrors.IsNotFound(err) }},
		{"unauthorized", 401, "", apierrors.IsUnauthorized},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c := client.For[*corev1.Pod](rest(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer secret" || r.UserAgent() != "me" {
					t.Errorf("request carries %v", r.Header)
				}
				w.WriteHeader(tc.code)
				io.WriteString(w, tc.body)
			}))
			_, err := c.Get(t.Context(), "a", "b")
			var st *apierrors.StatusError
			if !errors.As(err, &st) || !tc.is(err) || int(st.ErrStatus.Code) != tc.code {
				t.Errorf("got %#v", err)
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		busy := 2
		c := client.For[*corev1.ConfigMap](rest(t, func(w http.ResponseWriter, _ *http.Request) {
			calls++
			if calls <= busy {
				w.Header().Set("Retry-After", "3")
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			io.WriteString(w, `{"metadata":{"name":"b"}}`)
		}))
		begin := time.Now()
		cm, err := c.Get(t.Context(), "a", "b")
		if err != nil || cm.Name != "b" || calls != 3 || time.Since(begin) != 6*time.Second {
			t.Errorf("got %v, %v after %d calls and %v", cm, err, calls, time.Since(begin))
		}
		calls, busy = 0, 100
		if _, err = c.Get(t.Context(), "a", "b"); !apierrors.IsTooManyRequests(err) || calls != 6 {
			t.Errorf("got %v after %d calls", err, calls)
		}
		calls = 0 // a create may not be repeated
		if _, err = c.Create(t.Context(), &corev1.ConfigMap{}); !apierrors.IsTooManyRequests(err) || calls != 1 {
			t.Errorf("got %v after %d calls", err, calls)
		}
	})
}

func TestNamesThatWouldChangeThePath(t *testing.T) {
	c := client.For[*corev1.Pod](rest(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("request for %q", r.URL.Path) }))
	for _, name := range []string{"", "..", ".", "a/b", "a%2fb"} {
		if _, err := c.Get(t.Context(), "default", name); !apierrors.IsBadRequest(err) {
			t.Errorf("name %q: %v", name, err)
		}
		if err := c.Delete(t.Context(), name, "a", metav1.DeleteOptions{}); !apierrors.IsBadRequest(err) {
			t.Errorf("namespace %q: %v", name, err)
		}
	}
}

func TestForRefusesWhatIsNoKind(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	client.For[*metav1.PartialObjectMetadata](rest(t, nil))
}

// TestServer goes through all verbs, in process and over TLS and HTTP/2.
func TestServer(t *testing.T) {
	s := apiserver.New(t)
	remote, _ := s.Listen()
	for name, c := range map[string]*client.REST{"in process": s.REST, "TLS": remote} {
		t.Run(name, func(t *testing.T) { verbs(t, c, strings.ReplaceAll(strings.ToLower(name), " ", "-")) })
	}
}

func verbs(t *testing.T, c *client.REST, name string) {
	t.Helper()
	ctx := t.Context()
	maps := client.For[*corev1.ConfigMap](c)
	w, err := maps.Watch(ctx, "default", metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	next := func(want watch.EventType) *corev1.ConfigMap {
		t.Helper()
		ev, gotErr := w.Next(ctx)
		if gotErr != nil {
			t.Fatal(gotErr)
		}
		if ev.Type != want || ev.Object.Name != name || ev.ResourceVersion == "" || ev.ResourceVersion != ev.Object.ResourceVersion {
			t.Errorf("event %s of %q at %q, want %s", ev.Type, ev.Object.Name, ev.ResourceVersion, want)
		}
		return ev.Object
	}
	made, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string]string{"a": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	if next(watch.Added).UID != made.UID || made.UID == "" || made.Kind != "ConfigMap" {
		t.Errorf("created %+v", made)
	}
	if _, gotErr := maps.Create(ctx, made); gotErr == nil {
		t.Error("created with a resourceVersion")
	}
	stale := made.DeepCopy()
	made.Data["a"] = "2"
	if _, err = maps.Update(ctx, made); err != nil {
		t.Fatal(err)
	}
	next(watch.Modified)
	if _, gotErr := maps.Update(ctx, stale); !apierrors.IsConflict(gotErr) {
		t.Errorf("stale update: %v", gotErr)
	}
	made, err = maps.Patch(ctx, "default", name, types.MergePatchType, []byte(`{"data":{"b":"3"},"metadata":{"labels":{"l":"v"}}}`))
	if err != nil || made.Data["a"] != "2" || made.Data["b"] != "3" {
		t.Errorf("patched %+v, %v", made, err)
	}
	next(watch.Modified)
	list, err := maps.List(ctx, "", metav1.ListOptions{LabelSelector: "l=v"})
	if err != nil || len(list.Items) != 1 || list.Items[0].Data["b"] != "3" || list.ResourceVersion == "" {
		t.Errorf("list %+v, %v", list, err)
	}
	meta := client.Metadata(c, maps.Resource())
	if m, gotErr := meta.Get(ctx, "default", name); gotErr != nil || m.UID != made.UID || m.Kind != "PartialObjectMetadata" {
		t.Errorf("metadata %+v, %v", m, gotErr)
	}
	if l, gotErr := meta.List(ctx, "default", metav1.ListOptions{LabelSelector: "l=v"}); gotErr != nil || len(l.Items) != 1 || l.Items[0].UID != made.UID {
		t.Errorf("metadata list %+v, %v", l, gotErr)
	}
	wrong := types.UID("wrong")
	if gotErr := maps.Delete(ctx, "default", name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &wrong}}); !apierrors.IsConflict(gotErr) {
		t.Errorf("delete with a wrong UID: %v", gotErr)
	}
	if gotErr := c.DeleteCollection(ctx, maps.Resource(), "default", metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "l=v"}); gotErr != nil {
		t.Error(gotErr)
	}
	gone := next(watch.Deleted)
	if gone.ResourceVersion == made.ResourceVersion {
		t.Error("a deletion carries the revision of the last change, so a watch cannot resume from it")
	}
	if gotErr := maps.Delete(ctx, "default", name, metav1.DeleteOptions{}); !apierrors.IsNotFound(gotErr) {
		t.Errorf("second delete: %v", gotErr)
	}
	subresources(t, c, name)
	pages(t, c, name)

	// The server answers a revision that it has not reached with an error.
	_, err = maps.List(ctx, "", metav1.ListOptions{ResourceVersion: "99999999", ResourceVersionMatch: metav1.ResourceVersionMatchExact})
	if err == nil {
		t.Error("listed the future")
	}
}

func subresources(t *testing.T, c *client.REST, name string) {
	t.Helper()
	ctx := t.Context()
	pods := client.For[*corev1.Pod](c)
	p, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Post(ctx, pods.Resource(), "default", name, "binding", &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Target: corev1.ObjectReference{Kind: "Node", Name: "n1"},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err = pods.Get(ctx, "default", p.Name)
	if err != nil || p.Spec.NodeName != "n1" {
		t.Fatalf("bound to %q, %v", p.Spec.NodeName, err)
	}
	p.Status.Phase = corev1.PodRunning
	p.Spec.NodeName = "n2" // UpdateStatus leaves it
	if p, err = pods.UpdateStatus(ctx, p); err != nil || p.Status.Phase != corev1.PodRunning || p.Spec.NodeName != "n1" {
		t.Errorf("status update: %+v, %v", p, err)
	}
	if err := pods.Delete(ctx, "default", name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Error(err)
	}
}

func pages(t *testing.T, c *client.REST, prefix string) {
	t.Helper()
	ctx := t.Context()
	secrets := client.For[*corev1.Secret](c)
	for i := range 7 {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("%s-%d", prefix, i), Labels: map[string]string{"of": prefix}}}
		if _, err := secrets.Create(ctx, s); err != nil {
			t.Fatal(err)
		}
	}
	o := metav1.ListOptions{Limit: 3, LabelSelector: "of=" + prefix}
	var names, rv []string
	for {
		l, err := secrets.List(ctx, "default", o)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range l.Items {
			names = append(names, s.Name)
		}
		rv = append(rv, l.ResourceVersion)
		if o.Continue = l.Continue; o.Continue == "" {
			break
		}
	}
	if len(names) != 7 || len(rv) != 3 || rv[0] != rv[2] {
		t.Errorf("pages %v of %v", names, rv)
	}
}

func TestWatch_errorsAndBookmarks(t *testing.T) {
	frames := []string{
		`{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}}}}`,
		`{"object":{"metadata":{"name":"x","resourceVersion":"8"}},"type":"ADDED"}`,
		``,
		`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"too old"}}`,
	}
	c := client.For[*corev1.Pod](rest(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("resourceVersion") != "5" || r.URL.Query().Get("allowWatchBookmarks") != "true" {
			t.Errorf("query is %q", r.URL.RawQuery)
		}
		io.WriteString(w, strings.Join(frames, "\n")+"\n")
	}))
	w, err := c.Watch(t.Context(), "", metav1.ListOptions{ResourceVersion: "5", AllowWatchBookmarks: true})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if ev, err := w.Next(t.Context()); err != nil || ev.Type != watch.Bookmark || !ev.InitialEnd || ev.ResourceVersion != "7" {
		t.Errorf("got %+v, %v", ev, err)
	}
	if ev, err := w.Next(t.Context()); err != nil || ev.Type != watch.Added || ev.Object.Name != "x" || ev.InitialEnd {
		t.Errorf("got %+v, %v", ev, err)
	}
	if _, err := w.Next(t.Context()); !apierrors.IsResourceExpired(err) {
		t.Errorf("got %v", err)
	}
	if _, err := w.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("got %v", err)
	}
}

func TestKubeconfig(t *testing.T) {
	s := apiserver.New(t)
	_, h := s.Listen()
	dir := t.TempDir()
	ca := pemOf(h)
	write(t, dir+"/ca.pem", ca)
	write(t, dir+"/token", []byte("abc\n"))
	for name, cluster := range map[string]string{
		"by file": "certificate-authority: ca.pem", "by data": "certificate-authority-data: " + b64(ca), "insecure": "insecure-skip-tls-verify: true",
	} {
		t.Run(name, func(t *testing.T) {
			path := dir + "/config"
			write(t, path, []byte(fmt.Sprintf(kubeconfig, cluster, h.URL, "tokenFile: token")))
			c, err := client.FromKubeconfig(path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := client.For[*corev1.Namespace](c).Get(t.Context(), "", "default"); err != nil {
				t.Error(err)
			}
		})
	}
	for name, file := range map[string]string{
		"exec": fmt.Sprintf(kubeconfig, "", h.URL, "exec: {command: x}"), "no YAML": "\t",
		"no context": "clusters: []", "no server": fmt.Sprintf(kubeconfig, "", `""`, "token: x"),
		"missing file": fmt.Sprintf(kubeconfig, "certificate-authority: none", h.URL, "token: x"),
		"bad address":  fmt.Sprintf(kubeconfig, "", "ftp://x", "token: x"),
	} {
		write(t, dir+"/bad", []byte(file))
		if _, err := client.FromKubeconfig(dir + "/bad"); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

const kubeconfig = `apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: it, user: me}}]
clusters:
- name: it
  cluster:
    %s
    server: %s
users:
- name: me
  user:
    %s
`

func BenchmarkCreate(b *testing.B) {
	body, err := json.Marshal(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "default", UID: "u"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}})
	if err != nil {
		b.Fatal(err)
	}
	c := client.For[*corev1.Pod](rest(b, func(w http.ResponseWriter, _ *http.Request) { w.Write(body) }))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Create(b.Context(), pod); err != nil {
			b.Fatal(err)
		}
	}
}
