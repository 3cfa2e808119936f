package validation

import (
	"fmt"
	"net/url"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/api/expression"
)

// The bounds of webhooks.
const (
	maxWebhookSeconds  = 30
	maxMatchConditions = 64
)

// reviewVersions are the versions of AdmissionReview that the server speaks.
const reviewVersions = "v1, v1beta1"

// admission checks the kinds of admissionregistration.k8s.io.
func admission(f *faults, obj api.Object) {
	webhooks, spec := field.NewPath("webhooks"), field.NewPath("spec")
	switch o := obj.(type) {
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		names := map[string]bool{}
		for i := range o.Webhooks {
			w := &o.Webhooks[i]
			webhook(f, &aWebhook{
				w.Name, w.Rules, w.FailurePolicy, w.MatchPolicy, w.SideEffects, w.TimeoutSeconds, w.NamespaceSelector, w.ObjectSelector,
				&w.ClientConfig, w.MatchConditions, w.AdmissionReviewVersions,
			}, webhooks.Index(i), names)
		}
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		names := map[string]bool{}
		for i := range o.Webhooks {
			w := &o.Webhooks[i]
			webhook(f, &aWebhook{
				w.Name, w.Rules, w.FailurePolicy, w.MatchPolicy, w.SideEffects, w.TimeoutSeconds, w.NamespaceSelector, w.ObjectSelector,
				&w.ClientConfig, w.MatchConditions, w.AdmissionReviewVersions,
			}, webhooks.Index(i), names)
			oneOfPtr(f, webhooks.Index(i).Child("reinvocationPolicy"), w.ReinvocationPolicy, reinvocations()...)
		}
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		validatingPolicy(f, o, spec)
	case *admissionregistrationv1.MutatingAdmissionPolicy:
		mutatingPolicy(f, o, spec)
	case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		binding := &o.Spec
		policyBinding(f, binding.PolicyName, binding.ParamRef, binding.MatchResources, spec)
		validationActions(f, binding.ValidationActions, spec.Child("validationActions"))
	case *admissionregistrationv1.MutatingAdmissionPolicyBinding:
		policyBinding(f, o.Spec.PolicyName, o.Spec.ParamRef, o.Spec.MatchResources, spec)
	}
}

func reinvocations() []admissionregistrationv1.ReinvocationPolicyType {
	return []admissionregistrationv1.ReinvocationPolicyType{
		admissionregistrationv1.IfNeededReinvocationPolicy, admissionregistrationv1.NeverReinvocationPolicy,
	}
}

// aWebhook is what both kinds of webhooks have.
type aWebhook struct {
	name            string
	rules           []admissionregistrationv1.RuleWithOperations
	failurePolicy   *admissionregistrationv1.FailurePolicyType
	matchPolicy     *admissionregistrationv1.MatchPolicyType
	sideEffects     *admissionregistrationv1.SideEffectClass
	timeoutSeconds  *int32
	namespaces      *metav1.LabelSelector
	objects         *metav1.LabelSelector
	client          *admissionregistrationv1.WebhookClientConfig
	matchConditions []admissionregistrationv1.MatchCondition
	reviewVersions  []string
}

// webhook checks one webhook; names are those of the webhooks before.
func webhook(f *faults, w *aWebhook, path *field.Path, names map[string]bool) {
	f.add(validation.IsFullyQualifiedName(path.Child("name"), w.name)...)
	for i := range w.rules {
		rule(f, &w.rules[i], path.Child("rules").Index(i))
	}
	oneOfPtr(f, path.Child("failurePolicy"), w.failurePolicy, admissionregistrationv1.Fail, admissionregistrationv1.Ignore)
	oneOfPtr(f, path.Child("matchPolicy"), w.matchPolicy, admissionregistrationv1.Equivalent, admissionregistrationv1.Exact)
	if w.sideEffects == nil {
		f.add(field.Required(path.Child("sideEffects"), "must specify one of None, NoneOnDryRun"))
	}
	oneOfPtr(f, path.Child("sideEffects"), w.sideEffects, admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.SideEffectClassNoneOnDryRun)
	if n := w.timeoutSeconds; n != nil && (*n < 1 || *n > maxWebhookSeconds) {
		f.invalid(path.Child("timeoutSeconds"), *n, "the timeout value must be between 1 and 30 seconds")
	}
	selector(f, w.namespaces, path.Child("namespaceSelector"))
	selector(f, w.objects, path.Child("objectSelector"))
	webhookClient(f, w.client, path.Child("clientConfig"))
	matchConditions(f, w.matchConditions, false, path.Child("matchConditions"))
	versions(f, w.reviewVersions, path.Child("admissionReviewVersions"))
	if w.name != "" && names[w.name] {
		f.add(field.Duplicate(path.Child("name"), w.name))
	}
	names[w.name] = true
}

func webhookClient(f *faults, c *admissionregistrationv1.WebhookClientConfig, path *field.Path) {
	switch {
	case (c.URL == nil) == (c.Service == nil):
		f.add(field.Required(path, "exactly one of url or service is required"))
	case c.URL != nil:
		webhookURL(f, *c.URL, path.Child("url"))
	default:
		webhookService(f, c.Service, path.Child("service"))
	}
}

func webhookURL(f *faults, s string, path *field.Path) {
	const form = "; desired format: https://host[/path]"
	u, err := url.Parse(s)
	if err != nil {
		f.add(field.Required(path, "url must be a valid URL: "+err.Error()+form))
		return
	}
	if u.Scheme != "https" {
		f.invalid(path, u.Scheme, "'https' is the only allowed URL scheme"+form)
	}
	if u.Host == "" {
		f.invalid(path, u.Host, "host must be specified"+form)
	}
	if u.User != nil {
		f.invalid(path, u.User.String(), "user information is not permitted in the URL")
	}
	if u.Fragment != "" {
		f.invalid(path, u.Fragment, "fragments are not permitted in the URL")
	}
	if u.RawQuery != "" {
		f.invalid(path, u.RawQuery, "query parameters are not permitted in the URL")
	}
}

func webhookService(f *faults, s *admissionregistrationv1.ServiceReference, path *field.Path) {
	f.needed(path.Child("name"), s.Name, nil)
	f.needed(path.Child("namespace"), s.Namespace, nil)
	if s.Port != nil {
		if msgs := validation.IsValidPortNum(int(*s.Port)); msgs != nil {
			f.invalid(path.Child("port"), *s.Port, "port is not valid: "+strings.Join(msgs, ", "))
		}
	}
	if s.Path == nil || *s.Path == "" || *s.Path == "/" {
		return
	}
	whole, path := *s.Path, path.Child("path")
	if whole == "//" {
		f.invalid(path, whole, "segment[0] may not be empty")
		return
	}
	if !strings.HasPrefix(whole, "/") {
		f.invalid(path, whole, "must start with a '/'")
	}
	for i, step := range strings.Split(strings.TrimSuffix(whole[1:], "/"), "/") {
		if step == "" {
			f.invalid(path, whole, fmt.Sprintf("segment[%d] may not be empty", i))
			continue
		}
		for _, msg := range validation.IsDNS1123Subdomain(step) {
			f.invalid(path, whole, fmt.Sprintf("segment[%d]: %v", i, msg))
		}
	}
}

func versions(f *faults, list []string, path *field.Path) {
	if len(list) == 0 {
		f.add(field.Required(path, "must specify one of "+reviewVersions))
		return
	}
	seen, known := map[string]bool{}, false
	for i, v := range list {
		if seen[v] {
			f.invalid(path.Index(i), v, "duplicate version")
			continue
		}
		seen[v] = true
		f.invalid(path.Index(i), v, validation.IsDNS1035Label(v)...)
		known = known || v == "v1" || v == "v1beta1"
	}
	if !known {
		f.invalid(path, list, "must include at least one of "+reviewVersions)
	}
}

// matchConditions checks the match conditions of webhooks, policies and plugins.
func matchConditions(f *faults, list []admissionregistrationv1.MatchCondition, params bool, path *field.Path) {
	if len(list) > maxMatchConditions {
		f.add(field.TooMany(path, len(list), maxMatchConditions))
	}
	env := expression.New(expression.Options{Params: params})
	names := map[string]bool{}
	for i := range list {
		c, p := &list[i], path.Index(i)
		if trimmed := strings.TrimSpace(c.Expression); trimmed == "" {
			f.required(p.Child("expression"))
		} else {
			compiles(f, env, trimmed, expression.Condition, p.Child("expression"))
		}
		if c.Name == "" {
			f.required(p.Child("name"))
			continue
		}
		f.invalid(p.Child("name"), c.Name, validation.IsQualifiedName(c.Name)...)
		if names[c.Name] {
			f.add(field.Duplicate(p.Child("name"), c.Name))
		}
		names[c.Name] = true
	}
}

// compiles adds a fault if an expression does not compile.
func compiles(f *faults, env *expression.Env, source string, use expression.Use, path *field.Path) {
	_, err := env.Compile(source, use)
	celFault(f, source, err, path)
}

func celFault(f *faults, source string, err error, path *field.Path) {
	fault, ok := err.(*expression.Error) //nolint:errorlint // it is not wrapped
	switch {
	case err == nil:
	case ok && !fault.Internal:
		f.invalid(path, source, fault.Detail)
	default:
		f.add(field.InternalError(path, err))
	}
}
