package authz

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/proa-project/proa/httpapi/request"
)

// all is what stands in a rule for everything.
const all = "*"

// Allows reports whether a rule of a role allows a request. The namespace of
// the request is not looked at: where a rule counts is the binding's business.
func Allows(r *rbacv1.PolicyRule, i *request.Info) bool {
	if !has(r.Verbs, i.Verb) {
		return false
	}
	if i.Resource == nil {
		return slices.ContainsFunc(r.NonResourceURLs, func(url string) bool { return urlMatches(url, i.Path) })
	}
	return has(r.APIGroups, i.Resource.Group) &&
		slices.ContainsFunc(r.Resources, func(res string) bool { return resourceMatches(res, i.Resource.Plural, i.Subresource) }) &&
		(len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, i.Name))
}

func has(list []string, value string) bool {
	for _, s := range list {
		if s == value || s == all {
			return true
		}
	}
	return false
}

// resourceMatches compares what a rule names, such as pods, pods/log, */scale
// or *, with a resource. A rule for pods does not allow pods/log.
func resourceMatches(rule, plural, sub string) bool {
	if rule == all {
		return true
	}
	if sub == "" {
		return rule == plural
	}
	ruled, ruledSub, ok := strings.Cut(rule, "/")
	return ok && ruledSub == sub && (ruled == all || ruled == plural)
}

// urlMatches compares a path of a rule, which may end with *, with a path.
func urlMatches(rule, path string) bool {
	if prefix, ok := strings.CutSuffix(rule, all); ok {
		return strings.HasPrefix(path, strings.TrimRight(prefix, all))
	}
	return rule == path
}
