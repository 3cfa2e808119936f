package cri

import (
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/proa-project/proa/nodeagent/podworker"
)

// The labels and annotations that tie what the runtime has to pods. The names
// are those that crictl, log collectors and monitoring look for.
const (
	labelPodName       = "io.kubernetes.pod.name"
	labelPodNamespace  = "io.kubernetes.pod.namespace"
	labelPodUID        = "io.kubernetes.pod.uid"
	labelContainerName = "io.kubernetes.container.name"

	annotationHash          = "io.kubernetes.container.hash"
	annotationRestartCount  = "io.kubernetes.container.restartCount"
	annotationMessagePath   = "io.kubernetes.container.terminationMessagePath"
	annotationMessagePolicy = "io.kubernetes.container.terminationMessagePolicy"
	annotationGracePeriod   = "io.kubernetes.pod.terminationGracePeriod"

	annotationStreak = "proa.io/crash-streak"
	annotationImage  = "proa.io/image"
)

func podLabels(pod *corev1.Pod) map[string]string {
	m := maps.Clone(pod.Labels)
	if m == nil {
		m = map[string]string{}
	}
	m[labelPodName], m[labelPodNamespace], m[labelPodUID] = pod.Name, pod.Namespace, string(pod.UID)
	return m
}

func containerLabels(pod *corev1.Pod, name string) map[string]string {
	return map[string]string{
		labelPodName: pod.Name, labelPodNamespace: pod.Namespace, labelPodUID: string(pod.UID),
		labelContainerName: name,
	}
}

func containerAnnotations(pod *corev1.Pod, c *corev1.Container, o *ContainerOptions) map[string]string {
	m := map[string]string{
		annotationHash:          podworker.Hash(c),
		annotationRestartCount:  strconv.Itoa(o.Attempt),
		annotationMessagePath:   c.TerminationMessagePath,
		annotationMessagePolicy: string(c.TerminationMessagePolicy),
		annotationStreak:        strconv.Itoa(o.Streak),
		annotationImage:         c.Image,
	}
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		m[annotationGracePeriod] = strconv.FormatInt(*s, 10)
	}
	return m
}
