package volume

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Field returns a field of the pod, as fieldRef names it.
func Field(pod *corev1.Pod, path string) (string, error) {
	if base, key, ok := subscript(path); ok {
		switch base {
		case "metadata.labels":
			return pod.Labels[key], nil
		case "metadata.annotations":
			return pod.Annotations[key], nil
		}
		return "", fmt.Errorf("fieldPath %q does not support subscript", path)
	}
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "metadata.labels":
		return lines(pod.Labels), nil
	case "metadata.annotations":
		return lines(pod.Annotations), nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "spec.restartPolicy":
		return string(pod.Spec.RestartPolicy), nil
	case "status.hostIP":
		return pod.Status.HostIP, nil
	case "status.hostIPs":
		var list []string
		for _, ip := range pod.Status.HostIPs {
			list = append(list, ip.IP)
		}
		return strings.Join(list, ","), nil
	case "status.podIP":
		return pod.Status.PodIP, nil
	case "status.podIPs":
		var list []string
		for _, ip := range pod.Status.PodIPs {
			list = append(list, ip.IP)
		}
		return strings.Join(list, ","), nil
	}
	return "", fmt.Errorf("unsupported fieldPath: %v", path)
}

// subscript splits metadata.labels['key'].
func subscript(path string) (base, key string, ok bool) {
	base, rest, ok := strings.Cut(path, "['")
	if !ok {
		return "", "", false
	}
	key, ok = strings.CutSuffix(rest, "']")
	return base, key, ok
}

// lines writes a map as key="value" lines, sorted.
func lines(m map[string]string) string {
	var list []string
	for k, v := range m {
		list = append(list, k+"="+strconv.Quote(v))
	}
	slices.Sort(list)
	return strings.Join(list, "\n")
}

// Resource returns a request or limit of a container, in units of the
// divisor, rounded up. Without a limit it is what the node has.
func Resource(pod *corev1.Pod, ref *corev1.ResourceFieldSelector, container string, allocatable func(corev1.ResourceName) resource.Quantity) (string, error) {
	c := find(pod, container)
	if c == nil {
		return "", fmt.Errorf("container %s not found", container)
	}
	kind, rest, _ := strings.Cut(ref.Resource, ".")
	name := corev1.ResourceName(rest)
	var q resource.Quantity
	switch kind {
	case "limits":
		q = c.Resources.Limits[name]
		if q.IsZero() {
			q = allocatable(name)
		}
	case "requests":
		q = c.Resources.Requests[name]
	default:
		return "", fmt.Errorf("unsupported container resource : %v", ref.Resource)
	}
	divisor := ref.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	if name == corev1.ResourceCPU {
		return strconv.FormatInt(ceilDiv(q.MilliValue(), divisor.MilliValue()), 10), nil
	}
	return strconv.FormatInt(ceilDiv(q.Value(), divisor.Value()), 10), nil
}

func ceilDiv(a, b int64) int64 { return int64(math.Ceil(float64(a) / float64(max(b, 1)))) }

func find(pod *corev1.Pod, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}
