package validation

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/api/expression"
)

// The bounds of policies.
const (
	maxAuditAnnotations = 20
	maxAuditExpression  = 5 * 1024
)

// policy checks what both kinds of policies have, and returns the environment
// that knows the policy's variables.
func policy(
	f *faults, failure *admissionregistrationv1.FailurePolicyType, kind *admissionregistrationv1.ParamKind,
	match *admissionregistrationv1.MatchResources, conditions []admissionregistrationv1.MatchCondition,
	variables []admissionregistrationv1.Variable, path *field.Path,
) *expression.Env {
	if failure == nil {
		f.required(path.Child("failurePolicy"))
	}
	oneOfPtr(f, path.Child("failurePolicy"), failure, admissionregistrationv1.Fail, admissionregistrationv1.Ignore)
	if kind != nil {
		paramKind(f, kind, path.Child("paramKind"))
	}
	if constraints := path.Child("matchConstraints"); match == nil {
		f.required(constraints)
	} else {
		matchResources(f, match, constraints)
		if len(match.ResourceRules) == 0 {
			f.required(constraints.Child("resourceRules"))
		}
	}
	matchConditions(f, conditions, kind != nil, path.Child("matchConditions"))
	env := expression.New(expression.Options{Params: kind != nil})
	for i := range variables {
		declare(f, env, &variables[i], path.Child("variables").Index(i))
	}
	return env
}

func validatingPolicy(f *faults, o *admissionregistrationv1.ValidatingAdmissionPolicy, path *field.Path) {
	s := &o.Spec
	env := policy(f, s.FailurePolicy, s.ParamKind, s.MatchConstraints, s.MatchConditions, s.Variables, path)
	validations, audit := path.Child("validations"), path.Child("auditAnnotations")
	if len(s.Validations) == 0 && len(s.AuditAnnotations) == 0 {
		const msg = "validations or auditAnnotations must contain at least one item"
		f.add(field.Required(validations, msg), field.Required(audit, msg))
		return
	}
	for i := range s.Validations {
		validates(f, env, &s.Validations[i], validations.Index(i))
	}
	if len(s.AuditAnnotations) > maxAuditAnnotations {
		f.invalid(audit, s.AuditAnnotations, fmt.Sprintf("must not have more than %d auditAnnotations", maxAuditAnnotations))
	}
	keys := map[string]bool{}
	for i := range s.AuditAnnotations {
		a := &s.AuditAnnotations[i]
		auditAnnotation(f, env, o.Name, a, audit.Index(i))
		if keys[a.Key] {
			f.add(field.Duplicate(audit.Index(i).Child("key"), a.Key))
		}
		keys[a.Key] = true
	}
}

func mutatingPolicy(f *faults, o *admissionregistrationv1.MutatingAdmissionPolicy, path *field.Path) {
	s := &o.Spec
	env := policy(f, s.FailurePolicy, s.ParamKind, s.MatchConstraints, s.MatchConditions, s.Variables, path)
	if s.MatchConstraints != nil {
		for i := range s.MatchConstraints.ResourceRules {
			p := path.Child("matchConstraints", "resourceRules").Index(i).Child("operations")
			for j, op := range s.MatchConstraints.ResourceRules[i].Operations {
				if op == admissionregistrationv1.Delete {
					oneOf(f, p.Index(j), op, admissionregistrationv1.OperationAll, admissionregistrationv1.Connect,
						admissionregistrationv1.Create, admissionregistrationv1.Update)
				}
			}
		}
	}
	if len(s.Mutations) == 0 {
		f.add(field.Required(path.Child("mutations"), "mutations must contain at least one item"))
	}
	for i := range s.Mutations {
		mutation(f, env, &s.Mutations[i], path.Child("mutations").Index(i))
	}
	oneOf(f, path.Child("reinvocationPolicy"), s.ReinvocationPolicy, reinvocations()...)
}

func paramKind(f *faults, k *admissionregistrationv1.ParamKind, path *field.Path) {
	version := path.Child("apiVersion")
	switch group, v, both := strings.Cut(k.APIVersion, "/"); {
	case k.APIVersion == "":
		f.required(version)
	case strings.Contains(v, "/"):
		f.invalid(version, k.APIVersion, "unexpected GroupVersion string: "+k.APIVersion)
	default:
		if !both {
			group, v = "", group
		}
		if msgs := validation.IsDNS1123Subdomain(group); group != "" && len(msgs) > 0 {
			f.invalid(version, group, strings.Join(msgs, ","))
		}
		if v == "" {
			f.invalid(version, k.APIVersion, "version must be specified")
		} else if msgs := validation.IsDNS1035Label(v); len(msgs) > 0 {
			f.invalid(version, v, strings.Join(msgs, ","))
		}
	}
	if k.Kind == "" {
		f.required(path.Child("kind"))
	} else if msgs := validation.IsDNS1035Label(strings.ToLower(k.Kind)); len(msgs) > 0 {
		f.invalid(path.Child("kind"), k.Kind, "may have mixed case, but should otherwise match: "+strings.Join(msgs, ","))
	}
}

func matchResources(f *faults, m *admissionregistrationv1.MatchResources, path *field.Path) {
	if m.MatchPolicy == nil {
		f.required(path.Child("matchPolicy"))
	}
	oneOfPtr(f, path.Child("matchPolicy"), m.MatchPolicy, admissionregistrationv1.Equivalent, admissionregistrationv1.Exact)
	if m.NamespaceSelector == nil {
		f.required(path.Child("namespaceSelector"))
	}
	if m.ObjectSelector == nil {
		f.required(path.Child("objectSelector"))
	}
	selector(f, m.NamespaceSelector, path.Child("namespaceSelector"))
	selector(f, m.ObjectSelector, path.Child("objectSelector"))
	namedRules(f, m.ResourceRules, path.Child("resourceRules"))
	namedRules(f, m.ExcludeResourceRules, path.Child("excludeResourceRules"))
}

func namedRules(f *faults, list []admissionregistrationv1.NamedRuleWithOperations, path *field.Path) {
	for i := range list {
		names := path.Index(i).Child("resourceNames")
		for j, name := range list[i].ResourceNames {
			f.invalid(names.Index(j), name, content.IsPathSegmentName(name)...)
			if slices.Contains(list[i].ResourceNames[:j], name) {
				f.add(field.Duplicate(names.Index(j), name))
			}
		}
		rule(f, &list[i].RuleWithOperations, path.Index(i))
	}
}

//nolint:gochecknoglobals // built once, never changed
var identifier = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[_a-zA-Z][_a-zA-Z0-9]*$`) })

// reserved reports whether the language keeps a word to itself.
func reserved(word string) bool {
	return slices.Contains([]string{
		"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let",
		"loop", "namespace", "null", "package", "return", "true", "var", "void", "while",
	}, word)
}

func declare(f *faults, env *expression.Env, v *admissionregistrationv1.Variable, path *field.Path) {
	if strings.TrimSpace(v.Name) == "" {
		f.add(field.Required(path.Child("name"), "name is not specified"))
	} else if !identifier().MatchString(v.Name) || reserved(v.Name) {
		f.invalid(path.Child("name"), v.Name, "name is not a valid CEL identifier")
	}
	if strings.TrimSpace(v.Expression) == "" {
		f.add(field.Required(path.Child("expression"), "expression is not specified"))
		return
	}
	_, err := env.Declare(v.Name, v.Expression)
	celFault(f, v.Expression, err, path.Child("expression"))
}

func validates(f *faults, env *expression.Env, v *admissionregistrationv1.Validation, path *field.Path) {
	if strings.TrimSpace(v.Expression) == "" {
		f.add(field.Required(path.Child("expression"), "expression is not specified"))
	} else {
		compiles(f, env, v.Expression, expression.Condition, path.Child("expression"))
	}
	if v.MessageExpression != "" && strings.TrimSpace(v.MessageExpression) == "" {
		f.invalid(path.Child("messageExpression"), v.MessageExpression, "must be non-empty if specified")
	} else if v.MessageExpression != "" {
		compiles(f, env, v.MessageExpression, expression.Message, path.Child("messageExpression"))
	}
	switch trimmed := strings.TrimSpace(v.Message); {
	case v.Message != "" && trimmed == "":
		f.invalid(path.Child("message"), v.Message, "message must be non-empty if specified")
	case strings.ContainsAny(trimmed, "\r\n"):
		f.invalid(path.Child("message"), v.Message, "message must not contain line breaks")
	}
	oneOfPtr(f, path.Child("reason"), v.Reason, metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonRequestEntityTooLarge)
}

func auditAnnotation(f *faults, env *expression.Env, policy string, a *admissionregistrationv1.AuditAnnotation, path *field.Path) {
	if policy == "" {
		f.invalid(path.Child("key"), a.Key, "requires metadata.name be non-empty")
	} else {
		f.invalid(path.Child("key"), policy+"/"+a.Key, validation.IsQualifiedName(policy+"/"+a.Key)...)
	}
	p := path.Child("valueExpression")
	switch trimmed := strings.TrimSpace(a.ValueExpression); {
	case trimmed == "":
		f.add(field.Required(p, "valueExpression is not specified"))
	case len(trimmed) > maxAuditExpression:
		f.add(field.Required(p, fmt.Sprintf("must not exceed %d bytes in length", maxAuditExpression)))
	default:
		compiles(f, env, a.ValueExpression, expression.Audit, p)
	}
}

func mutation(f *faults, env *expression.Env, m *admissionregistrationv1.Mutation, path *field.Path) {
	apply, patch := path.Child("applyConfiguration"), path.Child("jsonPatch")
	switch m.PatchType {
	case admissionregistrationv1.PatchTypeApplyConfiguration:
		if m.ApplyConfiguration == nil {
			f.add(field.Required(apply, "must be specified when patchType is ApplyConfiguration"))
		} else {
			changes(f, env, m.ApplyConfiguration.Expression, expression.Apply, apply.Child("expression"))
		}
		if m.JSONPatch != nil {
			f.invalid(patch, "{jsonPatch}", "must not be specified when patchType is ApplyConfiguration")
		}
	case admissionregistrationv1.PatchTypeJSONPatch:
		if m.JSONPatch == nil {
			f.add(field.Required(patch, "must be specified when patchType is JSONPatch"))
		} else {
			changes(f, env, m.JSONPatch.Expression, expression.Patch, patch.Child("expression"))
		}
		if m.ApplyConfiguration != nil {
			f.invalid(apply, "{applyConfiguration}", "must not be specified when patchType is JSONPatch")
		}
	default:
		oneOf(f, path.Child("patchType"), m.PatchType, admissionregistrationv1.PatchTypeApplyConfiguration, admissionregistrationv1.PatchTypeJSONPatch)
	}
}

func changes(f *faults, env *expression.Env, source string, use expression.Use, path *field.Path) {
	if trimmed := strings.TrimSpace(source); trimmed == "" {
		f.required(path)
	} else {
		compiles(f, env, trimmed, use, path)
	}
}

// policyBinding checks what both kinds of bindings have.
func policyBinding(f *faults, policy string, ref *admissionregistrationv1.ParamRef, match *admissionregistrationv1.MatchResources, path *field.Path) {
	f.needed(path.Child("policyName"), policy, subdomain)
	if ref != nil {
		paramRef(f, ref, path.Child("paramRef"))
	}
	if match != nil {
		matchResources(f, match, path.Child("matchResouces")) // spelled as upstream spells it
	}
}

func paramRef(f *faults, r *admissionregistrationv1.ParamRef, path *field.Path) {
	const both = "name and selector are mutually exclusive"
	if r.Name != "" {
		f.invalid(path.Child("name"), r.Name, content.IsPathSegmentName(r.Name)...)
	}
	switch {
	case r.Name != "" && r.Selector != nil:
		f.add(field.Forbidden(path.Child("name"), both), field.Forbidden(path.Child("selector"), both))
	case r.Name == "" && r.Selector == nil:
		f.add(field.Required(path, "one of name or selector must be specified"))
	}
	selector(f, r.Selector, path.Child("selector"))
	action := path.Child("parameterNotFoundAction")
	if r.ParameterNotFoundAction == nil {
		f.required(action)
	}
	oneOfPtr(f, action, r.ParameterNotFoundAction, admissionregistrationv1.AllowAction, admissionregistrationv1.DenyAction)
}

func validationActions(f *faults, list []admissionregistrationv1.ValidationAction, path *field.Path) {
	for i, a := range list {
		oneOf(f, path.Index(i), a, admissionregistrationv1.Audit, admissionregistrationv1.Deny, admissionregistrationv1.Warn)
		if slices.Contains(list[:i], a) {
			f.add(field.Duplicate(path.Index(i), a))
		}
	}
	if slices.Contains(list, admissionregistrationv1.Deny) && slices.Contains(list, admissionregistrationv1.Warn) {
		f.invalid(path, list, "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)")
	}
	if len(list) == 0 {
		f.add(field.Required(path, "at least one validation action is required"))
	}
}

// admissionStatus checks the status of the kinds of admissionregistration.k8s.io.
func admissionStatus(f *faults, obj api.Object, path *field.Path) {
	o, ok := obj.(*admissionregistrationv1.ValidatingAdmissionPolicy)
	if !ok {
		return
	}
	if o.Status.TypeChecking != nil {
		warnings := path.Child("typeChecking", "expressionWarnings")
		for i, w := range o.Status.TypeChecking.ExpressionWarnings {
			f.needed(warnings.Index(i).Child("warning"), w.Warning, nil)
			f.needed(warnings.Index(i).Child("fieldRef"), strings.TrimSpace(w.FieldRef), nil)
		}
	}
	conditions(f, o.Status.Conditions, path)
}
