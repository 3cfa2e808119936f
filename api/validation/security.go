package validation

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const sysctlForm = `([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?`

//nolint:gochecknoglobals // built once, never changed
var sysctlRegexp = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("^" + sysctlForm + "$") })

const maxSysctl = 253

// podSecurity checks the security context of a pod, and what it says about the
// namespaces of the host.
func podSecurity(f *faults, s *corev1.PodSpec, spec *field.Path) {
	if s.HostNetwork {
		for i, c := range s.Containers {
			for j, port := range c.Ports {
				if port.HostPort != 0 && port.HostPort != port.ContainerPort { // 0 is filled in when a pod is made
					f.invalid(spec.Child("containers").Index(i).Child("ports").Index(j).Child("hostPort"),
						port.HostPort, "must match `containerPort` when `hostNetwork` is true")
				}
			}
		}
	}
	if s.ShareProcessNamespace != nil && *s.ShareProcessNamespace && s.HostPID {
		f.invalid(spec.Child("securityContext", "shareProcessNamespace"), true, "ShareProcessNamespace and HostPID cannot both be enabled")
	}
	if s.HostUsers != nil && !*s.HostUsers {
		for _, h := range []struct {
			name string
			on   bool
		}{{"hostNetwork", s.HostNetwork}, {"HostPID", s.HostPID}, {"HostIPC", s.HostIPC}} {
			if h.on {
				f.add(field.Forbidden(spec.Child(h.name), "when `pod.Spec.HostUsers` is false"))
			}
		}
	}
	sc := s.SecurityContext
	if sc == nil {
		return
	}
	path := spec.Child("securityContext")
	userAndGroup(f, sc.RunAsUser, sc.RunAsGroup, path)
	if sc.FSGroup != nil {
		f.invalid(path.Child("fsGroup"), *sc.FSGroup, validation.IsValidGroupID(*sc.FSGroup)...)
	}
	for i, g := range sc.SupplementalGroups {
		f.invalid(path.Child("supplementalGroups").Index(i), g, validation.IsValidGroupID(g)...)
	}
	oneOfPtr(f, path.Child("supplementalGroupsPolicy"), sc.SupplementalGroupsPolicy,
		corev1.SupplementalGroupsPolicyMerge, corev1.SupplementalGroupsPolicyStrict)
	oneOfPtr(f, path.Child("fsGroupChangePolicy"), sc.FSGroupChangePolicy,
		corev1.FSGroupChangeAlways, corev1.FSGroupChangeOnRootMismatch)
	oneOfPtr(f, path.Child("seLinuxChangePolicy"), sc.SELinuxChangePolicy,
		corev1.SELinuxChangePolicyMountOption, corev1.SELinuxChangePolicyRecursive)
	sysctls(f, sc.Sysctls, path.Child("sysctls"))
	seccomp(f, sc.SeccompProfile, path.Child("seccompProfile"))
	appArmor(f, sc.AppArmorProfile, path.Child("appArmorProfile"))
}

func sysctls(f *faults, list []corev1.Sysctl, path *field.Path) {
	seen := sets.New[string]()
	for i, s := range list {
		p := path.Index(i).Child("name")
		switch {
		case s.Name == "":
			f.required(p)
		case len(s.Name) > maxSysctl || !sysctlRegexp().MatchString(s.Name):
			f.invalid(p, s.Name, fmt.Sprintf("must have at most %d characters and match regex %s", maxSysctl, sysctlRegexp()))
		case seen.Has(s.Name):
			f.add(field.Duplicate(p, s.Name))
		}
		seen.Insert(s.Name)
	}
}

func userAndGroup(f *faults, user, group *int64, path *field.Path) {
	if user != nil {
		f.invalid(path.Child("runAsUser"), *user, validation.IsValidUserID(*user)...)
	}
	if group != nil {
		f.invalid(path.Child("runAsGroup"), *group, validation.IsValidGroupID(*group)...)
	}
}

func privileged(sc *corev1.SecurityContext) bool {
	return sc != nil && sc.Privileged != nil && *sc.Privileged
}

func containerSecurity(f *faults, sc *corev1.SecurityContext, ownUsers bool, path *field.Path) {
	if sc == nil {
		return
	}
	userAndGroup(f, sc.RunAsUser, sc.RunAsGroup, path)
	oneOfPtr(f, path.Child("procMount"), sc.ProcMount, corev1.DefaultProcMount, corev1.UnmaskedProcMount)
	if sc.ProcMount != nil && *sc.ProcMount == corev1.UnmaskedProcMount && !ownUsers {
		f.invalid(path.Child("procMount"), *sc.ProcMount, "`hostUsers` must be false to use `Unmasked`")
	}
	seccomp(f, sc.SeccompProfile, path.Child("seccompProfile"))
	appArmor(f, sc.AppArmorProfile, path.Child("appArmorProfile"))
	if sc.AllowPrivilegeEscalation == nil || *sc.AllowPrivilegeEscalation {
		return
	}
	if privileged(sc) {
		f.invalid(path, sc, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
	}
	if sc.Capabilities == nil {
		return
	}
	for _, c := range sc.Capabilities.Add {
		if c == "CAP_SYS_ADMIN" {
			f.invalid(path, sc, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN")
		}
	}
}

func seccomp(f *faults, s *corev1.SeccompProfile, path *field.Path) {
	if s == nil {
		return
	}
	local := path.Child("localhostProfile")
	if s.Type == corev1.SeccompProfileTypeLocalhost {
		if s.LocalhostProfile == nil {
			f.add(field.Required(local, "must be set when seccomp type is Localhost"))
		} else {
			descending(f, *s.LocalhostProfile, local)
		}
	} else if s.LocalhostProfile != nil {
		f.invalid(local, s, "can only be set when seccomp type is Localhost")
	}
	if s.Type == "" {
		f.add(field.Required(path.Child("type"), "type is required when seccompProfile is set"))
		return
	}
	oneOf(f, path.Child("type"), s.Type,
		corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined)
}

func appArmor(f *faults, a *corev1.AppArmorProfile, path *field.Path) {
	if a == nil {
		return
	}
	local := path.Child("localhostProfile")
	switch a.Type {
	case corev1.AppArmorProfileTypeLocalhost:
		switch {
		case a.LocalhostProfile == nil || strings.TrimSpace(*a.LocalhostProfile) == "":
			f.add(field.Required(local, "must be set when AppArmor type is Localhost"))
		case *a.LocalhostProfile != strings.TrimSpace(*a.LocalhostProfile):
			f.invalid(local, *a.LocalhostProfile, "must not be padded with whitespace")
		}
	case corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined:
		if a.LocalhostProfile != nil {
			f.invalid(local, *a.LocalhostProfile, "can only be set when AppArmor type is Localhost")
		}
	case "":
		f.add(field.Required(path.Child("type"), "type is required when appArmorProfile is set"))
	default:
		f.add(field.NotSupported(path.Child("type"), a.Type, []corev1.AppArmorProfileType{
			corev1.AppArmorProfileTypeLocalhost, corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined,
		}))
	}
}
