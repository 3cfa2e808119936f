package validation

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// policyRules checks the rules of a role.
func policyRules(f *faults, rules []rbacv1.PolicyRule, namespaced bool) {
	for i := range rules {
		policyRule(f, &rules[i], namespaced, field.NewPath("rules").Index(i))
	}
}

func policyRule(f *faults, r *rbacv1.PolicyRule, namespaced bool, path *field.Path) {
	if len(r.Verbs) == 0 {
		f.add(field.Required(path.Child("verbs"), "verbs must contain at least one value"))
	}
	if len(r.NonResourceURLs) > 0 {
		urls := path.Child("nonResourceURLs")
		if namespaced {
			f.invalid(urls, r.NonResourceURLs, "namespaced rules cannot apply to non-resource URLs")
		}
		if len(r.APIGroups) > 0 || len(r.Resources) > 0 || len(r.ResourceNames) > 0 {
			f.invalid(urls, r.NonResourceURLs, "rules cannot apply to both regular resources and non-resource URLs")
		}
		return
	}
	if len(r.APIGroups) == 0 {
		f.add(field.Required(path.Child("apiGroups"), "resource rules must supply at least one api group"))
	}
	if len(r.Resources) == 0 {
		f.add(field.Required(path.Child("resources"), "resource rules must supply at least one resource"))
	}
}

func clusterRole(f *faults, r *rbacv1.ClusterRole) {
	policyRules(f, r.Rules, false)
	if r.AggregationRule == nil {
		return
	}
	path := field.NewPath("aggregationRule", "clusterRoleSelectors")
	selectors := r.AggregationRule.ClusterRoleSelectors
	if len(selectors) == 0 {
		f.add(field.Required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil"))
	}
	for i := range selectors {
		f.add(metav1validation.ValidateLabelSelector(&selectors[i], metav1validation.LabelSelectorValidationOptions{}, path.Index(i))...)
	}
}

// roleBinding checks a binding of either kind. Outside of namespaces only
// ClusterRoles can be bound.
func roleBinding(f *faults, ref *rbacv1.RoleRef, subjects []rbacv1.Subject, namespaced bool) {
	path := field.NewPath("roleRef")
	if ref.APIGroup != rbacv1.GroupName {
		f.add(field.NotSupported(path.Child("apiGroup"), ref.APIGroup, []string{rbacv1.GroupName}))
	}
	kinds := []string{"ClusterRole"}
	if namespaced {
		kinds = []string{"Role", "ClusterRole"}
	}
	if ref.Kind != "ClusterRole" && (!namespaced || ref.Kind != "Role") {
		f.add(field.NotSupported(path.Child("kind"), ref.Kind, kinds))
	}
	f.needed(path.Child("name"), ref.Name, func(name string) []string { return pathSegment(name, false) })
	for i := range subjects {
		subject(f, &subjects[i], namespaced, field.NewPath("subjects").Index(i))
	}
}

func subject(f *faults, s *rbacv1.Subject, namespaced bool, path *field.Path) {
	if s.Name == "" {
		f.required(path.Child("name"))
	}
	switch s.Kind {
	case rbacv1.ServiceAccountKind:
		if s.Name != "" {
			f.invalid(path.Child("name"), s.Name, accountName(s.Name)...)
		}
		if s.APIGroup != "" {
			f.add(field.NotSupported(path.Child("apiGroup"), s.APIGroup, []string{""}))
		}
		if !namespaced && s.Namespace == "" {
			f.required(path.Child("namespace"))
		}
	case rbacv1.UserKind, rbacv1.GroupKind:
		if s.APIGroup != rbacv1.GroupName {
			f.add(field.NotSupported(path.Child("apiGroup"), s.APIGroup, []string{rbacv1.GroupName}))
		}
	default:
		f.add(field.NotSupported(path.Child("kind"), s.Kind, []string{rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind}))
	}
}

// sameRole checks that an update leaves the role of a binding alone: who may
// bind the one need not be allowed to bind the other.
func sameRole(f *faults, ref, old *rbacv1.RoleRef) {
	if *ref != *old {
		f.invalid(field.NewPath("roleRef"), *ref, "cannot change roleRef")
	}
}

// review checks a question to the server.
func review(f *faults, obj any) {
	spec := field.NewPath("spec")
	switch o := obj.(type) {
	case *authorizationv1.SubjectAccessReview:
		whose(f, &o.Spec, spec)
		asked(f, o.Spec.ResourceAttributes, o.Spec.NonResourceAttributes, spec)
		bare(f, &o.ObjectMeta)
	case *authorizationv1.SelfSubjectAccessReview:
		asked(f, o.Spec.ResourceAttributes, o.Spec.NonResourceAttributes, spec)
		bare(f, &o.ObjectMeta)
	case *authorizationv1.LocalSubjectAccessReview:
		localReview(f, o, spec)
	case *authenticationv1.TokenReview:
		if o.Spec.Token == "" {
			f.add(field.Required(spec.Child("token"), ""))
		}
	}
}

// localReview checks a question about one namespace.
func localReview(f *faults, o *authorizationv1.LocalSubjectAccessReview, spec *field.Path) {
	whose(f, &o.Spec, spec)
	asked(f, o.Spec.ResourceAttributes, o.Spec.NonResourceAttributes, spec)
	meta := o.ObjectMeta
	meta.Namespace, meta.ManagedFields = "", nil
	if !equality.Semantic.DeepEqual(metav1.ObjectMeta{}, meta) {
		f.invalid(field.NewPath("metadata"), o.ObjectMeta, "must be empty except for namespace")
	}
	if a := o.Spec.ResourceAttributes; a != nil && a.Namespace != o.Namespace {
		f.invalid(spec.Child("resourceAttributes", "namespace"), a.Namespace, "must match metadata.namespace")
	}
	if o.Spec.NonResourceAttributes != nil {
		f.invalid(spec.Child("nonResourceAttributes"), o.Spec.NonResourceAttributes, "disallowed on this kind of request")
	}
}

// whose checks about whom a question is.
func whose(f *faults, s *authorizationv1.SubjectAccessReviewSpec, spec *field.Path) {
	if s.User == "" && len(s.Groups) == 0 {
		f.invalid(spec.Child("user"), s.User, "at least one of user or group must be specified")
	}
}

// asked checks that a question is about a resource or a path, not both.
func asked(f *faults, r *authorizationv1.ResourceAttributes, path *authorizationv1.NonResourceAttributes, spec *field.Path) {
	switch {
	case r != nil && path != nil:
		f.invalid(spec.Child("nonResourceAttributes"), path, "cannot be specified in combination with resourceAttributes")
	case r == nil && path == nil:
		f.invalid(spec.Child("resourceAttributes"), path, "exactly one of nonResourceAttributes or resourceAttributes must be specified")
	case r != nil:
		selections(f, r, spec.Child("resourceAttributes"))
	}
}

// selections checks the selectors of a question, each of which comes as text
// or in parts.
func selections(f *faults, r *authorizationv1.ResourceAttributes, path *field.Path) {
	const both, neither = "may not specified at the same time as requirements", "when specified, requirements or rawSelector is required"
	check := func(path *field.Path, raw string, parts int) {
		switch {
		case raw != "" && parts > 0:
			f.invalid(path.Child("rawSelector"), raw, both)
		case raw == "" && parts == 0:
			f.add(field.Required(path.Child("requirements"), neither))
		}
	}
	if s := r.FieldSelector; s != nil {
		check(path.Child("fieldSelector"), s.RawSelector, len(s.Requirements))
	}
	if s := r.LabelSelector; s != nil {
		check(path.Child("labelSelector"), s.RawSelector, len(s.Requirements))
		for i := range s.Requirements {
			f.add(metav1validation.ValidateLabelSelectorRequirement(s.Requirements[i], metav1validation.LabelSelectorValidationOptions{},
				path.Child("labelSelector", "requirements").Index(i))...)
		}
	}
}

// bare checks that a question has no metadata.
func bare(f *faults, meta *metav1.ObjectMeta) {
	m := *meta
	m.ManagedFields = nil
	if !equality.Semantic.DeepEqual(metav1.ObjectMeta{}, m) {
		f.invalid(field.NewPath("metadata"), *meta, "must be empty")
	}
}

// accountName is the rule for names of service accounts.
func accountName(name string) []string { return metavalidation.ValidateServiceAccountName(name, false) }
