package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/proa-project/proa/httpapi"
)

// A stream reads a watch as lines of JSON.
type stream struct {
	t      *testing.T
	header http.Header
	lines  chan string
	close  func()
}

type event struct {
	Type   string
	Object struct {
		Kind       string
		APIVersion string
		Metadata   metav1.ObjectMeta
		Code       int
		Message    string
		Reason     string
		Rows       []metav1.TableRow
	}
}

func (f *fixture) watch(t *testing.T, path string, header ...string) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer alice")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := f.Client().Do(req) // stream.close does
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body)
		t.Fatalf("watch: %d %s", resp.StatusCode, body)
	}
	s := &stream{t: t, header: resp.Header, lines: make(chan string, 1000)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(s.lines)
		r := bufio.NewReaderSize(resp.Body, 1<<20)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			s.lines <- line
		}
	}()
	s.close = func() {
		cancel()
		resp.Body.Close()
		<-done
	}
	t.Cleanup(s.close)
	return s
}

// next returns the next event; ok is false at the end.
func (s *stream) next() (e event, ok bool) {
	s.t.Helper()
	select {
	case line, ok := <-s.lines:
		if !ok {
			return e, false
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			s.t.Fatalf("%v in %q", err, line)
		}
		return e, true
	case <-time.After(20 * time.Second):
		s.t.Fatal("no event")
		return e, false
	}
}

// expect reads events and compares them, as "TYPE name".
func (s *stream) expect(want ...string) (last event) {
	s.t.Helper()
	var got []string
	for range want {
		e, ok := s.next()
		if !ok {
			got = append(got, "end")
			break
		}
		got = append(got, strings.TrimSpace(e.Type+" "+e.Object.Metadata.Name))
		last = e
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Fatalf("events (-want +got):\n%s", diff)
	}
	return last
}

func (f *fixture) mustMap(tb testing.TB, name, labels string) metav1.ObjectMeta {
	tb.Helper()
	r := f.do(tb, "POST", mapsPath, mapJSON(name, `"labels":{`+labels+`}`))
	if r.Code != http.StatusCreated {
		tb.Fatal(r)
	}
	return metaOf(tb, r)
}

func metaOf(tb testing.TB, r reply) metav1.ObjectMeta {
	tb.Helper()
	var o struct{ Metadata metav1.ObjectMeta }
	if err := json.Unmarshal([]byte(r.Body), &o); err != nil {
		tb.Fatalf("%v in %q", err, r.Body)
	}
	return o.Metadata
}

const mergePatch = "application/merge-patch+json"

func (f *fixture) mustPatch(tb testing.TB, path, patch string) metav1.ObjectMeta {
	tb.Helper()
	r := f.do(tb, "PATCH", path, patch, "Content-Type", mergePatch)
	if r.Code != http.StatusOK {
		tb.Fatal(r)
	}
	return metaOf(tb, r)
}

func (f *fixture) mustDelete(tb testing.TB, path string) {
	tb.Helper()
	if r := f.do(tb, "DELETE", path, ""); r.Code != http.StatusOK {
		tb.Fatal(r)
	}
}

func TestWatchStart(t *testing.T) {
	f := newFixture(t)
	a := f.mustMap(t, "a", "")
	b := f.mustMap(t, "b", "")
	for name, c := range map[string]struct {
		query string
		want  []string
	}{
		"unset":             {"", []string{"ADDED a", "ADDED b", "ADDED z"}},
		"any":               {"&resourceVersion=0", []string{"ADDED a", "ADDED b", "ADDED z"}},
		"after a":           {"&resourceVersion=" + a.ResourceVersion, []string{"ADDED b", "ADDED z"}},
		"after b":           {"&resourceVersion=" + b.ResourceVersion, []string{"ADDED z"}},
		"initial":           {"&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", []string{"ADDED a", "ADDED b", "BOOKMARK", "ADDED z"}},
		"initial from a":    {"&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion=" + a.ResourceVersion, []string{"ADDED a", "ADDED b", "BOOKMARK", "ADDED z"}},
		"initial, unmarked": {"&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", []string{"ADDED a", "ADDED b", "ADDED z"}},
		"no initial":        {"&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=0", []string{"ADDED z"}},
		"one object":        {"&fieldSelector=metadata.name%3Db", []string{"ADDED b"}},
		"contradiction":     {"&fieldSelector=metadata.namespace%3Dother&timeoutSeconds=1", []string{"end"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := f.watch(t, mapsPath+"?watch=1"+c.query)
			f.mustMap(t, "z", "")
			s.expect(c.want...)
			f.mustDelete(t, mapsPath+"/z")
		})
	}
}

func TestWatchList(t *testing.T) {
	f := newFixture(t)
	f.mustMap(t, "a", "")
	s := f.watch(t, mapsPath+"?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
	first := s.expect("ADDED a")
	mark := s.expect("BOOKMARK")
	if mark.Object.Metadata.Annotations["k8s.io/initial-events-end"] != "true" || mark.Object.Kind != "ConfigMap" || mark.Object.APIVersion != "v1" {
		t.Errorf("bookmark is %+v", mark)
	}
	if mark.Object.Metadata.ResourceVersion < first.Object.Metadata.ResourceVersion {
		t.Errorf("bookmark at %s before %s", mark.Object.Metadata.ResourceVersion, first.Object.Metadata.ResourceVersion)
	}
}

func TestWatchSelectors(t *testing.T) {
	f := newFixture(t)
	f.mustMap(t, "a", `"x":"1"`)
	s := f.watch(t, mapsPath+"?watch=1&labelSelector=x%3D1")
	s.expect("ADDED a")
	f.mustMap(t, "b", `"x":"2"`)
	f.mustPatch(t, mapsPath+"/b", `{"metadata":{"labels":{"x":"1"}}}`)
	s.expect("ADDED b")
	f.mustPatch(t, mapsPath+"/b", `{"data":{"k":"w"}}`)
	s.expect("MODIFIED b")
	now := f.mustPatch(t, mapsPath+"/b", `{"metadata":{"labels":{"x":"3"}}}`)
	left := s.expect("DELETED b")
	if m := left.Object.Metadata; m.Labels["x"] != "1" || m.ResourceVersion != now.ResourceVersion {
		t.Errorf("left as %v at %s, want x=1 at %s", m.Labels, m.ResourceVersion, now.ResourceVersion)
	}
	f.mustDelete(t, mapsPath+"/b")
	f.mustDelete(t, mapsPath+"/a")
	s.expect("DELETED a")

	if r := f.do(t, "POST", podsPath, podJSON("p")); r.Code != http.StatusCreated {
		t.Fatal(r)
	}
	p := f.watch(t, "/api/v1/pods?watch=1&fieldSelector=spec.nodeName%3Dn1")
	if r := f.do(t, "POST", podsPath+"/p/binding", `{"target":{"kind":"Node","name":"n1"}}`); r.Code != http.StatusCreated {
		t.Fatal(r)
	}
	p.expect("ADDED p")
}

func TestWatchBookmarks(t *testing.T) {
	f := newFixture(t, func(c *httpapi.Config) { c.Bookmarks = 20 * time.Millisecond })
	s := f.watch(t, mapsPath+"?watch=1&allowWatchBookmarks=true")
	s.expect("BOOKMARK", "BOOKMARK")
	m := f.mustMap(t, "a", "")
	for {
		e, ok := s.next()
		if !ok {
			t.Fatal("the watch ended")
		}
		if e.Type == "BOOKMARK" && e.Object.Metadata.ResourceVersion == m.ResourceVersion {
			break
		}
	}
}

func TestWatchTimeout(t *testing.T) {
	f := newFixture(t)
	s := f.watch(t, mapsPath+"?watch=1&timeoutSeconds=1&allowWatchBookmarks=true")
	s.expect("BOOKMARK", "end")
	s = f.watch(t, mapsPath+"?watch=1&timeoutSeconds=1")
	s.expect("end")
}

// TestWatchFuture has a watch begin where the server has not come to yet, as
// one does that another server has told of its revision.
func TestWatchFuture(t *testing.T) {
	f := newFixture(t)
	now, err := f.store.Current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := f.watch(t, fmt.Sprintf("%s?watch=1&timeoutSeconds=10&resourceVersion=%d", mapsPath, now+1))
	f.mustMap(t, "a", "")
	f.mustMap(t, "b", "")
	s.expect("ADDED b")
	r := f.do(t, "GET", fmt.Sprintf("%s?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=%d", mapsPath, now+1000), "")
	if r.Code != http.StatusGatewayTimeout || !strings.HasPrefix(r.status(t).Message, "Timeout: Too large resource version: ") {
		t.Errorf("%+v", r)
	}
}

func TestWatchEndsWithServer(t *testing.T) {
	f := newFixture(t)
	s := f.watch(t, mapsPath+"?watch=1")
	f.api.Stop()
	s.expect("end")
}

func TestWatchTooOld(t *testing.T) {
	f := newFixture(t)
	for i := range 5 {
		f.mustMap(t, fmt.Sprint("m", i), "")
	}
	rev, err := f.store.Current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// The cache keeps what it has; a revision before its beginning is gone.
	if err := f.store.Compact(t.Context(), rev); err != nil {
		t.Fatal(err)
	}
	f2 := newFixtureOver(t, f.store)
	s := f2.watch(t, mapsPath+"?watch=1&resourceVersion=1")
	e := s.expect("ERROR")
	if o := e.Object; o.Code != http.StatusGone || o.Reason != "Expired" || !strings.HasPrefix(o.Message, "too old resource version: 1 (") || o.Kind != "Status" {
		t.Errorf("error is %+v", o)
	}
	s.expect("end")
}

func TestWatchTable(t *testing.T) {
	f := newFixture(t)
	f.mustMap(t, "a", "")
	s := f.watch(t, mapsPath+"?watch=1&allowWatchBookmarks=true&timeoutSeconds=2", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
	e := s.expect("ADDED")
	if e.Object.Kind != "Table" || len(e.Object.Rows) != 1 || e.Object.Rows[0].Cells[0] != "a" {
		t.Errorf("event is %+v", e)
	}
	if e := s.expect("BOOKMARK"); e.Object.Kind != "Table" || e.Object.Metadata.ResourceVersion == "" {
		t.Errorf("bookmark is %+v", e)
	}
	p := f.watch(t, mapsPath+"?watch=1", "Accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
	if e := p.expect("ADDED a"); e.Object.Kind != "PartialObjectMetadata" || e.Object.Metadata.UID == "" {
		t.Errorf("event is %+v", e)
	}
}

// TestInformer runs the informers of client-go, with and without protobuf.
func TestInformer(t *testing.T) {
	f := newFixture(t)
	for _, media := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		t.Run(media, func(t *testing.T) {
			cfg := rest.CopyConfig(f.config)
			cfg.ContentType, cfg.AcceptContentTypes = media, media
			client := kubernetes.NewForConfigOrDie(cfg)
			factory := informers.NewSharedInformerFactory(client, 0)
			maps := factory.Core().V1().ConfigMaps().Informer()
			seen := make(chan string, 100)
			_, err := maps.AddEventHandler(cache.ResourceEventHandlerFuncs{
				AddFunc:    func(o any) { seen <- "add " + o.(*corev1.ConfigMap).Name },
				UpdateFunc: func(_, o any) { seen <- "update " + o.(*corev1.ConfigMap).Data["k"] },
				DeleteFunc: func(o any) { seen <- "delete " + o.(*corev1.ConfigMap).Name },
			})
			if err != nil {
				t.Fatal(err)
			}
			f.mustMap(t, "old", "")
			stop := make(chan struct{})
			factory.Start(stop)
			t.Cleanup(func() { close(stop); factory.Shutdown() })
			if !cache.WaitForCacheSync(t.Context().Done(), maps.HasSynced) {
				t.Fatal("not synced")
			}
			f.mustMap(t, "new", "")
			f.mustPatch(t, mapsPath+"/new", `{"data":{"k":"w"}}`)
			f.mustDelete(t, mapsPath+"/new")
			f.mustDelete(t, mapsPath+"/old")
			for _, want := range []string{"add old", "add new", "update w", "delete new", "delete old"} {
				select {
				case got := <-seen:
					if got != want {
						t.Fatalf("got %q, want %q", got, want)
					}
				case <-time.After(10 * time.Second):
					t.Fatalf("no %q", want)
				}
			}
		})
	}
}
