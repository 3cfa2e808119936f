package namespace

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestConditions(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	text := func(conds []corev1.NamespaceCondition) string {
		var out []string
		for _, c := range conds {
			out = append(out, string(c.Type)+"="+string(c.Status)+" "+c.Reason+": "+c.Message)
		}
		return strings.Join(out, "\n")
	}
	s := &survey{
		left: []remnant{
			{resource: "pods.", count: 2, finalizers: map[string]int{"b": 1, "a": 2}},
			{resource: "deployments.apps", count: 1, finalizers: map[string]int{"a": 1}},
		},
		errors: []error{errors.New("two"), errors.New("one")},
	}
	got := s.conditions(nil, now)
	want := `NamespaceDeletionDiscoveryFailure=False ResourcesDiscovered: All resources successfully discovered
NamespaceDeletionGroupVersionParsingFailure=False ParsedGroupVersions: All legacy kube types successfully parsed
NamespaceDeletionContentFailure=True ContentDeletionFailed: Failed to delete all resource types, 2 remaining: one, two
NamespaceContentRemaining=True SomeResourcesRemain: Some resources are remaining: deployments.apps has 1 resource instances, pods. has 2 resource instances
NamespaceFinalizersRemaining=True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: a in 3 resource instances, b in 1 resource instances`
	if text(got) != want {
		t.Errorf("got\n%s\nwant\n%s", text(got), want)
	}
	again := s.conditions(got, now.Add(time.Hour))
	if !slices.Equal(again, got) {
		t.Error("it flaps")
	}
	clean := (&survey{}).conditions(got, now.Add(time.Hour))
	want = `NamespaceDeletionDiscoveryFailure=False ResourcesDiscovered: All resources successfully discovered
NamespaceDeletionGroupVersionParsingFailure=False ParsedGroupVersions: All legacy kube types successfully parsed
NamespaceDeletionContentFailure=False ContentDeleted: All content successfully deleted, may be waiting on finalization
NamespaceContentRemaining=False ContentRemoved: All content successfully removed
NamespaceFinalizersRemaining=False ContentHasNoFinalizers: All content-preserving finalizers finished`
	if text(clean) != want || !clean[0].LastTransitionTime.Time.Equal(now) || !clean[2].LastTransitionTime.Time.Equal(now.Add(time.Hour)) {
		t.Errorf("got\n%s", text(clean))
	}
}

func TestLacks(t *testing.T) {
	active := &corev1.Namespace{}
	at := metav1.Now()
	leaving := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &at}}
	good := &corev1.ConfigMap{Data: map[string]string{"ca.crt": "CA"}}
	for _, tc := range []struct {
		name    string
		ns      *corev1.Namespace
		account bool
		have    *corev1.ConfigMap
		ca      string
		want    needs
	}{
		{"everything", active, false, nil, "CA", needs{account: true, rootCA: true}},
		{"nothing", active, true, good, "CA", needs{}},
		{"the CA was renewed", active, true, good, "new CA", needs{fixCA: true}},
		{"somebody added to it", active, true, &corev1.ConfigMap{Data: map[string]string{"ca.crt": "CA", "x": ""}}, "CA", needs{fixCA: true}},
		{"there is no CA", active, true, nil, "", needs{}},
		{"it is on its way out", leaving, false, nil, "CA", needs{}},
	} {
		if got := lacks(tc.ns, tc.account, tc.have, tc.ca); got != tc.want {
			t.Errorf("%s: got %+v", tc.name, got)
		}
	}
}

func TestWithoutKubernetes(t *testing.T) {
	got := withoutKubernetes([]corev1.FinalizerName{"example.com/x", corev1.FinalizerKubernetes})
	if !slices.Equal(got, []corev1.FinalizerName{"example.com/x"}) {
		t.Errorf("got %v", got)
	}
}
