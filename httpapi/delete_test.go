package httpapi_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDeleteAnswers(t *testing.T) {
	f := newFixture(t)
	m := f.mustMap(t, "a", "")
	r := f.do(t, "DELETE", mapsPath+"/a", "")
	st := r.status(t)
	if r.Code != http.StatusOK || st.Status != metav1.StatusSuccess || st.Details == nil || st.Details.Name != "a" || st.Details.Kind != "configmaps" || st.Details.UID != m.UID {
		t.Errorf("%+v", r)
	}
	if r = f.do(t, "POST", podsPath, podJSON("p")); r.Code != http.StatusCreated {
		t.Fatal(r)
	}
	if r = f.do(t, "DELETE", podsPath+"/p", ""); r.Code != http.StatusOK || metaOf(t, r).Name != "p" {
		t.Errorf("%+v", r)
	}
	f.mustMap(t, "a", "")
	f.mustMap(t, "b", "")
	r = f.do(t, "DELETE", mapsPath+"?fieldSelector=metadata.name%3Da", "")
	if r.Code != http.StatusOK || !strings.HasPrefix(r.Body, `{"kind":"ConfigMapList"`) || strings.Count(r.Body, `"name":`) != 1 {
		t.Errorf("%+v", r)
	}
}

func TestGracefulDelete(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	pods := f.client.CoreV1().Pods("default")
	create := func(name string, grace *int64) {
		t.Helper()
		p := newPod(name)
		p.Spec.NodeName = "n"
		p.Spec.TerminationGracePeriodSeconds = grace
		if _, err := pods.Create(ctx, p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	seconds := func(n int64) *int64 { return &n }
	marked := func(name string) (*corev1.Pod, time.Duration) {
		t.Helper()
		p, err := pods.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if p.DeletionTimestamp == nil {
			t.Fatalf("pod %s is not marked", name)
		}
		return p, time.Until(p.DeletionTimestamp.Time)
	}

	create("a", nil)
	if err := pods.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p, left := marked("a")
	if *p.DeletionGracePeriodSeconds != 30 || left > 30*time.Second || left < 20*time.Second || p.Generation != 2 {
		t.Errorf("grace %d, %v left, generation %d", *p.DeletionGracePeriodSeconds, left, p.Generation)
	}
	if err := pods.Delete(ctx, "a", metav1.DeleteOptions{GracePeriodSeconds: seconds(60)}); err != nil {
		t.Fatal(err)
	}
	if q, _ := marked("a"); q.ResourceVersion != p.ResourceVersion {
		t.Error("a second delete made the time longer")
	}
	if err := pods.Delete(ctx, "a", metav1.DeleteOptions{GracePeriodSeconds: seconds(5)}); err != nil {
		t.Fatal(err)
	}
	if q, left := marked("a"); *q.DeletionGracePeriodSeconds != 5 || left > 5*time.Second {
		t.Errorf("grace %d, %v left", *q.DeletionGracePeriodSeconds, left)
	}
	// A client does not change the mark, nor does an update take the pod away.
	p, _ = marked("a")
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = nil, nil
	if q, err := pods.UpdateStatus(ctx, p, metav1.UpdateOptions{}); err != nil || q.DeletionTimestamp == nil {
		t.Errorf("%+v %v", q, err)
	}
	if err := pods.Delete(ctx, "a", metav1.DeleteOptions{GracePeriodSeconds: seconds(0)}); err != nil {
		t.Fatal(err)
	}
	if _, err := pods.Get(ctx, "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the agent's delete left the pod: %v", err)
	}

	create("own", seconds(7))
	if err := pods.Delete(ctx, "own", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if p, _ := marked("own"); *p.DeletionGracePeriodSeconds != 7 {
		t.Errorf("grace %d", *p.DeletionGracePeriodSeconds)
	}
	create("done", nil)
	f.mustPatch(t, podsPath+"/done/status", `{"status":{"phase":"Succeeded"}}`)
	f.mustDelete(t, podsPath+"/done")
	if r := f.do(t, "GET", podsPath+"/done", ""); r.Code != http.StatusNotFound {
		t.Errorf("a pod that is done was not deleted at once: %+v", r)
	}
}

func TestFinalizers(t *testing.T) {
	f := newFixture(t)
	finalizers := func(r reply) []string { return metaOf(t, r).Finalizers }
	for name, c := range map[string]struct {
		have, query, body string
		want              string // finalizers after the delete; "gone" if it is gone
	}{
		"none":                 {``, "", "", "gone"},
		"background":           {``, "?propagationPolicy=Background", "", "gone"},
		"foreground":           {``, "?propagationPolicy=Foreground", "", "foregroundDeletion"},
		"orphan":               {``, "", `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Orphan"}`, "orphan"},
		"old orphan":           {``, "?orphanDependents=true", "", "orphan"},
		"own":                  {`"x.y/z"`, "", "", "x.y/z"},
		"own and foreground":   {`"x.y/z"`, "?propagationPolicy=Foreground", "", "x.y/z foregroundDeletion"},
		"marked for orphans":   {`"orphan"`, "", "", "orphan"},
		"background overrules": {`"orphan"`, "?propagationPolicy=Background", "", "gone"},
	} {
		t.Run(name, func(t *testing.T) {
			if r := f.do(t, "POST", mapsPath, mapJSON("a", `"finalizers":[`+c.have+`]`)); r.Code != http.StatusCreated {
				t.Fatal(r)
			}
			r := f.do(t, "DELETE", mapsPath+"/a"+c.query, c.body)
			if r.Code != http.StatusOK {
				t.Fatal(r)
			}
			got := f.do(t, "GET", mapsPath+"/a", "")
			if c.want == "gone" {
				if got.Code != http.StatusNotFound {
					t.Errorf("still there: %s", got.Body)
				}
				return
			}
			if strings.Join(finalizers(got), " ") != c.want || metaOf(t, got).DeletionTimestamp == nil {
				t.Errorf("is %s", got.Body)
			}
			if again := f.do(t, "POST", mapsPath, mapJSON("a", "")); again.status(t).Message != `object is being deleted: configmaps "a" already exists` {
				t.Errorf("create of an object that ends: %s", again.Body)
			}
			if r := f.do(t, "PATCH", mapsPath+"/a", `{"metadata":{"finalizers":null}}`, "Content-Type", mergePatch); r.Code != http.StatusOK {
				t.Errorf("%+v", r)
			}
			if r := f.do(t, "GET", mapsPath+"/a", ""); r.Code != http.StatusNotFound {
				t.Errorf("still there without finalizers: %s", r.Body)
			}
		})
	}
}

func TestNamespaces(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	namespaces := f.client.CoreV1().Namespaces()
	l, err := namespaces.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, ns := range l.Items {
		names = append(names, ns.Name)
	}
	if want := []string{"default", "kube-node-lease", "kube-public", "kube-system"}; !slices.Equal(names, want) {
		t.Errorf("namespaces are %v", names)
	}
	ns, err := namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if ns.Status.Phase != corev1.NamespaceActive || len(ns.Spec.Finalizers) != 1 || ns.Labels["kubernetes.io/metadata.name"] != "x" {
		t.Errorf("%+v", ns)
	}
	ns.Spec.Finalizers, ns.Labels = nil, nil // not by this way
	if ns, err = namespaces.Update(ctx, ns, metav1.UpdateOptions{}); err != nil || len(ns.Spec.Finalizers) != 1 || ns.Labels["kubernetes.io/metadata.name"] != "x" {
		t.Errorf("%+v %v", ns, err)
	}
	if err = namespaces.Delete(ctx, "x", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if ns, err = namespaces.Get(ctx, "x", metav1.GetOptions{}); err != nil || ns.Status.Phase != corev1.NamespaceTerminating || ns.DeletionTimestamp == nil {
		t.Errorf("%+v %v", ns, err)
	}
	_, err = f.client.CoreV1().ConfigMaps("x").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) ||
		err.Error() != `configmaps "a" is forbidden: unable to create new content in namespace x because it is being terminated` {
		t.Errorf("create in a namespace that ends: %v", err)
	}
	ns.Status.Conditions = []corev1.NamespaceCondition{{Type: corev1.NamespaceDeletionContentFailure, Status: corev1.ConditionFalse}}
	if ns, err = namespaces.UpdateStatus(ctx, ns, metav1.UpdateOptions{}); err != nil || len(ns.Status.Conditions) != 1 {
		t.Errorf("%+v %v", ns, err)
	}
	ns.Spec.Finalizers = nil
	if _, err := namespaces.Finalize(ctx, ns, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := namespaces.Get(ctx, "x", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a namespace without finalizers is still there: %v", err)
	}
}
