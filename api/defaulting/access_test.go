package defaulting_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/proa-project/proa/api/defaulting"
)

func TestBinding(t *testing.T) {
	got := &rbacv1.RoleBinding{
		RoleRef:  rbacv1.RoleRef{Kind: "Role", Name: "r"},
		Subjects: []rbacv1.Subject{{Kind: "User", Name: "u"}, {Kind: "Group", Name: "g", APIGroup: "x"}, {Kind: "ServiceAccount", Name: "s"}},
	}
	defaulting.Default(got)
	want := &rbacv1.RoleBinding{
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "r"},
		Subjects: []rbacv1.Subject{
			{Kind: "User", Name: "u", APIGroup: rbacv1.GroupName}, {Kind: "Group", Name: "g", APIGroup: "x"}, {Kind: "ServiceAccount", Name: "s"},
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	cluster := &rbacv1.ClusterRoleBinding{RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "r"}, Subjects: []rbacv1.Subject{{Kind: "Group", Name: "g"}}}
	defaulting.Default(cluster)
	if cluster.RoleRef.APIGroup != rbacv1.GroupName || cluster.Subjects[0].APIGroup != rbacv1.GroupName {
		t.Errorf("%+v", cluster)
	}
}
