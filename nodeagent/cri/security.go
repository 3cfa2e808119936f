package cri

import (
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// namespaces returns which namespaces a pod's containers share with whom.
func namespaces(pod *corev1.Pod) *runtimeapi.NamespaceOption {
	o := &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER}
	if pod.Spec.HostNetwork {
		o.Network = runtimeapi.NamespaceMode_NODE
	}
	if pod.Spec.HostIPC {
		o.Ipc = runtimeapi.NamespaceMode_NODE
	}
	switch {
	case pod.Spec.HostPID:
		o.Pid = runtimeapi.NamespaceMode_NODE
	case pod.Spec.ShareProcessNamespace != nil && *pod.Spec.ShareProcessNamespace:
		o.Pid = runtimeapi.NamespaceMode_POD
	}
	return o
}

func sandboxSecurity(pod *corev1.Pod) *runtimeapi.LinuxSandboxSecurityContext {
	sc := &runtimeapi.LinuxSandboxSecurityContext{
		NamespaceOptions: namespaces(pod),
		Privileged:       anyPrivileged(pod),
		// the sandbox's own process needs nothing special
		Seccomp: &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
	}
	p := pod.Spec.SecurityContext
	if p == nil {
		return sc
	}
	sc.RunAsUser = int64Value(p.RunAsUser)
	if p.RunAsUser != nil { // a group without a user is refused by CRI
		sc.RunAsGroup = int64Value(p.RunAsGroup)
	}
	sc.SupplementalGroups = groups(p)
	if p.SELinuxOptions != nil {
		sc.SelinuxOptions = selinux(p.SELinuxOptions)
	}
	return sc
}

func anyPrivileged(pod *corev1.Pod) bool {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range list {
			if c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged {
				return true
			}
		}
	}
	return false
}

func groups(p *corev1.PodSecurityContext) []int64 {
	g := append([]int64(nil), p.SupplementalGroups...)
	if p.FSGroup != nil {
		g = append(g, *p.FSGroup)
	}
	return g
}

func int64Value(p *int64) *runtimeapi.Int64Value {
	if p == nil {
		return nil
	}
	return &runtimeapi.Int64Value{Value: *p}
}

func selinux(o *corev1.SELinuxOptions) *runtimeapi.SELinuxOption {
	return &runtimeapi.SELinuxOption{User: o.User, Role: o.Role, Type: o.Type, Level: o.Level}
}

// containerSecurity merges the pod's and the container's security context;
// the container's counts.
func (r *Runtime) containerSecurity(pod *corev1.Pod, c *corev1.Container) *runtimeapi.LinuxContainerSecurityContext {
	sc := &runtimeapi.LinuxContainerSecurityContext{
		NamespaceOptions: namespaces(pod),
		Seccomp:          &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined},
		MaskedPaths:      maskedPaths(),
		ReadonlyPaths:    readonlyPaths(),
	}
	if p := pod.Spec.SecurityContext; p != nil {
		sc.RunAsUser, sc.RunAsGroup = int64Value(p.RunAsUser), int64Value(p.RunAsGroup)
		sc.SupplementalGroups = groups(p)
		if p.SeccompProfile != nil {
			sc.Seccomp = r.seccomp(p.SeccompProfile)
		}
		if p.SELinuxOptions != nil {
			sc.SelinuxOptions = selinux(p.SELinuxOptions)
		}
	}
	own := c.SecurityContext
	if own == nil {
		return sc
	}
	if own.RunAsUser != nil {
		sc.RunAsUser = int64Value(own.RunAsUser)
	}
	if own.RunAsGroup != nil {
		sc.RunAsGroup = int64Value(own.RunAsGroup)
	}
	if own.SeccompProfile != nil {
		sc.Seccomp = r.seccomp(own.SeccompProfile)
	}
	if own.SELinuxOptions != nil {
		sc.SelinuxOptions = selinux(own.SELinuxOptions)
	}
	if own.ReadOnlyRootFilesystem != nil {
		sc.ReadonlyRootfs = *own.ReadOnlyRootFilesystem
	}
	if own.AllowPrivilegeEscalation != nil {
		sc.NoNewPrivs = !*own.AllowPrivilegeEscalation
	}
	if own.Capabilities != nil {
		sc.Capabilities = &runtimeapi.Capability{}
		for _, name := range own.Capabilities.Add {
			sc.Capabilities.AddCapabilities = append(sc.Capabilities.AddCapabilities, string(name))
		}
		for _, name := range own.Capabilities.Drop {
			sc.Capabilities.DropCapabilities = append(sc.Capabilities.DropCapabilities, string(name))
		}
	}
	if own.ProcMount != nil && *own.ProcMount == corev1.UnmaskedProcMount {
		sc.MaskedPaths, sc.ReadonlyPaths = nil, nil
	}
	if own.Privileged != nil && *own.Privileged {
		sc.Privileged = true
		sc.MaskedPaths, sc.ReadonlyPaths = nil, nil
		sc.Seccomp = &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}
	}
	return sc
}

func (r *Runtime) seccomp(p *corev1.SeccompProfile) *runtimeapi.SecurityProfile {
	switch p.Type {
	case corev1.SeccompProfileTypeRuntimeDefault:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}
	case corev1.SeccompProfileTypeLocalhost:
		var name string
		if p.LocalhostProfile != nil {
			name = *p.LocalhostProfile
		}
		return &runtimeapi.SecurityProfile{
			ProfileType:  runtimeapi.SecurityProfile_Localhost,
			LocalhostRef: filepath.Join(r.config.SeccompDir, filepath.Clean("/"+name)),
		}
	default:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}
	}
}

// maskedPaths are the files of /proc and /sys that say or do too much.
func maskedPaths() []string {
	return []string{
		"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi",
		"/sys/firmware", "/sys/devices/virtual/powercap",
	}
}

func readonlyPaths() []string {
	return []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
}
