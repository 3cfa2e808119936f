package deployment

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
)

// The annotations by which kubectl and the loop remember a rollout.
const (
	revisionAnnotation = "deployment.kubernetes.io/revision"
	historyAnnotation  = "deployment.kubernetes.io/revision-history"
	desiredAnnotation  = "deployment.kubernetes.io/desired-replicas"
	maxAnnotation      = "deployment.kubernetes.io/max-replicas"
	rollbackAnnotation = "deprecated.deployment.rollback.to"
	// maxHistory bounds the length of the history annotation.
	maxHistory = 2000
)

// notCopied are annotations of the deployment that its sets do not get.
var notCopied = []string{ //nolint:gochecknoglobals // a constant list
	corev1.LastAppliedConfigAnnotation, revisionAnnotation, historyAnnotation,
	desiredAnnotation, maxAnnotation, rollbackAnnotation,
}

// sameTemplate tells whether two templates make the same pods, apart from the
// label with the hash.
func sameTemplate(a, b *corev1.PodTemplateSpec) bool {
	x, y := *a, *b // shallow: only the labels are replaced
	x.Labels, y.Labels = withoutHash(a.Labels), withoutHash(b.Labels)
	return apiequality.Semantic.DeepEqual(&x, &y)
}

func withoutHash(l map[string]string) map[string]string {
	if _, ok := l[appsv1.DefaultDeploymentUniqueLabelKey]; !ok {
		return l
	}
	l = maps.Clone(l)
	delete(l, appsv1.DefaultDeploymentUniqueLabelKey)
	return l
}

// split finds the set of the deployment's template, nil if there is none, and
// the others. Of several with the template the oldest counts.
func split(d *appsv1.Deployment, sets []*appsv1.ReplicaSet) (fresh *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) {
	for _, rs := range byAge(sets) {
		if fresh == nil && sameTemplate(&rs.Spec.Template, &d.Spec.Template) {
			fresh = rs
		} else {
			old = append(old, rs)
		}
	}
	return fresh, old
}

// templateHash is the value of the pod-template-hash label: a short word that
// differs between templates, and between collision counts.
func templateHash(t *corev1.PodTemplateSpec, collisions *int32) (string, error) {
	b, err := json.Marshal(t)
	if err != nil {
		return "", fmt.Errorf("hash template: %w", err)
	}
	h := fnv.New32a()
	h.Write(b) // a hash takes everything
	if collisions != nil {
		h.Write([]byte(strconv.Itoa(int(*collisions)))) // as above
	}
	return rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10)), nil
}

func revision(o metav1.Object) int64 {
	n, err := strconv.ParseInt(o.GetAnnotations()[revisionAnnotation], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// nextRevision is the number for a set that becomes the new one.
func nextRevision(old []*appsv1.ReplicaSet) int64 {
	var most int64
	for _, rs := range old {
		most = max(most, revision(rs))
	}
	return most + 1
}

// annotate returns the annotations that the new set should have.
func annotate(d *appsv1.Deployment, have map[string]string, rev int64) map[string]string {
	out := maps.Clone(have)
	if out == nil {
		out = map[string]string{}
	}
	for k, v := range d.Annotations {
		if !slices.Contains(notCopied, k) {
			out[k] = v
		}
	}
	before := out[revisionAnnotation]
	n, err := strconv.ParseInt(before, 10, 64)
	if err != nil {
		n = 0
	}
	if n < rev {
		if n > 0 {
			out[historyAnnotation] = addHistory(out[historyAnnotation], before)
		}
		out[revisionAnnotation] = strconv.FormatInt(rev, 10)
	}
	setSizes(d, out)
	return out
}

// addHistory appends a revision, and drops the oldest when there are too many.
func addHistory(history, rev string) string {
	if history == "" {
		return rev
	}
	all := strings.Split(history, ",")
	all = append(all, rev)
	for len(all) > 1 && len(strings.Join(all, ",")) > maxHistory {
		all = all[1:]
	}
	return strings.Join(all, ",")
}

// setSizes records for what size of the deployment a set was made.
func setSizes(d *appsv1.Deployment, a map[string]string) {
	surge, _ := limits(d)
	a[desiredAnnotation] = strconv.Itoa(int(replicas(d)))
	a[maxAnnotation] = strconv.Itoa(int(replicas(d) + surge))
}

// newSet is the set for the deployment's template, without a size.
func newSet(d *appsv1.Deployment, owner metav1.OwnerReference, rev int64) (*appsv1.ReplicaSet, error) {
	hash, err := templateHash(&d.Spec.Template, d.Status.CollisionCount)
	if err != nil {
		return nil, err
	}
	t := *d.Spec.Template.DeepCopy()
	if t.Labels == nil {
		t.Labels = map[string]string{}
	}
	t.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = hash
	sel := d.Spec.Selector.DeepCopy()
	if sel.MatchLabels == nil {
		sel.MatchLabels = map[string]string{}
	}
	sel.MatchLabels[appsv1.DefaultDeploymentUniqueLabelKey] = hash
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: d.Name + "-" + hash, Labels: maps.Clone(t.Labels),
			Annotations: annotate(d, nil, rev), OwnerReferences: []metav1.OwnerReference{owner},
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32), MinReadySeconds: d.Spec.MinReadySeconds, Selector: sel, Template: t,
		},
	}, nil
}

// surplus returns the old sets that the history need not keep, oldest
// revision first.
func surplus(d *appsv1.Deployment, old []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	if d.Spec.RevisionHistoryLimit == nil {
		return nil
	}
	var idle []*appsv1.ReplicaSet
	for _, rs := range old {
		if rs.DeletionTimestamp == nil && size(rs) == 0 && rs.Status.Replicas == 0 && rs.Status.ObservedGeneration >= rs.Generation {
			idle = append(idle, rs)
		}
	}
	n := len(idle) - int(*d.Spec.RevisionHistoryLimit)
	if n <= 0 {
		return nil
	}
	idle = byAge(idle)
	slices.SortStableFunc(idle, func(a, b *appsv1.ReplicaSet) int { return int(revision(a) - revision(b)) })
	return idle[:n]
}
