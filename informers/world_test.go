package informers_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/informers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	object = *corev1.ConfigMap
	event  = client.Event[object]
)

// A world is a source that keeps everything in memory, and misbehaves on
// demand as servers and networks do.
type world struct {
	mu      sync.Mutex
	rev     int
	uid     int
	objects map[informers.Key]object
	log     []event // log[i] has revision i+1
	oldest  int     // revisions before are forgotten
	changed chan struct{}

	noWatchList bool
	faults      *rand.Rand // nil: none
	watches     int
	lists       int
	expired     int
}

func newWorld() *world {
	return &world{objects: map[informers.Key]object{}, changed: make(chan struct{})}
}

// put creates or changes an object.
func (w *world) put(name, value string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := informers.Key{Namespace: "ns" + name[:1], Name: name}
	typ := watch.Modified
	old := w.objects[k]
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: k.Name, Labels: map[string]string{"v": value}}}
	if old == nil {
		typ = watch.Added
		w.uid++
		obj.UID = types.UID(strconv.Itoa(w.uid))
	} else {
		obj.UID = old.UID
	}
	w.record(typ, k, obj)
	w.objects[k] = obj
}

func (w *world) remove(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := informers.Key{Namespace: "ns" + name[:1], Name: name}
	if old := w.objects[k]; old != nil {
		delete(w.objects, k)
		w.record(watch.Deleted, k, old.DeepCopy())
	}
}

func (w *world) record(typ watch.EventType, _ informers.Key, obj object) {
	w.rev++
	obj.ResourceVersion = strconv.Itoa(w.rev)
	w.log = append(w.log, event{Type: typ, Object: obj, ResourceVersion: obj.ResourceVersion})
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *world) compact() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.oldest = w.rev
}

func (w *world) snapshot() map[informers.Key]object {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[informers.Key]object{}
	maps.Copy(out, w.objects)
	return out
}

var errNet = errors.New("connection reset")

// fault returns true once in n times.
func (w *world) fault(n int) bool { return w.faults != nil && w.faults.IntN(n) == 0 }

func (w *world) List(_ context.Context, o metav1.ListOptions) (client.List[object], error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lists++
	if w.fault(4) {
		return client.List[object]{}, errNet
	}
	if o.Continue != "" && w.fault(3) {
		return client.List[object]{}, apierrors.NewResourceExpired("continue token is too old")
	}
	l := client.List[object]{ResourceVersion: strconv.Itoa(w.rev)}
	for _, obj := range w.objects {
		l.Items = append(l.Items, obj)
	}
	return l, nil
}

func (w *world) Watch(_ context.Context, o metav1.ListOptions) (informers.Stream[object], error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watches++
	if w.fault(5) {
		return nil, errNet
	}
	s := &stream{w: w}
	if o.SendInitialEvents != nil {
		if w.noWatchList {
			return nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", nil)
		}
		for _, obj := range w.objects {
			s.first = append(s.first, event{Type: watch.Added, Object: obj, ResourceVersion: obj.ResourceVersion})
		}
		end := strconv.Itoa(w.rev)
		s.first = append(s.first, event{Type: watch.Bookmark, Object: &corev1.ConfigMap{}, ResourceVersion: end, InitialEnd: true})
		s.next = w.rev
		return s, nil
	}
	n, err := strconv.Atoi(o.ResourceVersion)
	if err != nil {
		return nil, err
	}
	if n < w.oldest {
		w.expired++
		return nil, apierrors.NewResourceExpired("too old resource version")
	}
	s.next = n
	return s, nil
}

type stream struct {
	w      *world
	first  []event
	next   int
	closed bool
}

func (s *stream) Close() { s.closed = true }

func (s *stream) Next(ctx context.Context) (event, error) {
	for {
		s.w.mu.Lock()
		ev, wait, err := s.step()
		s.w.mu.Unlock()
		if wait == nil {
			return ev, err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return event{}, ctx.Err()
		}
	}
}

// step needs the world's lock.
func (s *stream) step() (event, <-chan struct{}, error) {
	w := s.w
	switch {
	case s.closed:
		return event{}, nil, io.EOF
	case w.fault(40):
		return event{}, nil, io.EOF
	case w.fault(40):
		return event{}, nil, errNet
	case w.fault(60):
		w.expired++
		return event{}, nil, apierrors.NewResourceExpired("compacted")
	case len(s.first) > 0:
		ev := s.first[0]
		s.first = s.first[1:]
		return ev, nil, nil
	case w.fault(15) && s.next > 3: // repeat something old
		return w.log[s.next-2], nil, nil
	case w.fault(15):
		return event{Type: watch.Bookmark, Object: &corev1.ConfigMap{}, ResourceVersion: strconv.Itoa(s.next)}, nil, nil
	case s.next < w.oldest && w.faults != nil:
		return event{}, nil, apierrors.NewResourceExpired("compacted")
	case s.next < len(w.log):
		s.next++
		return w.log[s.next-1], nil, nil
	}
	return event{}, w.changed, nil
}

// A twin is what a handler knows: it checks that what it is told fits.
type twin struct {
	t       testing.TB
	mu      sync.Mutex
	objects map[informers.Key]object
	calls   int
}

func newTwin(t testing.TB) *twin {
	t.Helper()
	return &twin{t: t, objects: map[informers.Key]object{}}
}

func (tw *twin) handler() informers.Handler[object] {
	return informers.Handler[object]{
		Add: func(obj object, _ bool) {
			tw.mu.Lock()
			defer tw.mu.Unlock()
			tw.calls++
			if have, ok := tw.objects[informers.KeyOf(obj)]; ok {
				tw.t.Errorf("Add of %s which is there at %s", informers.KeyOf(obj), have.ResourceVersion)
			}
			tw.objects[informers.KeyOf(obj)] = obj
		},
		Update: func(old, obj object) {
			tw.mu.Lock()
			defer tw.mu.Unlock()
			tw.calls++
			have := tw.objects[informers.KeyOf(obj)]
			if have != old || old.UID != obj.UID {
				tw.t.Errorf("Update of %s from %v, which is %v here", informers.KeyOf(obj), old, have)
			}
			tw.objects[informers.KeyOf(obj)] = obj
		},
		Delete: func(obj object) {
			tw.mu.Lock()
			defer tw.mu.Unlock()
			tw.calls++
			if have := tw.objects[informers.KeyOf(obj)]; have == nil || have.UID != obj.UID {
				tw.t.Errorf("Delete of %s which is not there", informers.KeyOf(obj))
			}
			delete(tw.objects, informers.KeyOf(obj))
		},
	}
}

// differs compares what the twin knows with the truth.
func (tw *twin) differs(truth map[informers.Key]object) error {
	tw.mu.Lock()
	defer tw.mu.Unlock()
	if len(tw.objects) != len(truth) {
		return fmt.Errorf("%d objects, want %d", len(tw.objects), len(truth))
	}
	for k, want := range truth {
		have := tw.objects[k]
		if have == nil || have.UID != want.UID || have.ResourceVersion != want.ResourceVersion {
			return fmt.Errorf("%s is %v, want %v", k, have, want)
		}
	}
	return nil
}
