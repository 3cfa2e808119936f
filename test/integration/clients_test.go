package integration_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/retry"

	"github.com/proa-project/proa/test/cluster"
)

// roundTripper is a function that is an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestTypedClient walks the verbs with the typed clients, which get protobuf.
func TestTypedClient(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Config{})
	ctx := bounded(t, 30*time.Second)
	config := adminConfig(t, c.Kubeconfig)
	var others atomic.Int32
	config.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			resp, err := next.RoundTrip(r)
			if err == nil && resp.StatusCode < 300 && r.Method != http.MethodDelete && !strings.HasPrefix(resp.Header.Get("Content-Type"), protobuf) {
				others.Add(1)
				t.Errorf("%s %s is answered as %q", r.Method, r.URL, resp.Header.Get("Content-Type"))
			}
			return resp, err
		})
	}
	cms := protobufClients(t, config).CoreV1().ConfigMaps("default")

	made, err := cms.Create(ctx, configMap("a"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := cms.Watch(ctx, metav1.ListOptions{ResourceVersion: made.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	made.Data["more"] = "ä\x00\n" // what JSON escapes
	updated, err := cms.Update(ctx, made, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(made.Data, updated.Data); diff != "" {
		t.Errorf("data (-sent +got):\n%s", diff)
	}
	if _, err := cms.Update(ctx, made, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("an update of what was updated: %v", err)
	}
	patched, err := cms.Patch(ctx, "a", types.StrategicMergePatchType, []byte(`{"data":{"name":null}}`), metav1.PatchOptions{})
	if err != nil || len(patched.Data) != 1 {
		t.Errorf("patched: %v, %v", patched, err)
	}
	list, err := cms.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=a"})
	if err != nil || len(list.Items) != 1 || list.Items[0].ResourceVersion != patched.ResourceVersion {
		t.Errorf("list: %v, %v", list, err)
	}
	if err := cms.Delete(ctx, "a", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &patched.UID}}); err != nil {
		t.Errorf("delete: %v", err)
	}
	if _, err := cms.Get(ctx, "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("get what is deleted: %v", err)
	}
	for _, want := range []string{updated.ResourceVersion, patched.ResourceVersion, ""} {
		e := <-w.ResultChan()
		got, ok := e.Object.(*corev1.ConfigMap)
		if !ok || (want != "" && got.ResourceVersion != want) || (want == "") != (e.Type == "DELETED") {
			t.Errorf("event %s %v; want the one of revision %q", e.Type, e.Object, want)
		}
	}
}

// TestInformers runs the stock shared informers while a Deployment lives.
func TestInformers(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Config{SimulateNodes: 3})
	ctx := bounded(t, 60*time.Second)
	cs := clients(t, c)
	factory := informers.NewSharedInformerFactory(cs, 0)
	pods, deployments, nodes := factory.Core().V1().Pods(), factory.Apps().V1().Deployments(), factory.Core().V1().Nodes()
	mono := newMonotony(t)
	for _, i := range []cache.SharedIndexInformer{pods.Informer(), deployments.Informer(), nodes.Informer()} {
		if _, err := i.AddEventHandler(mono); err != nil {
			t.Fatal(err)
		}
	}
	runCtx, cancel := context.WithCancel(ctx)
	factory.StartWithContext(runCtx)
	defer factory.Shutdown()
	defer cancel()
	for kind, ok := range factory.WaitForCacheSync(runCtx.Done()) {
		if !ok {
			t.Fatalf("%v has not synced", kind)
		}
	}
	cluster.Eventually(t, 20*time.Second, "three nodes are seen", func(context.Context) bool {
		have, err := nodes.Lister().List(labels.Everything())
		return err == nil && len(have) == 3
	})
	if _, err := cs.AppsV1().Deployments("default").Create(ctx, deployment("web", 5), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	running := func() []*corev1.Pod {
		var out []*corev1.Pod
		all, err := pods.Lister().Pods("default").List(labels.SelectorFromSet(labels.Set{"app": "web"}))
		if err != nil {
			t.Error(err)
		}
		for _, p := range all {
			if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
				out = append(out, p)
			}
		}
		return out
	}
	cluster.Eventually(t, 20*time.Second, "five pods are seen running", func(context.Context) bool { return len(running()) == 5 })
	gone := running()[0]
	if err := cs.CoreV1().Pods("default").Delete(ctx, gone.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t, 20*time.Second, "another pod takes the place", func(context.Context) bool {
		for _, p := range running() {
			if p.Name == gone.Name {
				return false
			}
		}
		return len(running()) == 5
	})
	cluster.Eventually(t, 20*time.Second, "the deployment is seen complete", func(context.Context) bool {
		d, err := deployments.Lister().Deployments("default").Get("web")
		return err == nil && complete(d)
	})
	cluster.Eventually(t, 10*time.Second, "the copy equals the list", func(ctx context.Context) bool {
		list, err := cs.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false
		}
		want, have := map[string]string{}, map[string]string{}
		for i := range list.Items {
			want[list.Items[i].Name] = list.Items[i].ResourceVersion
		}
		for _, o := range pods.Informer().GetStore().List() {
			p := o.(*corev1.Pod) // an informer of pods
			have[p.Name] = p.ResourceVersion
		}
		return maps.Equal(want, have)
	})
}

// monotony checks that no object goes back in time.
type monotony struct {
	t    testing.TB
	mu   sync.Mutex
	last map[types.UID]string
}

func newMonotony(t testing.TB) *monotony {
	t.Helper()
	return &monotony{t: t, last: map[types.UID]string{}}
}

func (m *monotony) see(obj any, same bool) {
	o, ok := obj.(metav1.Object)
	if !ok {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if last, ok := m.last[o.GetUID()]; ok {
		n, err := resourceversion.CompareResourceVersion(o.GetResourceVersion(), last)
		if err != nil || n < 0 || (n == 0 && !same) {
			m.t.Errorf("%T %q is at %q after %q: %v", obj, o.GetName(), o.GetResourceVersion(), last, err)
		}
	}
	m.last[o.GetUID()] = o.GetResourceVersion()
}

// OnAdd implements cache.ResourceEventHandler.
func (m *monotony) OnAdd(obj any, _ bool) { m.see(obj, true) }

// OnUpdate implements cache.ResourceEventHandler.
func (m *monotony) OnUpdate(_, obj any) { m.see(obj, true) }

// OnDelete implements cache.ResourceEventHandler.
func (m *monotony) OnDelete(obj any) { m.see(obj, true) }

// TestDynamicAndMetadata uses the clients that know no types.
func TestDynamicAndMetadata(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Config{})
	ctx := bounded(t, 30*time.Second)
	config := adminConfig(t, c.Kubeconfig)
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	meta, err := metadata.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	gvr := appsv1.SchemeGroupVersion.WithResource("deployments")
	factory := dynamicinformer.NewDynamicSharedInformerFactory(dyn, 0)
	informer := factory.ForResource(gvr)
	ctx, cancel := context.WithCancel(ctx)
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	defer cancel()
	factory.WaitForCacheSync(ctx.Done())

	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "dyn", "labels": map[string]any{"is": "dynamic"}},
		"spec": map[string]any{
			"replicas": int64(2),
			"selector": map[string]any{"matchLabels": map[string]any{"app": "dyn"}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": "dyn"}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "a", "image": "a"}}},
			},
		},
	}}
	made, err := dyn.Resource(gvr).Namespace("default").Create(ctx, obj, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t, 10*time.Second, "the dynamic informer sees it", func(context.Context) bool {
		_, err := informer.Lister().ByNamespace("default").Get("dyn")
		return err == nil
	})
	list, err := meta.Resource(gvr).Namespace("default").List(ctx, metav1.ListOptions{LabelSelector: "is=dynamic"})
	if err != nil || len(list.Items) != 1 || list.Items[0].UID != made.GetUID() {
		t.Fatalf("list of metadata: %+v, %v", list, err)
	}
	got, err := meta.Resource(gvr).Namespace("default").Patch(ctx, "dyn", types.MergePatchType, []byte(`{"metadata":{"labels":{"is":"patched"}}}`), metav1.PatchOptions{})
	if err != nil || got.Labels["is"] != "patched" {
		t.Errorf("patch of metadata: %+v, %v", got, err)
	}
	background := metav1.DeletePropagationBackground
	if err := meta.Resource(gvr).Namespace("default").Delete(ctx, "dyn", metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Error(err)
	}
	cluster.Eventually(t, 20*time.Second, "all that it owned is gone", func(ctx context.Context) bool {
		pods, err := meta.Resource(corev1.SchemeGroupVersion.WithResource("pods")).List(ctx, metav1.ListOptions{LabelSelector: "app=dyn"})
		sets, err2 := meta.Resource(appsv1.SchemeGroupVersion.WithResource("replicasets")).List(ctx, metav1.ListOptions{LabelSelector: "app=dyn"})
		return err == nil && err2 == nil && len(pods.Items) == 0 && len(sets.Items) == 0
	})
}

// TestLeaderElection elects with stock client-go, and hands over.
func TestLeaderElection(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Config{})
	cs := clients(t, c)
	leads := make(chan string, 4)
	var wg sync.WaitGroup
	defer wg.Wait()
	run := func(id string) context.CancelFunc {
		ctx, cancel := context.WithCancel(bounded(t, 60*time.Second))
		e, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta: metav1.ObjectMeta{Namespace: "default", Name: "lock"}, Client: cs.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: id},
			},
			LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 100 * time.Millisecond,
			ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { leads <- id }, OnStoppedLeading: func() {},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() { e.Run(ctx) })
		return cancel
	}
	stopA := run("a")
	defer stopA()
	if got := <-leads; got != "a" {
		t.Fatalf("%q leads", got)
	}
	stopB := run("b")
	defer stopB()
	stopA()
	select {
	case got := <-leads:
		if got != "b" {
			t.Errorf("%q leads", got)
		}
	case <-time.After(20 * time.Second):
		t.Error("nobody took over")
	}
	lease, err := cs.CoordinationV1().Leases("default").Get(t.Context(), "lock", metav1.GetOptions{})
	if err != nil || *lease.Spec.HolderIdentity != "b" {
		t.Errorf("lease: %+v, %v", lease, err)
	}
	stopB()
}

// TestRetryOnConflict counts up one annotation from 20 goroutines.
func TestRetryOnConflict(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Config{})
	cms := clients(t, c).CoreV1().ConfigMaps("default")
	ctx := bounded(t, 60*time.Second)
	if _, err := cms.Create(ctx, configMap("counter"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const goroutines, each = 20, 5
	var conflicts atomic.Int32
	var wg sync.WaitGroup
	backoff := wait.Backoff{Steps: 1000, Duration: 5 * time.Millisecond, Jitter: 2}
	for range goroutines {
		wg.Go(func() {
			for range each {
				err := retry.RetryOnConflict(backoff, func() error {
					cm, err := cms.Get(ctx, "counter", metav1.GetOptions{})
					if err != nil {
						return err
					}
					n, _ := strconv.Atoi(cm.Annotations["count"]) // none is 0
					if cm.Annotations == nil {
						cm.Annotations = map[string]string{}
					}
					cm.Annotations["count"] = strconv.Itoa(n + 1)
					if _, err = cms.Update(ctx, cm, metav1.UpdateOptions{}); apierrors.IsConflict(err) {
						conflicts.Add(1)
					}
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	cm, err := cms.Get(ctx, "counter", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprint(goroutines * each); cm.Annotations["count"] != want {
		t.Errorf("count is %s; want %s", cm.Annotations["count"], want)
	}
	if conflicts.Load() == 0 {
		t.Error("there were no conflicts: nothing was tested")
	}
}
