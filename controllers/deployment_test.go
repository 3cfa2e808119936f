package controllers_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/proa-project/proa/controllers"
)

func setup(t testing.TB, change ...func(*controllers.Config)) *cluster {
	t.Helper()
	c := newCluster(t)
	c.node("n1")
	c.node("n2")
	c.manage(change...)
	c.agents("n1", "n2")
	return c
}

func TestDeployment_createAndScale(t *testing.T) {
	c := setup(t)
	c.create(deployment("web", 3, "v1"))
	d := c.rolledOut("web", 3, "v1")
	if d.Annotations["deployment.kubernetes.io/revision"] != "1" {
		t.Errorf("annotations %v", d.Annotations)
	}
	for _, want := range []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable", Message: "Deployment has minimum availability."},
		{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable", Message: fmt.Sprintf("ReplicaSet %q has successfully progressed.", c.setsOf("web")[0].Name)},
	} {
		found := false
		for _, have := range d.Status.Conditions {
			if have.Type == want.Type && have.Status == want.Status && have.Reason == want.Reason && have.Message == want.Message {
				found = true
			}
		}
		if !found {
			t.Errorf("no condition %+v in %+v", want, d.Status.Conditions)
		}
	}
	rs := c.setsOf("web")[0]
	hash := rs.Labels["pod-template-hash"]
	if hash == "" || rs.Name != "web-"+hash || rs.Spec.Selector.MatchLabels["pod-template-hash"] != hash || rs.Spec.Template.Labels["pod-template-hash"] != hash {
		t.Errorf("set %q has labels %v", rs.Name, rs.Labels)
	}
	c.eventually(5*time.Second, func() error {
		got := c.eventsOf("default", "web")
		if want := fmt.Sprintf("Normal ScalingReplicaSet Scaled up replica set %s from 0 to 3 deployment-controller", rs.Name); !strings.Contains(got, want) {
			return fmt.Errorf("no %q in %q", want, got)
		}
		if got := c.eventsOf("default", rs.Name); strings.Count(got, "Normal SuccessfulCreate Created pod: web-"+hash+"-") != 3 {
			return fmt.Errorf("events of the set: %q", got)
		}
		return nil
	})
	n := int32(5)
	c.change("web", func(d *appsv1.Deployment) { d.Spec.Replicas = &n })
	c.rolledOut("web", 5, "v1")
	n = 0
	c.change("web", func(d *appsv1.Deployment) { d.Spec.Replicas = &n })
	c.rolledOut("web", 0, "v1")
}

// TestDeployment_rollingUpdate watches all pods during updates: there are
// never more than surge allows, nor fewer available ones than promised.
func TestDeployment_rollingUpdate(t *testing.T) {
	for _, tc := range []struct {
		name               string
		surge, unavailable intstr.IntOrString
		most, least        int
	}{
		{"surge only", intstr.FromInt32(2), intstr.FromInt32(0), 8, 6},
		{"unavailable only", intstr.FromInt32(0), intstr.FromInt32(2), 6, 4},
		{"shares", intstr.FromString("30%"), intstr.FromString("30%"), 8, 5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := setup(t)
			d := deployment("web", 6, "v1")
			d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &tc.surge, MaxUnavailable: &tc.unavailable}
			c.create(d)
			c.rolledOut("web", 6, "v1")
			check := watchPods(t, c, tc.most, tc.least)
			for i := 2; i < 5; i++ {
				image := fmt.Sprintf("v%d", i)
				c.change("web", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = image })
				c.rolledOut("web", 6, image)
			}
			check()
		})
	}
}

// watchPods follows all pods from now on, and returns a function that ends
// that and reports.
func watchPods(t *testing.T, c *cluster, most, least int) func() {
	t.Helper()
	l, err := c.pods.List(t.Context(), "default", metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w, err := c.pods.Watch(ctx, "default", metav1.ListOptions{ResourceVersion: l.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	pods := map[string]*corev1.Pod{}
	for _, p := range l.Items {
		pods[p.Name] = p
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer w.Close()
		for {
			ev, err := w.Next(ctx)
			if err != nil {
				return
			}
			pods[ev.Object.Name] = ev.Object
			if ev.Type == watch.Deleted {
				delete(pods, ev.Object.Name)
			}
			alive, available := 0, 0
			for _, p := range pods {
				if p.DeletionTimestamp != nil {
					continue
				}
				alive++
				for _, cond := range p.Status.Conditions {
					if cond.Type == corev1.PodReady && cond.Status == corev1.ConditionTrue {
						available++
					}
				}
			}
			if alive > most || available < least {
				t.Errorf("at %s: %d pods, %d available; want at most %d, at least %d", ev.ResourceVersion, alive, available, most, least)
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

func TestDeployment_undoHistoryAndCleanUp(t *testing.T) {
	c := setup(t)
	d := deployment("web", 2, "v1")
	keep := int32(2)
	d.Spec.RevisionHistoryLimit = &keep
	c.create(d)
	c.rolledOut("web", 2, "v1")
	for i := 2; i <= 5; i++ {
		image := fmt.Sprintf("v%d", i)
		c.change("web", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = image })
		c.rolledOut("web", 2, image)
	}
	c.eventually(10*time.Second, func() error {
		if n := len(c.setsOf("web")); n != 3 {
			return fmt.Errorf("%d sets are left", n)
		}
		return nil
	})
	// kubectl rollout undo puts the template of an old set back.
	c.change("web", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "v4" })
	d = c.rolledOut("web", 2, "v4")
	if got := d.Annotations["deployment.kubernetes.io/revision"]; got != "6" {
		t.Errorf("revision after undo is %s", got)
	}
	for _, rs := range c.setsOf("web") {
		if rs.Spec.Template.Spec.Containers[0].Image == "v4" {
			if rs.Annotations["deployment.kubernetes.io/revision"] != "6" || rs.Annotations["deployment.kubernetes.io/revision-history"] != "4" {
				t.Errorf("annotations of the set %v", rs.Annotations)
			}
		}
	}
}

func TestDeployment_pauseAndResume(t *testing.T) {
	c := setup(t)
	c.create(deployment("web", 4, "v1"))
	c.rolledOut("web", 4, "v1")
	c.change("web", func(d *appsv1.Deployment) { d.Spec.Paused = true })
	c.change("web", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "v2" })
	n := int32(6)
	c.change("web", func(d *appsv1.Deployment) { d.Spec.Replicas = &n })
	c.eventually(10*time.Second, func() error {
		d, err := c.deployments.Get(t.Context(), "default", "web")
		if err != nil {
			return err
		}
		for _, cond := range d.Status.Conditions {
			if cond.Type == appsv1.DeploymentProgressing && (cond.Status != corev1.ConditionUnknown || cond.Reason != "DeploymentPaused") {
				return fmt.Errorf("condition %+v", cond)
			}
		}
		if d.Status.AvailableReplicas != 6 || d.Status.ObservedGeneration != d.Generation || d.Status.UpdatedReplicas != 0 {
			return fmt.Errorf("status %+v", d.Status)
		}
		return nil
	})
	if n := len(c.setsOf("web")); n != 1 {
		t.Errorf("%d sets while paused", n)
	}
	c.change("web", func(d *appsv1.Deployment) { d.Spec.Paused = false })
	c.rolledOut("web", 6, "v2")
}

func TestDeployment_recreate(t *testing.T) {
	c := setup(t)
	d := deployment("web", 3, "v1")
	d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
	c.create(d)
	c.rolledOut("web", 3, "v1")
	l, err := c.pods.List(t.Context(), "default", metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w, err := c.pods.Watch(ctx, "default", metav1.ListOptions{ResourceVersion: l.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer w.Close()
		old := 3
		for {
			ev, err := w.Next(ctx)
			if err != nil {
				return
			}
			image := ev.Object.Spec.Containers[0].Image
			if ev.Type == watch.Deleted && image == "v1" {
				old--
			}
			if ev.Type == watch.Added && old > 0 {
				t.Errorf("a pod was created while %d old ones were there", old)
			}
		}
	}()
	c.change("web", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "v2" })
	c.rolledOut("web", 3, "v2")
	c.change("web", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "v1" })
	cancel()
	<-done
	c.rolledOut("web", 3, "v1")
}

func TestDeployment_deadlineAndScalingInTheMiddle(t *testing.T) {
	c := setup(t)
	d := deployment("web", 4, "v1")
	two := int32(2)
	d.Spec.ProgressDeadlineSeconds = &two
	c.create(d)
	c.rolledOut("web", 4, "v1")
	c.mu.Lock()
	c.frozen["broken"] = true
	c.mu.Unlock()
	c.change("web", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "broken" })
	c.eventually(15*time.Second, func() error {
		d, err := c.deployments.Get(t.Context(), "default", "web")
		if err != nil {
			return err
		}
		for _, cond := range d.Status.Conditions {
			if cond.Type == appsv1.DeploymentProgressing && cond.Reason == "ProgressDeadlineExceeded" && cond.Status == corev1.ConditionFalse &&
				strings.HasSuffix(cond.Message, "has timed out progressing.") {
				return nil
			}
		}
		return fmt.Errorf("status %+v", d.Status)
	})
	// 25% surge and unavailable of 4: 1 and 1. The sets stand at 3 and 2.
	n := int32(8)
	c.change("web", func(d *appsv1.Deployment) { d.Spec.Replicas = &n })
	c.eventually(10*time.Second, func() error {
		sizes := map[string]int32{}
		for _, rs := range c.setsOf("web") {
			sizes[rs.Spec.Template.Spec.Containers[0].Image] = *rs.Spec.Replicas
		}
		if sizes["v1"] != 6 || sizes["broken"] != 4 {
			return fmt.Errorf("sizes %v", sizes)
		}
		return nil
	})
	c.change("web", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "v3" })
	c.rolledOut("web", 8, "v3")
}

func TestDeployment_adoptsAndReleases(t *testing.T) {
	c := setup(t)
	c.create(deployment("web", 2, "v1"))
	c.rolledOut("web", 2, "v1")
	orphan := metav1.DeletePropagationOrphan
	if err := c.deployments.Delete(t.Context(), "default", "web", metav1.DeleteOptions{PropagationPolicy: &orphan}); err != nil {
		t.Fatal(err)
	}
	c.eventually(10*time.Second, func() error {
		sets := c.setsOf("web")
		if len(sets) != 1 || len(sets[0].OwnerReferences) != 0 {
			return fmt.Errorf("sets %v", sets)
		}
		if _, err := c.deployments.Get(t.Context(), "default", "web"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("deployment is there: %w", err)
		}
		return nil
	})
	before := c.setsOf("web")[0].UID
	d := c.create(deployment("web", 2, "v1"))
	c.rolledOut("web", 2, "v1")
	sets := c.setsOf("web")
	if len(sets) != 1 || sets[0].UID != before || sets[0].OwnerReferences[0].UID != d.UID {
		t.Errorf("the set was not adopted: %v", sets)
	}
	// A pod that does not match any more is let go and replaced.
	l, err := c.pods.List(t.Context(), "default", metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		t.Fatal(err)
	}
	p := l.Items[0]
	p.Labels["app"] = "debug"
	if _, err := c.pods.Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	c.rolledOut("web", 2, "v1")
	c.eventually(10*time.Second, func() error {
		now, err := c.pods.Get(t.Context(), "default", p.Name)
		if err != nil || len(now.OwnerReferences) != 0 {
			return fmt.Errorf("released pod: %v, %w", now, err)
		}
		return nil
	})
}
