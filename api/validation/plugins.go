package validation

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
)

// The bounds of plugins.
const (
	maxInlineCode    = 1 << 20
	maxTimeoutMillis = 1000
	maxMemoryMiB     = 128
	maxVersions      = 10
	maxCacheSeconds  = 300
	minResyncSeconds = 10
	minScanSeconds   = 60
)

//nolint:gochecknoglobals // built once, never changed
var digestForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^sha256:[0-9a-f]{64}$`) })

func wasmModule(f *faults, spec *pluginsv1.WasmModuleSpec, path *field.Path) {
	if len(spec.Code) > maxInlineCode {
		f.add(field.TooLong(path.Child("code"), "", maxInlineCode))
	}
	if len(spec.Code) > 0 && spec.Image != nil {
		f.add(field.Forbidden(path.Child("image"), "may not be set together with code"))
	}
	if i := spec.Image; i != nil {
		image := path.Child("image")
		f.needed(image.Child("reference"), i.Reference, nil)
		if s := i.PullSecret; s != nil {
			f.needed(image.Child("pullSecret", "namespace"), s.Namespace, label)
			f.needed(image.Child("pullSecret", "name"), s.Name, subdomain)
		}
	}
	for i, s := range spec.Signatures {
		if len(s.Signature) == 0 {
			f.required(path.Child("signatures").Index(i).Child("signature"))
		}
	}
	if n := spec.VersionHistoryLimit; n != nil {
		within(f, path.Child("versionHistoryLimit"), *n, maxVersions)
	}
	if !digest(f, path.Child("digest"), spec.Digest) {
		return
	}
	if len(spec.Code) > 0 {
		sum := sha256.Sum256(spec.Code)
		if spec.Digest != "sha256:"+hex.EncodeToString(sum[:]) {
			f.invalid(path.Child("digest"), spec.Digest, "does not match the code")
		}
	}
}

// digest checks the form of a digest and reports whether there is a good one.
func digest(f *faults, path *field.Path, s string) bool {
	if s == "" {
		return false
	}
	if !digestForm().MatchString(s) {
		f.invalid(path, s, "must be sha256: and 64 lower-case hexadecimal digits")
		return false
	}
	return true
}

// plugin checks what all kinds of plugins have, then what one kind has.
func plugin(f *faults, o pluginsv1.Binding, path *field.Path) {
	c, _ := o.Bound()
	f.needed(path.Child("module"), c.Module, subdomain)
	digest(f, path.Child("digest"), c.Digest)
	settings(f, path.Child("settings"), c.Settings)
	if c.FailurePolicy != "" {
		oneOf(f, path.Child("failurePolicy"), c.FailurePolicy, admissionregistrationv1.Fail, admissionregistrationv1.Ignore)
	}
	if l := c.Limits; l != nil {
		limits := path.Child("limits")
		within(f, limits.Child("timeoutMillis"), l.TimeoutMillis, maxTimeoutMillis)
		within(f, limits.Child("memoryMiB"), l.MemoryMiB, maxMemoryMiB)
		f.nonNegative(limits.Child("fuel"), l.Fuel)
	}
	for i := range c.Capabilities {
		capability(f, &c.Capabilities[i], path.Child("capabilities").Index(i))
	}
	if s := c.ServiceAccount; s != nil {
		f.needed(path.Child("serviceAccount", "namespace"), s.Namespace, label)
		f.needed(path.Child("serviceAccount", "name"), s.Name, subdomain)
	}
	switch o := o.(type) {
	case *pluginsv1.AdmissionPlugin:
		admissionPlugin(f, &o.Spec, path)
	case *pluginsv1.SchedulerPlugin:
		schedulerPlugin(f, &o.Spec, path)
	case *pluginsv1.AuthorizationPlugin:
		within(f, path.Child("cacheSeconds"), o.Spec.CacheSeconds, maxCacheSeconds)
	case *pluginsv1.AuthenticationPlugin:
		if n := o.Spec.CacheSeconds; n != nil {
			within(f, path.Child("cacheSeconds"), *n, maxCacheSeconds)
		}
	case *pluginsv1.ConversionPlugin:
		f.needed(path.Child("customResourceDefinition"), o.Spec.CustomResourceDefinition, subdomain)
	case *pluginsv1.VirtualAPI:
		virtualAPI(f, o, path)
	case *pluginsv1.Reconciler:
		reconciler(f, &o.Spec, path)
	}
}

func settings(f *faults, path *field.Path, s *runtime.RawExtension) {
	if s == nil {
		return
	}
	if raw := bytes.TrimSpace(s.Raw); !json.Valid(raw) || raw[0] != '{' {
		f.invalid(path, string(s.Raw), "must be an object")
	}
}

func capability(f *faults, c *pluginsv1.Capability, path *field.Path) {
	oneOf(f, path.Child("name"), c.Name, pluginsv1.CapabilityKubeGet, pluginsv1.CapabilityKubeList, pluginsv1.CapabilityCanI,
		pluginsv1.CapabilityClockWall, pluginsv1.CapabilityRandom, pluginsv1.CapabilityHTTP, pluginsv1.CapabilityConfig)
	reads := c.Name == pluginsv1.CapabilityKubeGet || c.Name == pluginsv1.CapabilityKubeList
	listed(f, path.Child("resources"), len(c.Resources), reads, c.Name)
	listed(f, path.Child("hosts"), len(c.Hosts), c.Name == pluginsv1.CapabilityHTTP, c.Name)
	listed(f, path.Child("configMaps"), len(c.ConfigMaps), c.Name == pluginsv1.CapabilityConfig, c.Name)
	for i := range c.Resources {
		p := path.Child("resources").Index(i)
		f.needed(p.Child("version"), c.Resources[i].Version, nil)
		f.needed(p.Child("resource"), c.Resources[i].Resource, nil)
	}
	for i, s := range c.ConfigMaps {
		if ns, name, ok := strings.Cut(s, "/"); !ok || ns == "" || name == "" || strings.Contains(name, "/") {
			f.invalid(path.Child("configMaps").Index(i), s, "must be in the form of namespace/name")
		}
	}
}

// listed checks that a list is there when it is for the capability, and only
// then.
func listed(f *faults, path *field.Path, n int, wanted bool, name string) {
	switch {
	case wanted && n == 0:
		f.required(path)
	case !wanted && n > 0:
		f.add(field.Forbidden(path, "is not of the capability "+name))
	}
}

func admissionPlugin(f *faults, spec *pluginsv1.AdmissionPluginSpec, path *field.Path) {
	phases := path.Child("phases")
	if len(spec.Phases) == 0 {
		f.required(phases)
	}
	for i, p := range spec.Phases {
		oneOf(f, phases.Index(i), p, pluginsv1.PhaseMutate, pluginsv1.PhaseValidate)
		if slices.Contains(spec.Phases[:i], p) {
			f.add(field.Duplicate(phases.Index(i), p))
		}
	}
	if len(spec.Rules) == 0 {
		f.required(path.Child("rules"))
	}
	for i := range spec.Rules {
		rule(f, &spec.Rules[i], path.Child("rules").Index(i))
	}
	selector(f, spec.NamespaceSelector, path.Child("namespaceSelector"))
	selector(f, spec.ObjectSelector, path.Child("objectSelector"))
	matchConditions(f, spec.MatchConditions, false, path.Child("matchConditions"))
	if spec.Mode != "" {
		oneOf(f, path.Child("mode"), spec.Mode, pluginsv1.ModeAudit, pluginsv1.ModeEnforce, pluginsv1.ModeShadow, pluginsv1.ModeWarn)
	}
	if c := spec.Candidate; c != nil {
		candidate := path.Child("candidate")
		if c.Module == "" && c.Digest == "" && c.Settings == nil {
			f.add(field.Required(candidate, "must name a module, a digest or settings"))
		}
		digest(f, candidate.Child("digest"), c.Digest)
		settings(f, candidate.Child("settings"), c.Settings)
		within(f, candidate.Child("percent"), c.Percent, 100)
		selector(f, c.NamespaceSelector, candidate.Child("namespaceSelector"))
	}
}

func schedulerPlugin(f *faults, spec *pluginsv1.SchedulerPluginSpec, path *field.Path) {
	for i, name := range spec.SchedulerNames {
		f.needed(path.Child("schedulerNames").Index(i), name, subdomain)
	}
	for i, p := range spec.Points {
		oneOf(f, path.Child("points").Index(i), p,
			pluginsv1.PointBind, pluginsv1.PointFilter, pluginsv1.PointPermit, pluginsv1.PointPostBind, pluginsv1.PointPostFilter,
			pluginsv1.PointPreBind, pluginsv1.PointPreFilter, pluginsv1.PointPreScore, pluginsv1.PointReserve, pluginsv1.PointScore)
		if slices.Contains(spec.Points[:i], p) {
			f.add(field.Duplicate(path.Child("points").Index(i), p))
		}
	}
	within(f, path.Child("weight"), spec.Weight, 100)
}

func virtualAPI(f *faults, o *pluginsv1.VirtualAPI, path *field.Path) {
	spec := &o.Spec
	f.needed(path.Child("group"), spec.Group, subdomain)
	f.needed(path.Child("version"), spec.Version, label)
	if want := spec.Version + "." + spec.Group; o.Name != want {
		f.invalid(field.NewPath("metadata", "name"), o.Name, "must be spec.version and spec.group: "+want)
	}
	if spec.Group != "" && !strings.Contains(spec.Group, ".") {
		f.invalid(path.Child("group"), spec.Group, "should be a domain with at least one dot")
	}
	if spec.Group == pluginsv1.GroupName || strings.HasSuffix(spec.Group, ".k8s.io") {
		f.invalid(path.Child("group"), spec.Group, "is the server's own")
	}
	if len(spec.Resources) == 0 {
		f.required(path.Child("resources"))
	}
	for i := range spec.Resources {
		r, p := &spec.Resources[i], path.Child("resources").Index(i)
		f.needed(p.Child("plural"), r.Plural, label)
		f.needed(p.Child("kind"), r.Kind, nil)
		if len(r.Verbs) == 0 {
			f.required(p.Child("verbs"))
		}
		for j, v := range r.Verbs {
			oneOf(f, p.Child("verbs").Index(j), v, "create", "delete", "get", "list", "update", "watch")
		}
		within(f, p.Child("pollSeconds"), r.PollSeconds, 3600)
		for j := range r.Columns {
			c, cp := &r.Columns[j], p.Child("columns").Index(j)
			f.needed(cp.Child("name"), c.Name, nil)
			oneOf(f, cp.Child("type"), c.Type, "boolean", "date", "integer", "number", "string")
			f.needed(cp.Child("jsonPath"), c.JSONPath, nil)
		}
	}
}

func reconciler(f *faults, spec *pluginsv1.ReconcilerSpec, path *field.Path) {
	if spec.ServiceAccount == nil {
		f.required(path.Child("serviceAccount"))
	}
	watchedKind(f, &spec.For, path.Child("for"))
	for i := range spec.Owns {
		watchedKind(f, &spec.Owns[i], path.Child("owns").Index(i))
	}
	if n := spec.ResyncSeconds; n != 0 && n < minResyncSeconds {
		f.invalid(path.Child("resyncSeconds"), n, "must be 0 or at least 10")
	}
}

func watchedKind(f *faults, k *pluginsv1.WatchedKind, path *field.Path) {
	f.needed(path.Child("version"), k.Version, nil)
	f.needed(path.Child("resource"), k.Resource, nil)
	selector(f, k.Selector, path.Child("selector"))
}

func policyScan(f *faults, spec *pluginsv1.PolicyScanSpec, path *field.Path) {
	f.needed(path.Child("plugin"), spec.Plugin, subdomain)
	oneOf(f, path.Child("source"), spec.Source, pluginsv1.ScanExisting, pluginsv1.ScanRecorded)
	selector(f, spec.NamespaceSelector, path.Child("namespaceSelector"))
	f.nonNegative(path.Child("limit"), int64(spec.Limit))
	if n := spec.IntervalSeconds; n != 0 && n < minScanSeconds {
		f.invalid(path.Child("intervalSeconds"), n, "must be 0 or at least 60")
	}
}

// within checks a limit, where 0 means the default.
func within(f *faults, path *field.Path, n, most int32) {
	if n < 0 || n > most {
		f.invalid(path, n, validation.InclusiveRangeError(0, int(most)))
	}
}

func selector(f *faults, s *metav1.LabelSelector, path *field.Path) {
	if s != nil {
		f.add(metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, path)...)
	}
}

// rule checks a match rule, which is that of webhooks.
func rule(f *faults, r *admissionregistrationv1.RuleWithOperations, path *field.Path) {
	allOf(f, r.Operations, path.Child("operations"), "if '*' is present, must not specify other operations")
	for i, op := range r.Operations {
		oneOf(f, path.Child("operations").Index(i), op, admissionregistrationv1.OperationAll, admissionregistrationv1.Connect,
			admissionregistrationv1.Create, admissionregistrationv1.Delete, admissionregistrationv1.Update)
	}
	allOf(f, r.APIGroups, path.Child("apiGroups"), "if '*' is present, must not specify other API groups")
	allOf(f, r.APIVersions, path.Child("apiVersions"), "if '*' is present, must not specify other API versions")
	for i, v := range r.APIVersions {
		f.needed(path.Child("apiVersions").Index(i), v, nil)
	}
	resources(f, r.Resources, path.Child("resources"))
	oneOfPtr(f, path.Child("scope"), r.Scope, admissionregistrationv1.AllScopes, admissionregistrationv1.ClusterScope, admissionregistrationv1.NamespacedScope)
}

// allOf checks a list in which * stands for everything.
func allOf[T ~string](f *faults, list []T, path *field.Path, msg string) {
	if len(list) == 0 {
		f.required(path)
	}
	if len(list) > 1 && slices.Contains(list, "*") {
		f.invalid(path, list, msg)
	}
}

func resources(f *faults, list []string, path *field.Path) {
	if len(list) == 0 {
		f.required(path)
	}
	for i, s := range list {
		p := path.Index(i)
		resource, sub, below := strings.Cut(s, "/")
		switch {
		case s == "":
			f.required(p)
		case s == "*/*" && len(list) > 1:
			f.invalid(path, list, "if '*/*' is present, must not specify other resources")
		case !below:
			if s != "*" && slices.Contains(list, "*") {
				f.invalid(p, s, "if '*' is present, must not specify other resources without subresources")
			}
		case resource == "" || sub == "":
			f.invalid(p, s, "must be in the form of resource/subresource")
		case resource != "*" && slices.Contains(list, "*/"+sub):
			f.invalid(p, s, "if '*/"+sub+"' is present, must not specify "+s)
		case sub != "*" && slices.Contains(list, resource+"/*"):
			f.invalid(p, s, "if '"+resource+"/*' is present, must not specify "+s)
		}
	}
}
