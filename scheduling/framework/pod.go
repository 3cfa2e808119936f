package framework

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// PodInfo is a pod with what the scheduler works out once from its spec. It is
// shared and never changes.
type PodInfo struct {
	Pod *corev1.Pod
	// Request is what the pod asks for; NonZero is the same with the defaults
	// in place of what its containers leave out, for scoring.
	Request, NonZero Resource
	// HostPorts are the ports that the pod needs on its node.
	HostPorts []HostPort
	// Priority orders pods in the queue.
	Priority int32
}

// NewPodInfo works out a pod's requests. The pod must not change afterwards.
func NewPodInfo(pod *corev1.Pod) *PodInfo {
	p := &PodInfo{Pod: pod, HostPorts: hostPorts(pod)}
	p.Request, p.NonZero = podRequests(pod)
	if pod.Spec.Priority != nil {
		p.Priority = *pod.Spec.Priority
	}
	return p
}

// anyAddress is the host address that stands for all of them.
const anyAddress = "0.0.0.0"

// A HostPort is a port on the node's own network.
type HostPort struct {
	Address  string // "0.0.0.0" is every address
	Protocol corev1.Protocol
	Port     int32
}

// Conflicts reports whether the two ports cannot be open on one node: they have
// the same protocol and number, and one of the addresses covers the other.
func (h HostPort) Conflicts(o HostPort) bool {
	return h.Port == o.Port && h.Protocol == o.Protocol &&
		(h.Address == o.Address || h.Address == anyAddress || o.Address == anyAddress)
}

// hostPorts lists the host ports of the containers that run for as long as the
// pod does.
func hostPorts(pod *corev1.Pod) []HostPort {
	var ports []HostPort
	add := func(c *corev1.Container) {
		for _, p := range c.Ports {
			if p.HostPort <= 0 {
				continue
			}
			h := HostPort{Address: p.HostIP, Protocol: p.Protocol, Port: p.HostPort}
			if h.Address == "" {
				h.Address = anyAddress
			}
			if h.Protocol == "" {
				h.Protocol = corev1.ProtocolTCP
			}
			if !slices.Contains(ports, h) {
				ports = append(ports, h)
			}
		}
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i])
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	return ports
}
