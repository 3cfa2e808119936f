package simulated

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi"
	"github.com/proa-project/proa/httpapi/authz"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/httpapi/request"
	"github.com/proa-project/proa/openapi"
	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/storage/memory"
	"github.com/proa-project/proa/storage/watchcache"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// all is everybody, with all rights.
type all struct{}

func (all) Authenticate(*http.Request) (*request.User, error) {
	return &request.User{Name: "test", Groups: []string{request.Masters}}, nil
}

// startAPI runs an API server in memory, and returns a client of it.
func startAPI(t testing.TB) *client.REST {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	rows := map[string]*api.Resource{}
	for _, r := range api.Resources() {
		if r.StoredAs == nil {
			rows[r.Storage] = r
		}
	}
	store, err := watchcache.New(ctx, watchcache.Config{
		Store: memory.New(memory.Config{}), Decorate: api.SetRevision,
		Extract: func(key string, value []byte) (storage.Fields, error) {
			for prefix, r := range rows {
				if strings.HasPrefix(key, prefix) {
					labels, fields, err := r.Extract(value)
					return storage.Fields{Labels: labels, Fields: fields}, err
				}
			}
			return storage.Fields{}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	docs, err := openapi.Build(api.Resources(), &version.Info{Major: "1", Minor: "37"})
	if err != nil {
		t.Fatal(err)
	}
	server, err := httpapi.New(httpapi.Config{
		Store: store, Resources: api.Resources(), Documents: docs,
		Authenticator: all{}, Authorizer: authz.Masters{}, MaxReads: -1, MaxWrites: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	rest, err := client.New(client.Config{Transport: client.InProcess(server)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return rest
}

// start runs simulated nodes; the returned function stops them and waits.
func start(t testing.TB, cfg Config) (c *Cluster, stop func()) {
	t.Helper()
	cfg.Log = zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { c.Run(ctx) }) //nolint:errcheck // ends with ctx
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			wg.Wait()
		})
	}
	t.Cleanup(stop)
	return c, stop
}

// eventually polls until the condition holds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("after a minute, still not: %s", what)
		}
	}
}

func get[T api.Object](t testing.TB, rest *client.REST, namespace, name string) T {
	t.Helper()
	obj, err := client.For[T](rest).Get(t.Context(), namespace, name)
	if err != nil {
		t.Fatalf("get %q: %v", name, err)
	}
	return obj
}

// bound creates a pod that is bound to a node.
func bound(t testing.TB, rest *client.REST, p *corev1.Pod, node string) *corev1.Pod {
	t.Helper()
	if len(p.Spec.Containers) == 0 {
		p.Spec.Containers = []corev1.Container{{Name: "c", Image: "img"}}
	}
	p.Namespace = "default"
	pods := client.For[*corev1.Pod](rest)
	out, err := pods.Create(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}
	if err := rest.Post(t.Context(), pods.Resource(), "default", p.Name, "binding", b, nil); err != nil {
		t.Fatal(err)
	}
	return out
}

func named(name string) *corev1.Pod { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}} }
