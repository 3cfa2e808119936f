package builtin

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/proa-project/proa/httpapi/admission"
)

// newPod returns the pod that a request creates, or nil.
func newPod(r *admission.Request) *corev1.Pod {
	if r.Operation != admission.Create || r.Subresource != "" {
		return nil
	}
	pod, ok := r.Object.(*corev1.Pod)
	if !ok {
		return nil
	}
	return pod
}

// DefaultTolerationSeconds has pods stay on a node that is not ready or
// cannot be reached for five minutes, unless they say otherwise.
type DefaultTolerationSeconds struct{}

// tolerationSeconds is how long pods stay.
const tolerationSeconds = 300

// Mutate adds the tolerations.
func (DefaultTolerationSeconds) Mutate(_ context.Context, r *admission.Request) error {
	pod, ok := r.Object.(*corev1.Pod)
	if !ok || r.Subresource != "" {
		return nil
	}
	for _, key := range [...]string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if toleratesNoExecute(pod.Spec.Tolerations, key) {
			continue
		}
		seconds := int64(tolerationSeconds)
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
		})
		r.Changed()
	}
	return nil
}

func toleratesNoExecute(tolerations []corev1.Toleration, key string) bool {
	for i := range tolerations {
		t := &tolerations[i]
		if (t.Key == key || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "") {
			return true
		}
	}
	return false
}

// ServiceAccount has new pods run as the default service account of their
// namespace, unless they name another.
type ServiceAccount struct{}

// Mutate sets the name.
func (ServiceAccount) Mutate(_ context.Context, r *admission.Request) error {
	pod := newPod(r)
	if pod == nil {
		return nil
	}
	if pod.Spec.ServiceAccountName == "" {
		pod.Spec.ServiceAccountName = "default"
		r.Changed()
	}
	if pod.Spec.DeprecatedServiceAccount == "" {
		pod.Spec.DeprecatedServiceAccount = pod.Spec.ServiceAccountName
		r.Changed()
	}
	return nil
}
