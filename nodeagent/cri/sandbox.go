package cri

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// SandboxOptions is what a sandbox needs beside the pod itself.
type SandboxOptions struct {
	Attempt      int
	Hostname     string // ignored with the host's network
	LogDir       string // folder of the pod's logs
	CgroupParent string // the pod's cgroup, as a cgroupfs path; "" for none
	DNS          *DNS   // nil leaves resolv.conf to the runtime
	Handler      string // runtime handler; "" for the default
}

// DNS is the content of a pod's resolv.conf.
type DNS struct{ Servers, Searches, Options []string }

// RunSandbox makes and starts a sandbox for a pod and returns its ID.
func (r *Runtime) RunSandbox(ctx context.Context, pod *corev1.Pod, o SandboxOptions) (string, error) {
	ctx, cancel := r.timeout(ctx)
	defer cancel()
	resp, err := r.rt.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{
		Config: sandboxConfig(pod, &o), RuntimeHandler: o.Handler,
	})
	if err != nil {
		return "", wrap("run the pod sandbox", err)
	}
	return resp.PodSandboxId, nil
}

// StopSandbox stops a sandbox, all that runs in it, and its network. It is no
// error if it is stopped or gone.
func (r *Runtime) StopSandbox(ctx context.Context, id string) error {
	ctx, cancel := r.timeout(ctx)
	defer cancel()
	_, err := r.rt.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
	return wrap("stop the pod sandbox", err)
}

// RemoveSandbox removes a sandbox with its containers. It is no error if it is
// gone.
func (r *Runtime) RemoveSandbox(ctx context.Context, id string) error {
	ctx, cancel := r.timeout(ctx)
	defer cancel()
	_, err := r.rt.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
	return wrap("remove the pod sandbox", err)
}

// sandboxConfig builds what CRI wants to know of a pod. It is also part of
// each container's request, so it depends only on its arguments.
func sandboxConfig(pod *corev1.Pod, o *SandboxOptions) *runtimeapi.PodSandboxConfig {
	annotations := map[string]string{"kubernetes.io/config.source": "api"}
	maps.Copy(annotations, pod.Annotations)
	c := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{
			Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID),
			Attempt: uint32(o.Attempt), //nolint:gosec // a small count
		},
		LogDirectory: o.LogDir,
		Labels:       podLabels(pod),
		Annotations:  annotations,
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent:    o.CgroupParent,
			SecurityContext: sandboxSecurity(pod),
			Sysctls:         sysctls(pod),
		},
	}
	if !pod.Spec.HostNetwork {
		c.Hostname = o.Hostname
	}
	if o.DNS != nil {
		c.DnsConfig = &runtimeapi.DNSConfig{Servers: o.DNS.Servers, Searches: o.DNS.Searches, Options: o.DNS.Options}
	}
	if !pod.Spec.HostNetwork {
		c.PortMappings = portMappings(pod)
	}
	return c
}

func sysctls(pod *corev1.Pod) map[string]string {
	sc := pod.Spec.SecurityContext
	if sc == nil || len(sc.Sysctls) == 0 {
		return nil
	}
	m := map[string]string{}
	for _, s := range sc.Sysctls {
		m[s.Name] = s.Value
	}
	return m
}

func portMappings(pod *corev1.Pod) []*runtimeapi.PortMapping {
	var list []*runtimeapi.PortMapping
	add := func(containers []corev1.Container) {
		for _, c := range containers {
			for _, p := range c.Ports {
				if p.HostPort == 0 {
					continue
				}
				m := &runtimeapi.PortMapping{HostIp: p.HostIP, HostPort: p.HostPort, ContainerPort: p.ContainerPort}
				switch p.Protocol {
				case corev1.ProtocolUDP:
					m.Protocol = runtimeapi.Protocol_UDP
				case corev1.ProtocolSCTP:
					m.Protocol = runtimeapi.Protocol_SCTP
				default:
					m.Protocol = runtimeapi.Protocol_TCP
				}
				list = append(list, m)
			}
		}
	}
	add(pod.Spec.InitContainers)
	add(pod.Spec.Containers)
	return list
}
