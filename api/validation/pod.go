package validation

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// pod checks what is the same for new and changed pods.
func pod(f *faults, p *corev1.Pod) {
	path := field.NewPath("spec")
	podSpec(f, &p.Spec, path)
	for i, c := range p.Spec.InitContainers {
		imageSpace(f, c.Image, path.Child("initContainers").Index(i))
	}
	for i, c := range p.Spec.Containers {
		imageSpace(f, c.Image, path.Child("containers").Index(i))
	}
	if p.Spec.ServiceAccountName != "" {
		return
	}
	for i, v := range p.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for j, s := range v.Projected.Sources {
			if s.ServiceAccountToken != nil {
				f.add(field.Forbidden(
					path.Child("volumes").Index(i).Child("projected", "sources").Index(j).Child("serviceAccountToken"),
					"must not be specified when serviceAccountName is not set"))
			}
		}
	}
}

// podCreate checks what a new pod may not have yet.
func podCreate(f *faults, p *corev1.Pod) {
	path := field.NewPath("spec")
	if len(p.Spec.EphemeralContainers) > 0 {
		f.add(field.Forbidden(path.Child("ephemeralContainers"), "cannot be set on create"))
	}
	if p.Spec.NodeName != "" && len(p.Spec.SchedulingGates) > 0 {
		f.add(field.Forbidden(path.Child("nodeName"), "cannot be set until all schedulingGates have been cleared"))
	}
}

// A podContext is what the containers of a pod refer to.
type podContext struct {
	spec    *corev1.PodSpec
	volumes map[string]*corev1.VolumeSource
	claims  sets.Set[string]
}

// ownUsers says that the pod has user IDs of its own, apart from the host's.
func (c *podContext) ownUsers() bool { return c.spec.HostUsers != nil && !*c.spec.HostUsers }

// podSpec checks the spec of a pod or of a pod template.
func podSpec(f *faults, s *corev1.PodSpec, path *field.Path) {
	ctx := &podContext{spec: s, volumes: map[string]*corev1.VolumeSource{}, claims: sets.New[string]()}
	volumes(f, s.Volumes, ctx.volumes, path.Child("volumes"))
	resourceClaims(f, s.ResourceClaims, ctx.claims, path.Child("resourceClaims"))
	containers(f, ctx, path)
	if s.Resources != nil {
		podResources(f, s, path.Child("resources"))
	}

	oneOf(f, path.Child("restartPolicy"), s.RestartPolicy,
		corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	oneOf(f, path.Child("dnsPolicy"), s.DNSPolicy,
		corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone)
	f.add(metav1validation.ValidateLabels(s.NodeSelector, path.Child("nodeSelector"))...)
	podSecurity(f, s, path)
	affinity(f, s.Affinity, path.Child("affinity"))
	dnsConfig(f, s.DNSConfig, s.DNSPolicy, path.Child("dnsConfig"))
	for i, g := range s.ReadinessGates {
		f.invalid(path.Child("readinessGates").Index(i).Child("conditionType"), string(g.ConditionType),
			validation.IsQualifiedName(string(g.ConditionType))...)
	}
	schedulingGates(f, s.SchedulingGates, path.Child("schedulingGates"))
	topologySpread(f, s.TopologySpreadConstraints, path.Child("topologySpreadConstraints"))
	tolerations(f, s.Tolerations, path.Child("tolerations"))

	optional(f, path.Child("serviceAccountName"), s.ServiceAccountName, subdomain)
	optional(f, path.Child("nodeName"), s.NodeName, subdomain)
	optional(f, path.Child("hostname"), s.Hostname, validation.IsDNS1123Label)
	optional(f, path.Child("subdomain"), s.Subdomain, validation.IsDNS1123Label)
	optional(f, path.Child("priorityClassName"), s.PriorityClassName, subdomain)
	if s.RuntimeClassName != nil {
		f.invalid(path.Child("runtimeClassName"), *s.RuntimeClassName, subdomain(*s.RuntimeClassName)...)
	}
	if d := s.ActiveDeadlineSeconds; d != nil && (*d < 1 || *d > math.MaxInt32) {
		f.invalid(path.Child("activeDeadlineSeconds"), *d, validation.InclusiveRangeError(1, math.MaxInt32))
	}
	for i, a := range s.HostAliases {
		p := path.Child("hostAliases").Index(i)
		f.add(validation.IsValidIP(p.Child("ip"), a.IP)...)
		for j, name := range a.Hostnames {
			f.invalid(p.Child("hostnames").Index(j), name, validation.IsDNS1123Subdomain(name)...)
		}
	}
	oneOfPtr(f, path.Child("preemptionPolicy"), s.PreemptionPolicy, corev1.PreemptLowerPriority, corev1.PreemptNever)
	for _, name := range sortedKeys(s.Overhead) {
		p := path.Child("overhead").Key(string(name))
		resourceName(f, name, p)
		quantity(f, name, s.Overhead[name], p)
	}
	if s.OS != nil {
		oneOf(f, path.Child("os", "name"), s.OS.Name, corev1.Linux, corev1.Windows)
	}
}

// optional checks a value that may be empty.
func optional(f *faults, path *field.Path, value string, check func(string) []string) {
	if value != "" {
		f.invalid(path, value, check(value)...)
	}
}

func resourceClaims(f *faults, list []corev1.PodResourceClaim, names sets.Set[string], path *field.Path) {
	for i, c := range list {
		p := path.Index(i)
		f.needed(p.Child("name"), c.Name, validation.IsDNS1123Label)
		if names.Has(c.Name) {
			f.add(field.Duplicate(p.Child("name"), c.Name))
		}
		names.Insert(c.Name)
		switch {
		case c.ResourceClaimName != nil && c.ResourceClaimTemplateName != nil:
			f.invalid(p, c, "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified")
		case c.ResourceClaimName == nil && c.ResourceClaimTemplateName == nil:
			f.invalid(p, c, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
		}
		if c.ResourceClaimName != nil {
			f.invalid(p.Child("resourceClaimName"), *c.ResourceClaimName, subdomain(*c.ResourceClaimName)...)
		}
		if c.ResourceClaimTemplateName != nil {
			f.invalid(p.Child("resourceClaimTemplateName"), *c.ResourceClaimTemplateName, subdomain(*c.ResourceClaimTemplateName)...)
		}
	}
}

func schedulingGates(f *faults, list []corev1.PodSchedulingGate, path *field.Path) {
	seen := sets.New[string]()
	for i, g := range list {
		f.invalid(path.Index(i), g.Name, validation.IsQualifiedName(g.Name)...)
		if seen.Has(g.Name) {
			f.add(field.Duplicate(path.Index(i), g.Name))
		}
		seen.Insert(g.Name)
	}
}

// The bounds of resolv.conf.
const (
	maxNameservers = 3
	maxSearches    = 32
	maxSearchChars = 2048
)

func dnsConfig(f *faults, c *corev1.PodDNSConfig, policy corev1.DNSPolicy, path *field.Path) {
	if c == nil {
		if policy == corev1.DNSNone {
			f.add(field.Required(path, "must provide `dnsConfig` when `dnsPolicy` is None"))
		}
		return
	}
	servers := path.Child("nameservers")
	if policy == corev1.DNSNone && len(c.Nameservers) == 0 {
		f.add(field.Required(servers, "must provide at least one DNS nameserver when `dnsPolicy` is None"))
		return
	}
	if len(c.Nameservers) > maxNameservers {
		f.invalid(servers, c.Nameservers, "must not have more than 3 nameservers")
	}
	for i, s := range c.Nameservers {
		f.add(validation.IsValidIP(servers.Index(i), s)...)
	}
	searches := path.Child("searches")
	if len(c.Searches) > maxSearches {
		f.invalid(searches, c.Searches, "must not have more than 32 search paths")
	}
	chars := max(0, len(c.Searches)-1) // the spaces between them
	for i, s := range c.Searches {
		chars += len(s)
		if s == "." {
			continue
		}
		if s != "" && s[len(s)-1] == '.' {
			s = s[:len(s)-1]
		}
		f.invalid(searches.Index(i), c.Searches[i], validation.IsDNS1123SubdomainWithUnderscore(s)...)
	}
	if chars > maxSearchChars {
		f.invalid(searches, c.Searches, "must not have more than 2048 characters (including spaces) in the search list")
	}
	for i, o := range c.Options {
		if o.Name == "" {
			f.add(field.Required(path.Child("options").Index(i), "must not be empty"))
		}
	}
}

func portNumber(f *faults, path *field.Path, n int32) {
	f.invalid(path, n, validation.IsValidPortNum(int(n))...)
}
