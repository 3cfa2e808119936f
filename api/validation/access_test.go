package validation_test

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/proa-project/proa/api/validation"
)

func TestRoles(t *testing.T) {
	run(t, func() *rbacv1.Role { return &rbacv1.Role{} }, map[string]row{
		"plain":       {`{metadata: {name: "system:x", namespace: b}, rules: [{verbs: [get], apiGroups: [""], resources: [pods, pods/log], resourceNames: [a]}]}`, nil},
		"no rules":    {`{metadata: {name: a, namespace: b}}`, nil},
		"name":        {`{metadata: {name: "a/b%", namespace: b}}`, []string{`metadata.name: Invalid value: "a/b%": may not contain '/'`, `metadata.name: Invalid value: "a/b%": may not contain '%'`}},
		"empty rule":  {`{metadata: {name: a, namespace: b}, rules: [{verbs: []}]}`, []string{`rules[0].verbs: Required value: verbs must contain at least one value`, `rules[0].apiGroups: Required value: resource rules must supply at least one api group`, `rules[0].resources: Required value: resource rules must supply at least one resource`}},
		"paths":       {`{metadata: {name: a, namespace: b}, rules: [{verbs: [get], nonResourceURLs: [/x]}]}`, []string{`rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs`}},
		"aggregation": {`{metadata: {name: a, namespace: b}, rules: [{verbs: [get], apiGroups: [x]}]}`, []string{`rules[0].resources: Required value: resource rules must supply at least one resource`}},
	})
	run(t, func() *rbacv1.ClusterRole { return &rbacv1.ClusterRole{} }, map[string]row{
		"plain":         {`{metadata: {name: a}, rules: [{verbs: [get], nonResourceURLs: [/x, "/y/*"]}], aggregationRule: {clusterRoleSelectors: [{matchLabels: {a: b}}]}}`, nil},
		"mixed":         {`{metadata: {name: a}, rules: [{verbs: [get], nonResourceURLs: [/x], resources: [pods]}]}`, []string{`rules[0].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular resources and non-resource URLs`}},
		"no selectors":  {`{metadata: {name: a}, aggregationRule: {}}`, []string{`aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil`}},
		"bad selectors": {`{metadata: {name: a}, aggregationRule: {clusterRoleSelectors: [{matchExpressions: [{key: a, operator: In}]}]}}`, []string{`aggregationRule.clusterRoleSelectors[0].matchExpressions[0].values: Required value: must be specified when ` + "`operator` is 'In' or 'NotIn'"}},
	})
}

func TestBindings(t *testing.T) {
	const rolesOnly = `{metadata: {name: a, namespace: b}, roleRef: {kind: Role, name: r}, subjects: `
	run(t, func() *rbacv1.RoleBinding { return &rbacv1.RoleBinding{} }, map[string]row{
		"plain":         {rolesOnly + `[{kind: User, name: a}, {kind: Group, name: "g:h"}, {kind: ServiceAccount, name: s}]}`, nil},
		"group of role": {`{metadata: {name: a, namespace: b}, roleRef: {apiGroup: x, kind: Role, name: r}}`, []string{`roleRef.apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io"`}},
		"kind of role":  {`{metadata: {name: a, namespace: b}, roleRef: {kind: Pod, name: r}}`, []string{`roleRef.kind: Unsupported value: "Pod": supported values: "Role", "ClusterRole"`}},
		"no role":       {`{metadata: {name: a, namespace: b}, roleRef: {kind: Role, name: ""}}`, []string{`roleRef.name: Required value`}},
		"name of role":  {`{metadata: {name: a, namespace: b}, roleRef: {kind: Role, name: a/b}}`, []string{`roleRef.name: Invalid value: "a/b": may not contain '/'`}},
		"no name":       {rolesOnly + `[{kind: User, name: ""}]}`, []string{`subjects[0].name: Required value`}},
		"group of user": {rolesOnly + `[{kind: User, apiGroup: x, name: a}]}`, []string{`subjects[0].apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io"`}},
		"account":       {rolesOnly + `[{kind: ServiceAccount, apiGroup: x, name: A_}]}`, []string{`subjects[0].name: Invalid value: "A_": ` + dnsSubdomain, `subjects[0].apiGroup: Unsupported value: "x": supported values: ""`}},
		"kind":          {rolesOnly + `[{kind: Robot, name: a}]}`, []string{`subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group"`}},
	})
	run(t, func() *rbacv1.ClusterRoleBinding { return &rbacv1.ClusterRoleBinding{} }, map[string]row{
		"plain":   {`{metadata: {name: a}, roleRef: {kind: ClusterRole, name: r}, subjects: [{kind: ServiceAccount, name: s, namespace: b}]}`, nil},
		"a Role":  {`{metadata: {name: a}, roleRef: {kind: Role, name: r}}`, []string{`roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"`}},
		"account": {`{metadata: {name: a}, roleRef: {kind: ClusterRole, name: r}, subjects: [{kind: ServiceAccount, name: s}]}`, []string{`subjects[0].namespace: Required value`}},
	})
	old := &rbacv1.RoleBinding{}
	load(t, `{metadata: {name: a, namespace: b, resourceVersion: "7"}, roleRef: {kind: Role, name: r}}`, old)
	obj := old.DeepCopy()
	obj.Subjects = []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "x"}}
	compare(t, nil, texts(validation.Update(obj, old)))
	obj.RoleRef.Name = "s"
	compare(t, []string{`roleRef: Invalid value: {"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"s"}: cannot change roleRef`}, texts(validation.Update(obj, old)))
}
