package reconcile_test

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/proa-project/proa/api"
	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/dynamic"
)

// sites are objects of a kind that appears at run time.
type sites struct {
	mu   sync.Mutex // guards the field below
	list map[string]*unstructured.Unstructured
}

func site(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name, "uid": "uid-of-" + name}, "spec": map[string]any{"size": int64(3)}}}
}

func (s *sites) Get(_ context.Context, r *dynamic.Request) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.list[r.Name]; o != nil {
		return o.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound((&api.Resource{Group: "example.test", Plural: "sites"}).GR(), r.Name)
}

func (s *sites) List(context.Context, *dynamic.Request) (*unstructured.UnstructuredList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &unstructured.UnstructuredList{}
	for o := range maps.Values(s.list) {
		l.Items = append(l.Items, *o.DeepCopy())
	}
	return l, nil
}

func (s *sites) Update(_ context.Context, r *dynamic.Request, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list[r.Name] = obj.DeepCopy()
	return obj, nil
}

func (s *sites) phase(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	phase, _, _ := unstructured.NestedString(s.list[name].Object, "status", "phase") // "" is none
	return phase
}

// TestKindOfRunTime reconciles a cluster-wide kind without a Go type that comes
// later than its Reconciler, goes, and comes back.
func TestKindOfRunTime(t *testing.T) {
	f := newFixture(t)
	f.module("m", says(t, `{"objects":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one","namespace":"default"}}],"status":{"phase":"Made"}}`, false))
	f.reconciler("m", func(s *pluginsv1.ReconcilerSpec) {
		s.For = pluginsv1.WatchedKind{Group: "example.test", Version: "v1", Resource: "sites"}
	})
	f.status("m", "no such kind", func(s *pluginsv1.ReconcilerStatus) bool {
		return condition(s, "Reconciling", metav1.ConditionFalse, "sites.example.test of version v1 is not served")
	})
	provider := &sites{list: map[string]*unstructured.Unstructured{"a": site("a")}}
	row := &api.Resource{Group: "example.test", Version: "v1", Kind: "Site", Plural: "sites"}
	serve := func(list ...dynamic.Virtual) {
		t.Helper()
		if err := f.kinds.SetVirtual("test", list); err != nil {
			t.Fatal(err)
		}
	}
	served := dynamic.Virtual{Resource: row, Provider: provider, Poll: 10 * time.Millisecond}
	serve(served)
	cm := f.child("one", func(*corev1.ConfigMap) bool { return true })
	if ref := metav1.GetControllerOf(cm); ref == nil || fmt.Sprint(ref.APIVersion, ref.Kind, ref.Name, ref.UID) != "example.test/v1Siteauid-of-a" {
		t.Errorf("%+v", cm.OwnerReferences)
	}
	f.until("status of the site", func() bool { return provider.phase("a") == "Made" })
	f.status("m", "all is well", func(s *pluginsv1.ReconcilerStatus) bool {
		return s.Objects == 1 && condition(s, "Reconciling", metav1.ConditionTrue, "")
	})

	serve()
	f.status("m", "no longer served", func(s *pluginsv1.ReconcilerStatus) bool {
		return s.Objects == 0 && condition(s, "Reconciling", metav1.ConditionFalse, "")
	})
	serve(served)
	f.status("m", "served again", func(s *pluginsv1.ReconcilerStatus) bool {
		return s.Objects == 1 && condition(s, "Reconciling", metav1.ConditionTrue, "")
	})
	if err := f.configMaps.Delete(t.Context(), "default", "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.child("one", func(*corev1.ConfigMap) bool { return true })
}
