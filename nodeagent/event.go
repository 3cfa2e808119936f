package nodeagent

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/proa-project/proa/httpapi/client/event"
	"github.com/proa-project/proa/nodeagent/podworker"
)

// containerEvent records what happened to a container of the pod.
func (w *worker) containerEvent(pod *corev1.Pod, name, typ, reason, message string) {
	ref := event.Reference(pod)
	ref.FieldPath = "spec.containers{" + name + "}"
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == name {
			ref.FieldPath = "spec.initContainers{" + name + "}"
		}
	}
	w.agent.events.EventRef(ref, typ, reason, message)
}

// announce records what a new status says for the first time.
func (w *worker) announce(pod *corev1.Pod, s *corev1.PodStatus) {
	if w.status == nil {
		return
	}
	was := map[string]string{}
	for _, c := range append(append([]corev1.ContainerStatus(nil), w.status.InitContainerStatuses...), w.status.ContainerStatuses...) {
		if c.State.Waiting != nil {
			was[c.Name] = c.State.Waiting.Reason
		}
	}
	for _, c := range append(append([]corev1.ContainerStatus(nil), s.InitContainerStatuses...), s.ContainerStatuses...) {
		if c.State.Waiting == nil || c.State.Waiting.Reason == was[c.Name] {
			continue
		}
		switch c.State.Waiting.Reason {
		case podworker.CrashLoopBackOff:
			w.containerEvent(pod, c.Name, corev1.EventTypeWarning, "BackOff",
				fmt.Sprintf("Back-off restarting failed container %s in pod %s", c.Name, podRef(pod)))
		case podworker.ImagePullBackOff:
			image := c.Image
			if spec := container(pod, c.Name); spec != nil {
				image = spec.Image
			}
			w.containerEvent(pod, c.Name, corev1.EventTypeNormal, "BackOff", fmt.Sprintf("Back-off pulling image %q", image))
			w.containerEvent(pod, c.Name, corev1.EventTypeWarning, "Failed", "Error: "+podworker.ImagePullBackOff)
		}
	}
	if s.Reason == "DeadlineExceeded" && w.status.Reason != s.Reason {
		w.agent.events.Event(pod, corev1.EventTypeNormal, "DeadlineExceeded", s.Message)
	}
}
