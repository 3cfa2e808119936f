package table

import (
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func roleColumns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{nameColumn(), column("Created At", "date", "When the object was created.", 0)}
}

// role shows a role of either kind. When it was made is all that fits a line.
func role(m *metav1.ObjectMeta) []any {
	return []any{m.Name, m.CreationTimestamp.UTC().Format(time.RFC3339)}
}

func bindingColumns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		nameColumn(),
		column("Role", "string", "The role that is given.", 0),
		ageColumn(),
		column("Users", "string", "Users that have the role.", 1),
		column("Groups", "string", "Groups whose members have the role.", 1),
		column("ServiceAccounts", "string", "Service accounts that have the role.", 1),
	}
}

// roleBinding shows a binding of either kind.
func roleBinding(m *metav1.ObjectMeta, ref *rbacv1.RoleRef, subjects []rbacv1.Subject, now time.Time) []any {
	var users, groups, accounts []string
	for i := range subjects {
		switch s := &subjects[i]; s.Kind {
		case rbacv1.ServiceAccountKind:
			accounts = append(accounts, s.Namespace+"/"+s.Name)
		case rbacv1.UserKind:
			users = append(users, s.Name)
		case rbacv1.GroupKind:
			groups = append(groups, s.Name)
		}
	}
	return []any{
		m.Name, ref.Kind + "/" + ref.Name, age(m.CreationTimestamp, now),
		strings.Join(users, ", "), strings.Join(groups, ", "), strings.Join(accounts, ", "),
	}
}

func bindingReads() []string {
	return []string{"roleRef.kind", "roleRef.name", "subjects[].kind", "subjects[].name", "subjects[].namespace"}
}
