package httpapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi"
	"github.com/proa-project/proa/httpapi/authn"
	"github.com/proa-project/proa/httpapi/authz"
	"github.com/proa-project/proa/httpapi/request"
	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/storage/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// allowAll lets everybody but bob do everything.
type allowAll struct{}

func (allowAll) Authorize(_ context.Context, u *request.User, _ *request.Info) (authz.Decision, string, error) {
	if u.Name == "bob" || u == request.Anonymous {
		return authz.NoOpinion, "", nil
	}
	return authz.Allow, "", nil
}

// byToken takes the bearer token for the user's name.
type byToken struct{}

func (byToken) Authenticate(r *http.Request) (*request.User, error) {
	name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case !ok:
		return nil, nil
	case name == "bad":
		return nil, authn.ErrUnauthenticated
	case strings.HasPrefix(name, "system:node:"):
		return &request.User{Name: name, Groups: []string{"system:nodes", "system:authenticated"}}, nil
	default:
		return &request.User{Name: name, Groups: []string{"system:authenticated"}}, nil
	}
}

// fixture is a server over a memory store with clients for it.
type fixture struct {
	*httptest.Server
	api    *httpapi.Server
	store  storage.Store
	config *rest.Config
	client *kubernetes.Clientset
}

func newFixture(t testing.TB, change ...func(*httpapi.Config)) *fixture {
	t.Helper()
	f := &fixture{store: decorated{memory.New(memory.Config{})}}
	cfg := httpapi.Config{
		Store: f.store, Resources: api.Resources(), Documents: lists{}, Authenticator: byToken{}, Authorizer: allowAll{},
		Version: version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.0+proa"},
		Log:     zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.InfoLevel),
	}
	if os.Getenv("PROA_TEST_DEBUG") != "" {
		cfg.Log = cfg.Log.Level(zerolog.DebugLevel)
	}
	for _, c := range change {
		c(&cfg)
	}
	var err error
	if f.api, err = httpapi.New(cfg); err != nil {
		t.Fatal(err)
	}
	if err := f.api.Bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.Server = httptest.NewUnstartedServer(f.api)
	f.EnableHTTP2 = true
	f.StartTLS()
	t.Cleanup(func() {
		f.api.Stop()
		f.Close()
		f.store.Close()
	})
	f.config = &rest.Config{
		Host: f.URL, BearerToken: "alice", QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true},
	}
	if f.client, err = kubernetes.NewForConfig(f.config); err != nil {
		t.Fatal(err)
	}
	return f
}

// decorated puts resourceVersions into values as the watch cache does.
type decorated struct{ storage.Store }

func decorate(item storage.Item) storage.Item {
	item.Value = api.SetRevision(item.Value, item.Revision)
	return item
}

func (d decorated) Get(ctx context.Context, key string, o storage.GetOptions) (storage.Item, error) {
	item, err := d.Store.Get(ctx, key, o)
	if err != nil {
		return item, err
	}
	return decorate(item), nil
}

func (d decorated) List(ctx context.Context, prefix string, o storage.ListOptions) (storage.List, error) {
	l, err := d.Store.List(ctx, prefix, o)
	for i := range l.Items {
		l.Items[i] = decorate(l.Items[i])
	}
	return l, err
}

func (d decorated) Watch(ctx context.Context, prefix string, o storage.WatchOptions) (storage.Watcher, error) {
	w, err := d.Store.Watch(ctx, prefix, o)
	if err != nil {
		return nil, err
	}
	return decoratedWatcher{w}, nil
}

type decoratedWatcher struct{ storage.Watcher }

func (w decoratedWatcher) Next(ctx context.Context) ([]storage.Event, error) {
	events, err := w.Watcher.Next(ctx)
	out := make([]storage.Event, len(events))
	for i, e := range events {
		item := decorate(*e.Item)
		e.Item = &item
		if e.Prev != nil {
			prev := decorate(*e.Prev)
			e.Prev = &prev
		}
		out[i] = e
	}
	return out, err
}

// lists are the least documents that kubectl can do with.
type lists struct{}

func (lists) Validate(*api.Resource, []byte) field.ErrorList { return nil }

func (lists) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var out any
		switch path := strings.Trim(r.URL.Path, "/"); path {
		case "api":
			out = metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions", APIVersion: "v1"}, Versions: []string{"v1"}}
		case "apis":
			l := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
			seen := map[string]bool{"": true}
			for _, row := range api.Resources() {
				if !seen[row.Group] {
					seen[row.Group] = true
					v := metav1.GroupVersionForDiscovery{GroupVersion: row.GroupVersion().String(), Version: row.Version}
					l.Groups = append(l.Groups, metav1.APIGroup{Name: row.Group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
				}
			}
			out = l
		default:
			_, gv, _ := strings.Cut(path, "/")
			l := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv}
			for _, row := range api.Resources() {
				if row.GroupVersion().String() == gv {
					l.APIResources = append(l.APIResources, metav1.APIResource{
						Name: row.Plural, SingularName: row.Singular, Kind: row.Kind, Namespaced: row.Namespaced,
						Verbs: row.Verbs, ShortNames: row.ShortNames, Categories: row.Categories,
					})
				}
			}
			if len(l.APIResources) == 0 {
				http.NotFound(w, r)
				return
			}
			out = l
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(out)
	})
}
