package workqueue_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/proa-project/proa/informers/workqueue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func mustGet(t testing.TB, q *workqueue.Queue[string], want string) {
	t.Helper()
	if k, ok := q.Get(t.Context()); !ok || k != want {
		t.Fatalf("got %q %v, want %q", k, ok, want)
	}
}

func TestJoinsWhatIsAddedTwice(t *testing.T) {
	q := workqueue.New[string](workqueue.Config{})
	q.Add("a")
	q.Add("b")
	q.Add("a")
	if q.Len() != 2 {
		t.Errorf("length %d", q.Len())
	}
	mustGet(t, q, "a")
	q.Add("a") // while a worker has it
	q.Add("a")
	mustGet(t, q, "b")
	if q.Len() != 0 {
		t.Error("handed to two workers at once")
	}
	q.Done("a")
	mustGet(t, q, "a")
	q.Done("a")
	q.Done("b")
	q.Done("b") // once more does no harm
	if q.Len() != 0 {
		t.Errorf("length %d", q.Len())
	}
}

func TestDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New[string](workqueue.Config{})
		defer q.ShutDown()
		begin := time.Now()
		q.AddAfter("a", 10*time.Second)
		q.AddAfter("a", 3*time.Second) // the shortest counts
		q.AddAfter("a", 5*time.Second)
		q.AddAfter("b", time.Second)
		q.AddAfter("c", -1)
		for _, want := range []struct {
			key string
			at  time.Duration
		}{{"c", 0}, {"b", time.Second}, {"a", 3 * time.Second}} {
			mustGet(t, q, want.key)
			q.Done(want.key)
			if d := time.Since(begin); d != want.at {
				t.Errorf("%s came after %v, want %v", want.key, d, want.at)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if k, ok := q.Get(ctx); ok {
			t.Errorf("%q came once more", k)
		}
	})
}

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New[string](workqueue.Config{})
		defer q.ShutDown()
		want := 5 * time.Millisecond
		for i := range 70 {
			begin := time.Now()
			q.AddRateLimited("a")
			mustGet(t, q, "a")
			q.Done("a")
			if d := time.Since(begin); d != want {
				t.Fatalf("try %d came after %v, want %v", i, d, want)
			}
			want = min(2*want, 1000*time.Second)
		}
		if q.Requeues("a") != 70 {
			t.Errorf("%d requeues", q.Requeues("a"))
		}
		q.Forget("a")
		begin := time.Now()
		q.AddRateLimited("a")
		mustGet(t, q, "a")
		if d := time.Since(begin); d != 5*time.Millisecond {
			t.Errorf("after Forget it came after %v", d)
		}
	})
}

func TestShutDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New[string](workqueue.Config{})
		q.Add("a")
		q.AddAfter("later", time.Hour)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for {
					k, ok := q.Get(t.Context())
					if !ok {
						return
					}
					if k != "a" {
						t.Errorf("got %q", k)
					}
					q.Done(k)
				}
			})
		}
		synctest.Wait()
		q.ShutDown()
		q.ShutDown()
		wg.Wait()
		q.Add("b")
		q.AddRateLimited("b")
		if q.Len() != 0 {
			t.Error("added after ShutDown")
		}
	})
}

// TestCanceledWorkerPassesOn makes sure that a key is not lost with a worker
// that was woken for it and goes away.
func TestCanceledWorkerPassesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 50 {
			q := workqueue.New[int](workqueue.Config{})
			ctx, cancel := context.WithCancel(t.Context())
			got := make(chan int, 2)
			go func() {
				if k, ok := q.Get(ctx); ok {
					got <- k
				}
			}()
			go func() {
				if k, ok := q.Get(t.Context()); ok {
					got <- k
				}
			}()
			synctest.Wait()
			go cancel()
			q.Add(1)
			if k := <-got; k != 1 {
				t.Fatalf("got %d", k)
			}
			q.ShutDown()
			synctest.Wait()
		}
	})
}

// TestWorkers_hammer adds from many goroutines and checks that no key is with
// two workers at once, and that the last Add of each key is followed by a Get.
func TestWorkers_hammer(t *testing.T) {
	q := workqueue.New[int](workqueue.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	const keys = 20
	var (
		mu      sync.Mutex
		state   [keys]int // what was added
		seen    [keys]int // what a worker has seen
		working [keys]bool
	)
	var workers, adders sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for {
				k, ok := q.Get(ctx)
				if !ok {
					return
				}
				mu.Lock()
				if working[k] {
					t.Errorf("key %d is with two workers", k)
				}
				working[k], seen[k] = true, state[k]
				mu.Unlock()
				mu.Lock()
				working[k] = false
				mu.Unlock()
				q.Done(k)
			}
		})
	}
	for range 8 {
		adders.Go(func() {
			for i := range 2000 {
				k := i % keys
				mu.Lock()
				state[k]++
				mu.Unlock()
				switch i % 3 {
				case 0:
					q.Add(k)
				case 1:
					q.AddAfter(k, time.Microsecond)
				default:
					q.AddRateLimited(k)
					q.Forget(k)
				}
			}
			for k := range keys {
				q.Add(k)
			}
		})
	}
	adders.Wait()
	q.ShutDown()
	workers.Wait()
	if seen != state {
		t.Errorf("workers saw %v of %v", seen, state)
	}
}

// A twin is the queue without delays, as simple as can be.
type twin struct {
	queue      []string
	again      []string
	processing []string
}

func (w *twin) add(k string) {
	switch {
	case slices.Contains(w.queue, k) || slices.Contains(w.again, k):
	case slices.Contains(w.processing, k):
		w.again = append(w.again, k)
	default:
		w.queue = append(w.queue, k)
	}
}

func (w *twin) done(k string) {
	if i := slices.Index(w.processing, k); i >= 0 {
		w.processing = slices.Delete(w.processing, i, i+1)
		if i := slices.Index(w.again, k); i >= 0 {
			w.again = slices.Delete(w.again, i, i+1)
			w.queue = append(w.queue, k)
		}
	}
}

func TestQueue_property(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := workqueue.New[string](workqueue.Config{})
		defer q.ShutDown()
		w := &twin{}
		key := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				k := key.Draw(t, "key")
				q.Add(k)
				w.add(k)
			},
			"get": func(t *rapid.T) {
				if len(w.queue) == 0 {
					t.Skip("empty")
				}
				want := w.queue[0]
				w.queue = w.queue[1:]
				w.processing = append(w.processing, want)
				if k, ok := q.Get(context.Background()); !ok || k != want {
					t.Fatalf("got %q %v, want %q", k, ok, want)
				}
			},
			"done": func(t *rapid.T) {
				k := key.Draw(t, "key")
				q.Done(k)
				w.done(k)
			},
			"": func(t *rapid.T) {
				if q.Len() != len(w.queue) {
					t.Fatalf("length %d, want %d", q.Len(), len(w.queue))
				}
			},
		})
	})
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		m, err := workqueue.NewMetrics(reg)
		if err != nil {
			t.Fatal(err)
		}
		if _, gotErr := workqueue.NewMetrics(reg); gotErr == nil {
			t.Error("registered twice")
		}
		q := workqueue.New[string](workqueue.Config{Name: "pods", Metrics: m})
		q.Add("a")
		q.Add("a")
		q.Add("b")
		q.AddAfter("c", time.Hour)
		<-time.After(2 * time.Second) // the bubble's clock
		mustGet(t, q, "a")
		<-time.After(3 * time.Second)
		got, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]float64{
			"workqueue_adds_total": 2, "workqueue_depth": 1, "workqueue_retries_total": 1,
			"workqueue_unfinished_work_seconds": 3, "workqueue_longest_running_processor_seconds": 3,
		}
		for _, f := range got {
			m := f.GetMetric()[0]
			if l := m.GetLabel()[0]; l.GetName() != "name" || l.GetValue() != "pods" {
				t.Errorf("%s has label %v", f.GetName(), l)
			}
			if n, ok := want[f.GetName()]; ok && m.GetGauge().GetValue()+m.GetCounter().GetValue() != n {
				t.Errorf("%s is %v, want %v", f.GetName(), m, n)
			}
			delete(want, f.GetName())
		}
		if len(want) != 0 {
			t.Errorf("missing: %v", want)
		}
		q.Done("a")
		if got, err = reg.Gather(); err != nil {
			t.Fatal(err)
		}
		for _, f := range got {
			h := f.GetMetric()[0].GetHistogram()
			wantSum := map[string]float64{"workqueue_queue_duration_seconds": 2, "workqueue_work_duration_seconds": 3}[f.GetName()]
			if h != nil && (h.GetSampleCount() != 1 || h.GetSampleSum() != wantSum) {
				t.Errorf("%s is %v", f.GetName(), h)
			}
		}
		q.ShutDown()
	})
}

func BenchmarkAddGetDone(b *testing.B) {
	q := workqueue.New[string](workqueue.Config{})
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprint(i)
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, k := range keys {
			q.Add(k)
		}
		for range keys {
			k, _ := q.Get(b.Context())
			q.Done(k)
		}
	}
}
