package defaulting

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// pod fills in a pod; some defaults of pods do not reach pod templates.
func pod(o *corev1.Pod) {
	podSpec(&o.Spec)
	fillPtr(&o.Spec.EnableServiceLinks, true)
	for _, list := range [][]corev1.Container{o.Spec.Containers, o.Spec.InitContainers} {
		for i := range list {
			c := &list[i]
			requestsFromLimits(&c.Resources)
			if o.Spec.HostNetwork {
				hostPorts(c.Ports)
			}
		}
	}
	podRequests(o)
	podIPs(&o.Status)
}

// podIPs keeps the list of addresses and the older field with its first element
// alike; where they differ the older one counts.
func podIPs(s *corev1.PodStatus) {
	switch {
	case s.PodIP == "" && len(s.PodIPs) > 0:
		s.PodIP = s.PodIPs[0].IP
	case s.PodIP != "" && (len(s.PodIPs) == 0 || s.PodIPs[0].IP != s.PodIP):
		s.PodIPs = []corev1.PodIP{{IP: s.PodIP}}
	}
}

// podSpec fills in what pods and pod templates share.
func podSpec(s *corev1.PodSpec) {
	fill(&s.RestartPolicy, corev1.RestartPolicyAlways)
	fill(&s.DNSPolicy, corev1.DNSClusterFirst)
	fill(&s.SchedulerName, corev1.DefaultSchedulerName)
	fillPtr(&s.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	fillPtr(&s.SecurityContext, corev1.PodSecurityContext{})
	// the account has an older name, which shows the same
	fill(&s.ServiceAccountName, s.DeprecatedServiceAccount)
	s.DeprecatedServiceAccount = s.ServiceAccountName
	for i := range s.Volumes {
		volume(&s.Volumes[i].VolumeSource)
	}
	for i := range s.InitContainers {
		container(&s.InitContainers[i])
	}
	for i := range s.Containers {
		container(&s.Containers[i])
	}
	for i := range s.EphemeralContainers {
		c := corev1.Container(s.EphemeralContainers[i].EphemeralContainerCommon)
		container(&c)
		s.EphemeralContainers[i].EphemeralContainerCommon = corev1.EphemeralContainerCommon(c)
	}
	roundUp(s.Overhead)
	if s.Resources != nil {
		roundUp(s.Resources.Limits)
		roundUp(s.Resources.Requests)
	}
}

func container(c *corev1.Container) {
	fill(&c.ImagePullPolicy, pullPolicy(c.Image))
	fill(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	fill(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	for i := range c.Ports {
		fill(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		from := c.Env[i].ValueFrom
		if from == nil {
			continue
		}
		if from.FieldRef != nil {
			fill(&from.FieldRef.APIVersion, "v1")
		}
		if from.FileKeyRef != nil {
			fillPtr(&from.FileKeyRef.Optional, false)
		}
	}
	roundUp(c.Resources.Limits)
	roundUp(c.Resources.Requests)
	for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		probe(p)
	}
	if c.Lifecycle != nil {
		for _, h := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if h != nil {
				httpGet(h.HTTPGet)
			}
		}
	}
}

func probe(p *corev1.Probe) {
	if p == nil {
		return
	}
	fill(&p.TimeoutSeconds, 1)
	fill(&p.PeriodSeconds, 10)
	fill(&p.SuccessThreshold, 1)
	fill(&p.FailureThreshold, 3)
	httpGet(p.HTTPGet)
	if p.GRPC != nil {
		fillPtr(&p.GRPC.Service, "")
	}
}

func httpGet(a *corev1.HTTPGetAction) {
	if a == nil {
		return
	}
	fill(&a.Path, "/")
	fill(&a.Scheme, corev1.URISchemeHTTP)
}

// requestsFromLimits requests what is limited and not requested.
func requestsFromLimits(r *corev1.ResourceRequirements) {
	for name, limit := range r.Limits {
		fillQuantity(&r.Requests, name, limit)
	}
}

// podRequests fills in the requests of a pod that is limited as a whole: what
// its containers request together, or else the limit. Huge pages are limited to
// what the containers are limited to.
func podRequests(o *corev1.Pod) {
	r := o.Spec.Resources
	if r == nil || len(r.Limits)+len(r.Requests) == 0 {
		return
	}
	for name, quantity := range resourcehelper.AggregateContainerLimits(o, resourcehelper.PodResourcesOptions{}) {
		if _, requested := r.Requests[name]; isHugePage(name) && !requested {
			fillQuantity(&r.Limits, name, quantity)
		}
	}
	if len(r.Limits) == 0 {
		return
	}
	for name, quantity := range resourcehelper.AggregateContainerRequests(o, resourcehelper.PodResourcesOptions{}) {
		if resourcehelper.IsSupportedPodLevelResource(name) && !isHugePage(name) {
			fillQuantity(&r.Requests, name, quantity)
		}
	}
	for name, quantity := range r.Limits {
		if resourcehelper.IsSupportedPodLevelResource(name) {
			fillQuantity(&r.Requests, name, quantity)
		}
	}
}

func isHugePage(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// fillQuantity sets the quantity of a resource that is not in the list.
func fillQuantity(list *corev1.ResourceList, name corev1.ResourceName, quantity resource.Quantity) {
	if _, ok := (*list)[name]; ok {
		return
	}
	if *list == nil {
		*list = corev1.ResourceList{}
	}
	(*list)[name] = quantity.DeepCopy()
}

// hostPorts gives ports of the host's network the number that they have there
// anyway.
func hostPorts(ports []corev1.ContainerPort) {
	for i := range ports {
		fill(&ports[i].HostPort, ports[i].ContainerPort)
	}
}

// roundUp rounds quantities up to thousandths.
func roundUp(list corev1.ResourceList) {
	for name, quantity := range list {
		if !quantity.RoundUp(resource.Milli) {
			list[name] = quantity
		}
	}
}
