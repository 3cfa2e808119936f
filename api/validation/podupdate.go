package validation

import (
	"math"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// updatable names what an update of a pod may change, as upstream does.
//
//nolint:gochecknoglobals // a constant list
var updatable = []string{
	"`spec.containers[*].image`",
	"`spec.initContainers[*].image`",
	"`spec.activeDeadlineSeconds`",
	"`spec.tolerations` (only additions to existing tolerations)",
	"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
}

// podUpdate checks that little of a pod changes once it is there.
func podUpdate(f *faults, p, old *corev1.Pod) {
	spec := field.NewPath("spec")
	if !sameContainers(f, p.Spec.Containers, old.Spec.Containers, spec.Child("containers")) ||
		!sameContainers(f, p.Spec.InitContainers, old.Spec.InitContainers, spec.Child("initContainers")) ||
		!deadline(f, p.Spec.ActiveDeadlineSeconds, old.Spec.ActiveDeadlineSeconds, spec.Child("activeDeadlineSeconds")) {
		return
	}
	moreTolerations(f, p.Spec.Tolerations, old.Spec.Tolerations, spec.Child("tolerations"))
	fewerGates(f, p.Spec.SchedulingGates, old.Spec.SchedulingGates, spec.Child("schedulingGates"))
	if equality.Semantic.DeepEqual(p.Spec, old.Spec) {
		return
	}

	// what remains after the allowed changes are taken back must be the same
	rest := p.Spec.DeepCopy()
	for i := range rest.Containers {
		rest.Containers[i].Image = old.Spec.Containers[i].Image
	}
	for i := range rest.InitContainers {
		rest.InitContainers[i].Image = old.Spec.InitContainers[i].Image
	}
	rest.ActiveDeadlineSeconds = old.Spec.ActiveDeadlineSeconds
	rest.Tolerations = old.Spec.Tolerations
	rest.SchedulingGates = old.Spec.SchedulingGates
	if g, og := rest.TerminationGracePeriodSeconds, old.Spec.TerminationGracePeriodSeconds; og != nil && *og < 0 && g != nil && *g == 1 {
		rest.TerminationGracePeriodSeconds = og
	}
	if len(old.Spec.SchedulingGates) > 0 {
		gatedUpdate(f, rest, &old.Spec, spec)
	}
	if !equality.Semantic.DeepEqual(*rest, old.Spec) {
		f.add(field.Forbidden(spec, "pod updates may not change fields other than "+
			strings.Join(updatable, ",")+"\n"+diff.Diff(old.Spec, *rest)))
	}
}

// sameContainers says whether the lists have the same length.
func sameContainers(f *faults, list, old []corev1.Container, path *field.Path) bool {
	if len(list) != len(old) {
		f.add(field.Forbidden(path, "pod updates may not add or remove containers"))
		return false
	}
	return true
}

// deadline checks that a deadline only comes nearer.
func deadline(f *faults, d, old *int64, path *field.Path) bool {
	switch {
	case d == nil && old == nil:
	case d == nil:
		f.invalid(path, nil, "must not update from a positive integer to nil value")
	case *d < 0 || *d > math.MaxInt32:
		f.invalid(path, *d, validation.InclusiveRangeError(0, math.MaxInt32))
		return false
	case old != nil && *old < *d:
		f.invalid(path, *d, "must be less than or equal to previous value")
		return false
	}
	return true
}

// moreTolerations checks that tolerations are only added, or last another time.
func moreTolerations(f *faults, list, old []corev1.Toleration, path *field.Path) {
	for _, o := range old {
		o.TolerationSeconds = nil
		if !slices.ContainsFunc(list, func(t corev1.Toleration) bool {
			t.TolerationSeconds = nil
			return t == o
		}) {
			f.add(field.Forbidden(path, "existing toleration can not be modified except its tolerationSeconds"))
			return
		}
	}
}

// fewerGates checks that gates are only taken away.
func fewerGates(f *faults, list, old []corev1.PodSchedulingGate, path *field.Path) {
	for i, g := range list {
		if !slices.Contains(old, g) {
			f.add(field.Forbidden(path.Index(i).Child("name"), "only deletion is allowed, but found new scheduling gate '"+g.Name+"'"))
		}
	}
}

// gatedUpdate takes back what may change of a pod that waits for its gates:
// where it may run can be narrowed.
func gatedUpdate(f *faults, rest, old *corev1.PodSpec, spec *field.Path) {
	for _, key := range sortedKeys(old.NodeSelector) {
		if v, ok := rest.NodeSelector[key]; !ok || v != old.NodeSelector[key] {
			f.invalid(spec.Child("nodeSelector"), rest.NodeSelector, "only additions to spec.nodeSelector are allowed (no mutations or deletions)")
			break
		}
	}
	rest.NodeSelector = old.NodeSelector
	if rest.Affinity == nil || rest.Affinity.NodeAffinity == nil || (old.Affinity != nil && old.Affinity.NodeAffinity != nil) {
		return
	}
	rest.Affinity = rest.Affinity.DeepCopy()
	rest.Affinity.NodeAffinity = nil
	if old.Affinity == nil && *rest.Affinity == (corev1.Affinity{}) {
		rest.Affinity = nil
	}
}

// podStatus checks the status of a pod that is to replace old.
func podStatus(f *faults, p, old *corev1.Pod) {
	path := field.NewPath("status")
	if p.Spec.NodeName != old.Spec.NodeName {
		f.add(field.Forbidden(path.Child("nodeName"), "may not be changed directly"))
	}
	if p.Status.NominatedNodeName != old.Status.NominatedNodeName {
		optional(f, path.Child("nominatedNodeName"), p.Status.NominatedNodeName, subdomain)
	}
	immutable(f, path.Child("qosClass"), p.Status.QOSClass, old.Status.QOSClass)
	for i, c := range p.Status.Conditions {
		switch c.Type {
		case corev1.PodScheduled, corev1.PodReady, corev1.PodInitialized:
		default: // upstream has this path
			f.invalid(field.NewPath("metadata", "conditions").Index(i).Child("Type"), string(c.Type),
				validation.IsQualifiedName(string(c.Type))...)
		}
	}
	staysTerminated(f, p.Status.ContainerStatuses, old.Status.ContainerStatuses, old.Spec.RestartPolicy, old.Spec.Containers, path.Child("containerStatuses"))
	staysTerminated(f, p.Status.InitContainerStatuses, old.Status.InitContainerStatuses, old.Spec.RestartPolicy, old.Spec.InitContainers, path.Child("initContainerStatuses"))
	// ephemeral containers are never restarted
	staysTerminated(f, p.Status.EphemeralContainerStatuses, old.Status.EphemeralContainerStatuses, corev1.RestartPolicyNever, nil, path.Child("ephemeralContainerStatuses"))

	podIPs := make([]string, len(p.Status.PodIPs))
	for i, ip := range p.Status.PodIPs {
		podIPs[i] = ip.IP
	}
	addresses(f, podIPs, p.Status.PodIPs, path.Child("podIPs"))
	hostIPs := make([]string, len(p.Status.HostIPs))
	for i, ip := range p.Status.HostIPs {
		hostIPs[i] = ip.IP
	}
	if len(hostIPs) > 0 && hostIPs[0] != p.Status.HostIP {
		f.invalid(path.Child("hostIPs").Index(0).Child("ip"), hostIPs[0], "must be equal to `hostIP`")
	}
	addresses(f, hostIPs, p.Status.HostIPs, path.Child("hostIPs"))
}

// addresses checks that there is at most one address of each family; values is
// the list as it stands in the status.
func addresses[T any](f *faults, ips []string, values []T, path *field.Path) {
	families := map[bool]int{}
	for i, s := range ips {
		f.add(validation.IsValidIP(path.Index(i), s)...)
		if slices.Contains(ips[:i], s) {
			f.add(field.Duplicate(path.Index(i), values[i]))
		}
		if ip, err := netip.ParseAddr(s); err == nil {
			families[ip.Is4()]++
		}
	}
	if families[true] > 1 || families[false] > 1 {
		f.invalid(path, values, "may specify no more than one IP for each IP family")
	}
}

// staysTerminated checks that containers which are not restarted stay as they
// ended. Containers with a restart policy of their own are left alone.
func staysTerminated(f *faults, list, old []corev1.ContainerStatus, policy corev1.RestartPolicy, specs []corev1.Container, path *field.Path) {
	if policy == corev1.RestartPolicyAlways {
		return
	}
	for i, o := range old {
		if o.State.Terminated == nil || policy == corev1.RestartPolicyOnFailure && o.State.Terminated.ExitCode != 0 {
			continue
		}
		if slices.ContainsFunc(specs, func(c corev1.Container) bool {
			return c.Name == o.Name && (c.RestartPolicy != nil || len(c.RestartPolicyRules) > 0)
		}) {
			continue
		}
		for _, s := range list {
			if s.Name == o.Name && s.State.Terminated == nil {
				f.add(field.Forbidden(path.Index(i).Child("state"), "may not be transitioned to non-terminated state"))
			}
		}
	}
}
