package simulated

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/test/apiserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// startAPI runs an API server in memory, and returns a client of it.
func startAPI(tb testing.TB) *client.REST {
	tb.Helper()
	return apiserver.New(tb).REST
}

// start runs simulated nodes; the returned function stops them and waits.
func start(tb testing.TB, cfg Config) (c *Cluster, stop func()) {
	tb.Helper()
	cfg.Log = zerolog.New(zerolog.NewTestWriter(tb)).Level(zerolog.WarnLevel)
	c, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { c.Run(ctx) })
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			wg.Wait()
		})
	}
	tb.Cleanup(stop)
	return c, stop
}

// eventually polls until the condition holds.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			tb.Fatalf("after a minute, still not: %s", what)
		}
	}
}

func get[T api.Object](tb testing.TB, rest *client.REST, namespace, name string) T {
	tb.Helper()
	obj, err := client.For[T](rest).Get(tb.Context(), namespace, name)
	if err != nil {
		tb.Fatalf("get %q: %v", name, err)
	}
	return obj
}

// bound creates a pod that is bound to a node.
func bound(tb testing.TB, rest *client.REST, p *corev1.Pod, node string) *corev1.Pod {
	tb.Helper()
	if len(p.Spec.Containers) == 0 {
		p.Spec.Containers = []corev1.Container{{Name: "c", Image: "img"}}
	}
	p.Namespace = "default"
	pods := client.For[*corev1.Pod](rest)
	out, err := pods.Create(tb.Context(), p)
	if err != nil {
		tb.Fatal(err)
	}
	b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}
	if err := rest.Post(tb.Context(), pods.Resource(), "default", p.Name, "binding", b, nil); err != nil {
		tb.Fatal(err)
	}
	return out
}

func named(name string) *corev1.Pod { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}} }
