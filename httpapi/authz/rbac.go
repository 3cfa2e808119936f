package authz

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/proa-project/proa/httpapi/request"
)

// RBAC allows what the rules of roles allow that are bound to a user or to one
// of the user's groups. Rules only ever allow: it denies nothing.
type RBAC struct {
	Roles *RoleIndex
}

// Authorize allows or has no opinion. Before the index knows all roles and
// bindings it waits.
func (a *RBAC) Authorize(ctx context.Context, u *request.User, i *request.Info) (Decision, string, error) {
	if err := a.Roles.wait(ctx); err != nil {
		return NoOpinion, "", err
	}
	namespace := ""
	if i.Resource != nil {
		namespace = i.Namespace
	}
	var reason string
	lost := map[string]struct{}(nil)
	decision := NoOpinion
	a.Roles.visit(u, namespace, func(g *grant) bool {
		if !g.role.defined {
			if lost == nil {
				lost = map[string]struct{}{}
			}
			lost[g.role.missing()] = struct{}{}
			return true
		}
		for j := range g.role.rules {
			if Allows(&g.role.rules[j], i) {
				decision, reason = Allow, g.reason
				return false
			}
		}
		return true
	})
	if decision == NoOpinion && len(lost) > 0 {
		return NoOpinion, "RBAC: " + aggregate(lost), nil
	}
	return decision, reason, nil
}

// RulesFor returns all rules that count for the user in the namespace.
func (a *RBAC) RulesFor(ctx context.Context, u *request.User, namespace string) ([]rbacv1.PolicyRule, error) {
	if err := a.Roles.wait(ctx); err != nil {
		return nil, err
	}
	var rules []rbacv1.PolicyRule
	lost := map[string]struct{}{}
	a.Roles.visit(u, namespace, func(g *grant) bool {
		if !g.role.defined {
			lost[g.role.missing()] = struct{}{}
		}
		rules = append(rules, g.role.rules...)
		return true
	})
	if len(lost) > 0 {
		return rules, errors.New(aggregate(lost))
	}
	return rules, nil
}

// RoleRules returns the rules of the role that a binding refers to, and ok
// false if there is none. The namespace is that of the binding, "" if it has
// none. The rules are shared: nobody changes them.
func (a *RBAC) RoleRules(ctx context.Context, ref rbacv1.RoleRef, namespace string) (rules []rbacv1.PolicyRule, ok bool, err error) {
	if err := a.Roles.wait(ctx); err != nil {
		return nil, false, err
	}
	rules, ok = a.Roles.rules(keyOfRef(ref, namespace))
	return rules, ok, nil
}

// aggregate joins texts as upstream joins errors.
func aggregate(texts map[string]struct{}) string {
	list := make([]string, 0, len(texts))
	for t := range texts {
		list = append(list, t)
	}
	slices.Sort(list)
	if len(list) == 1 {
		return list[0]
	}
	return "[" + strings.Join(list, ", ") + "]"
}

// missing says that the role is not there.
func (r *role) missing() string {
	kind := "clusterrole"
	if r.key.namespace != "" {
		kind = "role"
	}
	return fmt.Sprintf("%s.%s %q not found", kind, rbacv1.GroupName, r.key.name)
}
