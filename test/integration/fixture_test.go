package integration_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/proa-project/proa/test/cluster"
)

const protobuf = "application/vnd.kubernetes.protobuf"

// adminConfig returns the configuration of a stock client with all rights and
// no limit to its rate.
func adminConfig(t testing.TB, kubeconfig string) *rest.Config {
	t.Helper()
	c, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	c.QPS = -1
	return c
}

// protobufClients returns stock clients that speak protobuf.
func protobufClients(t testing.TB, c *rest.Config) *kubernetes.Clientset {
	t.Helper()
	c = rest.CopyConfig(c)
	c.ContentType, c.AcceptContentTypes = protobuf, protobuf+",application/json"
	clients, err := kubernetes.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return clients
}

// clients returns stock clients of a cluster.
func clients(t testing.TB, c *cluster.Cluster) *kubernetes.Clientset {
	t.Helper()
	return protobufClients(t, adminConfig(t, c.Kubeconfig))
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Data: map[string]string{"name": name}}
}

func podTemplate(labels map[string]string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(labels)},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/main:1"}}},
	}
}

func deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: podTemplate(labels),
		},
	}
}

// complete tells whether a Deployment is what its spec says, and no more.
func complete(d *appsv1.Deployment) bool {
	want := *d.Spec.Replicas
	return d.Status.ObservedGeneration >= d.Generation && d.Status.Replicas == want && d.Status.UpdatedReplicas == want &&
		d.Status.ReadyReplicas == want && d.Status.AvailableReplicas == want
}

// waitComplete waits for a Deployment to be what its spec says. Errors on the
// way are those of a server that is not there.
func waitComplete(t testing.TB, c kubernetes.Interface, name string, within time.Duration) {
	t.Helper()
	last := "never read"
	defer func() {
		if t.Failed() {
			t.Logf("deployment %q: %s", name, last)
		}
	}()
	cluster.Eventually(t, within, fmt.Sprintf("deployment %q is complete", name), func(ctx context.Context) bool {
		d, err := c.AppsV1().Deployments("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false
		}
		last = fmt.Sprintf("%+v", d.Status)
		return complete(d)
	})
}

// bounded returns a context that ends with the test or after a while.
func bounded(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
