package table

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func deploymentColumns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		nameColumn(),
		column("Ready", "string", "Pods that are ready, of those that are wanted.", 0),
		column("Up-to-date", "string", "Pods that have the current template.", 0),
		column("Available", "string", "Pods that have been ready for long enough.", 0),
		ageColumn(), containersColumn(), imagesColumn(), selectorColumn(),
	}
}

func deployment(d *appsv1.Deployment, now time.Time) []any {
	names, images := namesAndImages(d.Spec.Template.Spec.Containers)
	selector := ""
	if s, err := metav1.LabelSelectorAsSelector(d.Spec.Selector); err == nil {
		selector = s.String()
	}
	return []any{
		d.Name, ratio(int(d.Status.ReadyReplicas), wanted(d.Spec.Replicas)),
		int64(d.Status.UpdatedReplicas), int64(d.Status.AvailableReplicas), age(d.CreationTimestamp, now),
		names, images, selector,
	}
}

func replicaSetColumns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		nameColumn(),
		column("Desired", "integer", "Pods that are wanted.", 0),
		column("Current", "integer", "Pods that there are.", 0),
		column("Ready", "integer", "Pods that are ready.", 0),
		ageColumn(), containersColumn(), imagesColumn(), selectorColumn(),
	}
}

func replicaSet(r *appsv1.ReplicaSet, now time.Time) []any {
	names, images := namesAndImages(r.Spec.Template.Spec.Containers)
	return []any{
		r.Name, int64(wanted(r.Spec.Replicas)), int64(r.Status.Replicas), int64(r.Status.ReadyReplicas), age(r.CreationTimestamp, now),
		names, images, metav1.FormatLabelSelector(r.Spec.Selector),
	}
}

// wanted returns the number of replicas, of which one is the default.
func wanted(n *int32) int {
	if n == nil {
		return 1
	}
	return int(*n)
}
