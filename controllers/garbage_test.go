package controllers_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/controllers"
	"github.com/proa-project/proa/httpapi/client"
)

// A family is ConfigMaps that own each other.
type family struct {
	*cluster
	maps *client.Client[*corev1.ConfigMap]
}

func newFamily(t *testing.T) *family {
	t.Helper()
	c := newCluster(t)
	c.manage(func(cfg *controllers.Config) { cfg.Names = []string{"garbagecollector"} })
	return &family{c, client.For[*corev1.ConfigMap](c.rest)}
}

func ref(o *corev1.ConfigMap, block bool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: o.Name, UID: o.UID, BlockOwnerDeletion: &block}
}

func (f *family) add(ns, name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
	f.t.Helper()
	m, err := f.maps.Create(f.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, OwnerReferences: owners}})
	if err != nil {
		f.t.Fatal(err)
	}
	return m
}

func (f *family) remove(name string, how metav1.DeletionPropagation) {
	f.t.Helper()
	if err := f.maps.Delete(f.t.Context(), "default", name, metav1.DeleteOptions{PropagationPolicy: &how}); err != nil {
		f.t.Fatal(err)
	}
}

// left waits until exactly these are left in the namespace default.
func (f *family) left(want ...string) {
	f.t.Helper()
	f.eventually(15*time.Second, func() error {
		l, err := f.maps.List(f.t.Context(), "default", metav1.ListOptions{})
		if err != nil {
			return err
		}
		var have []string
		for _, m := range l.Items {
			have = append(have, m.Name)
		}
		slices.Sort(have)
		if !slices.Equal(have, want) {
			return fmt.Errorf("left are %v, want %v", have, want)
		}
		return nil
	})
}

func TestGarbage_background(t *testing.T) {
	f := newFamily(t)
	a := f.add("default", "a")
	b := f.add("default", "b", ref(a, false))
	f.add("default", "c", ref(b, false))
	other := f.add("default", "other")
	f.add("default", "shared", ref(a, false), ref(other, false))
	f.remove("a", metav1.DeletePropagationBackground)
	f.left("other", "shared")
	f.eventually(10*time.Second, func() error {
		m, err := f.maps.Get(t.Context(), "default", "shared")
		if err != nil || len(m.OwnerReferences) != 1 || m.OwnerReferences[0].UID != other.UID {
			return fmt.Errorf("references %v, %w", m.OwnerReferences, err)
		}
		return nil
	})
}

func TestGarbage_foreground(t *testing.T) {
	f := newFamily(t)
	a := f.add("default", "a")
	b := f.add("default", "b", ref(a, true))
	held, err := f.maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "held", OwnerReferences: []metav1.OwnerReference{ref(b, true)}, Finalizers: []string{"example.com/hold"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	f.remove("a", metav1.DeletePropagationForeground)
	f.eventually(10*time.Second, func() error {
		m, err := f.maps.Get(t.Context(), "default", "held")
		if err != nil || m.DeletionTimestamp == nil {
			return fmt.Errorf("the last of the chain is not deleted: %w", err)
		}
		return nil
	})
	f.left("a", "b", "held")
	if _, err := f.maps.Patch(t.Context(), "default", held.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)); err != nil {
		t.Fatal(err)
	}
	f.left()
}

// TestGarbage_circle deletes two that own each other in the foreground.
func TestGarbage_circle(t *testing.T) {
	f := newFamily(t)
	a := f.add("default", "a")
	b := f.add("default", "b", ref(a, true))
	a.OwnerReferences = []metav1.OwnerReference{ref(b, true)}
	if _, err := f.maps.Update(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	f.remove("a", metav1.DeletePropagationForeground)
	f.left()
}

func TestGarbage_orphan(t *testing.T) {
	f := newFamily(t)
	a := f.add("default", "a")
	for i := range 5 {
		f.add("default", fmt.Sprintf("b%d", i), ref(a, true))
	}
	f.remove("a", metav1.DeletePropagationOrphan)
	f.left("b0", "b1", "b2", "b3", "b4")
	l, err := f.maps.List(t.Context(), "default", metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range l.Items {
		if len(m.OwnerReferences) != 0 {
			t.Errorf("%s still has an owner", m.Name)
		}
	}
}

// TestGarbage_absentOwners makes objects whose owners never were, are of
// another namespace, or of a kind that is not served.
func TestGarbage_absentOwners(t *testing.T) {
	f := newFamily(t)
	never := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "never", UID: "never"}
	unserved := metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Thing", Name: "x", UID: "thing"}
	elsewhere := f.add("kube-public", "elsewhere")
	wrongUID := f.add("default", "real")
	wrong := ref(wrongUID, false)
	wrong.UID = "wrong"
	f.add("default", "a-never", never)
	f.add("default", "b-unserved", unserved)
	f.add("default", "c-both", unserved, never)
	f.add("default", "d-elsewhere", ref(elsewhere, false))
	f.add("default", "e-wrong", wrong)
	same := f.add("kube-public", "f-fine", ref(elsewhere, false))
	f.left("b-unserved", "c-both", "real")
	f.eventually(10*time.Second, func() error {
		got := f.eventsOf("default", "d-elsewhere")
		want := fmt.Sprintf("Warning OwnerRefInvalidNamespace ownerRef [v1/ConfigMap, namespace: default, name: elsewhere, uid: %s] does not exist in namespace \"default\" garbage-collector-controller", elsewhere.UID)
		if !strings.Contains(got, want) {
			return fmt.Errorf("events %q", got)
		}
		return nil
	})
	if _, err := f.maps.Get(t.Context(), "kube-public", same.Name); err != nil {
		t.Errorf("an object whose owner is there: %v", err)
	}
	// An owner that is deleted takes along those of its own namespace.
	if err := f.maps.Delete(t.Context(), "kube-public", "elsewhere", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.eventually(10*time.Second, func() error {
		if _, err := f.maps.Get(t.Context(), "kube-public", same.Name); !apierrors.IsNotFound(err) {
			return fmt.Errorf("still there: %w", err)
		}
		return nil
	})
}

// TestGarbage_restart lets owners go while nobody looks.
func TestGarbage_restart(t *testing.T) {
	c := newCluster(t)
	f := &family{c, client.For[*corev1.ConfigMap](c.rest)}
	a := f.add("default", "a")
	b := f.add("default", "b", ref(a, true))
	f.add("default", "c", ref(b, true))
	d := f.add("default", "d")
	f.add("default", "e", ref(d, true))
	f.remove("a", metav1.DeletePropagationBackground)
	f.remove("d", metav1.DeletePropagationForeground)
	f.manage(func(cfg *controllers.Config) { cfg.Names = []string{"garbagecollector"} })
	f.left()
}

func TestGarbage_deployment(t *testing.T) {
	for _, how := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
		t.Run(string(how), func(t *testing.T) {
			c := setup(t)
			c.create(deployment("web", 5, "v1"))
			c.rolledOut("web", 5, "v1")
			if err := c.deployments.Delete(t.Context(), "default", "web", metav1.DeleteOptions{PropagationPolicy: &how}); err != nil {
				t.Fatal(err)
			}
			c.eventually(15*time.Second, func() error {
				pods, err := c.pods.List(t.Context(), "default", metav1.ListOptions{})
				if err != nil {
					return err
				}
				_, gone := c.deployments.Get(t.Context(), "default", "web")
				if n := len(c.setsOf("web")); n > 0 || len(pods.Items) > 0 || !apierrors.IsNotFound(gone) {
					return fmt.Errorf("%d sets, %d pods, deployment: %w", n, len(pods.Items), gone)
				}
				return nil
			})
		})
	}
}
