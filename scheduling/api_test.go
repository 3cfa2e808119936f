package scheduling

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/informers"
	"github.com/proa-project/proa/test/apiserver"
)

// startAPI runs an API server in memory, and returns the transport to it.
func startAPI(tb testing.TB) http.RoundTripper {
	tb.Helper()
	return client.InProcess(apiserver.New(tb))
}

func newREST(tb testing.TB, transport http.RoundTripper) *client.REST {
	tb.Helper()
	rest, err := client.New(client.Config{Transport: transport})
	if err != nil {
		tb.Fatal(err)
	}
	return rest
}

// A process is a scheduler with informers of its own, as a binary would have.
type process struct {
	*Scheduler
	stop func() // waits
}

func startScheduler(tb testing.TB, transport http.RoundTripper, cfg Config) *process {
	tb.Helper()
	log := zerolog.New(zerolog.NewTestWriter(tb)).Level(zerolog.ErrorLevel)
	cfg.REST = newREST(tb, transport)
	cfg.Factory = informers.NewFactory(informers.Config{REST: cfg.REST, Log: log})
	cfg.Log = log
	s, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { cfg.Factory.Run(ctx) })
	wg.Go(func() { s.Run(ctx) })
	var once sync.Once
	p := &process{Scheduler: s, stop: func() {
		once.Do(func() {
			cancel()
			wg.Wait()
		})
	}}
	tb.Cleanup(p.stop)
	return p
}

// eventually polls until the condition holds.
func eventually(tb testing.TB, what string, within time.Duration, ok func() bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), within)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			tb.Fatalf("after %v, still not: %s", within, what)
		}
	}
}

func testNode(name, cpu, pods string) *corev1.Node {
	list := corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("32Gi"), "pods": resource.MustParse(pods)}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Capacity: list, Allocatable: list}}
}

func testPod(name, cpu string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{
			SchedulerName: DefaultName,
			Containers: []corev1.Container{{Name: "c", Image: "img", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("64Mi")},
			}}},
		},
	}
}

func create[T api.Object](tb testing.TB, rest *client.REST, obj T) T {
	tb.Helper()
	out, err := client.For[T](rest).Create(tb.Context(), obj)
	if err != nil {
		tb.Fatalf("create %s: %v", obj.GetName(), err)
	}
	return out
}

func getPod(tb testing.TB, rest *client.REST, name string) *corev1.Pod {
	tb.Helper()
	p, err := client.For[*corev1.Pod](rest).Get(tb.Context(), "default", name)
	if err != nil {
		tb.Fatalf("get pod %q: %v", name, err)
	}
	return p
}

// scheduledCondition returns the pod's PodScheduled condition in one line.
func scheduledCondition(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message))
		}
	}
	return ""
}

// eventsOf returns reason and message of the events about a pod.
func eventsOf(tb testing.TB, rest *client.REST, pod string) []string {
	tb.Helper()
	list, err := client.For[*corev1.Event](rest).List(tb.Context(), "default", metav1.ListOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	var out []string
	for _, e := range list.Items {
		if e.InvolvedObject.Name == pod {
			out = append(out, e.Type+" "+e.Reason+" "+e.ReportingController+e.Source.Component+": "+e.Message)
		}
	}
	return out
}
