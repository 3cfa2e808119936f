package event_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/httpapi/client/event"
	"github.com/proa-project/proa/test/apiserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func run(t *testing.T, r *event.Recorder) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// eventually waits until f returns nothing.
func eventually(t *testing.T, f func() string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		msg := f()
		if msg == "" {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal(msg)
		}
	}
}

func list(t *testing.T, c *client.REST, ns string) []*corev1.Event {
	t.Helper()
	l, err := client.For[*corev1.Event](c).List(t.Context(), ns, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return l.Items
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "u-1", ResourceVersion: "7"}}
}

func TestRecorder(t *testing.T) {
	s := apiserver.New(t)
	r := event.NewRecorder(s.REST, "test-controller", "host-1", zerolog.Nop())
	run(t, r)
	r.Event(pod("p"), corev1.EventTypeNormal, "Started", "It runs")
	eventually(t, func() string {
		l := list(t, s.REST, "default")
		if len(l) != 1 {
			return fmt.Sprintf("%d events", len(l))
		}
		e := l[0]
		want := corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: "default", Name: "p", UID: "u-1", ResourceVersion: "7"}
		if e.InvolvedObject != want || e.Reason != "Started" || e.Message != "It runs" || e.Type != "Normal" || e.Count != 1 ||
			e.Source.Component != "test-controller" || e.ReportingController != "test-controller" || e.ReportingInstance != "host-1" ||
			e.FirstTimestamp.IsZero() || e.LastTimestamp.IsZero() || !strings.HasPrefix(e.Name, "p.") {
			t.Fatalf("event %+v", e)
		}
		return ""
	})
	// Repeats raise the count of the one event.
	for range 4 {
		r.Event(pod("p"), corev1.EventTypeNormal, "Started", "It runs")
	}
	eventually(t, func() string {
		if l := list(t, s.REST, "default"); len(l) != 1 || l[0].Count != 5 {
			return fmt.Sprintf("%d events, count %d", len(l), l[0].Count)
		}
		return ""
	})
	// An event that has expired meanwhile begins again.
	err := s.REST.DeleteCollection(t.Context(), client.For[*corev1.Event](s.REST).Resource(), "default", metav1.DeleteOptions{}, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.Event(pod("p"), corev1.EventTypeNormal, "Started", "It runs")
	eventually(t, func() string {
		if l := list(t, s.REST, "default"); len(l) != 1 || l[0].Count != 1 {
			return fmt.Sprintf("%d events after the first expired", len(l))
		}
		return ""
	})
	// About what has no namespace, and about a part of something.
	r.Event(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, corev1.EventTypeWarning, "Lost", "It is lost")
	ref := event.Reference(pod("q"))
	ref.FieldPath = "spec.containers{c}"
	r.EventRef(ref, corev1.EventTypeNormal, "Pulled", "Image is there")
	r.Action(pod("q"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, corev1.EventTypeNormal, "Scheduled", "Binding", "It has a node")
	eventually(t, func() string {
		text := ""
		for _, e := range list(t, s.REST, "default") {
			text += fmt.Sprintf("%s/%s %s %s,", e.InvolvedObject.Kind, e.InvolvedObject.Name, e.InvolvedObject.FieldPath, e.Action)
			if e.Action != "" && (e.Related == nil || e.Related.Kind != "Node") {
				t.Fatalf("event %+v", e)
			}
		}
		for _, want := range []string{"Node/n  ,", "Pod/q spec.containers{c} ,", "Pod/q  Binding,"} {
			if !strings.Contains(text, want) {
				return fmt.Sprintf("no %q in %q", want, text)
			}
		}
		return ""
	})
}

// TestRecorder_joinsWhatIsSimilar tells of a thousand pods of one set.
func TestRecorder_joinsWhatIsSimilar(t *testing.T) {
	s := apiserver.New(t)
	r := event.NewRecorder(s.REST, "c", "h", zerolog.Nop())
	for i := range 1000 {
		r.Eventf(pod("set"), corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: p-%d", i)
	}
	run(t, r)
	eventually(t, func() string {
		l := list(t, s.REST, "default")
		last := corev1.Event{}
		for _, e := range l {
			if strings.HasPrefix(e.Message, "(combined from similar events): Created pod: p-") {
				last = *e
			}
		}
		// Nine alone, and then one for the others, until the object has had its share.
		if len(l) != 10 || last.Count != 16 {
			return fmt.Sprintf("%d events, the combined one counts %d", len(l), last.Count)
		}
		return ""
	})
}

// TestRecorder_neverBlocks fills the queue while the server does not answer.
func TestRecorder_neverBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		block := make(chan struct{})
		c, err := client.New(client.Config{Transport: client.InProcess(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-block:
			case <-r.Context().Done():
			}
		}))})
		if err != nil {
			t.Fatal(err)
		}
		r := event.NewRecorder(c, "c", "h", zerolog.Nop())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		for i := range 10000 {
			r.Eventf(pod("p"), corev1.EventTypeNormal, "R", "%d", i)
		}
		synctest.Wait()
		if r.Dropped() == 0 {
			t.Error("everything was kept")
		}
		cancel()
		<-done
	})
}

func TestRecorder_triesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		c, err := client.New(client.Config{Transport: client.InProcess(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			switch calls.Add(1) {
			case 1:
				panic(http.ErrAbortHandler)
			case 2:
				w.WriteHeader(http.StatusServiceUnavailable)
			case 3:
				w.Write([]byte(`{"metadata":{"name":"e"}}`))
			default:
				w.WriteHeader(http.StatusForbidden) // never again
			}
		}))})
		if err != nil {
			t.Fatal(err)
		}
		r := event.NewRecorder(c, "c", "h", zerolog.Nop())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		r.Event(pod("p"), corev1.EventTypeNormal, "A", "a")
		<-time.After(time.Minute) // the bubble's clock
		if n := calls.Load(); n != 3 {
			t.Errorf("%d calls", n)
		}
		r.Event(pod("p"), corev1.EventTypeNormal, "B", "b")
		<-time.After(time.Minute)
		if n := calls.Load(); n != 4 {
			t.Errorf("%d calls", n)
		}
		cancel()
		<-done
	})
}

func TestRecorder_nil(*testing.T) {
	var r *event.Recorder
	r.Event(pod("p"), "", "", "")
	r.Eventf(pod("p"), "", "", "")
	r.EventRef(corev1.ObjectReference{}, "", "", "")
	r.Action(pod("p"), nil, "", "", "", "")
}
