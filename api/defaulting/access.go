package defaulting

import rbacv1 "k8s.io/api/rbac/v1"

// binding fills in the API groups of a binding's role and subjects.
func binding(role *rbacv1.RoleRef, subjects []rbacv1.Subject) {
	fill(&role.APIGroup, rbacv1.GroupName)
	for i := range subjects {
		if k := subjects[i].Kind; k == rbacv1.UserKind || k == rbacv1.GroupKind {
			fill(&subjects[i].APIGroup, rbacv1.GroupName)
		}
	}
}
