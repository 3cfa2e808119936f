package controllers_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/controllers"
	"github.com/proa-project/proa/httpapi/client"
)

func quick(cfg *controllers.Config) {
	cfg.Names = []string{"nodelifecycle"}
	cfg.NodeGrace, cfg.NodePeriod = 500*time.Millisecond, 50*time.Millisecond
}

// beat renews a node's lease until stop is called.
func (c *cluster) beat(node string) (stop func()) {
	c.t.Helper()
	leases := client.For[*coordinationv1.Lease](c.rest)
	now := metav1.NowMicro()
	l, err := leases.Create(c.t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-node-lease", Name: node}, Spec: coordinationv1.LeaseSpec{RenewTime: &now},
	})
	if apierrors.IsAlreadyExists(err) {
		l, err = leases.Get(c.t.Context(), "kube-node-lease", node)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return background(c.t, func(ctx context.Context) error {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				now := metav1.NowMicro()
				l.Spec.RenewTime = &now
				if l, err = leases.Update(ctx, l); err != nil {
					return err
				}
			case <-ctx.Done():
				return nil
			}
		}
	})
}

func (c *cluster) running(name, node string, tolerations ...corev1.Toleration) {
	c.t.Helper()
	p, err := c.pods.Create(c.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}, Tolerations: tolerations},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if _, err := c.pods.UpdateStatus(c.t.Context(), p); err != nil {
		c.t.Fatal(err)
	}
}

func tolerate(key string, seconds *int64) corev1.Toleration {
	return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: seconds}
}

// nodeIs waits until the node is ready or not, with exactly these taints.
func (c *cluster) nodeIs(name string, ready corev1.ConditionStatus, taints ...string) {
	c.t.Helper()
	c.eventually(10*time.Second, func() error {
		n, err := c.nodes.Get(c.t.Context(), "", name)
		if err != nil {
			return err
		}
		have := map[string]bool{}
		for _, tt := range n.Spec.Taints {
			have[tt.Key+":"+string(tt.Effect)] = true
		}
		for _, w := range taints {
			if !have[w] {
				return fmt.Errorf("taints are %v, want %v", n.Spec.Taints, taints)
			}
		}
		if len(n.Spec.Taints) != len(taints) {
			return fmt.Errorf("taints are %v, want %v", n.Spec.Taints, taints)
		}
		for _, cond := range n.Status.Conditions {
			if cond.Type == corev1.NodeReady && cond.Status != ready {
				return fmt.Errorf("ready is %+v", cond)
			}
		}
		return nil
	})
}

func TestNode_silenceEvictionAndRecovery(t *testing.T) {
	c := newCluster(t)
	c.node("good")
	c.node("bad")
	c.beat("good")
	stop := c.beat("bad")
	long, short, none := int64(300), int64(1), int64(0)
	c.running("leaves", "bad", tolerate("node.kubernetes.io/unreachable", &none))
	c.running("stays", "bad", tolerate("", nil))
	c.running("waits", "bad", tolerate("node.kubernetes.io/unreachable", &long))
	c.running("soon", "bad", tolerate("node.kubernetes.io/unreachable", &short))
	c.running("elsewhere", "good")
	c.manage(quick)
	c.nodeIs("bad", corev1.ConditionTrue)
	stop()
	c.nodeIs("bad", corev1.ConditionUnknown, "node.kubernetes.io/unreachable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute")
	deleted := func(name string) func() error {
		return func() error {
			p, err := c.pods.Get(t.Context(), "default", name)
			if err != nil || p.DeletionTimestamp == nil {
				return fmt.Errorf("pod %s is not deleted: %w", name, err)
			}
			return nil
		}
	}
	c.eventually(10*time.Second, deleted("leaves"))
	c.eventually(10*time.Second, deleted("soon"))
	p, err := c.pods.Get(t.Context(), "default", "soon")
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, cond := range p.Status.Conditions {
		found = found || cond.Type == corev1.DisruptionTarget && cond.Reason == "DeletionByTaintManager"
	}
	if !found {
		t.Errorf("conditions of the evicted pod: %+v", p.Status.Conditions)
	}
	for _, name := range []string{"stays", "waits", "elsewhere"} {
		p, gotErr := c.pods.Get(t.Context(), "default", name)
		if gotErr != nil || p.DeletionTimestamp != nil {
			t.Errorf("pod %s: deleted at %v, %v", name, p.DeletionTimestamp, gotErr)
		}
		for _, cond := range p.Status.Conditions {
			if want := name == "elsewhere"; cond.Type == corev1.PodReady && (cond.Status == corev1.ConditionTrue) != want {
				t.Errorf("pod %s is %+v", name, cond)
			}
		}
	}
	n, err := c.nodes.Get(t.Context(), "", "bad")
	if err != nil {
		t.Fatal(err)
	}
	for _, cond := range n.Status.Conditions {
		want := "NodeStatusUnknown Kubelet stopped posting node status."
		if cond.Type != corev1.NodeReady {
			want = "NodeStatusNeverUpdated Kubelet never posted node status."
		}
		if cond.Reason+" "+cond.Message != want {
			t.Errorf("condition %+v", cond)
		}
	}
	// It comes back: the agent posts its status, the taints go.
	c.beat("bad")
	c.eventually(10*time.Second, func() error {
		if n, err = c.nodes.Get(t.Context(), "", "bad"); err != nil {
			return err
		}
		for i := range n.Status.Conditions {
			if n.Status.Conditions[i].Type == corev1.NodeReady {
				n.Status.Conditions[i].Status = corev1.ConditionTrue
				n.Status.Conditions[i].LastHeartbeatTime = metav1.Now()
			}
		}
		_, err = c.nodes.UpdateStatus(t.Context(), n)
		return err
	})
	c.nodeIs("bad", corev1.ConditionTrue)
	if p, err := c.pods.Get(t.Context(), "default", "waits"); err != nil || p.DeletionTimestamp != nil {
		t.Errorf("pod that waited: %v", err)
	}
}

// TestNode_allSilent: when no node is heard of, the fault is on this side.
func TestNode_allSilent(t *testing.T) {
	c := newCluster(t)
	c.node("a")
	c.node("b")
	c.running("p", "a")
	c.manage(quick)
	for _, n := range []string{"a", "b"} {
		c.nodeIs(n, corev1.ConditionUnknown, "node.kubernetes.io/unreachable:NoSchedule")
	}
	if p, err := c.pods.Get(t.Context(), "default", "p"); err != nil || p.DeletionTimestamp != nil {
		t.Errorf("pod was evicted: %v", err)
	}
}

func TestNode_taintsOfConditions(t *testing.T) {
	c := newCluster(t)
	c.node("a")
	c.node("b")
	c.beat("a")
	c.beat("b")
	c.manage(quick)
	cordon := func(on bool) {
		if _, err := c.nodes.Patch(t.Context(), "", "a", types.MergePatchType, fmt.Appendf(nil, `{"spec":{"unschedulable":%v}}`, on)); err != nil {
			t.Fatal(err)
		}
	}
	cordon(true)
	c.nodeIs("a", corev1.ConditionTrue, "node.kubernetes.io/unschedulable:NoSchedule")
	cordon(false)
	c.nodeIs("a", corev1.ConditionTrue)
	c.eventually(10*time.Second, func() error {
		n, err := c.nodes.Get(t.Context(), "", "a")
		if err != nil {
			return err
		}
		n.Status.Conditions[0].Status = corev1.ConditionFalse
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue})
		_, err = c.nodes.UpdateStatus(t.Context(), n)
		return err
	})
	c.nodeIs("a", corev1.ConditionFalse, "node.kubernetes.io/not-ready:NoSchedule", "node.kubernetes.io/not-ready:NoExecute", "node.kubernetes.io/disk-pressure:NoSchedule")
}
