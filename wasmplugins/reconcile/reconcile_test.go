package reconcile_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/wasmplugins/reconcile"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

// TestWebsite is the example from the first object to a new setting.
func TestWebsite(t *testing.T) {
	f := newFixture(t)
	f.upload("website", BuildGo(t, "../../examples/plugins/website"))
	f.reconciler("website", settings(`{"image":"nginx:1"}`))
	owner := f.object("shop", map[string]string{"replicas": "2"})
	f.object("blog", nil)

	var d *appsv1.Deployment
	deployment := func(name, what string, ok func() bool) {
		t.Helper()
		f.until("deployment "+name+" "+what, func() bool {
			var err error
			d, err = f.deployments.Get(t.Context(), "default", name)
			return err == nil && ok()
		})
	}
	deployment("blog", "is there", func() bool { return *d.Spec.Replicas == 1 })
	deployment("shop", "is there", func() bool { return *d.Spec.Replicas == 2 })
	yes := true
	if diff := cmp.Diff([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "shop", UID: owner.UID, Controller: &yes, BlockOwnerDeletion: &yes}}, d.OwnerReferences); diff != "" {
		t.Error(diff)
	}
	f.event("shop", "Created", "created Deployment shop")
	f.status("website", "two objects", func(s *pluginsv1.ReconcilerStatus) bool {
		return s.Objects == 2 && s.Failing == 0 && condition(s, "Reconciling", metav1.ConditionTrue, "") && condition(s, "Ready", metav1.ConditionTrue, "")
	})

	// What the module names is healed, what it does not name is left alone.
	d.Spec.Replicas = new(int32)
	d.Spec.Template.Spec.Containers = append([]corev1.Container{{Name: "proxy", Image: "proxy:1"}}, d.Spec.Template.Spec.Containers...)
	d.Labels["theirs"] = "kept"
	if _, err := f.deployments.Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	deployment("shop", "is healed", func() bool {
		c := d.Spec.Template.Spec.Containers
		return *d.Spec.Replicas == 2 && d.Labels["theirs"] == "kept" && d.Labels["site"] == "shop" && len(c) == 2 && c[0].Name == "proxy" && c[1].Image == "nginx:1"
	})

	// A page comes and goes, and what refers to it.
	f.change("shop", func(cm *corev1.ConfigMap) { cm.Data["index"] = "<h1>Hello</h1>" })
	f.child("shop-page", func(cm *corev1.ConfigMap) bool { return cm.Data["index.html"] == "<h1>Hello</h1>" })
	deployment("shop", "has the page", func() bool { return len(d.Spec.Template.Spec.Volumes) == 1 })
	f.change("shop", func(cm *corev1.ConfigMap) { delete(cm.Data, "index") })
	f.goneChild("shop-page")
	f.event("shop", "Deleted", "deleted ConfigMap shop-page")
	deployment("shop", "has no page", func() bool {
		c := d.Spec.Template.Spec.Containers
		return len(d.Spec.Template.Spec.Volumes) == 0 && len(c) == 2 && len(c[1].VolumeMounts) == 0
	})

	// A deleted child comes back.
	before := d.UID
	if err := f.deployments.Delete(t.Context(), "default", "shop", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	deployment("shop", "is back", func() bool { return d.UID != before })

	// What the module refuses is told, and tried again when it has changed.
	f.change("shop", func(cm *corev1.ConfigMap) { cm.Data["replicas"] = "many" })
	f.event("shop", "ReconcileFailed", "the module says: data.replicas is no number: many")
	f.status("website", "one fails", func(s *pluginsv1.ReconcilerStatus) bool {
		return s.Failing == 1 && condition(s, "Reconciling", metav1.ConditionFalse, "1 of 2 objects fail, such as default/shop: the module says: data.replicas is no number: many") && s.Failures == 0
	})
	f.change("shop", func(cm *corev1.ConfigMap) { cm.Data["replicas"] = "3" })
	deployment("shop", "has three", func() bool { return *d.Spec.Replicas == 3 })
	f.status("website", "all is well", func(s *pluginsv1.ReconcilerStatus) bool {
		return s.Failing == 0 && condition(s, "Reconciling", metav1.ConditionTrue, "")
	})

	// Other settings reach all objects.
	f.until("other settings", func() bool {
		r, err := f.reconcilers.Get(t.Context(), "", "website")
		if err != nil {
			t.Fatal(err)
		}
		settings(`{"image":"nginx:2"}`)(&r.Spec)
		_, err = f.reconcilers.Update(t.Context(), r)
		return err == nil
	})
	for _, name := range []string{"shop", "blog"} {
		deployment(name, "has another image", func() bool {
			c := d.Spec.Template.Spec.Containers
			return c[len(c)-1].Image == "nginx:2"
		})
	}
}

const child = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s"},"data":{%s}}`

// TestReplacedModule shows what another version makes of what the one before
// has made.
func TestReplacedModule(t *testing.T) {
	f := newFixture(t)
	f.module("m", says(t, `{"objects":[`+fmt.Sprintf(child, "one", `"a":"1","b":"1"`)+`,`+fmt.Sprintf(child, "two", `"a":"1"`)+`]}`, false))
	f.reconciler("m")
	f.object("o", nil)
	f.child("two", func(*corev1.ConfigMap) bool { return true })
	one := f.child("one", func(*corev1.ConfigMap) bool { return true })
	if got := one.Annotations["plugins.proa.io/named"]; got != `{"apiVersion":true,"data":{"a":true,"b":true},"kind":true,"metadata":{"name":true,"namespace":true}}` {
		t.Errorf("annotation %s", got)
	}
	f.change("one", func(cm *corev1.ConfigMap) { cm.Data["theirs"] = "1" })

	f.module("m", says(t, `{"objects":[`+fmt.Sprintf(child, "one", `"b":"2"`)+`]}`, false))
	f.child("one", func(cm *corev1.ConfigMap) bool { return cmp.Equal(cm.Data, map[string]string{"b": "2", "theirs": "1"}) })
	f.goneChild("two")

	// With the module gone, what it made stays.
	if err := f.modules.Delete(t.Context(), "", "m", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.status("m", "not ready", func(s *pluginsv1.ReconcilerStatus) bool { return condition(s, "Ready", metav1.ConditionFalse, "") })
	f.child("one", func(*corev1.ConfigMap) bool { return true })
	f.object("p", nil)
	f.status("m", "an object waits", func(s *pluginsv1.ReconcilerStatus) bool { return s.Objects == 2 && s.Failing >= 1 })
	f.module("m", says(t, `{"objects":[]}`, false))
	f.goneChild("one")
	f.status("m", "all is well", func(s *pluginsv1.ReconcilerStatus) bool { return s.Failing == 0 })
}

func TestTraps(t *testing.T) {
	f := newFixture(t)
	f.module("m", traps())
	f.reconciler("m")
	f.object("o", nil)
	f.event("o", "ReconcileFailed", `plugin "m": Trapped: proa_reconcile: unreachable`)
	f.status("m", "degraded", func(s *pluginsv1.ReconcilerStatus) bool {
		return s.Failing == 1 && s.Failures >= 10 && s.LastFailure.Reason == "Trapped" && condition(s, "Degraded", metav1.ConditionTrue, "the last with Trapped") &&
			condition(s, "Reconciling", metav1.ConditionFalse, "1 of 1 objects fail, such as default/o")
	})
	f.event("m", "PluginDegraded", "Trapped")
	f.module("m", says(t, `{}`, false))
	f.status("m", "recovered", func(s *pluginsv1.ReconcilerStatus) bool {
		return s.Failing == 0 && condition(s, "Degraded", metav1.ConditionFalse, "") && condition(s, "Reconciling", metav1.ConditionTrue, "")
	})
}

// TestRights shows that the ServiceAccount's rights decide, and that what it may
// not do is told.
func TestRights(t *testing.T) {
	f := newFixture(t)
	f.deny("list deployments", "watch deployments", "create configmaps")
	f.module("m", says(t, `{"objects":[`+fmt.Sprintf(child, "one", `"a":"1"`)+`]}`, false))
	f.reconciler("m")
	f.object("o", nil)
	f.status("m", "cannot watch", func(s *pluginsv1.ReconcilerStatus) bool {
		return condition(s, "Reconciling", metav1.ConditionFalse, `deployments.apps is forbidden: User "`+account+`" cannot`)
	})
	f.event("m", "CannotWatch", "forbidden")
	f.deny("create configmaps")
	const text = `ConfigMap "default/one": configmaps is forbidden: User "` + account + `" cannot create resource "configmaps" in API group "" in the namespace "default"`
	f.event("o", "ReconcileFailed", text)
	f.status("m", "fails", func(s *pluginsv1.ReconcilerStatus) bool {
		return s.Failing == 1 && s.Failures == 0 && condition(s, "Reconciling", metav1.ConditionFalse, text)
	})
	f.deny()
	f.child("one", func(cm *corev1.ConfigMap) bool { return cm.Data["a"] == "1" })
}

// TestNotTakenOver leaves alone what is somebody else's.
func TestNotTakenOver(t *testing.T) {
	f := newFixture(t)
	if _, err := f.configMaps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: "default"}, Data: map[string]string{"a": "theirs"}}); err != nil {
		t.Fatal(err)
	}
	f.module("m", says(t, `{"objects":[`+fmt.Sprintf(child, "one", `"a":"1"`)+`]}`, false))
	f.reconciler("m")
	f.object("o", nil)
	f.event("o", "ReconcileFailed", `ConfigMap "default/one": is there already, and is controlled by nobody`)
	f.child("one", func(cm *corev1.ConfigMap) bool { return cm.Data["a"] == "theirs" && len(cm.OwnerReferences) == 0 })
	if err := f.configMaps.Delete(t.Context(), "default", "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.child("one", func(cm *corev1.ConfigMap) bool { return cm.Data["a"] == "1" })
}

func TestBadAnswers(t *testing.T) {
	f := newFixture(t)
	f.module("m", says(t, `{}`, false))
	f.reconciler("m", func(s *pluginsv1.ReconcilerSpec) {
		s.Owns[0].Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"made": "here"}}
		s.Owns = append(s.Owns, pluginsv1.WatchedKind{Version: "v1", Resource: "namespaces"})
	})
	f.object("o", nil)
	for reply, want := range map[string]string{
		`[`:                  "BadReply: the reply is no JSON",
		`{"status":{"a":1}}`: "there is a status, but configmaps have none",
		`{"objects":[7]}`:    "objects[0]: is no object",
		`{"objects":[{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}]}`:                                                                                                     "objects[0]: v1 Secret is not among the kinds that the reconciler owns",
		`{"objects":[{"apiVersion":"apps/v1","kind":"Deployment"}]}`:                                                                                                                    "objects[0]: metadata.name is missing",
		`{"objects":[{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","namespace":"kube-system"}}]}`:                                                                  `objects[0]: it is in the namespace "kube-system", not in that of its owner`,
		`{"objects":[{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"}}]}`:                                                                                                  "objects[0]: namespaces have no namespace, so an object in a namespace cannot own them",
		`{"objects":[` + fmt.Sprintf(child, "one", "") + `]}`:                                                                                                                           `objects[0]: ConfigMap "one" does not have the labels that spec.owns selects`,
		`{"objects":[{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"}},{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","namespace":"default"}}]}`: "objects[1]: deployments.apps default/d is there twice",
	} {
		f.module("m", says(t, reply, false))
		f.status("m", want, func(s *pluginsv1.ReconcilerStatus) bool {
			return condition(s, "Reconciling", metav1.ConditionFalse, want)
		})
	}
	// What the API refuses is told, too.
	f.module("m", says(t, `{"objects":[{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"}}]}`, false))
	f.event("o", "ReconcileFailed", `Deployment "default/d": Deployment.apps "d" is invalid: `)
}

// TestStatus writes the status of a kind that has one, once.
func TestStatus(t *testing.T) {
	f := newFixture(t)
	f.module("m", says(t, `{"status":{"observedGeneration":7,"conditions":[{"type":"Own","status":"True"}]},"requeueAfterSeconds":1}`, false))
	f.reconciler("m", func(s *pluginsv1.ReconcilerSpec) { s.For, s.Owns = deployments, nil })
	labels := map[string]string{"a": "b"}
	_, err := f.deployments.Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "d", Namespace: "default"},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	f.until("status of the deployment", func() bool {
		d, err := f.deployments.Get(t.Context(), "default", "d")
		return err == nil && d.Status.ObservedGeneration == 7 && len(d.Status.Conditions) == 1
	})
	// It is written again if somebody changes it.
	f.until("status changed by another", func() bool {
		d, err := f.deployments.Get(t.Context(), "default", "d")
		if err != nil {
			t.Fatal(err)
		}
		d.Status.ObservedGeneration, d.Status.Replicas = 8, 3
		_, err = f.deployments.UpdateStatus(t.Context(), d)
		return err == nil
	})
	f.until("status of the deployment again", func() bool {
		d, err := f.deployments.Get(t.Context(), "default", "d")
		return err == nil && d.Status.ObservedGeneration == 7 && d.Status.Replicas == 3
	})
	// Own writes wake nobody up. A few may be made of an old copy.
	if n := f.times("patch deployments/status"); n > 6 {
		t.Errorf("%d writes of the status", n)
	}
}

// TestFinalizer has a module called before an object goes, and then the
// Reconciler itself deleted.
func TestFinalizer(t *testing.T) {
	f := newFixture(t)
	f.module("m", says(t, `{"objects":[`+fmt.Sprintf(child, "one", `"a":"1"`)+`]}`, true))
	f.reconciler("m")
	f.object("o", nil)
	const finalizer = "reconcilers.plugins.proa.io/m"
	finalizers := func(want ...string) func(*corev1.ConfigMap) bool {
		return func(cm *corev1.ConfigMap) bool { return cmp.Equal(cm.Finalizers, want) }
	}
	f.child("o", finalizers(finalizer))
	f.child("one", func(*corev1.ConfigMap) bool { return true })
	if r, err := f.reconcilers.Get(t.Context(), "", "m"); err != nil || !cmp.Equal(r.Finalizers, []string{reconcile.Finalizer}) {
		t.Errorf("%v, %v", r.Finalizers, err)
	}
	if err := f.configMaps.Delete(t.Context(), "default", "o", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// It is still asked, and what it says is made true.
	f.child("o", func(cm *corev1.ConfigMap) bool { return cm.DeletionTimestamp != nil && len(cm.Finalizers) == 1 })
	f.module("m", says(t, `{"objects":[]}`, true))
	f.goneChild("one")
	f.child("o", finalizers(finalizer))
	f.module("m", says(t, `{"finalized":true}`, true))
	f.goneChild("o")

	// An object that no longer has the label is let go.
	f.object("p", nil)
	f.child("p", finalizers(finalizer))
	f.change("p", func(cm *corev1.ConfigMap) { cm.Labels = nil })
	f.child("p", finalizers())

	// Without its Reconciler, nothing would take it off.
	f.object("q", nil)
	f.child("q", finalizers(finalizer))
	if err := f.reconcilers.Delete(t.Context(), "", "m", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.child("q", finalizers())
	f.until("the reconciler is gone", func() bool {
		_, err := f.reconcilers.Get(t.Context(), "", "m")
		return apierrors.IsNotFound(err)
	})
}

// TestFinalizerNoLongerWanted has a version of a module that wants none.
func TestFinalizerNoLongerWanted(t *testing.T) {
	f := newFixture(t)
	f.module("m", says(t, `{}`, true))
	f.reconciler("m")
	f.object("o", nil)
	f.child("o", func(cm *corev1.ConfigMap) bool { return len(cm.Finalizers) == 1 })
	f.module("m", says(t, `{}`, false))
	f.child("o", func(cm *corev1.ConfigMap) bool { return len(cm.Finalizers) == 0 })
}

// TestChangedSpec has a Reconciler work on another kind.
func TestChangedSpec(t *testing.T) {
	f := newFixture(t)
	f.module("m", says(t, `{}`, false))
	f.reconciler("m", func(s *pluginsv1.ReconcilerSpec) { s.For.Resource = "sites" })
	f.object("o", nil)
	f.status("m", "no such kind", func(s *pluginsv1.ReconcilerStatus) bool {
		return condition(s, "Reconciling", metav1.ConditionFalse, "sites of version v1 is not served")
	})
	f.until("another kind", func() bool {
		r, err := f.reconcilers.Get(t.Context(), "", "m")
		if err != nil {
			t.Fatal(err)
		}
		r.Spec.For = labeled()
		_, err = f.reconcilers.Update(t.Context(), r)
		return err == nil
	})
	f.status("m", "an object", func(s *pluginsv1.ReconcilerStatus) bool {
		return s.Objects == 1 && condition(s, "Reconciling", metav1.ConditionTrue, "")
	})
}

// TestLead shows that only the leader reconciles, and that one that has lost the
// lead has stopped.
func TestLead(t *testing.T) {
	lead, lost := make(chan struct{}), make(chan struct{})
	f := newFixture(t, func(c *reconcile.Config) {
		c.Lead = func(ctx context.Context, lead_ func(context.Context) error) error {
			select {
			case <-lead:
			case <-ctx.Done():
				return ctx.Err()
			}
			term, end := context.WithCancel(ctx)
			defer end()
			go func() {
				select {
				case <-lost:
				case <-ctx.Done():
				}
				end()
			}()
			err := lead_(term)
			<-ctx.Done()
			return err
		}
	})
	f.module("m", says(t, `{"objects":[`+fmt.Sprintf(child, "one", `"a":"1"`)+`]}`, false))
	f.reconciler("m")
	f.object("o", nil)
	f.status("m", "ready", func(s *pluginsv1.ReconcilerStatus) bool { return condition(s, "Ready", metav1.ConditionTrue, "") })
	if _, err := f.configMaps.Get(t.Context(), "default", "one"); !apierrors.IsNotFound(err) || f.times("list configmaps")+f.times("watch configmaps") > 0 {
		t.Errorf("reconciled without the lead: %v", err)
	}
	close(lead)
	f.child("one", func(*corev1.ConfigMap) bool { return true })
	close(lost)
	f.until("loops have ended", func() bool { return f.point.Loops() == 0 })
	if err := f.configMaps.Delete(t.Context(), "default", "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if n := f.times("create configmaps"); n != 1 {
		t.Errorf("%d creates", n)
	}
}
