package integration_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/proa-project/proa/test/cluster"
)

// A reconciler is a controller as a user writes it with stock client-go: it
// keeps as many pods as a ConfigMap says.
type reconciler struct {
	clients kubernetes.Interface
	sets    corelisters.ConfigMapLister
	pods    corelisters.PodLister
	queue   workqueue.TypedRateLimitingInterface[string]
}

func (r *reconciler) run(ctx context.Context) {
	for {
		key, shutdown := r.queue.Get()
		if shutdown {
			return
		}
		if err := r.reconcile(ctx, key); err != nil {
			r.queue.AddRateLimited(key)
		} else {
			r.queue.Forget(key)
		}
		r.queue.Done(key)
	}
}

func (r *reconciler) reconcile(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	set, err := r.sets.ConfigMaps(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return nil // its pods are collected
	} else if err != nil {
		return err
	}
	want, err := strconv.Atoi(set.Data["replicas"])
	if err != nil {
		return nil //nolint:nilerr // not one of ours
	}
	have, err := r.pods.Pods(namespace).List(labels.SelectorFromSet(labels.Set{"set": name}))
	if err != nil {
		return err
	}
	var live []*corev1.Pod
	for _, p := range have {
		if p.DeletionTimestamp == nil {
			live = append(live, p)
		}
	}
	template := podTemplate(map[string]string{"set": name})
	for i := len(live); i < want; i++ {
		_, err := r.clients.CoreV1().Pods(namespace).Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				GenerateName: name + "-", Labels: template.Labels,
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, corev1.SchemeGroupVersion.WithKind("ConfigMap"))},
			},
			Spec: template.Spec,
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
	}
	for i := want; i < len(live); i++ {
		err := r.clients.CoreV1().Pods(namespace).Delete(ctx, live[i].Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// TestReconciler runs such a controller and changes what it is to keep.
func TestReconciler(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Config{SimulateNodes: 2})
	cs := clients(t, c)
	ctx, cancel := context.WithCancel(bounded(t, 60*time.Second))
	factory := informers.NewSharedInformerFactory(cs, 0)
	sets, pods := factory.Core().V1().ConfigMaps(), factory.Core().V1().Pods()
	r := &reconciler{
		clients: cs, sets: sets.Lister(), pods: pods.Lister(),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
	}
	add := func(obj any) {
		key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
		if err != nil {
			t.Error(err)
		}
		r.queue.Add(key)
	}
	owner := func(obj any) {
		if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = last.Obj
		}
		if p, ok := obj.(*corev1.Pod); ok && p.Labels["set"] != "" {
			r.queue.Add(p.Namespace + "/" + p.Labels["set"])
		}
	}
	for informer, f := range map[cache.SharedIndexInformer]func(any){sets.Informer(): add, pods.Informer(): owner} {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: f, UpdateFunc: func(_, obj any) { f(obj) }, DeleteFunc: f,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	defer cancel()
	factory.WaitForCacheSync(ctx.Done())
	var wg sync.WaitGroup
	wg.Go(func() { r.run(ctx) })
	defer wg.Wait()
	defer r.queue.ShutDown()

	running := func(n int) func(context.Context) bool {
		return func(ctx context.Context) bool {
			list, err := cs.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "set=mine"})
			if err != nil || len(list.Items) != n {
				return false
			}
			for i := range list.Items {
				if list.Items[i].Status.Phase != corev1.PodRunning {
					return false
				}
			}
			return true
		}
	}
	cm := configMap("mine")
	cm.Data = map[string]string{"replicas": "3"}
	cm, err := cs.CoreV1().ConfigMaps("default").Create(ctx, cm, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t, 20*time.Second, "three pods run", running(3))
	for _, n := range []int{5, 1} {
		cm.Data["replicas"] = strconv.Itoa(n)
		if cm, err = cs.CoreV1().ConfigMaps("default").Update(ctx, cm, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		cluster.Eventually(t, 20*time.Second, "as many pods run as are wanted now", running(n))
	}
	if err := cs.CoreV1().Pods("default").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "set=mine"}); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t, 20*time.Second, "a pod comes back", running(1))
	if err := cs.CoreV1().ConfigMaps("default").Delete(ctx, "mine", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t, 20*time.Second, "the pods go with their owner", running(0))
}
