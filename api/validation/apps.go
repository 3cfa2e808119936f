package validation

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func deployment(f *faults, spec *appsv1.DeploymentSpec, path *field.Path) {
	if spec.Replicas != nil {
		f.nonNegative(path.Child("replicas"), int64(*spec.Replicas))
	}
	selectorAndTemplate(f, spec.Selector, &spec.Template, path)
	strategy(f, &spec.Strategy, path.Child("strategy"))
	f.nonNegative(path.Child("minReadySeconds"), int64(spec.MinReadySeconds))
	if spec.RevisionHistoryLimit != nil {
		f.nonNegative(path.Child("revisionHistoryLimit"), int64(*spec.RevisionHistoryLimit))
	}
	if d := spec.ProgressDeadlineSeconds; d != nil {
		f.nonNegative(path.Child("progressDeadlineSeconds"), int64(*d))
		if *d <= spec.MinReadySeconds {
			f.invalid(path.Child("progressDeadlineSeconds"), *d, "must be greater than minReadySeconds")
		}
	}
}

func replicaSet(f *faults, spec *appsv1.ReplicaSetSpec, path *field.Path) {
	if spec.Replicas != nil {
		f.nonNegative(path.Child("replicas"), int64(*spec.Replicas))
	}
	f.nonNegative(path.Child("minReadySeconds"), int64(spec.MinReadySeconds))
	selectorAndTemplate(f, spec.Selector, &spec.Template, path)
}

func selectorAndTemplate(f *faults, selector *metav1.LabelSelector, template *corev1.PodTemplateSpec, path *field.Path) {
	if selector == nil {
		f.required(path.Child("selector"))
	} else {
		f.add(metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, path.Child("selector"))...)
		if len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
			f.invalid(path.Child("selector"), selector, "empty selector is invalid for deployment")
		}
	}
	sel, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		f.invalid(path.Child("selector"), selector, "invalid label selector")
		return
	}
	podTemplate(f, template, sel, path.Child("template"))
}

func podTemplate(f *faults, t *corev1.PodTemplateSpec, selector labels.Selector, path *field.Path) {
	specPath := path.Child("spec")
	if !selector.Empty() && !selector.Matches(labels.Set(t.Labels)) {
		f.invalid(path.Child("metadata", "labels"), t.Labels, "`selector` does not match template `labels`")
	}
	f.add(metav1validation.ValidateLabels(t.Labels, path.Child("labels"))...)
	f.add(metavalidation.ValidateAnnotations(t.Annotations, path.Child("annotations"))...)
	podSpec(f, &t.Spec, specPath)
	if len(t.Spec.EphemeralContainers) > 0 {
		f.add(field.Forbidden(specPath.Child("ephemeralContainers"), "ephemeral containers not allowed in pod template"))
	}
	if p := t.Spec.RestartPolicy; p != corev1.RestartPolicyAlways && p != "" {
		f.add(field.NotSupported(specPath.Child("restartPolicy"), p, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if t.Spec.ActiveDeadlineSeconds != nil {
		f.add(field.Forbidden(specPath.Child("activeDeadlineSeconds"), "activeDeadlineSeconds in ReplicaSet is not Supported"))
	}
}

func strategy(f *faults, s *appsv1.DeploymentStrategy, path *field.Path) {
	rolling := path.Child("rollingUpdate")
	switch s.Type {
	case appsv1.RecreateDeploymentStrategyType:
		if s.RollingUpdate != nil {
			f.add(field.Forbidden(rolling, "may not be specified when strategy `type` is 'Recreate'"))
		}
	case appsv1.RollingUpdateDeploymentStrategyType:
		if s.RollingUpdate == nil {
			f.add(field.Required(rolling, "this should be defaulted and never be nil"))
			return
		}
		unavailable, surge := s.RollingUpdate.MaxUnavailable, s.RollingUpdate.MaxSurge
		intOrPercent(f, unavailable, rolling.Child("maxUnavailable"))
		intOrPercent(f, surge, rolling.Child("maxSurge"))
		if amount(unavailable) == 0 && amount(surge) == 0 {
			f.invalid(rolling.Child("maxUnavailable"), unavailable, "may not be 0 when `maxSurge` is 0")
		}
		if unavailable != nil && unavailable.Type == intstr.String && amount(unavailable) > 100 {
			f.invalid(rolling.Child("maxUnavailable"), unavailable, "must not be greater than 100%")
		}
	default:
		f.add(field.NotSupported(path, s, []appsv1.DeploymentStrategyType{
			appsv1.RecreateDeploymentStrategyType, appsv1.RollingUpdateDeploymentStrategyType,
		}))
	}
}

func intOrPercent(f *faults, v *intstr.IntOrString, path *field.Path) {
	switch {
	case v == nil:
	case v.Type == intstr.String:
		f.invalid(path, v, validation.IsValidPercent(v.StrVal)...)
	default:
		f.nonNegative(path, int64(v.IntVal))
	}
}

// amount returns the number of pods or the percentage.
func amount(v *intstr.IntOrString) int {
	if v == nil {
		return 0
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(v, 100, false)
	if err != nil {
		return -1
	}
	return n
}

func deploymentUpdate(f *faults, d, old *appsv1.Deployment) {
	immutable(f, field.NewPath("spec", "selector"), d.Spec.Selector, old.Spec.Selector)
}

func replicaSetUpdate(f *faults, r, old *appsv1.ReplicaSet) {
	immutable(f, field.NewPath("spec", "selector"), r.Spec.Selector, old.Spec.Selector)
}

func deploymentStatus(f *faults, d, was *appsv1.Deployment) {
	s, old, path := &d.Status, &was.Status, field.NewPath("status")
	f.nonNegative(path.Child("observedGeneration"), s.ObservedGeneration)
	counts(f, path, map[string]int32{
		"replicas": s.Replicas, "updatedReplicas": s.UpdatedReplicas, "readyReplicas": s.ReadyReplicas,
		"availableReplicas": s.AvailableReplicas, "unavailableReplicas": s.UnavailableReplicas,
	})
	if s.TerminatingReplicas != nil {
		f.nonNegative(path.Child("terminatingReplicas"), int64(*s.TerminatingReplicas))
	}
	if s.CollisionCount != nil {
		f.nonNegative(path.Child("collisionCount"), int64(*s.CollisionCount))
	}
	if old.CollisionCount != nil && (s.CollisionCount == nil || *s.CollisionCount < *old.CollisionCount) {
		n := int32(0)
		if s.CollisionCount != nil {
			n = *s.CollisionCount
		}
		f.invalid(path.Child("collisionCount"), n, "cannot be decremented")
	}
	notMore(f, path.Child("updatedReplicas"), s.UpdatedReplicas, s.Replicas, "cannot be greater than status.replicas")
	notMore(f, path.Child("readyReplicas"), s.ReadyReplicas, s.Replicas, "cannot be greater than status.replicas")
	notMore(f, path.Child("availableReplicas"), s.AvailableReplicas, s.Replicas, "cannot be greater than status.replicas")
	notMore(f, path.Child("availableReplicas"), s.AvailableReplicas, s.ReadyReplicas, "cannot be greater than readyReplicas")
}

func replicaSetStatus(f *faults, s *appsv1.ReplicaSetStatus, path *field.Path) {
	counts(f, path, map[string]int32{
		"replicas": s.Replicas, "fullyLabeledReplicas": s.FullyLabeledReplicas,
		"readyReplicas": s.ReadyReplicas, "availableReplicas": s.AvailableReplicas,
	})
	if s.TerminatingReplicas != nil {
		f.nonNegative(path.Child("terminatingReplicas"), int64(*s.TerminatingReplicas))
	}
	f.nonNegative(path.Child("observedGeneration"), s.ObservedGeneration)
	notMore(f, path.Child("fullyLabeledReplicas"), s.FullyLabeledReplicas, s.Replicas, "cannot be greater than status.replicas")
	notMore(f, path.Child("readyReplicas"), s.ReadyReplicas, s.Replicas, "cannot be greater than status.replicas")
	notMore(f, path.Child("availableReplicas"), s.AvailableReplicas, s.Replicas, "cannot be greater than status.replicas")
	notMore(f, path.Child("availableReplicas"), s.AvailableReplicas, s.ReadyReplicas, "cannot be greater than readyReplicas")
}

func counts(f *faults, path *field.Path, m map[string]int32) {
	for _, name := range sortedKeys(m) {
		f.nonNegative(path.Child(name), int64(m[name]))
	}
}

func notMore(f *faults, path *field.Path, n, most int32, msg string) {
	if n > most {
		f.invalid(path, n, msg)
	}
}
