package validation

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// containers checks all containers of a pod.
func containers(f *faults, ctx *podContext, spec *field.Path) {
	s := ctx.spec
	names := sets.New[string]()
	unique := func(name string, path *field.Path) {
		if name != "" && names.Has(name) {
			f.add(field.Duplicate(path.Child("name"), name))
		}
		names.Insert(name)
	}
	main := spec.Child("containers")
	if len(s.Containers) == 0 {
		f.required(main)
	}
	for i := range s.Containers {
		c, p := &s.Containers[i], main.Index(i)
		container(f, ctx, c, p)
		unique(c.Name, p)
		handlers(f, ctx, c, p)
	}
	hostPorts(f, s.Containers, main)

	initial := spec.Child("initContainers")
	for i := range s.InitContainers {
		c, p := &s.InitContainers[i], initial.Index(i)
		container(f, ctx, c, p)
		unique(c.Name, p)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			handlers(f, ctx, c, p)
		} else {
			noHandlers(f, c, p)
		}
		hostPorts(f, s.InitContainers[i:i+1], initial)
	}

	ephemeral := spec.Child("ephemeralContainers")
	for i := range s.EphemeralContainers {
		e, p := &s.EphemeralContainers[i], ephemeral.Index(i)
		c := corev1.Container(e.EphemeralContainerCommon)
		container(f, ctx, &c, p)
		unique(c.Name, p)
		if t := e.TargetContainerName; t != "" && !slices.ContainsFunc(s.Containers, func(c corev1.Container) bool { return c.Name == t }) &&
			!slices.ContainsFunc(s.InitContainers, func(c corev1.Container) bool { return c.Name == t }) {
			f.add(field.NotFound(p.Child("targetContainerName"), t))
		}
	}
}

// container checks what all sorts of containers have in common.
func container(f *faults, ctx *podContext, c *corev1.Container, p *field.Path) {
	f.needed(p.Child("name"), c.Name, validation.IsDNS1123Label)
	f.needed(p.Child("image"), c.Image, nil)
	oneOf(f, p.Child("terminationMessagePolicy"), c.TerminationMessagePolicy,
		corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)
	oneOf(f, p.Child("imagePullPolicy"), c.ImagePullPolicy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
	ports(f, c.Ports, p.Child("ports"))
	env(f, c.Env, p.Child("env"))
	envFrom(f, c.EnvFrom, p.Child("envFrom"))
	mounts(f, ctx, c, p.Child("volumeMounts"))
	devices(f, ctx, c, p.Child("volumeDevices"))
	containerResources(f, ctx, c, p)
	restartRules(f, c, p)
	containerSecurity(f, c.SecurityContext, ctx.ownUsers(), p.Child("securityContext"))
}

// imageSpace checks the images of pods more strictly than those of templates.
func imageSpace(f *faults, image string, p *field.Path) {
	if image != strings.TrimSpace(image) {
		f.invalid(p.Child("image"), image, "must not have leading or trailing whitespace")
	}
}

func restartRules(f *faults, c *corev1.Container, p *field.Path) {
	oneOfPtr(f, p.Child("restartPolicy"), c.RestartPolicy,
		corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure)
	if len(c.RestartPolicyRules) > 0 && c.RestartPolicy == nil {
		f.add(field.Required(p.Child("restartPolicy"), "must specify restartPolicy when restart rules are used"))
	}
	for i, r := range c.RestartPolicyRules {
		rp := p.Child("restartPolicyRules").Index(i)
		oneOf(f, rp.Child("action"), r.Action, corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers)
		codes := rp.Child("exitCodes")
		if r.ExitCodes == nil {
			f.add(field.Required(codes, "must be specified"))
			continue
		}
		oneOf(f, codes.Child("operator"), r.ExitCodes.Operator,
			corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn)
		if len(r.ExitCodes.Values) == 0 {
			f.required(codes.Child("values"))
		}
	}
}

func ports(f *faults, list []corev1.ContainerPort, path *field.Path) {
	names := sets.New[string]()
	for i, port := range list {
		p := path.Index(i)
		if port.Name != "" {
			if msgs := validation.IsValidPortName(port.Name); len(msgs) > 0 {
				f.invalid(p.Child("name"), port.Name, msgs...)
			} else if names.Has(port.Name) {
				f.add(field.Duplicate(p.Child("name"), port.Name))
			}
			names.Insert(port.Name)
		}
		if port.ContainerPort == 0 {
			f.required(p.Child("containerPort"))
		} else {
			portNumber(f, p.Child("containerPort"), port.ContainerPort)
		}
		if port.HostPort != 0 {
			portNumber(f, p.Child("hostPort"), port.HostPort)
		}
		oneOf(f, p.Child("protocol"), port.Protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)
		if port.HostIP != "" {
			f.add(validation.IsValidIPForLegacyField(p.Child("hostIP"), port.HostIP, false, nil)...)
		}
	}
}

// hostPorts checks that no two containers want the same port of the host.
func hostPorts(f *faults, list []corev1.Container, path *field.Path) {
	seen := sets.New[string]()
	for i := range list {
		for j, port := range list[i].Ports {
			if port.HostPort == 0 {
				continue
			}
			id := fmt.Sprintf("%s/%s/%d", port.Protocol, port.HostIP, port.HostPort)
			if seen.Has(id) {
				f.add(field.Duplicate(path.Index(i).Child("ports").Index(j).Child("hostPort"), id))
			}
			seen.Insert(id)
		}
	}
}

func mounts(f *faults, ctx *podContext, c *corev1.Container, path *field.Path) {
	seen := sets.New[string]()
	for i := range c.VolumeMounts {
		m, p := &c.VolumeMounts[i], path.Index(i)
		f.needed(p.Child("name"), m.Name, nil)
		if _, ok := ctx.volumes[m.Name]; !ok {
			f.add(field.NotFound(p.Child("name"), m.Name))
		}
		f.needed(p.Child("mountPath"), m.MountPath, nil)
		if seen.Has(m.MountPath) {
			f.invalid(p.Child("mountPath"), m.MountPath, "must be unique")
		}
		seen.Insert(m.MountPath)
		notDevice(f, m, c.VolumeDevices, p)
		if m.SubPath != "" {
			descending(f, m.SubPath, path.Child("subPath"))
		}
		if m.SubPathExpr != "" {
			if m.SubPath != "" {
				f.invalid(p.Child("subPathExpr"), m.SubPathExpr, "subPathExpr and subPath are mutually exclusive")
			}
			descending(f, m.SubPathExpr, path.Child("subPathExpr"))
		}
		if mp := m.MountPropagation; mp != nil {
			oneOf(f, path.Child("mountPropagation"), *mp,
				corev1.MountPropagationBidirectional, corev1.MountPropagationHostToContainer, corev1.MountPropagationNone)
			if *mp == corev1.MountPropagationBidirectional && !privileged(c.SecurityContext) {
				f.add(field.Forbidden(path.Child("mountPropagation"), "Bidirectional mount propagation is available only to privileged containers"))
			}
		}
		if r := m.RecursiveReadOnly; r != nil {
			recursive(f, m, *r, path.Child("recursiveReadOnly"))
		}
	}
}

// notDevice checks that a volume is not a device of the same container, too.
func notDevice(f *faults, m *corev1.VolumeMount, devices []corev1.VolumeDevice, p *field.Path) {
	for _, d := range devices {
		if d.Name == m.Name {
			f.invalid(p.Child("name"), m.Name, "must not already exist in volumeDevices")
		}
		if d.DevicePath == m.MountPath {
			f.invalid(p.Child("mountPath"), m.MountPath, "must not already exist as a path in volumeDevices")
		}
	}
}

func recursive(f *faults, m *corev1.VolumeMount, mode corev1.RecursiveReadOnlyMode, path *field.Path) {
	oneOf(f, path, mode, corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible)
	if mode == corev1.RecursiveReadOnlyDisabled {
		return
	}
	if !m.ReadOnly {
		f.add(field.Forbidden(path, "may only be specified when readOnly is true"))
	}
	if m.MountPropagation != nil && *m.MountPropagation != corev1.MountPropagationNone {
		f.add(field.Forbidden(path, "may only be specified when mountPropagation is None or not specified"))
	}
}

// descending checks a path that must stay within a volume.
func descending(f *faults, target string, p *field.Path) {
	if path.IsAbs(target) {
		f.invalid(p, target, "must be a relative path")
	}
	noBackSteps(f, target, p)
}

func noBackSteps(f *faults, target string, p *field.Path) {
	if backSteps(target) {
		f.invalid(p, target, "must not contain '..'")
	}
}

func backSteps(target string) bool { return slices.Contains(strings.Split(target, "/"), "..") }

// notMounted checks that a device is not mounted in the same container, too.
func notMounted(f *faults, d corev1.VolumeDevice, mounts []corev1.VolumeMount, p *field.Path) {
	for _, m := range mounts {
		if m.Name == d.Name {
			f.invalid(p.Child("name"), d.Name, "must not already exist in volumeMounts")
		}
		if m.MountPath == d.DevicePath {
			f.invalid(p.Child("devicePath"), d.DevicePath, "must not already exist as a path in volumeMounts")
		}
	}
}

func devices(f *faults, ctx *podContext, c *corev1.Container, path *field.Path) {
	names, paths := sets.New[string](), sets.New[string]()
	for i, d := range c.VolumeDevices {
		p := path.Index(i)
		f.needed(p.Child("name"), d.Name, nil)
		if names.Has(d.Name) {
			f.invalid(p.Child("name"), d.Name, "must be unique")
		}
		names.Insert(d.Name)
		switch v, ok := ctx.volumes[d.Name]; {
		case !ok:
			f.add(field.NotFound(p.Child("name"), d.Name))
		case v.PersistentVolumeClaim == nil && v.Ephemeral == nil:
			f.invalid(p.Child("name"), d.Name, "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode")
		}
		f.needed(p.Child("devicePath"), d.DevicePath, nil)
		if paths.Has(d.DevicePath) {
			f.invalid(p.Child("devicePath"), d.DevicePath, "must be unique")
		}
		paths.Insert(d.DevicePath)
		if backSteps(d.DevicePath) {
			f.invalid(p.Child("devicePath"), d.DevicePath, "can not contain backsteps ('..')")
		}
		notMounted(f, d, c.VolumeMounts, p)
	}
}
