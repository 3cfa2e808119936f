package api

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// accessRows is the part of the table about who may do what.
func accessRows() []*Resource {
	row := func(kind, plural, singular string, namespaced bool, empty func() Object, list func() runtime.Object) *Resource {
		return &Resource{
			Group: rbacv1.GroupName, Version: "v1", Kind: kind, Plural: plural, Singular: singular,
			Namespaced: namespaced,
			Verbs:      []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
			Storage:    "/registry/" + plural + "/",
			New:        empty, NewList: list,
			CreateOnUpdate: true, UnconditionalUpdate: true,
		}
	}
	return []*Resource{
		row("ClusterRoleBinding", "clusterrolebindings", "clusterrolebinding", false,
			func() Object { return &rbacv1.ClusterRoleBinding{} }, func() runtime.Object { return &rbacv1.ClusterRoleBindingList{} }),
		row("ClusterRole", "clusterroles", "clusterrole", false,
			func() Object { return &rbacv1.ClusterRole{} }, func() runtime.Object { return &rbacv1.ClusterRoleList{} }),
		row("RoleBinding", "rolebindings", "rolebinding", true,
			func() Object { return &rbacv1.RoleBinding{} }, func() runtime.Object { return &rbacv1.RoleBindingList{} }),
		row("Role", "roles", "role", true,
			func() Object { return &rbacv1.Role{} }, func() runtime.Object { return &rbacv1.RoleList{} }),
	}
}

// reviewRows is the part of the table about questions to the server, of which
// nothing is stored.
func reviewRows() []*Resource {
	row := func(group, kind, plural, singular string, empty func() Object) *Resource {
		return &Resource{
			Group: group, Version: "v1", Kind: kind, Plural: plural, Singular: singular,
			Verbs: []string{"create"}, CreateOnly: true, New: empty,
		}
	}
	local := row(authorizationv1.GroupName, "LocalSubjectAccessReview", "localsubjectaccessreviews", "localsubjectaccessreview",
		func() Object { return &authorizationv1.LocalSubjectAccessReview{} })
	local.Namespaced = true
	return []*Resource{
		row(authenticationv1.GroupName, "SelfSubjectReview", "selfsubjectreviews", "selfsubjectreview",
			func() Object { return &authenticationv1.SelfSubjectReview{} }),
		row(authenticationv1.GroupName, "TokenReview", "tokenreviews", "tokenreview",
			func() Object { return &authenticationv1.TokenReview{} }),
		local,
		row(authorizationv1.GroupName, "SelfSubjectAccessReview", "selfsubjectaccessreviews", "selfsubjectaccessreview",
			func() Object { return &authorizationv1.SelfSubjectAccessReview{} }),
		row(authorizationv1.GroupName, "SelfSubjectRulesReview", "selfsubjectrulesreviews", "selfsubjectrulesreview",
			func() Object { return &authorizationv1.SelfSubjectRulesReview{} }),
		row(authorizationv1.GroupName, "SubjectAccessReview", "subjectaccessreviews", "subjectaccessreview",
			func() Object { return &authorizationv1.SubjectAccessReview{} }),
	}
}
