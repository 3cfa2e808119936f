package validation

import (
	"net/netip"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func namespace(f *faults, ns *corev1.Namespace, path *field.Path) {
	for _, name := range ns.Spec.Finalizers {
		p := path.Child("finalizers")
		f.invalid(p, name, validation.IsQualifiedName(string(name))...)
		finalizer(f, string(name), p)
	}
}

func namespaceStatus(f *faults, ns *corev1.Namespace, path *field.Path) {
	phase := path.Child("Phase")
	switch {
	case ns.DeletionTimestamp.IsZero() && ns.Status.Phase != corev1.NamespaceActive:
		f.invalid(phase, ns.Status.Phase, "may only be 'Active' if `deletionTimestamp` is empty")
	case !ns.DeletionTimestamp.IsZero() && ns.Status.Phase != corev1.NamespaceTerminating:
		f.invalid(phase, ns.Status.Phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")
	}
}

func node(f *faults, n *corev1.Node, path *field.Path) {
	taints(f, n.Spec.Taints, field.NewPath("metadata", "taints")) // upstream has this path
	nodeStatus(f, &n.Status, field.NewPath("status"))
	podCIDRs(f, n.Spec.PodCIDRs, path.Child("podCIDRs"))
}

func podCIDRs(f *faults, list []string, path *field.Path) {
	v6 := 0
	for i, s := range list {
		errs := validation.IsValidCIDR(path.Index(i), s)
		f.add(errs...)
		if prefix, err := netip.ParsePrefix(s); err == nil && prefix.Addr().Is6() {
			v6++
		}
	}
	if len(list) > 2 || len(list) == 2 && v6 != 1 {
		f.invalid(path, list, "may specify no more than one CIDR for each IP family")
	}
}

func nodeStatus(f *faults, s *corev1.NodeStatus, path *field.Path) {
	quantities(f, s.Capacity, path.Child("capacity"))
	quantities(f, s.Allocatable, path.Child("allocatable"))
	seen := map[corev1.NodeAddress]bool{}
	for i, a := range s.Addresses {
		if seen[a] {
			f.add(field.Duplicate(path.Child("addresses").Index(i), a))
		}
		seen[a] = true
	}
}

func quantities(f *faults, list corev1.ResourceList, path *field.Path) {
	for _, name := range sortedKeys(list) {
		quantity(f, name, list[name], path.Child(string(name)))
	}
}

func nodeUpdate(f *faults, n, old *corev1.Node) {
	spec := field.NewPath("spec")
	if len(old.Spec.PodCIDRs) > 0 && !equality.Semantic.DeepEqual(n.Spec.PodCIDRs, old.Spec.PodCIDRs) {
		f.add(field.Forbidden(spec.Child("podCIDRs"), "node updates may not change podCIDR except from \"\" to valid"))
	}
	if old.Spec.ProviderID != "" && n.Spec.ProviderID != old.Spec.ProviderID {
		f.add(field.Forbidden(spec.Child("providerID"), "node updates may not change providerID except from \"\" to valid"))
	}
	if n.Spec.DoNotUseExternalID != old.Spec.DoNotUseExternalID {
		f.add(field.Forbidden(spec.Child("externalID"), "may not be updated"))
	}
}

func taints(f *faults, list []corev1.Taint, path *field.Path) {
	type id struct {
		key    string
		effect corev1.TaintEffect
	}
	seen := map[id]bool{}
	for i, t := range list {
		p := path.Index(i)
		f.add(metav1validation.ValidateLabelName(t.Key, p.Child("key"))...)
		if msgs := validation.IsValidLabelValue(t.Value); len(msgs) > 0 {
			f.invalid(p.Child("value"), t.Value, strings.Join(msgs, ";"))
		}
		taintEffect(f, t.Effect, p.Child("effect"))
		if seen[id{t.Key, t.Effect}] {
			err := field.Duplicate(p, t)
			err.Detail = "taints must be unique by key and effect pair"
			f.add(err)
		}
		seen[id{t.Key, t.Effect}] = true
	}
}

func taintEffect(f *faults, effect corev1.TaintEffect, path *field.Path) {
	oneOf(f, path, effect, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)
}

func lease(f *faults, spec *coordinationv1.LeaseSpec, path *field.Path) {
	if d := spec.LeaseDurationSeconds; d != nil && *d <= 0 {
		f.invalid(path.Child("leaseDurationSeconds"), *d, "must be greater than 0")
	}
	if n := spec.LeaseTransitions; n != nil {
		f.nonNegative(path.Child("leaseTransitions"), int64(*n))
	}
	if s := spec.Strategy; s != nil {
		oneOf(f, path.Child("strategy"), *s, coordinationv1.OldestEmulationVersion)
	}
	if h := spec.PreferredHolder; h != nil && *h != "" && (spec.Strategy == nil || *spec.Strategy == "") {
		f.add(field.Forbidden(path.Child("preferredHolder"), "may only be specified if `strategy` is defined"))
	}
}

func binding(f *faults, b *corev1.Binding) {
	target := field.NewPath("target")
	if k := b.Target.Kind; k != "" && k != "Node" {
		f.add(field.NotSupported(target.Child("kind"), k, []string{"Node", "<empty>"}))
	}
	if b.Target.Name == "" {
		f.required(target.Child("name"))
	}
}
