package framework

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// What a container that states no request counts as when nodes are scored, so
// that pods without requests spread as well.
const (
	DefaultMilliCPU = 100
	DefaultMemory   = 200 << 20
)

// Resource is an amount of each resource: CPU in thousandths of a core, memory
// and ephemeral storage in bytes, all others in their own units.
type Resource struct {
	MilliCPU         int64
	Memory           int64
	EphemeralStorage int64
	// Pods is how many pods a node takes; a pod's own request leaves it 0.
	Pods int64
	// Scalar holds extended resources, huge pages and attachable volumes. A
	// Resource that others can see never changes its map in place.
	Scalar map[corev1.ResourceName]int64
}

// NewResource turns a list of quantities into a Resource. Fractions are rounded
// up.
func NewResource(list corev1.ResourceList) Resource {
	var r Resource
	for name, q := range list {
		r.addQuantity(name, q)
	}
	return r
}

func (r *Resource) addQuantity(name corev1.ResourceName, q resource.Quantity) {
	switch name {
	case corev1.ResourceCPU:
		r.MilliCPU += q.MilliValue()
	case corev1.ResourceMemory:
		r.Memory += q.Value()
	case corev1.ResourceEphemeralStorage:
		r.EphemeralStorage += q.Value()
	case corev1.ResourcePods:
		r.Pods += q.Value()
	default:
		if r.Scalar == nil {
			r.Scalar = make(map[corev1.ResourceName]int64)
		}
		r.Scalar[name] += q.Value()
	}
}

// Add returns the sum of r and o.
func (r Resource) Add(o Resource) Resource { return r.combine(o, 1) }

// Sub returns r less o.
func (r Resource) Sub(o Resource) Resource { return r.combine(o, -1) }

func (r Resource) combine(o Resource, sign int64) Resource {
	r.MilliCPU += sign * o.MilliCPU
	r.Memory += sign * o.Memory
	r.EphemeralStorage += sign * o.EphemeralStorage
	r.Pods += sign * o.Pods
	if len(o.Scalar) > 0 {
		sum := maps.Clone(r.Scalar)
		if sum == nil {
			sum = make(map[corev1.ResourceName]int64, len(o.Scalar))
		}
		for name, v := range o.Scalar {
			if sum[name] += sign * v; sum[name] == 0 {
				delete(sum, name)
			}
		}
		r.Scalar = sum
	}
	return r
}

// IsZero reports whether nothing is asked for.
func (r Resource) IsZero() bool {
	return r.MilliCPU == 0 && r.Memory == 0 && r.EphemeralStorage == 0 && len(r.Scalar) == 0
}

// podRequests returns what the pod asks for, and the same with the defaults in
// place of requests for CPU and memory that its containers do not state.
func podRequests(pod *corev1.Pod) (requests, nonZero Resource) {
	if simplePod(pod) {
		return simpleRequests(pod)
	}
	o := resourcehelper.PodResourcesOptions{
		UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
	}
	requests = NewResource(resourcehelper.PodRequests(pod, o))
	o.NonMissingContainerRequests = corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(DefaultMilliCPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(DefaultMemory, resource.BinarySI),
	}
	return requests, NewResource(resourcehelper.PodRequests(pod, o))
}

// simplePod reports whether the pod's requests are the plain sum of those of
// its containers.
func simplePod(pod *corev1.Pod) bool {
	if len(pod.Spec.InitContainers) > 0 || pod.Spec.Overhead != nil || pod.Spec.Resources != nil {
		return false
	}
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; s.AllocatedResources != nil || s.Resources != nil {
			return false
		}
	}
	return true
}

func simpleRequests(pod *corev1.Pod) (requests, nonZero Resource) {
	var lackCPU, lackMemory int64
	for i := range pod.Spec.Containers {
		list := pod.Spec.Containers[i].Resources.Requests
		for name, q := range list {
			requests.addQuantity(name, q)
		}
		if _, ok := list[corev1.ResourceCPU]; !ok {
			lackCPU++
		}
		if _, ok := list[corev1.ResourceMemory]; !ok {
			lackMemory++
		}
	}
	nonZero = requests
	nonZero.MilliCPU += lackCPU * DefaultMilliCPU
	nonZero.Memory += lackMemory * DefaultMemory
	return requests, nonZero
}
