package informers_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/proa-project/proa/informers"
)

// start runs an informer until the test ends, and returns a function that ends
// it earlier.
func start(t testing.TB, i *informers.Informer[object]) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- i.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run returned %v", err)
		}
	}
	return stop
}

func names(objs []object) []string {
	var out []string
	for _, o := range objs {
		out = append(out, o.Name)
	}
	slices.Sort(out)
	return out
}

func TestInformer(t *testing.T) {
	for _, mode := range []string{"watch list", "list"} {
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.noWatchList = mode == "list"
				w.put("a1", "x")
				w.put("a2", "y")
				w.put("b1", "x")
				i := informers.New(informers.Options[object]{Source: w})
				i.AddIndex("value", func(o object) []string { return []string{o.Labels["v"]} })
				tw := newTwin(t)
				reg := i.AddHandler(tw.handler())
				if i.HasSynced() || reg.HasSynced() {
					t.Error("synced before Run")
				}
				stop := start(t, i)
				defer stop()
				if err := i.WaitForSync(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := reg.WaitForSync(t.Context()); err != nil {
					t.Fatal(err)
				}
				if w.lists != 0 && mode == "watch list" {
					t.Errorf("listed %d times though the list was streamed", w.lists)
				}
				if got := names(i.List(nil)); !slices.Equal(got, []string{"a1", "a2", "b1"}) {
					t.Errorf("List is %v", got)
				}
				sel := labels.SelectorFromSet(labels.Set{"v": "x"})
				if got := names(i.List(sel)); !slices.Equal(got, []string{"a1", "b1"}) {
					t.Errorf("List by selector is %v", got)
				}
				if got := names(i.ListNamespace("nsa", sel)); !slices.Equal(got, []string{"a1"}) {
					t.Errorf("ListNamespace is %v", got)
				}
				if got := names(i.ByIndex("value", "y")); !slices.Equal(got, []string{"a2"}) {
					t.Errorf("ByIndex is %v", got)
				}
				w.put("a2", "x")
				w.remove("b1")
				w.put("c1", "z")
				synctest.Wait()
				if got := names(i.ByIndex("value", "x")); !slices.Equal(got, []string{"a1", "a2"}) {
					t.Errorf("ByIndex after the change is %v", got)
				}
				if len(i.ByIndex("value", "y")) != 0 || len(i.ByIndex("none", "y")) != 0 || i.Len() != 3 {
					t.Error("stale index")
				}
				if _, ok := i.Get("nsb", "b1"); ok {
					t.Error("deleted object is there")
				}
				if err := tw.differs(w.snapshot()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestInformer_empty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		i := informers.New(informers.Options[object]{Source: w})
		reg := i.AddHandler(informers.Handler[object]{})
		stop := start(t, i)
		defer stop()
		synctest.Wait()
		if !i.HasSynced() || !reg.HasSynced() {
			t.Error("an empty list is not the end of the first copy")
		}
		w.put("a", "")
		synctest.Wait()
		if i.Len() != 1 {
			t.Error("not watching")
		}
		if err := i.Run(t.Context()); !errors.Is(err, informers.ErrRunning) {
			t.Errorf("second Run returned %v", err)
		}
	})
}

func TestInformer_resumesAndLearnsOfMissedDeletions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.put("a1", "")
		w.put("a2", "")
		w.put("a3", "")
		i := informers.New(informers.Options[object]{Source: w})
		tw := newTwin(t)
		i.AddHandler(tw.handler())
		stop := start(t, i)
		defer stop()
		synctest.Wait()

		// Everything that follows happens while the history is forgotten.
		w.mu.Lock()
		w.faults = rand.New(breakNow{})
		w.mu.Unlock()
		w.remove("a1")
		w.remove("a2")
		w.put("a2", "again") // another object under the same name
		w.put("a4", "")
		w.compact()
		w.mu.Lock()
		w.faults = nil
		w.mu.Unlock()
		<-time.After(time.Minute) // the bubble's clock
		synctest.Wait()
		if err := tw.differs(w.snapshot()); err != nil {
			t.Error(err)
		}
		if i.Len() != 3 {
			t.Errorf("%d objects", i.Len())
		}
	})
}

// breakNow is a source of random numbers that makes every fault happen.
type breakNow struct{}

func (breakNow) Uint64() uint64 { return 0 }

func TestInformer_slowHandlerHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		i := informers.New(informers.Options[object]{Source: w})
		release := make(chan struct{})
		var slow, fast []string
		i.AddHandler(informers.Handler[object]{
			Add:    func(o object, _ bool) { <-release; slow = append(slow, o.Labels["v"]) },
			Update: func(_, o object) { slow = append(slow, o.Labels["v"]) },
		})
		i.AddHandler(informers.Handler[object]{
			Add:    func(o object, _ bool) { fast = append(fast, o.Labels["v"]) },
			Update: func(_, o object) { fast = append(fast, o.Labels["v"]) },
		})
		stop := start(t, i)
		defer stop()

		for n := range 100 {
			w.put("a", strconv.Itoa(n))
			if n == 50 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		if len(slow) != 0 || len(fast) == 0 || fast[len(fast)-1] != "99" {
			t.Errorf("slow was told %d, fast %d changes", len(slow), len(fast))
		}
		close(release)
		synctest.Wait()
		if !slices.Equal(slow, fast) || !slices.IsSortedFunc(slow, func(a, b string) int {
			x, _ := strconv.Atoi(a)
			y, _ := strconv.Atoi(b)
			return x - y
		}) {
			t.Errorf("slow was told %v", slow)
		}
	})
}

func TestInformer_lateHandlerAndRemove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.put("a", "")
		i := informers.New(informers.Options[object]{Source: w})
		stop := start(t, i)
		defer stop()
		synctest.Wait()
		tw := newTwin(t)
		initial := 0
		h := tw.handler()
		add := h.Add
		h.Add = func(o object, first bool) {
			if first {
				initial++
			}
			add(o, first)
		}
		reg := i.AddHandler(h)
		w.put("b", "")
		synctest.Wait()
		if !reg.HasSynced() || initial != 1 {
			t.Errorf("late handler: synced %v, %d initial", reg.HasSynced(), initial)
		}
		if err := tw.differs(w.snapshot()); err != nil {
			t.Error(err)
		}
		reg.Remove()
		reg.Remove()
		calls := tw.calls
		w.put("c", "")
		synctest.Wait()
		if tw.calls != calls {
			t.Error("told after Remove")
		}
		stop()
		i.AddHandler(h) // after the end: nobody calls it, nothing leaks
	})
}

func TestInformer_resync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.put("a", "")
		i := informers.New(informers.Options[object]{Source: w, Resync: time.Minute})
		same := 0
		i.AddHandler(informers.Handler[object]{Update: func(old, o object) {
			if old == o {
				same++
			}
		}})
		stop := start(t, i)
		defer stop()
		<-time.After(10*time.Minute + time.Second)
		synctest.Wait()
		if same != 10 {
			t.Errorf("told %d times, want 10", same)
		}
	})
}

func TestInformer_transform(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.put("a", "x")
		i := informers.New(informers.Options[object]{Source: w, Transform: func(o object) object {
			o = o.DeepCopy()
			o.Labels = nil
			return o
		}})
		stop := start(t, i)
		defer stop()
		synctest.Wait()
		if o, ok := i.Get("nsa", "a"); !ok || o.Labels != nil {
			t.Errorf("got %v", o)
		}
	})
}

// TestInformer_chaos compares with the truth after thousands of changes over a
// source that drops connections, forgets history and repeats itself.
func TestInformer_chaos(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { chaos(t, seed) })
		})
	}
}

func chaos(t *testing.T, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	w := newWorld()
	w.noWatchList = seed%2 == 1
	w.faults = rand.New(rand.NewPCG(seed, 2))
	i := informers.New(informers.Options[object]{Source: w})
	i.AddIndex("value", func(o object) []string { return []string{o.Labels["v"]} })
	tw := newTwin(t)
	i.AddHandler(tw.handler())
	stop := start(t, i)
	defer stop()
	for range 2000 {
		name := string(rune('a'+r.IntN(3))) + strconv.Itoa(r.IntN(8))
		switch r.IntN(10) {
		case 0, 1, 2:
			w.remove(name)
		case 3:
			if r.IntN(20) == 0 {
				w.compact()
			}
		case 4:
			<-time.After(time.Duration(r.IntN(300)) * time.Millisecond) // the bubble's clock
		default:
			w.put(name, strconv.Itoa(r.IntN(5)))
		}
	}
	w.mu.Lock()
	w.faults = nil
	w.mu.Unlock()
	<-time.After(2 * time.Minute)
	synctest.Wait()
	truth := w.snapshot()
	if err := tw.differs(truth); err != nil {
		t.Errorf("handler: %v", err)
	}
	if i.Len() != len(truth) {
		t.Errorf("%d objects in the copy, want %d", i.Len(), len(truth))
	}
	for k, want := range truth {
		if have, ok := i.Get(k.Namespace, k.Name); !ok || have.ResourceVersion != want.ResourceVersion {
			t.Errorf("%s is %v in the copy, want %v", k, have, want)
		}
		if !slices.Contains(names(i.ByIndex("value", want.Labels["v"])), k.Name) {
			t.Errorf("%s is not in the index", k)
		}
	}
	if w.watches < 10 || w.expired == 0 {
		t.Errorf("only %d watches and %d expired: the test tests nothing", w.watches, w.expired)
	}
}
