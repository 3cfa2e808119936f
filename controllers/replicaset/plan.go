// Package replicaset keeps as many pods alive as each ReplicaSet asks for.
package replicaset

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// burst bounds the pods that one step creates or deletes; the next step goes
// on.
const burst = 2000

// A view is what a plan is made from.
type view struct {
	rs   *appsv1.ReplicaSet
	pods []*corev1.Pod // that the set controls, in any state
	// pending is how many pods were created that pods does not show yet.
	pending int
	// dying are pods whose deletion was asked for, though pods may not show
	// it yet.
	dying map[types.UID]bool
	// neighbours counts the active pods of the set's owner on each node.
	neighbours map[string]int
	now        time.Time
}

// A plan is what is to be done: pods to create, or pods to delete.
type plan struct {
	create int
	remove []*corev1.Pod
}

// newPlan compares what is wanted with what is there. Pods that are on their way
// count when it creates and do not when it deletes, so that a late cache never
// leads to too many pods, nor to too few.
func newPlan(v view) plan {
	if v.rs.DeletionTimestamp != nil {
		return plan{}
	}
	want := int(replicas(v.rs))
	alive := make([]*corev1.Pod, 0, len(v.pods))
	for _, p := range v.pods {
		if active(p) && !v.dying[p.UID] {
			alive = append(alive, p)
		}
	}
	switch have := len(alive); {
	case have+v.pending < want:
		return plan{create: min(want-have-v.pending, burst)}
	case have > want:
		n := have - want
		if want > 0 { // else all of them go, in whatever order
			rank(alive, v.neighbours, v.now)
		}
		return plan{remove: alive[:min(n, burst)]}
	}
	return plan{}
}

func replicas(rs *appsv1.ReplicaSet) int32 {
	if rs.Spec.Replicas == nil {
		return 1
	}
	return *rs.Spec.Replicas
}

// active tells whether the pod runs or may come to run.
func active(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && !finished(p)
}

func finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// readySince returns whether the pod is ready, and since when.
func readySince(p *corev1.Pod) (time.Time, bool) {
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		if c.Type == corev1.PodReady {
			return c.LastTransitionTime.Time, c.Status == corev1.ConditionTrue
		}
	}
	return time.Time{}, false
}

// rank puts the pods first whose loss is felt least.
func rank(pods []*corev1.Pod, neighbours map[string]int, now time.Time) {
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(
			boolCompare(a.Spec.NodeName != "", b.Spec.NodeName != ""),
			cmp.Compare(phaseRank(a), phaseRank(b)),
			compareReady(a, b, neighbours, now),
			cmp.Compare(b.CreationTimestamp.Unix(), a.CreationTimestamp.Unix()), // younger first
			cmp.Compare(a.Name, b.Name),
		)
	})
}

func compareReady(a, b *corev1.Pod, neighbours map[string]int, now time.Time) int {
	aSince, aReady := readySince(a)
	bSince, bReady := readySince(b)
	c := cmp.Or(
		boolCompare(aReady, bReady),
		cmp.Compare(deletionCost(a), deletionCost(b)),
		cmp.Compare(neighbours[b.Spec.NodeName], neighbours[a.Spec.NodeName]), // crowded nodes first
	)
	if c == 0 && aReady {
		c = cmp.Compare(ageClass(aSince, now), ageClass(bSince, now))
	}
	return cmp.Or(c, cmp.Compare(restarts(b), restarts(a)))
}

func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func phaseRank(p *corev1.Pod) int {
	switch p.Status.Phase {
	case corev1.PodPending, "":
		return 0
	case corev1.PodRunning:
		return 2
	default:
		return 1
	}
}

// deletionCost is what the user says the pod is worth.
func deletionCost(p *corev1.Pod) int64 {
	n, err := strconv.ParseInt(p.Annotations[corev1.PodDeletionCost], 10, 32)
	if err != nil {
		return 0
	}
	return n
}

// ageClass groups ages by powers of two, so that among pods of about one age
// not always the youngest is taken.
func ageClass(since, now time.Time) int {
	class := 0
	for s := int64(now.Sub(since) / time.Second); s > 0; s >>= 1 {
		class++
	}
	return class
}

func restarts(p *corev1.Pod) int32 {
	var n int32
	for i := range p.Status.ContainerStatuses {
		n += p.Status.ContainerStatuses[i].RestartCount
	}
	return n
}

// A failure is why the step could not do all it wanted.
type failure struct {
	reason  string // FailedCreate or FailedDelete
	message string
}

// newStatus is the status that the pods show. Again is when it changes by
// itself because a pod becomes available; 0 is never.
func newStatus(rs *appsv1.ReplicaSet, pods []*corev1.Pod, fail *failure, now time.Time) (st appsv1.ReplicaSetStatus, again time.Duration) {
	st.ObservedGeneration = rs.Generation
	tmpl := labels.SelectorFromSet(rs.Spec.Template.Labels)
	minReady := time.Duration(rs.Spec.MinReadySeconds) * time.Second
	var terminating int32
	for _, p := range pods {
		if p.DeletionTimestamp != nil && !finished(p) {
			terminating++
		}
		if !active(p) {
			continue
		}
		st.Replicas++
		if tmpl.Matches(labels.Set(p.Labels)) {
			st.FullyLabeledReplicas++
		}
		since, ready := readySince(p)
		if !ready {
			continue
		}
		st.ReadyReplicas++
		left := since.Add(minReady).Sub(now)
		if minReady == 0 || left <= 0 {
			st.AvailableReplicas++
		} else if again == 0 || left < again {
			again = left
		}
	}
	st.TerminatingReplicas = &terminating
	st.Conditions = conditions(rs.Status.Conditions, fail, now)
	return st, again
}

// conditions sets or removes ReplicaFailure.
func conditions(old []appsv1.ReplicaSetCondition, fail *failure, now time.Time) []appsv1.ReplicaSetCondition {
	out := make([]appsv1.ReplicaSetCondition, 0, len(old)+1)
	var before *appsv1.ReplicaSetCondition
	for i := range old {
		if old[i].Type == appsv1.ReplicaSetReplicaFailure {
			before = &old[i]
			continue
		}
		out = append(out, old[i])
	}
	if fail != nil {
		c := appsv1.ReplicaSetCondition{
			Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue,
			Reason: fail.reason, Message: fail.message, LastTransitionTime: metav1.NewTime(now),
		}
		if before != nil && before.Reason == c.Reason {
			c = *before // its time and text stay, so that it does not flap
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func sameStatus(a, b *appsv1.ReplicaSetStatus) bool { return apiequality.Semantic.DeepEqual(a, b) }
