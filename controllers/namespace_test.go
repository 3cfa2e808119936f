package controllers_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/controllers"
	"github.com/proa-project/proa/httpapi/client"
)

func TestNamespace_furnish(t *testing.T) {
	c := newCluster(t)
	c.manage(func(cfg *controllers.Config) { cfg.Names = []string{"namespace"} })
	namespaces := client.For[*corev1.Namespace](c.rest)
	accounts := client.For[*corev1.ServiceAccount](c.rest)
	maps := client.For[*corev1.ConfigMap](c.rest)
	if _, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}); err != nil {
		t.Fatal(err)
	}
	furnished := func() error {
		for _, ns := range []string{"default", "kube-system", "kube-public", "kube-node-lease", "team"} {
			if _, err := accounts.Get(t.Context(), ns, "default"); err != nil {
				return err
			}
			cm, err := maps.Get(t.Context(), ns, "kube-root-ca.crt")
			if err != nil {
				return err
			}
			if cm.Data["ca.crt"] != "PEM" {
				return fmt.Errorf("data %v", cm.Data)
			}
		}
		return nil
	}
	c.eventually(10*time.Second, furnished)
	// What is taken away or changed comes back.
	if err := accounts.Delete(t.Context(), "team", "default", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := maps.Delete(t.Context(), "team", "kube-root-ca.crt", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := maps.Patch(t.Context(), "default", "kube-root-ca.crt", types.MergePatchType, []byte(`{"data":{"ca.crt":"forged"}}`)); err != nil {
		t.Fatal(err)
	}
	c.eventually(10*time.Second, furnished)
}

func TestNamespace_delete(t *testing.T) {
	c := setup(t)
	namespaces := client.For[*corev1.Namespace](c.rest)
	if _, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}); err != nil {
		t.Fatal(err)
	}
	d := deployment("web", 3, "v1")
	d.Namespace = "team"
	c.create(d)
	secrets := client.For[*corev1.Secret](c.rest)
	if _, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "s", Finalizers: []string{"example.com/hold"}}}); err != nil {
		t.Fatal(err)
	}
	c.eventually(10*time.Second, func() error {
		l, err := c.pods.List(t.Context(), "team", metav1.ListOptions{})
		if err != nil || len(l.Items) != 3 {
			return fmt.Errorf("%d pods, %w", len(l.Items), err)
		}
		return nil
	})
	if err := namespaces.Delete(t.Context(), "", "team", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// It waits for the finalizer, and says so.
	c.eventually(20*time.Second, func() error {
		ns, err := namespaces.Get(t.Context(), "", "team")
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, cond := range ns.Status.Conditions {
			if cond.Status == corev1.ConditionTrue {
				text += cond.Reason + ": " + cond.Message + "\n"
			}
		}
		for _, want := range []string{
			"SomeResourcesRemain: Some resources are remaining: secrets. has 1 resource instances\n",
			"SomeFinalizersRemain: Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances\n",
		} {
			if !strings.Contains(text, want) {
				return fmt.Errorf("no %q in %q, phase %s", want, text, ns.Status.Phase)
			}
		}
		return nil
	})
	if _, err := secrets.Patch(t.Context(), "team", "s", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)); err != nil {
		t.Fatal(err)
	}
	c.eventually(20*time.Second, func() error {
		if _, err := namespaces.Get(t.Context(), "", "team"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("namespace is there: %w", err)
		}
		return nil
	})
	for _, r := range api.Resources() {
		if !r.Namespaced || len(r.Verbs) < 7 {
			continue
		}
		l, err := client.Metadata(c.rest, r).List(t.Context(), "team", metav1.ListOptions{})
		if err != nil || len(l.Items) != 0 {
			t.Errorf("%d %s are left, %v", len(l.Items), r.Plural, err)
		}
	}
}
