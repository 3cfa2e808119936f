// Package namespace gives each namespace what it must have, and empties those
// that are deleted.
package namespace

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A remnant is what is left of one resource in a namespace.
type remnant struct {
	resource   string // "pods."; "deployments.apps"
	count      int
	finalizers map[string]int // how many of the objects have each
}

// A survey is what an attempt to empty a namespace found.
type survey struct {
	left   []remnant
	errors []error // what could not be deleted or counted
}

// empty tells whether nothing is left for sure.
func (s *survey) empty() bool { return len(s.left) == 0 && len(s.errors) == 0 }

// conditions is what the survey says, merged into the conditions there are.
func (s *survey) conditions(old []corev1.NamespaceCondition, now time.Time) []corev1.NamespaceCondition {
	out := slices.Clone(old)
	set := func(t corev1.NamespaceConditionType, bad bool, goodReason, good, badReason, message string) {
		c := corev1.NamespaceCondition{Type: t, Status: corev1.ConditionFalse, Reason: goodReason, Message: good}
		if bad {
			c.Status, c.Reason, c.Message = corev1.ConditionTrue, badReason, message
		}
		out = setCondition(out, c, now)
	}
	set(corev1.NamespaceDeletionDiscoveryFailure, false, "ResourcesDiscovered", "All resources successfully discovered", "", "")
	set(corev1.NamespaceDeletionGVParsingFailure, false, "ParsedGroupVersions", "All legacy kube types successfully parsed", "", "")
	errs := make([]string, 0, len(s.errors))
	for _, err := range s.errors {
		errs = append(errs, err.Error())
	}
	sort.Strings(errs)
	set(corev1.NamespaceDeletionContentFailure, len(errs) > 0,
		"ContentDeleted", "All content successfully deleted, may be waiting on finalization",
		"ContentDeletionFailed", "Failed to delete all resource types, "+fmt.Sprint(len(errs))+" remaining: "+strings.Join(errs, ", "))
	var content, finals []string
	byFinalizer := map[string]int{}
	for _, r := range s.left {
		content = append(content, fmt.Sprintf("%s has %d resource instances", r.resource, r.count))
		for f, n := range r.finalizers {
			byFinalizer[f] += n
		}
	}
	for f, n := range byFinalizer {
		finals = append(finals, fmt.Sprintf("%s in %d resource instances", f, n))
	}
	sort.Strings(content)
	sort.Strings(finals)
	set(corev1.NamespaceContentRemaining, len(content) > 0, "ContentRemoved", "All content successfully removed",
		"SomeResourcesRemain", "Some resources are remaining: "+strings.Join(content, ", "))
	set(corev1.NamespaceFinalizersRemaining, len(finals) > 0, "ContentHasNoFinalizers", "All content-preserving finalizers finished",
		"SomeFinalizersRemain", "Some content in the namespace has finalizers remaining: "+strings.Join(finals, ", "))
	return out
}

func setCondition(conds []corev1.NamespaceCondition, c corev1.NamespaceCondition, now time.Time) []corev1.NamespaceCondition {
	for i := range conds {
		if conds[i].Type != c.Type {
			continue
		}
		if conds[i].Status == c.Status && conds[i].Reason == c.Reason && conds[i].Message == c.Message {
			return conds
		}
		c.LastTransitionTime = conds[i].LastTransitionTime
		if conds[i].Status != c.Status {
			c.LastTransitionTime = metav1.NewTime(now)
		}
		conds[i] = c
		return conds
	}
	c.LastTransitionTime = metav1.NewTime(now)
	return append(conds, c)
}

// withoutKubernetes returns the finalizers other than the one that this loop
// takes off.
func withoutKubernetes(f []corev1.FinalizerName) []corev1.FinalizerName {
	out := []corev1.FinalizerName{}
	for _, n := range f {
		if n != corev1.FinalizerKubernetes {
			out = append(out, n)
		}
	}
	return out
}

// needs tells what an active namespace lacks.
type needs struct{ account, rootCA, fixCA bool }

// lacks compares what a namespace has with what it must have.
func lacks(ns *corev1.Namespace, hasAccount bool, have *corev1.ConfigMap, ca string) needs {
	if ns.DeletionTimestamp != nil || ns.Status.Phase == corev1.NamespaceTerminating {
		return needs{}
	}
	n := needs{account: !hasAccount}
	if ca != "" {
		n.rootCA = have == nil
		n.fixCA = have != nil && (have.Data[rootCAKey] != ca || len(have.Data) != 1)
	}
	return n
}

const (
	defaultAccount = "default"
	rootCAName     = "kube-root-ca.crt"
	rootCAKey      = "ca.crt"
)
