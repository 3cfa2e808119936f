package httpapi_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/storage/memory"
)

type listReply struct {
	Kind     string
	Metadata metav1.ListMeta
	Items    []struct{ Metadata metav1.ObjectMeta }
}

func (l *listReply) names() string {
	var names []string
	for _, i := range l.Items {
		names = append(names, i.Metadata.Name)
	}
	return strings.Join(names, " ")
}

func (f *fixture) list(t *testing.T, path string) listReply {
	t.Helper()
	r := f.do(t, "GET", path, "")
	var l listReply
	if err := json.Unmarshal([]byte(r.Body), &l); err != nil || r.Code != http.StatusOK {
		t.Fatal(r, err)
	}
	return l
}

// Lists that are longer than the sample that tells their size have the same
// items in all shapes, whatever the size of the items.
func TestList_longShapes(t *testing.T) {
	f := newFixture(t)
	const n = 50
	for i := range n {
		f.mustMap(t, fmt.Sprintf("m%02d", i), fmt.Sprintf(`"l":"%s"`, strings.Repeat("x", i)))
	}
	want := f.list(t, mapsPath)
	var rows struct {
		Rows []struct {
			Cells  []any
			Object struct{ Metadata metav1.ObjectMeta }
		}
	}
	for _, include := range []string{"Metadata", "Object"} {
		r := f.do(t, "GET", mapsPath+"?includeObject="+include, "", "Accept", tableType)
		if err := json.Unmarshal([]byte(r.Body), &rows); err != nil || len(rows.Rows) != n {
			t.Fatal(include, len(rows.Rows), err)
		}
		for i, row := range rows.Rows {
			if diff := cmp.Diff(want.Items[i].Metadata, row.Object.Metadata); diff != "" || row.Cells[0] != want.Items[i].Metadata.Name {
				t.Errorf("%s, row %d: %v (-want +got)\n%s", include, i, row.Cells, diff)
			}
		}
	}
	var part listReply
	r := f.do(t, "GET", mapsPath, "", "Accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")
	if err := json.Unmarshal([]byte(r.Body), &part); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Items, part.Items); diff != "" {
		t.Errorf("metadata (-want +got)\n%s", diff)
	}
	var maps corev1.ConfigMapList
	r = f.do(t, "GET", mapsPath, "", "Accept", protobuf)
	if _, err := api.Decode([]byte(r.Body), api.MediaProtobuf, &maps, api.Ignore); err != nil || len(maps.Items) != n {
		t.Fatal(len(maps.Items), err)
	}
	for i := range maps.Items {
		if diff := cmp.Diff(want.Items[i].Metadata, maps.Items[i].ObjectMeta); diff != "" {
			t.Errorf("protobuf (-want +got)\n%s", diff)
		}
	}
}

func TestListChunks(t *testing.T) {
	f := newFixture(t)
	for i := range 7 {
		f.mustMap(t, fmt.Sprint("m", i), fmt.Sprintf(`"odd":"%d"`, i%2))
	}
	l := f.list(t, mapsPath+"?limit=3")
	if l.names() != "m0 m1 m2" || l.Metadata.Continue == "" || l.Metadata.RemainingItemCount == nil || *l.Metadata.RemainingItemCount != 4 {
		t.Fatalf("%+v", l)
	}
	first := l.Metadata.ResourceVersion
	f.mustMap(t, "m35", "") // not in the list that has begun
	f.mustDelete(t, mapsPath+"/m4")
	l = f.list(t, mapsPath+"?limit=3&continue="+url.QueryEscape(l.Metadata.Continue))
	if l.names() != "m3 m4 m5" || l.Metadata.ResourceVersion != first {
		t.Fatalf("%+v", l)
	}
	l = f.list(t, mapsPath+"?limit=3&continue="+url.QueryEscape(l.Metadata.Continue))
	if l.names() != "m6" || l.Metadata.Continue != "" || l.Metadata.RemainingItemCount != nil {
		t.Fatalf("%+v", l)
	}
	l = f.list(t, mapsPath+"?limit=1&labelSelector=odd%3D1")
	if l.names() != "m1" || l.Metadata.Continue == "" || l.Metadata.RemainingItemCount != nil {
		t.Fatalf("with a selector: %+v", l)
	}
}

func TestListRevisions(t *testing.T) {
	f := newFixture(t)
	a := f.mustMap(t, "a", "")
	b := f.mustMap(t, "b", "")
	for query, want := range map[string]string{
		"":                   "a b",
		"?resourceVersion=0": "a b",
		"?resourceVersion=0&resourceVersionMatch=NotOlderThan":                    "a b",
		"?resourceVersion=" + a.ResourceVersion:                                   "a b",
		"?resourceVersionMatch=Exact&resourceVersion=" + a.ResourceVersion:        "a",
		"?resourceVersionMatch=Exact&resourceVersion=" + b.ResourceVersion:        "a b",
		"?resourceVersionMatch=NotOlderThan&resourceVersion=" + a.ResourceVersion: "a b",
		"?limit=5&resourceVersion=" + a.ResourceVersion:                           "a",
		"?fieldSelector=metadata.name%3Db":                                        "b",
		"?fieldSelector=metadata.namespace%3Dother":                               "",
		"?fieldSelector=metadata.namespace%3Ddefault,metadata.name!%3Da":          "b",
		"?fieldSelector=metadata.name%3Da,metadata.name%3Db":                      "",
		"?fieldSelector=metadata.name%3D":                                         "",
		"?labelSelector=!x":                                                       "a b",
		"?watch=false":                                                            "a b",
		"?limit=-1":                                                               "a b",
	} {
		if l := f.list(t, mapsPath+query); l.names() != want {
			t.Errorf("%q: %+v", query, l)
		}
	}
	if l := f.list(t, "/api/v1/configmaps?fieldSelector=metadata.namespace%3Ddefault"); l.names() != "a b" {
		t.Errorf("of all namespaces: %+v", l)
	}
}

func TestListFuture(t *testing.T) {
	f := newFixture(t)
	now, err := f.store.Current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("Timeout: Too large resource version: %d, current: %d", now+1000, now)
	r := f.do(t, "GET", fmt.Sprintf("%s?resourceVersion=%d", mapsPath, now+1000), "")
	st := r.status(t)
	if r.Code != http.StatusGatewayTimeout || st.Message != want || st.Details.RetryAfterSeconds != 1 || r.Header.Get("Retry-After") != "1" ||
		!apierrors.HasStatusCause(&apierrors.StatusError{ErrStatus: st}, metav1.CauseTypeResourceVersionTooLarge) {
		t.Errorf("list: %+v", r)
	}
	if r := f.do(t, "GET", fmt.Sprintf("%s/a?resourceVersion=%d", mapsPath, now+1000), ""); r.Code != http.StatusGatewayTimeout || r.status(t).Message != want {
		t.Errorf("get: %+v", r)
	}
}

// exactExpired is a store that has forgotten all states but the last.
type exactExpired struct{ storage.Store }

func (e exactExpired) List(ctx context.Context, prefix string, o storage.ListOptions) (storage.List, error) {
	if o.Match == storage.Exact {
		return storage.List{}, &storage.RevisionError{Requested: o.Revision, Limit: 1000, Err: storage.ErrCompacted}
	}
	return e.Store.List(ctx, prefix, o)
}

func TestListExpired(t *testing.T) {
	store := exactExpired{newCache(t, memory.New(memory.Config{}))}
	t.Cleanup(func() { store.Close() })
	f := newFixtureOver(t, store)
	for i := range 4 {
		f.mustMap(t, fmt.Sprint("m", i), "")
	}
	l := f.list(t, mapsPath+"?limit=2")
	r := f.do(t, "GET", mapsPath+"?limit=2&continue="+l.Metadata.Continue, "")
	st := r.status(t)
	if r.Code != http.StatusGone || st.Reason != metav1.StatusReasonExpired || !strings.HasPrefix(st.Message, "The provided continue parameter is too old to display a consistent list result. ") {
		t.Fatal(r)
	}
	token, err := base64.RawURLEncoding.DecodeString(st.Continue)
	if err != nil || string(token) != `{"v":"meta.k8s.io/v1","rv":-1,"start":"m1\u0000"}` {
		t.Errorf("token is %s, %v", token, err)
	}
	f.mustMap(t, "m15", "")
	l = f.list(t, mapsPath+"?continue="+st.Continue)
	if l.names() != "m15 m2 m3" {
		t.Errorf("the rest is %+v", l)
	}
	r = f.do(t, "GET", mapsPath+"?resourceVersionMatch=Exact&resourceVersion=2", "")
	if r.Code != http.StatusGone || r.status(t).Message != "The resourceVersion for the provided list is too old." {
		t.Error(r)
	}
}

func TestListAllNamespaces(t *testing.T) {
	f := newFixture(t)
	f.mustMap(t, "b", "")
	if r := f.do(t, "POST", "/api/v1/namespaces/kube-system/configmaps", mapJSON("a", "")); r.Code != http.StatusCreated {
		t.Fatal(r)
	}
	var all []string
	next := ""
	for {
		l := f.list(t, "/api/v1/configmaps?limit=1&continue="+next)
		all = append(all, l.names())
		if next = l.Metadata.Continue; next == "" {
			break
		}
	}
	if want := []string{"b", "a"}; !slices.Equal(all, want) {
		t.Errorf("got %v", all)
	}
}
