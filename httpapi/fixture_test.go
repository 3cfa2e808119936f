package httpapi_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/authn"
	"github.com/proa-project/proa/httpapi/authz"
	"github.com/proa-project/proa/httpapi/request"
	"github.com/proa-project/proa/openapi"
	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/storage/memory"
	"github.com/proa-project/proa/storage/watchcache"
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

func newFixture(tb testing.TB, change ...func(*httpapi.Config)) *fixture {
	tb.Helper()
	store := newCache(tb, memory.New(memory.Config{}))
	tb.Cleanup(func() { store.Close() })
	return newFixtureOver(tb, store, change...)
}

// newFixtureOver is newFixture with a store that others may use, too.
func newFixtureOver(tb testing.TB, store storage.Store, change ...func(*httpapi.Config)) *fixture {
	tb.Helper()
	f := &fixture{store: store}
	cfg := httpapi.Config{
		Admission: &admission.Chain{Mutators: httpapi.BuiltinMutators(f.store)},
		Store:     f.store, Resources: api.Resources(), Documents: documents(), Authenticator: byToken{}, Authorizer: allowAll{},
		Version: testVersion,
		Log:     zerolog.New(zerolog.NewTestWriter(tb)).Level(zerolog.InfoLevel),
	}
	if os.Getenv("PROA_TEST_DEBUG") != "" {
		cfg.Log = cfg.Log.Level(zerolog.DebugLevel)
	}
	for _, c := range change {
		c(&cfg)
	}
	var err error
	if f.api, err = httpapi.New(cfg); err != nil {
		tb.Fatal(err)
	}
	if err = f.api.Bootstrap(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	f.Server = httptest.NewUnstartedServer(f.api)
	f.EnableHTTP2 = true
	f.StartTLS()
	tb.Cleanup(func() {
		f.api.Stop()
		f.CloseClientConnections()
		f.Close()
	})
	f.config = &rest.Config{
		Host: f.URL, BearerToken: "alice", QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true},
	}
	if f.client, err = kubernetes.NewForConfig(f.config); err != nil {
		tb.Fatal(err)
	}
	return f
}

// newCache returns a watch cache over a store, as production has it.
func newCache(tb testing.TB, inner storage.Store) storage.Store {
	tb.Helper()
	cache, err := watchcache.New(tb.Context(), watchcache.Config{Store: inner, Decorate: api.SetRevision, Extract: extract})
	if err != nil {
		tb.Fatal(err)
	}
	return cache
}

func extract(key string, value []byte) (storage.Fields, error) {
	for _, row := range api.Resources() {
		if row.Storage != "" && strings.HasPrefix(key, row.Storage) {
			labels, fields, err := row.Extract(value)
			return storage.Fields{Labels: labels, Fields: fields}, err
		}
	}
	labels, _ := api.Labels(value) // what is no object has none
	return storage.Fields{Labels: labels}, nil
}

// reply is an answer that has been read.
type reply struct {
	Code   int
	Header http.Header
	Body   string
}

// status returns the Status in an answer.
func (r reply) status(tb testing.TB) metav1.Status {
	tb.Helper()
	var st metav1.Status
	if err := json.Unmarshal([]byte(r.Body), &st); err != nil {
		tb.Fatalf("%v in %q", err, r.Body)
	}
	return st
}

// do sends a request as alice. Headers are pairs of name and value.
func (f *fixture) do(tb testing.TB, method, path, body string, header ...string) reply {
	tb.Helper()
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(tb.Context(), method, f.URL+path, in)
	if err != nil {
		tb.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer alice")
	req.Header.Set("User-Agent", "test")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		if req.Header.Del(header[i]); header[i+1] != "" {
			req.Header.Set(header[i], header[i+1])
		}
	}
	resp, err := f.Client().Do(req)
	if err != nil {
		tb.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, string(data)}
}

// documents are those that production serves, made once.
var documents = sync.OnceValue(func() *openapi.Documents {
	d, err := openapi.Build(api.Resources(), &testVersion)
	if err != nil {
		panic(err)
	}
	return d
})

var testVersion = version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.0+proa"}
