package registry

import (
	"maps"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/api"
	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
)

// timePrecision is that of times in JSON.
const timePrecision = time.Second

// A strategy is what is special about writes to a kind. The zero value is
// that of a kind without spec and status.
type strategy struct {
	// generation says that metadata.generation counts changes of the spec.
	generation bool
	// keepsStatus says that a create keeps the status that the client sends.
	keepsStatus bool
	// keepsMeta says that an update of the status leaves labels, annotations
	// and the like alone.
	keepsMeta bool
	// returnsDeleted says that a delete answers with the object that is gone,
	// not with a Status.
	returnsDeleted bool
	// orphans says that dependents outlive the object unless the client asks
	// otherwise.
	orphans bool

	// create finishes a new object, after defaulting and mutation.
	create func(obj api.Object)
	// update finishes a new state; subresource is "" or the one written to.
	update func(obj, old api.Object, subresource string)
	// grace decides in how many seconds an object ends whose deletion is
	// graceful: wanted is the client's wish or nil.
	grace func(obj api.Object, wanted *int64) int64
	// deleting changes an object whose deletion is asked for the first time.
	deleting func(obj api.Object)
	// held reports whether something but metadata.finalizers keeps an object
	// whose deletion has been asked for.
	held func(obj api.Object) bool
	// terminate marks an object that is held.
	terminate func(obj api.Object)
}

// strategyOf returns the strategy of a kind.
func strategyOf(row *api.Resource) strategy {
	if row.Group == pluginsv1.GroupName || row.Group == admissionregistrationv1.GroupName {
		return strategy{generation: true, keepsMeta: true}
	}
	switch row.Group + "/" + row.Plural {
	case "/pods":
		return strategy{
			generation: true, returnsDeleted: true,
			create: createPod, update: updatePod, grace: podGrace,
		}
	case "/namespaces":
		return strategy{
			create: createNamespace, update: updateNamespace,
			held: namespaceHeld, terminate: terminateNamespace,
		}
	case "apiextensions.k8s.io/customresourcedefinitions":
		return definitionStrategy()
	case "/nodes":
		return strategy{keepsStatus: true}
	case "/serviceaccounts":
		return strategy{returnsDeleted: true}
	case "apps/deployments", "apps/replicasets":
		return strategy{generation: true, update: keepLabelsInStatus}
	default:
		return strategy{}
	}
}

// keepLabelsInStatus has an update of the status leave the labels alone: they
// are what selectors of others look at.
func keepLabelsInStatus(obj, old api.Object, subresource string) {
	if subresource == "status" {
		obj.SetLabels(old.GetLabels())
	}
}

func createPod(obj api.Object) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: qosClass(pod)}
}

func updatePod(obj, old api.Object, subresource string) {
	pod, ok := obj.(*corev1.Pod)
	was, ok2 := old.(*corev1.Pod)
	if !ok || !ok2 || subresource != "status" {
		return
	}
	pod.OwnerReferences = was.OwnerReferences
	if pod.Status.QOSClass == "" {
		pod.Status.QOSClass = was.Status.QOSClass
	}
}

// podGrace returns the seconds that a pod has to end. A pod that runs nowhere
// has none.
func podGrace(obj api.Object, wanted *int64) int64 {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" ||
		pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return 0
	}
	grace := int64(corev1.DefaultTerminationGracePeriodSeconds)
	if wanted != nil {
		grace = *wanted
	} else if pod.Spec.TerminationGracePeriodSeconds != nil {
		grace = *pod.Spec.TerminationGracePeriodSeconds
	}
	if grace < 0 { // by tradition: at once, but by way of the agent
		grace = 1
	}
	return grace
}

// NamespaceNameLabel is the label that holds a namespace's name.
const NamespaceNameLabel = corev1.LabelMetadataName

func createNamespace(obj api.Object) {
	ns, ok := obj.(*corev1.Namespace)
	if !ok {
		return
	}
	ns.Status = corev1.NamespaceStatus{Phase: corev1.NamespaceActive}
	if !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes) {
		ns.Spec.Finalizers = append(ns.Spec.Finalizers, corev1.FinalizerKubernetes)
	}
}

// nameNamespace sets the label that holds a namespace's name.
func nameNamespace(obj api.Object) {
	ns, ok := obj.(*corev1.Namespace)
	if !ok || ns.Name == "" || ns.Labels[NamespaceNameLabel] == ns.Name {
		return
	}
	labels := make(map[string]string, len(ns.Labels)+1) // the old map may be shared
	maps.Copy(labels, ns.Labels)
	labels[NamespaceNameLabel] = ns.Name
	ns.Labels = labels
}

// updateNamespace has only the finalize subresource change the finalizers in
// the spec, and only the status subresource the status.
func updateNamespace(obj, old api.Object, subresource string) {
	ns, ok := obj.(*corev1.Namespace)
	was, ok2 := old.(*corev1.Namespace)
	if !ok || !ok2 {
		return
	}
	nameNamespace(ns)
	switch subresource {
	case "":
		ns.Spec.Finalizers = was.Spec.Finalizers
	case "finalize":
		ns.Status = was.Status
	}
}

func namespaceHeld(obj api.Object) bool {
	ns, ok := obj.(*corev1.Namespace)
	return ok && len(ns.Spec.Finalizers) > 0
}

func terminateNamespace(obj api.Object) {
	if ns, ok := obj.(*corev1.Namespace); ok {
		ns.Status.Phase = corev1.NamespaceTerminating
	}
}

// qosClass returns the class of a pod by its resources: Guaranteed if each
// container limits CPU and memory and requests the same, BestEffort if none
// asks for any, Burstable otherwise.
func qosClass(pod *corev1.Pod) corev1.PodQOSClass {
	guaranteed, asked := true, false
	each := func(containers []corev1.Container) {
		for i := range containers {
			res := &containers[i].Resources
			for _, name := range [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				limit, request := res.Limits[name], res.Requests[name]
				if !limit.IsZero() || !request.IsZero() {
					asked = true
				}
				if limit.IsZero() || (!request.IsZero() && request.Cmp(limit) != 0) {
					guaranteed = false
				}
			}
		}
	}
	each(pod.Spec.InitContainers)
	each(pod.Spec.Containers)
	switch {
	case !asked:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	default:
		return corev1.PodQOSBurstable
	}
}

// deletionTime returns the time at which an object ends that has so many
// seconds left.
func (r *Resource) deletionTime(grace int64) *metav1.Time {
	t := metav1.Time{Time: r.now().UTC().Add(time.Duration(grace) * time.Second).Truncate(timePrecision)}
	return &t
}
