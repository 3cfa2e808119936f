package nodelifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// settlePods deals with the pods on a node: those of a silent node are not ready,
// and those that do not tolerate a taint have to leave.
func (c *Controller) settlePods(ctx context.Context, n *corev1.Node, now time.Time) (again time.Duration, err error) {
	silent := readiness(n) == corev1.ConditionUnknown && condition(n, corev1.NodeReady) != nil
	leaving := hasNoExecute(n)
	if !silent && !leaving {
		return 0, nil
	}
	var errs []error
	for _, p := range c.pods.ByIndex(byNode, n.Name) {
		if silent {
			errs = append(errs, c.markNotReady(ctx, p, now))
		}
		if !leaving || p.DeletionTimestamp != nil {
			continue
		}
		at, must := eviction(p, n.Spec.Taints, now)
		switch left := at.Sub(now); {
		case !must:
		case left <= 0:
			errs = append(errs, c.evictPod(ctx, p, now))
		case again == 0 || left < again:
			again = left
		}
	}
	return again, errors.Join(errs...)
}

func (c *Controller) markNotReady(ctx context.Context, p *corev1.Pod, now time.Time) error {
	conds := notReady(p, now)
	if conds == nil {
		return nil
	}
	up := p.DeepCopy()
	up.Status.Conditions = conds
	_, err := c.podsC.UpdateStatus(ctx, up)
	if err != nil {
		return fmt.Errorf("mark pod not ready: %w", unlessGone(err))
	}
	c.cfg.Recorder.Event(p, corev1.EventTypeWarning, "NodeNotReady", "Node is not ready")
	return nil
}

func (c *Controller) evictPod(ctx context.Context, p *corev1.Pod, now time.Time) error {
	c.cfg.Recorder.Eventf(p, corev1.EventTypeNormal, "TaintManagerEviction", "Marking for deletion Pod %s/%s", p.Namespace, p.Name)
	err := c.disrupt(ctx, p, "", "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint", now)
	if err != nil {
		return err
	}
	return c.deletePod(ctx, p, metav1.DeleteOptions{})
}

// disrupt records in the pod why it is deleted, and its phase if that is not
// empty.
func (c *Controller) disrupt(ctx context.Context, p *corev1.Pod, phase corev1.PodPhase, reason, message string, now time.Time) error {
	status := map[string]any{"conditions": []corev1.PodCondition{{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(now),
	}}}
	if phase != "" {
		status["phase"] = phase
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID}, "status": status})
	if err != nil {
		return fmt.Errorf("encode status of pod: %w", err)
	}
	_, err = c.podsC.Patch(ctx, p.Namespace, p.Name, types.StrategicMergePatchType, patch, "status")
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("write status of pod: %w", err)
	}
	return nil
}

func (c *Controller) deletePod(ctx context.Context, p *corev1.Pod, o metav1.DeleteOptions) error {
	uid := p.UID
	o.Preconditions = &metav1.Preconditions{UID: &uid}
	err := c.podsC.Delete(ctx, p.Namespace, p.Name, o)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete pod: %w", err)
	}
	return nil
}
