package deployment

import (
	"fmt"
	"math"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The reasons of conditions that kubectl knows.
const (
	reasonCreated     = "NewReplicaSetCreated"
	reasonFound       = "FoundNewReplicaSet"
	reasonUpdated     = "ReplicaSetUpdated"
	reasonComplete    = "NewReplicaSetAvailable"
	reasonFailed      = "ReplicaSetCreateError"
	reasonTimedOut    = "ProgressDeadlineExceeded"
	reasonPaused      = "DeploymentPaused"
	reasonResumed     = "DeploymentResumed"
	reasonAvailable   = "MinimumReplicasAvailable"
	reasonUnavailable = "MinimumReplicasUnavailable"
)

// A note is news about the new set that the Progressing condition tells.
type note struct {
	status          corev1.ConditionStatus
	reason, message string
}

// newStatus is the status that the sets show. Again is when the progress
// deadline passes; 0 is never.
func newStatus(d *appsv1.Deployment, fresh *appsv1.ReplicaSet, old []*appsv1.ReplicaSet, n *note, now time.Time) (st appsv1.DeploymentStatus, again time.Duration) {
	all := old
	if fresh != nil {
		all = append(slices.Clip(all), fresh)
		st.UpdatedReplicas = fresh.Status.Replicas
	}
	st.ObservedGeneration = d.Generation
	st.CollisionCount = d.Status.CollisionCount
	st.Replicas = total(all, func(rs *appsv1.ReplicaSet) int32 { return rs.Status.Replicas })
	st.ReadyReplicas = total(all, func(rs *appsv1.ReplicaSet) int32 { return rs.Status.ReadyReplicas })
	st.AvailableReplicas = total(all, func(rs *appsv1.ReplicaSet) int32 { return rs.Status.AvailableReplicas })
	st.UnavailableReplicas = max(0, total(all, size)-st.AvailableReplicas)
	st.TerminatingReplicas = terminating(all)
	st.Conditions = append([]appsv1.DeploymentCondition(nil), d.Status.Conditions...)

	_, mayMiss := limits(d)
	if st.AvailableReplicas >= replicas(d)-mayMiss {
		set(&st, appsv1.DeploymentAvailable, corev1.ConditionTrue, reasonAvailable, "Deployment has minimum availability.", now)
	} else {
		set(&st, appsv1.DeploymentAvailable, corev1.ConditionFalse, reasonUnavailable, "Deployment does not have minimum availability.", now)
	}
	if d.Spec.Paused || !hasDeadline(d) {
		if n != nil && hasDeadline(d) {
			set(&st, appsv1.DeploymentProgressing, n.status, n.reason, n.message, now)
		}
	} else {
		again = progress(d, fresh, &st, n, now)
	}
	failure(&st, fresh, old)
	return st, again
}

// terminating is nil unless the sets tell.
func terminating(sets []*appsv1.ReplicaSet) *int32 {
	var n int32
	for _, rs := range sets {
		if rs.Status.TerminatingReplicas == nil {
			return nil
		}
		n += *rs.Status.TerminatingReplicas
	}
	return &n
}

func hasDeadline(d *appsv1.Deployment) bool {
	return d.Spec.ProgressDeadlineSeconds != nil && *d.Spec.ProgressDeadlineSeconds != math.MaxInt32
}

// progress sets the Progressing condition.
func progress(d *appsv1.Deployment, fresh *appsv1.ReplicaSet, st *appsv1.DeploymentStatus, n *note, now time.Time) time.Duration {
	if n != nil {
		set(st, appsv1.DeploymentProgressing, n.status, n.reason, n.message, now)
	}
	c := find(st, appsv1.DeploymentProgressing)
	// A rollout that was complete stays so while pods come and go.
	if c != nil && c.Reason == reasonComplete && st.Replicas == st.UpdatedReplicas {
		return 0
	}
	what := fmt.Sprintf("Deployment %q", d.Name)
	if fresh != nil {
		what = fmt.Sprintf("ReplicaSet %q", fresh.Name)
	}
	switch {
	case complete(d, st):
		set(st, appsv1.DeploymentProgressing, corev1.ConditionTrue, reasonComplete, what+" has successfully progressed.", now)
		return 0
	case progressing(&d.Status, st):
		set(st, appsv1.DeploymentProgressing, corev1.ConditionTrue, reasonUpdated, what+" is progressing.", now)
		c = find(st, appsv1.DeploymentProgressing)
		c.LastUpdateTime = metav1.NewTime(now)
	case c == nil:
		return 0 // nothing was begun
	}
	c = find(st, appsv1.DeploymentProgressing)
	if c.Reason == reasonComplete || c.Reason == reasonTimedOut {
		return 0
	}
	left := c.LastUpdateTime.Add(time.Duration(*d.Spec.ProgressDeadlineSeconds) * time.Second).Sub(now)
	if left > 0 {
		return left + time.Second // times are stored in whole seconds
	}
	set(st, appsv1.DeploymentProgressing, corev1.ConditionFalse, reasonTimedOut, what+" has timed out progressing.", now)
	return 0
}

// complete tells whether the rollout is done.
func complete(d *appsv1.Deployment, st *appsv1.DeploymentStatus) bool {
	want := replicas(d)
	return st.UpdatedReplicas == want && st.Replicas == want && st.AvailableReplicas == want && st.ObservedGeneration >= d.Generation
}

// progressing tells whether the rollout has come closer to its end.
func progressing(was, is *appsv1.DeploymentStatus) bool {
	return is.UpdatedReplicas > was.UpdatedReplicas ||
		is.Replicas-is.UpdatedReplicas < was.Replicas-was.UpdatedReplicas ||
		is.ReadyReplicas > was.ReadyReplicas || is.AvailableReplicas > was.AvailableReplicas
}

func find(st *appsv1.DeploymentStatus, t appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range st.Conditions {
		if st.Conditions[i].Type == t {
			return &st.Conditions[i]
		}
	}
	return nil
}

// set sets a condition. Its times move only when something changes.
func set(st *appsv1.DeploymentStatus, t appsv1.DeploymentConditionType, s corev1.ConditionStatus, reason, message string, now time.Time) {
	c := find(st, t)
	if c == nil {
		st.Conditions = append(st.Conditions, appsv1.DeploymentCondition{Type: t, LastTransitionTime: metav1.NewTime(now)})
		c = &st.Conditions[len(st.Conditions)-1]
	}
	if c.Status == s && c.Reason == reason && c.Message == message {
		return
	}
	if c.Status != s {
		c.LastTransitionTime = metav1.NewTime(now)
	}
	c.Status, c.Reason, c.Message, c.LastUpdateTime = s, reason, message, metav1.NewTime(now)
}

// failure copies the ReplicaFailure condition of the new set, or of an old one.
func failure(st *appsv1.DeploymentStatus, fresh *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) {
	var from *appsv1.ReplicaSetCondition
	sets := old
	if fresh != nil {
		sets = append([]*appsv1.ReplicaSet{fresh}, old...)
	}
	for _, rs := range sets {
		for i := range rs.Status.Conditions {
			if c := &rs.Status.Conditions[i]; c.Type == appsv1.ReplicaSetReplicaFailure && from == nil {
				from = c
			}
		}
	}
	if from != nil {
		set(st, appsv1.DeploymentReplicaFailure, from.Status, from.Reason, from.Message, from.LastTransitionTime.Time)
		return
	}
	for i := range st.Conditions {
		if st.Conditions[i].Type == appsv1.DeploymentReplicaFailure {
			st.Conditions = append(st.Conditions[:i], st.Conditions[i+1:]...)
			return
		}
	}
}
