package integration_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/proa-project/proa/test/cluster"
)

// A writer creates ConfigMaps, whether or not there is a server, and remembers
// what was acknowledged.
type writer struct {
	clients kubernetes.Interface
	mu      sync.Mutex
	acked   map[string]int64
	last    int64
	wake    chan struct{} // has a value after an acknowledgement
}

func (w *writer) run(ctx context.Context, t *testing.T) {
	t.Helper()
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for i := 0; ctx.Err() == nil; i++ {
		name := fmt.Sprintf("written-%05d", i)
		for ctx.Err() == nil {
			cm, err := w.clients.CoreV1().ConfigMaps("default").Create(ctx, configMap(name), metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) { // an acknowledgement was lost
				break
			}
			if err == nil {
				w.ack(t, cm)
				break
			}
			select {
			case <-ctx.Done():
			case <-retry.C:
			}
		}
	}
}

func (w *writer) ack(t *testing.T, cm *corev1.ConfigMap) {
	t.Helper()
	rv, err := strconv.ParseInt(cm.ResourceVersion, 10, 64)
	if err != nil {
		t.Errorf("resourceVersion: %v", err)
	}
	w.mu.Lock()
	if rv <= w.last {
		t.Errorf("%q has revision %d, after one of %d", cm.Name, rv, w.last)
	}
	w.acked[cm.Name], w.last = rv, rv
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *writer) snapshot() (map[string]int64, int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.acked), w.last
}

// census counts the pods of a Deployment as they come and go.
type census struct {
	mu    sync.Mutex
	alive map[types.UID]bool
	most  int
}

func (c *census) count(obj any, gone bool) {
	p, ok := obj.(*corev1.Pod)
	if !ok || p.Labels["app"] != "web" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if gone || p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded {
		delete(c.alive, p.UID)
	} else {
		c.alive[p.UID] = true
	}
	c.most = max(c.most, len(c.alive))
}

// TestKill kills the server while it works, several times: nothing that it
// acknowledged is lost, no revision comes again, and all converges. A client's
// informers go on by themselves.
func TestKill(t *testing.T) {
	t.Parallel()
	s := newServer(t, t.TempDir(), "--simulate-nodes", "3")
	s.start(t)
	ctx := bounded(t, 110*time.Second)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cs := s.clients(t)

	const replicas, surge = 6, 2
	d := deployment("web", replicas)
	one, two := intstr.FromInt32(1), intstr.FromInt32(surge)
	d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxUnavailable: &one, MaxSurge: &two}
	if _, err := cs.AppsV1().Deployments("default").Create(ctx, d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(cs, 0)
	pods := factory.Core().V1().Pods().Informer()
	cms := factory.Core().V1().ConfigMaps().Informer()
	mono := newMonotony(t)
	pods.AddEventHandler(mono) // not stopped
	cms.AddEventHandler(mono)  // not stopped
	people := &census{alive: map[types.UID]bool{}}
	pods.AddEventHandler(cache.ResourceEventHandlerFuncs{ // not stopped
		AddFunc:    func(o any) { people.count(o, false) },
		UpdateFunc: func(_, o any) { people.count(o, false) },
		DeleteFunc: func(o any) {
			if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			people.count(o, true)
		},
	})
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	defer cancel()
	factory.WaitForCacheSync(ctx.Done())

	w := &writer{clients: cs, acked: map[string]int64{}, wake: make(chan struct{}, 1)}
	writerCtx, stopWriter := context.WithCancel(ctx)
	defer stopWriter()
	var writing sync.WaitGroup
	writing.Go(func() { w.run(writerCtx, t) })
	for life := range 4 {
		roll := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"life":"%d"}}}}}`, life)
		cluster.Eventually(t, 20*time.Second, "a new roll-out is accepted", func(ctx context.Context) bool {
			_, err := cs.AppsV1().Deployments("default").Patch(ctx, "web", types.StrategicMergePatchType, []byte(roll), metav1.PatchOptions{})
			return err == nil
		})
		for range 20 + rand.IntN(60) {
			select {
			case <-w.wake:
			case <-ctx.Done():
				t.Fatal("the writer makes no progress")
			}
		}
		s.end(syscall.SIGKILL)
		acked, last := w.snapshot()
		s.start(t)
		list, err := cs.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if rv, err := strconv.ParseInt(list.ResourceVersion, 10, 64); err != nil || rv < last {
			t.Errorf("life %d: the list is of revision %q, after a write of %d", life, list.ResourceVersion, last)
		}
		for i := range list.Items {
			if rv, ok := acked[list.Items[i].Name]; ok && strconv.FormatInt(rv, 10) != list.Items[i].ResourceVersion {
				t.Errorf("life %d: %q has revision %s; %d was acknowledged", life, list.Items[i].Name, list.Items[i].ResourceVersion, rv)
			}
			delete(acked, list.Items[i].Name)
		}
		if len(acked) > 0 {
			t.Errorf("life %d: %d acknowledged writes are lost: %v", life, len(acked), acked)
		}
	}
	stopWriter()
	writing.Wait()
	waitComplete(t, cs, "web", 40*time.Second)
	acked, _ := w.snapshot()
	t.Logf("%d acknowledged writes in 5 lives", len(acked))
	cluster.Eventually(t, 20*time.Second, "the informers have what the server has", func(ctx context.Context) bool {
		return same(ctx, cs, pods, cms)
	})
	people.mu.Lock()
	defer people.mu.Unlock()
	if people.most > replicas+surge {
		t.Errorf("there were %d pods at one time; %d are allowed", people.most, replicas+surge)
	}
	sets, err := cs.AppsV1().ReplicaSets("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(sets.Items) != 5 { // the first and four roll-outs
		t.Errorf("there are %d ReplicaSets; want 5", len(sets.Items))
	}
}

// same tells whether the stores of informers of pods and ConfigMaps are what
// the server has.
func same(ctx context.Context, cs kubernetes.Interface, pods, cms cache.SharedIndexInformer) bool {
	podList, err := cs.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return false
	}
	cmList, err := cs.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return false
	}
	want, have := map[types.UID]string{}, map[types.UID]string{}
	for i := range podList.Items {
		want[podList.Items[i].UID] = podList.Items[i].ResourceVersion
	}
	for i := range cmList.Items {
		want[cmList.Items[i].UID] = cmList.Items[i].ResourceVersion
	}
	for _, o := range append(pods.GetStore().List(), cms.GetStore().List()...) {
		m := o.(metav1.Object) // all are objects
		have[m.GetUID()] = m.GetResourceVersion()
	}
	return maps.Equal(want, have)
}
