package podworker

import corev1 "k8s.io/api/core/v1"

// QOS returns the pod's quality of service class: Guaranteed if each container
// has limits of CPU and memory that its requests, where given, equal;
// BestEffort if none asks for either; else Burstable.
func QOS(pod *corev1.Pod) corev1.PodQOSClass {
	guaranteed, asks := true, false
	look := func(containers []corev1.Container) {
		for i := range containers {
			r := &containers[i].Resources
			for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				request, limit := r.Requests[name], r.Limits[name]
				if !request.IsZero() || !limit.IsZero() {
					asks = true
				}
				if limit.IsZero() || !request.IsZero() && request.Cmp(limit) != 0 {
					guaranteed = false
				}
			}
		}
	}
	look(pod.Spec.InitContainers)
	look(pod.Spec.Containers)
	switch {
	case !asks:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	default:
		return corev1.PodQOSBurstable
	}
}
