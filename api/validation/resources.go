package validation

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	resourcehelper "k8s.io/component-helpers/resource"
)

// containerResources checks what a container requests and is limited to.
func containerResources(f *faults, ctx *podContext, c *corev1.Container, p *field.Path) {
	path := p.Child("resources")
	requirements(f, &c.Resources, path, func(name corev1.ResourceName, p *field.Path) { resourceName(f, name, p) })
	cpuOrMemory, huge := false, false
	for _, list := range []corev1.ResourceList{c.Resources.Limits, c.Resources.Requests} {
		for name := range list {
			cpuOrMemory = cpuOrMemory || name == corev1.ResourceCPU || name == corev1.ResourceMemory
			huge = huge || isHugePage(name)
		}
	}
	if huge && !cpuOrMemory {
		f.add(field.Forbidden(path, "HugePages require cpu or memory"))
	}

	claimsOf(f, ctx, c.Resources.Claims, path.Child("claims"))
	resizePolicy(f, ctx, c, p.Child("resizePolicy"))
}

// claimsOf checks the claims that a container refers to.
func claimsOf(f *faults, ctx *podContext, claims []corev1.ResourceClaim, path *field.Path) {
	seen := sets.New[string]()
	for i, claim := range claims {
		p := path.Index(i)
		if claim.Name == "" {
			f.required(p)
			continue
		}
		id := claim.Name
		if claim.Request != "" {
			f.invalid(p.Child("request"), claim.Request, validation.IsDNS1123Label(claim.Request)...)
			id += "/" + claim.Request
		}
		if seen.Has(claim.Name) || seen.Has(id) {
			f.add(field.Duplicate(p, id))
		}
		seen.Insert(id)
		if ctx.claims.Has(claim.Name) {
			continue
		}
		err := field.NotFound(p, claim.Name)
		err.Detail = "must be one of the names in pod.spec.resourceClaims which is empty"
		if len(ctx.claims) > 0 {
			err.Detail = "must be one of the names in pod.spec.resourceClaims: " + strings.Join(sets.List(ctx.claims), ", ")
		}
		f.add(err)
	}
}

// podResources checks the resources of a pod as a whole, and those of its
// containers against them.
func podResources(f *faults, s *corev1.PodSpec, path *field.Path) {
	r := s.Resources
	if r.Claims != nil {
		f.add(field.Forbidden(path.Child("claims"), "claims cannot be set for Resources at pod-level"))
	}
	requirements(f, r, path, func(name corev1.ResourceName, p *field.Path) {
		if !resourcehelper.IsSupportedPodLevelResource(name) {
			f.add(field.NotSupported(p, name, sets.List(resourcehelper.SupportedPodLevelResources())))
		}
	})
	sum := resourcehelper.AggregateContainerRequests(&corev1.Pod{Spec: *s}, resourcehelper.PodResourcesOptions{})
	for _, name := range sortedKeys(sum) {
		have, need := r.Requests[name], sum[name]
		if need.Cmp(have) > 0 {
			f.invalid(path.Child("requests").Key(string(name)), have.String(),
				"must be greater than or equal to aggregate container requests of "+need.String())
		}
	}
	for i := range s.Containers {
		limits := s.Containers[i].Resources.Limits
		for _, name := range sortedKeys(limits) {
			limit := limits[name]
			if most, ok := r.Limits[name]; ok && limit.Cmp(most) > 0 {
				f.invalid(path.Child("containers").Index(i).Key(string(name)).Child("limits"), limit.String(),
					"must be less than or equal to pod limits of "+most.String())
			}
		}
	}
}

func resizePolicy(f *faults, ctx *podContext, c *corev1.Container, path *field.Path) {
	seen := sets.New[corev1.ResourceName]()
	for i, r := range c.ResizePolicy {
		p := path.Index(i)
		if seen.Has(r.ResourceName) {
			f.add(field.Duplicate(p, r.ResourceName))
		}
		seen.Insert(r.ResourceName)
		// upstream's paths do not say which policy is meant
		oneOf(f, path, r.ResourceName, corev1.ResourceCPU, corev1.ResourceMemory)
		oneOf(f, path, r.RestartPolicy, corev1.NotRequired, corev1.RestartContainer)
		if ctx.spec.RestartPolicy == corev1.RestartPolicyNever && r.RestartPolicy != corev1.NotRequired {
			f.invalid(path, r.RestartPolicy, "must be 'NotRequired' when `restartPolicy` is 'Never'")
		}
	}
}

// requirements checks requests against limits.
func requirements(f *faults, r *corev1.ResourceRequirements, path *field.Path, checkName func(corev1.ResourceName, *field.Path)) {
	limits, requests := path.Child("limits"), path.Child("requests")
	for _, name := range sortedKeys(r.Limits) {
		p := limits.Key(string(name))
		checkName(name, p)
		quantity(f, name, r.Limits[name], p)
	}
	for _, name := range sortedKeys(r.Requests) {
		p := requests.Key(string(name))
		request := r.Requests[name]
		checkName(name, p)
		quantity(f, name, request, p)
		limit, ok := r.Limits[name]
		exact := !isNative(name) || isHugePage(name)
		switch {
		case !ok && exact:
			f.add(field.Required(limits, "Limit must be set for non overcommitable resources"))
		case !ok:
		case exact && request.Cmp(limit) != 0:
			f.invalid(requests, request.String(), fmt.Sprintf("must be equal to %s limit of %s", name, limit.String()))
		case request.Cmp(limit) > 0:
			f.invalid(requests, request.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String()))
		}
	}
}

// quantity checks an amount of a resource.
func quantity(f *faults, name corev1.ResourceName, q resource.Quantity, path *field.Path) {
	if q.Sign() < 0 {
		f.invalid(path, q.String(), metavalidation.IsNegativeErrorMsg)
	}
	if isInteger(name) && q.MilliValue()%1000 != 0 {
		f.invalid(path, q, "must be an integer")
	}
	if size, ok := strings.CutPrefix(string(name), corev1.ResourceHugePagesPrefix); ok {
		page, err := resource.ParseQuantity(size)
		if err != nil || page.Value() <= 0 || q.Value()%page.Value() != 0 {
			f.invalid(path, q.String(), fmt.Sprintf("%s is not positive integer multiple of %s", q.String(), name))
		}
	}
}

// resourceName checks that containers can have the resource.
func resourceName(f *faults, name corev1.ResourceName, path *field.Path) {
	msgs := validation.IsQualifiedName(string(name))
	f.invalid(path, name, msgs...)
	switch {
	case !strings.Contains(string(name), "/"):
		if isStandard(name) {
			return
		}
		if len(msgs) == 0 && !isQuotaOnly(name) {
			f.invalid(path, name, "must be a standard resource type or fully qualified")
		}
		f.invalid(path, name, "must be a standard resource for containers")
	case !isNative(name) && (strings.HasPrefix(string(name), "requests.") || len(validation.IsQualifiedName("requests."+string(name))) > 0):
		f.invalid(path, name, "doesn't follow extended resource name standard")
	}
}

// isStandard says whether a resource without a domain is one that containers
// can have.
func isStandard(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return true
	default:
		return isHugePage(name)
	}
}

// isQuotaOnly says whether a resource can be counted but not given to a container.
func isQuotaOnly(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsEphemeralStorage,
		corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage,
		corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers,
		corev1.ResourceSecrets, corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims, corev1.ResourceStorage,
		corev1.ResourceRequestsStorage, corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers:
		return true
	default:
		return strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix)
	}
}

func isHugePage(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// isNative says whether Kubernetes itself knows the resource.
func isNative(name corev1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// isInteger says whether a resource comes in whole pieces only.
func isInteger(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers,
		corev1.ResourceSecrets, corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims,
		corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers:
		return true
	default:
		return !isNative(name)
	}
}
