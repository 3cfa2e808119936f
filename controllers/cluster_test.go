package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/controllers"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/informers"
	"github.com/proa-project/proa/informers/workqueue"
	"github.com/proa-project/proa/test/apiserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A cluster is an API server in memory with a stand-in for scheduler and node
// agents, and with managers as the test starts them.
type cluster struct {
	t      testing.TB
	server *apiserver.Server
	rest   *client.REST
	log    zerolog.Logger

	deployments *client.Client[*appsv1.Deployment]
	sets        *client.Client[*appsv1.ReplicaSet]
	pods        *client.Client[*corev1.Pod]
	nodes       *client.Client[*corev1.Node]

	// mu guards the fields below.
	mu sync.Mutex
	// frozen are images whose pods never become ready.
	frozen map[string]bool
}

func newCluster(t testing.TB) *cluster {
	t.Helper()
	s := apiserver.New(t)
	c := &cluster{
		t: t, server: s, rest: s.REST, log: zerolog.Nop(), frozen: map[string]bool{},
		deployments: client.For[*appsv1.Deployment](s.REST), sets: client.For[*appsv1.ReplicaSet](s.REST),
		pods: client.For[*corev1.Pod](s.REST), nodes: client.For[*corev1.Node](s.REST),
	}
	if os.Getenv("PROA_TEST_LOG") == "debug" {
		c.log = zerolog.New(zerolog.NewTestWriter(t))
	}
	return c
}

// background runs f until the test ends or stop is called.
func background(t testing.TB, f func(ctx context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := f(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

// manage starts a manager with its own informers.
func (c *cluster) manage(change ...func(*controllers.Config)) (stop func()) {
	c.t.Helper()
	f := informers.NewFactory(informers.Config{REST: c.rest, Log: c.log})
	cfg := controllers.Config{REST: c.rest, Factory: f, Log: c.log, Identity: "test", RootCA: []byte("PEM")}
	for _, ch := range change {
		ch(&cfg)
	}
	m, err := controllers.NewManager(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	stopFactory := background(c.t, f.Run)
	stopManager := background(c.t, m.Run)
	return func() {
		stopManager()
		stopFactory()
	}
}

// node adds a node that is ready.
func (c *cluster) node(name string) *corev1.Node {
	c.t.Helper()
	n, err := c.nodes.Create(c.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if err != nil {
		c.t.Fatal(err)
	}
	n.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now(), Reason: "KubeletReady", Message: "ready",
	}}
	if n, err = c.nodes.UpdateStatus(c.t.Context(), n); err != nil {
		c.t.Fatal(err)
	}
	return n
}

// agents stands in for the scheduler and the node agents: each pod is bound to
// one of the nodes, runs, becomes ready and, once deleted, goes away.
func (c *cluster) agents(nodes ...string) {
	c.t.Helper()
	row := api.ByGVR("", "v1", "pods")
	pods := informers.New(informers.Options[*corev1.Pod]{Client: c.pods, Log: c.log})
	q := workqueue.New[informers.Key](workqueue.Config{})
	pods.AddHandler(informers.Handler[*corev1.Pod]{
		Add:    func(p *corev1.Pod, _ bool) { q.Add(informers.KeyOf(p)) },
		Update: func(_, p *corev1.Pod) { q.Add(informers.KeyOf(p)) },
	})
	work := func(ctx context.Context, k informers.Key) error {
		p, ok := pods.Get(k.Namespace, k.Name)
		switch {
		case !ok:
			return nil
		case p.DeletionTimestamp != nil:
			return c.pods.Delete(ctx, p.Namespace, p.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		case p.Spec.NodeName == "":
			return c.rest.Post(ctx, row, p.Namespace, p.Name, "binding", &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
				Target:     corev1.ObjectReference{Kind: "Node", Name: nodes[rand.IntN(len(nodes))]},
			}, nil)
		case p.Status.Phase != corev1.PodPending:
			return nil
		}
		c.mu.Lock()
		frozen := c.frozen[p.Spec.Containers[0].Image]
		c.mu.Unlock()
		up := p.DeepCopy()
		up.Status.Phase = corev1.PodRunning
		ready := corev1.ConditionTrue
		if frozen {
			ready = corev1.ConditionFalse
		}
		up.Status.Conditions = append(up.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.Now()})
		_, err := c.pods.UpdateStatus(ctx, up)
		return err
	}
	background(c.t, pods.Run)
	background(c.t, func(ctx context.Context) error {
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for {
					k, ok := q.Get(ctx)
					if !ok {
						return
					}
					if err := work(ctx, k); err != nil && !apierrors.IsNotFound(err) {
						q.AddRateLimited(k)
					}
					q.Done(k)
				}
			})
		}
		wg.Wait()
		q.ShutDown()
		return nil
	})
}

// eventually waits until f returns no error.
func (c *cluster) eventually(within time.Duration, f func() error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), within)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			c.t.Fatalf("not within %v: %v", within, err)
		}
	}
}

func deployment(name string, n int32, image string) *appsv1.Deployment {
	l := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: l},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: l},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}},
			},
		},
	}
}

func (c *cluster) create(d *appsv1.Deployment) *appsv1.Deployment {
	c.t.Helper()
	d, err := c.deployments.Create(c.t.Context(), d)
	if err != nil {
		c.t.Fatal(err)
	}
	return d
}

// change updates a deployment, trying again after conflicts.
func (c *cluster) change(name string, f func(d *appsv1.Deployment)) {
	c.t.Helper()
	c.eventually(10*time.Second, func() error {
		d, err := c.deployments.Get(c.t.Context(), "default", name)
		if err != nil {
			return err
		}
		f(d)
		_, err = c.deployments.Update(c.t.Context(), d)
		return err
	})
}

// rolledOut waits until a deployment is complete, as kubectl rollout status
// does, with n pods of the image, and nothing else is left.
func (c *cluster) rolledOut(name string, n int32, image string) *appsv1.Deployment {
	c.t.Helper()
	var d *appsv1.Deployment
	c.eventually(60*time.Second, func() error {
		var err error
		if d, err = c.deployments.Get(c.t.Context(), "default", name); err != nil {
			return err
		}
		s := d.Status
		if s.ObservedGeneration < d.Generation || s.UpdatedReplicas != n || s.Replicas != n || s.AvailableReplicas != n || s.ReadyReplicas != n || s.UnavailableReplicas != 0 {
			return fmt.Errorf("status %+v", s)
		}
		for _, cond := range s.Conditions {
			if cond.Type == appsv1.DeploymentProgressing && cond.Reason != "NewReplicaSetAvailable" {
				return fmt.Errorf("condition %+v", cond)
			}
		}
		l, err := c.pods.List(c.t.Context(), "default", metav1.ListOptions{LabelSelector: "app=" + name})
		if err != nil {
			return err
		}
		if len(l.Items) != int(n) {
			return fmt.Errorf("%d pods", len(l.Items))
		}
		for _, p := range l.Items {
			if p.Spec.Containers[0].Image != image {
				return fmt.Errorf("pod with image %q", p.Spec.Containers[0].Image)
			}
		}
		return nil
	})
	return d
}

func (c *cluster) setsOf(name string) []*appsv1.ReplicaSet {
	c.t.Helper()
	l, err := c.sets.List(c.t.Context(), "default", metav1.ListOptions{LabelSelector: "app=" + name})
	if err != nil {
		c.t.Fatal(err)
	}
	return l.Items
}

// eventsOf returns "reason message" of the events about an object.
func (c *cluster) eventsOf(ns, name string) string {
	c.t.Helper()
	l, err := client.For[*corev1.Event](c.rest).List(c.t.Context(), ns, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
	if err != nil {
		c.t.Fatal(err)
	}
	var out []string
	for _, e := range l.Items {
		out = append(out, fmt.Sprintf("%s %s %s %s", e.Type, e.Reason, e.Message, e.Source.Component))
	}
	return strings.Join(out, "\n")
}
