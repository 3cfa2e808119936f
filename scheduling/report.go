package scheduling

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/scheduling/framework"
)

const (
	reasonUnschedulable = corev1.PodReasonUnschedulable
	reasonError         = corev1.PodReasonSchedulerError
)

// report tells a pod's owner that it was not scheduled: an event, and the
// PodScheduled condition if that does not say so already. nominated is a node
// that is to become free for it.
func (s *Scheduler) report(ctx context.Context, pod *framework.PodInfo, reason, message, nominated string) {
	s.events.Action(pod.Pod, nil, corev1.EventTypeWarning, "FailedScheduling", "Scheduling", message)
	now, ok := s.pods.Get(pod.Pod.Namespace, pod.Pod.Name)
	if !ok || now.UID != pod.Pod.UID || now.Spec.NodeName != "" {
		return
	}
	patch := statusPatch(now, reason, message, nominated, time.Now())
	if patch == nil {
		return
	}
	_, err := s.client.Patch(ctx, now.Namespace, now.Name, types.StrategicMergePatchType, patch, "status")
	if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		s.log.Warn().Err(err).Str("namespace", now.Namespace).Str("pod", now.Name).Msg("cannot write pod condition")
	}
}

// statusPatch returns the patch that makes the pod's status say why it is not
// scheduled, nil if it does.
func statusPatch(pod *corev1.Pod, reason, message, nominated string, now time.Time) []byte {
	c := corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: message,
		ObservedGeneration: pod.Generation, LastTransitionTime: metav1.NewTime(now),
	}
	same := false
	if i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled }); i >= 0 {
		old := &pod.Status.Conditions[i]
		if old.Status == c.Status && !old.LastTransitionTime.IsZero() {
			c.LastTransitionTime = old.LastTransitionTime
		}
		same = old.Status == c.Status && old.Reason == reason && old.Message == message
	}
	if same && (nominated == "" || nominated == pod.Status.NominatedNodeName) {
		return nil
	}
	type status struct {
		Conditions        []corev1.PodCondition `json:"conditions"`
		NominatedNodeName string                `json:"nominatedNodeName,omitempty"`
	}
	// The UID makes the patch fail on another pod of the same name.
	patch, err := json.Marshal(struct {
		Metadata map[string]types.UID `json:"metadata"`
		Status   status               `json:"status"`
	}{map[string]types.UID{"uid": pod.UID}, status{[]corev1.PodCondition{c}, nominated}})
	if err != nil {
		return nil // strings and times can be encoded
	}
	return patch
}
