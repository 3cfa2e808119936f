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
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
)

// The bounds of plugins.
const (
	maxInlineCode    = 1 << 20
	maxTimeoutMillis = 1000
	maxMemoryMiB     = 128
)

//nolint:gochecknoglobals // built once, never changed
var digestForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^sha256:[0-9a-f]{64}$`) })

func wasmModule(f *faults, spec *pluginsv1.WasmModuleSpec, path *field.Path) {
	if len(spec.Code) > maxInlineCode {
		f.add(field.TooLong(path.Child("code"), "", maxInlineCode))
	}
	if spec.Digest == "" {
		return
	}
	digest := path.Child("digest")
	if !digestForm().MatchString(spec.Digest) {
		f.invalid(digest, spec.Digest, "must be sha256: and 64 lower-case hexadecimal digits")
		return
	}
	if len(spec.Code) > 0 {
		sum := sha256.Sum256(spec.Code)
		if spec.Digest != "sha256:"+hex.EncodeToString(sum[:]) {
			f.invalid(digest, spec.Digest, "does not match the code")
		}
	}
}

func admissionPlugin(f *faults, spec *pluginsv1.AdmissionPluginSpec, path *field.Path) {
	f.needed(path.Child("module"), spec.Module, subdomain)
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
	if s := spec.Settings; s != nil {
		if raw := bytes.TrimSpace(s.Raw); !json.Valid(raw) || raw[0] != '{' {
			f.invalid(path.Child("settings"), string(s.Raw), "must be an object")
		}
	}
	if spec.FailurePolicy != "" {
		oneOf(f, path.Child("failurePolicy"), spec.FailurePolicy, admissionregistrationv1.Fail, admissionregistrationv1.Ignore)
	}
	if l := spec.Limits; l != nil {
		limits := path.Child("limits")
		within(f, limits.Child("timeoutMillis"), l.TimeoutMillis, maxTimeoutMillis)
		within(f, limits.Child("memoryMiB"), l.MemoryMiB, maxMemoryMiB)
		f.nonNegative(limits.Child("fuel"), l.Fuel)
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
