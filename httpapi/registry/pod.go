package registry

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/admission"
)

// Bind assigns the pod that the call names to a node, once and for all.
func (r *Resource) Bind(ctx context.Context, c *Call, b *corev1.Binding) (Result, error) {
	if b.Name == "" {
		b.Name = c.Name
	}
	if b.Name != c.Name {
		return Result{}, r.badRequest(c, "the name of the object (%s) does not match the name on the URL (%s)", b.Name, c.Name)
	}
	if b.Namespace != "" && b.Namespace != c.Namespace {
		return Result{}, r.badRequest(c, "the namespace of the provided object does not match the namespace sent on the request")
	}
	if faults := validateBinding(b); len(faults) > 0 {
		return Result{}, &Error{Reason: Invalid, Kind: schema.GroupKind{Kind: "Binding"}, Resource: r.GR(), Name: c.Name, Fields: faults}
	}
	if err := r.Admit(ctx, c, admission.Create, b); err != nil {
		return Result{}, err
	}
	return r.update(ctx, c, func(old Stored) (api.Object, error) { return r.bound(c, b, old) }, r.tryDirect)
}

func validateBinding(b *corev1.Binding) field.ErrorList {
	var faults field.ErrorList
	target := field.NewPath("target")
	if k := b.Target.Kind; k != "" && k != "Node" {
		faults = append(faults, field.NotSupported(target.Child("kind"), k, []string{"Node", "<empty>"}))
	}
	if b.Target.Name == "" {
		faults = append(faults, field.Required(target.Child("name"), ""))
	}
	return faults
}

// bound returns the pod as it is when it is assigned.
func (r *Resource) bound(c *Call, b *corev1.Binding, old Stored) (api.Object, error) {
	was, ok := old.Object.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("bind a %T", old.Object)
	}
	if err := r.matchUID(c, string(b.UID), old); err != nil {
		return nil, err
	}
	conflict := func(format string, args ...any) error {
		return &Error{Reason: Conflict, Resource: schema.GroupResource{Resource: "pods/binding"}, Name: c.Name, Err: fmt.Errorf(format, args...)}
	}
	switch {
	case was.DeletionTimestamp != nil:
		return nil, conflict("pod %s is being deleted, cannot be assigned to a host", was.Name)
	case was.Spec.NodeName != "":
		return nil, conflict("pod %v is already assigned to node %q", was.Name, was.Spec.NodeName)
	case len(was.Spec.SchedulingGates) > 0:
		return nil, conflict("pod %v has non-empty .spec.schedulingGates", was.Name)
	}
	pod := *was // what differs below is replaced, not changed in place
	pod.ResourceVersion = b.ResourceVersion
	pod.Spec.NodeName = b.Target.Name
	pod.Annotations = merged(was.Annotations, b.Annotations)
	pod.Labels = merged(was.Labels, b.Labels)
	pod.Status.Conditions = withCondition(was.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionTrue,
		ObservedGeneration: was.Generation, LastTransitionTime: metav1.Time{Time: r.now().UTC().Truncate(timePrecision)},
	})
	return &pod, nil
}

func merged(have, more map[string]string) map[string]string {
	if len(more) == 0 {
		return have
	}
	out := make(map[string]string, len(have)+len(more))
	maps.Copy(out, have)
	maps.Copy(out, more)
	return out
}

// withCondition returns the conditions with one set. The time of its last
// transition stays if its status does.
func withCondition(have []corev1.PodCondition, set corev1.PodCondition) []corev1.PodCondition {
	out := slices.Clone(have)
	for i := range out {
		if out[i].Type != set.Type {
			continue
		}
		if out[i].Status == set.Status {
			set.LastTransitionTime = out[i].LastTransitionTime
		}
		out[i] = set
		return out
	}
	return append(out, set)
}

// Evict deletes the pod that the call names as a client would.
func (r *Resource) Evict(ctx context.Context, c *Call, e *policyv1.Eviction) (Result, error) {
	if e.Name != "" && e.Name != c.Name {
		return Result{}, r.badRequest(c, "name in URL does not match name in Eviction object")
	}
	opts := e.DeleteOptions
	if opts == nil {
		opts = &metav1.DeleteOptions{}
	}
	c.DryRun = c.DryRun || len(opts.DryRun) > 0
	if err := r.Admit(ctx, c, admission.Create, e); err != nil {
		return Result{}, err
	}
	d := *c
	d.Subresource = ""
	res, err := r.Delete(ctx, &d, opts)
	c.Warnings = d.Warnings
	return res, err
}
