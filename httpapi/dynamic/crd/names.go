package crd

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// taken are the names that others of a group have.
type taken struct {
	resources, kinds map[string]bool
}

// claim notes the names that a definition has been granted.
func (t *taken) claim(n *apiextensionsv1.CustomResourceDefinitionNames) {
	for _, name := range append([]string{n.Plural, n.Singular}, n.ShortNames...) {
		t.resources[name] = true
	}
	t.kinds[n.Kind], t.kinds[n.ListKind] = true, true
}

func newTaken() *taken { return &taken{resources: map[string]bool{}, kinds: map[string]bool{}} }

// grant returns the names that a definition has from now on, and whether it is
// all that it wants. A name that it has already, it keeps.
func grant(crd *apiextensionsv1.CustomResourceDefinition, t *taken) (apiextensionsv1.CustomResourceDefinitionNames, apiextensionsv1.CustomResourceDefinitionCondition) {
	want, have := crd.Spec.Names, crd.Status.AcceptedNames
	next := have
	accepted := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue,
		Reason: "NoConflicts", Message: "no conflicts found",
	}
	try := func(want string, have *string, used map[string]bool, reason string) {
		if want != *have && used[want] {
			accepted.Status, accepted.Reason, accepted.Message = apiextensionsv1.ConditionFalse, reason, inUse(want)
			return
		}
		*have = want
	}
	try(want.Plural, &next.Plural, t.resources, "PluralConflict")
	try(want.Singular, &next.Singular, t.resources, "SingularConflict")
	if i := slices.IndexFunc(want.ShortNames, func(s string) bool { return t.resources[s] && !slices.Contains(have.ShortNames, s) }); i >= 0 {
		accepted.Status, accepted.Reason, accepted.Message = apiextensionsv1.ConditionFalse, "ShortNamesConflict", inUse(want.ShortNames[i])
	} else {
		next.ShortNames = want.ShortNames
	}
	try(want.Kind, &next.Kind, t.kinds, "KindConflict")
	try(want.ListKind, &next.ListKind, t.kinds, "ListKindConflict")
	next.Categories = want.Categories
	return next, accepted
}

func inUse(name string) string { return fmt.Sprintf("%q is already in use", name) }

// condition returns a condition of a definition, or nil.
func condition(crd *apiextensionsv1.CustomResourceDefinition, t apiextensionsv1.CustomResourceDefinitionConditionType) *apiextensionsv1.CustomResourceDefinitionCondition {
	for i := range crd.Status.Conditions {
		if crd.Status.Conditions[i].Type == t {
			return &crd.Status.Conditions[i]
		}
	}
	return nil
}

func isTrue(crd *apiextensionsv1.CustomResourceDefinition, t apiextensionsv1.CustomResourceDefinitionConditionType) bool {
	c := condition(crd, t)
	return c != nil && c.Status == apiextensionsv1.ConditionTrue
}

// setCondition sets a condition, and reports whether that changes anything.
func setCondition(crd *apiextensionsv1.CustomResourceDefinition, c apiextensionsv1.CustomResourceDefinitionCondition) bool {
	have := condition(crd, c.Type)
	if have != nil && have.Status == c.Status && have.Reason == c.Reason && have.Message == c.Message {
		return false
	}
	if have == nil || have.Status != c.Status {
		c.LastTransitionTime = metav1.Time{Time: time.Now().UTC().Truncate(time.Second)}
	} else {
		c.LastTransitionTime = have.LastTransitionTime
	}
	if have == nil {
		crd.Status.Conditions = append(crd.Status.Conditions, c)
	} else {
		*have = c
	}
	return true
}

// established is the condition of a definition whose kinds are served, or not.
func established(crd *apiextensionsv1.CustomResourceDefinition, served bool, reason string) (apiextensionsv1.CustomResourceDefinitionCondition, bool) {
	c := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue,
		Reason: "InitialNamesAccepted", Message: "the initial names have been accepted",
	}
	if isTrue(crd, apiextensionsv1.Established) {
		return c, false // once established, always established
	}
	if !served {
		c.Status, c.Reason, c.Message = apiextensionsv1.ConditionFalse, "NotAccepted", "not all names are accepted"
		if reason != "" {
			c.Reason, c.Message = "NotServed", reason
		}
	}
	return c, true
}

// note writes what has been found out into a definition, and reports whether
// that changes anything.
func note(crd *apiextensionsv1.CustomResourceDefinition, t *taken, served bool, reason string) bool {
	names, accepted := grant(crd, t)
	changed := !reflect.DeepEqual(names, crd.Status.AcceptedNames)
	crd.Status.AcceptedNames = names
	changed = setCondition(crd, accepted) || changed
	if c, ok := established(crd, served, reason); ok {
		changed = setCondition(crd, c) || changed
	}
	return changed
}
