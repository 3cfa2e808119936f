package integration_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/test/cluster"
)

// TestScale runs 2,000 pods on 1,000 simulated nodes. The figures are for the
// reader; the bound is for a machine that does other things as well.
func TestScale(t *testing.T) {
	t.Parallel()
	const nodes, replicas = 1000, 2000
	s := newServer(t, t.TempDir(), "--simulate-nodes", strconv.Itoa(nodes))
	s.binary = build(t)
	begin := time.Now()
	s.start(t)
	cs := s.clients(t)
	cluster.Eventually(t, 100*time.Second, "all nodes are ready", func(ctx context.Context) bool {
		list, err := cs.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		return err == nil && len(list.Items) == nodes
	})
	t.Logf("%d nodes after %v", nodes, time.Since(begin).Round(time.Millisecond))

	ctx := bounded(t, 100*time.Second)
	w, err := cs.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	begin = time.Now()
	if _, err := cs.AppsV1().Deployments("default").Create(ctx, deployment("web", replicas), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	type moments struct{ made, bound, running time.Duration }
	var all moments
	made, bound, running := map[types.UID]bool{}, map[types.UID]string{}, map[types.UID]bool{}
	for len(running) < replicas {
		e, ok := <-w.ResultChan()
		pod, isPod := e.Object.(*corev1.Pod)
		if !ok || !isPod {
			t.Fatalf("the watch ended with %d of %d pods bound and %d running: %v", len(bound), replicas, len(running), e)
		}
		made[pod.UID] = true
		if pod.Spec.NodeName != "" {
			if last := bound[pod.UID]; last != "" && last != pod.Spec.NodeName {
				t.Errorf("pod %q moved from %q to %q", pod.Name, last, pod.Spec.NodeName)
			}
			bound[pod.UID] = pod.Spec.NodeName
		}
		if pod.Status.Phase == corev1.PodRunning {
			running[pod.UID] = true
		}
		for i, have := range []int{len(made), len(bound), len(running)} {
			if at := []*time.Duration{&all.made, &all.bound, &all.running}[i]; have == replicas && *at == 0 {
				*at = time.Since(begin).Round(time.Millisecond)
			}
		}
	}
	if len(made) > replicas {
		t.Errorf("%d pods were made for %d replicas", len(made), replicas)
	}
	waitComplete(t, cs, "web", 60*time.Second)
	used := map[string]int{}
	most := 0
	for _, n := range bound {
		used[n]++
		most = max(most, used[n])
	}
	t.Logf("%d pods: made after %v, bound after %v, running after %v, complete after %v; on %d nodes, at most %d on one",
		replicas, all.made, all.bound, all.running, time.Since(begin).Round(time.Millisecond), len(used), most)
}
