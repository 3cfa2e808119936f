package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
)

func newPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i:1"}}},
	}
}

func newDeployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: newPod(name).Spec},
		},
	}
}

// TestVerbs does everything with client-go, in each of the encodings.
func TestVerbs(t *testing.T) {
	for _, media := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		t.Run(media, func(t *testing.T) {
			f := newFixture(t)
			cfg := rest.CopyConfig(f.config)
			cfg.ContentType, cfg.AcceptContentTypes = media, media+",application/json"
			verbs(t, kubernetes.NewForConfigOrDie(cfg))
		})
	}
}

func verbs(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	ctx := t.Context()
	pods := client.CoreV1().Pods("default")
	p, err := pods.Create(ctx, newPod("a"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if p.UID == "" || p.ResourceVersion == "" || p.CreationTimestamp.IsZero() || p.Namespace != "default" || p.Generation != 1 {
		t.Errorf("metadata is %+v", p.ObjectMeta)
	}
	if p.Status.Phase != corev1.PodPending || p.Status.QOSClass != corev1.PodQOSBestEffort {
		t.Errorf("status is %+v", p.Status)
	}
	if p.Spec.RestartPolicy != corev1.RestartPolicyAlways || p.Spec.ServiceAccountName != "default" || len(p.Spec.Tolerations) != 2 {
		t.Errorf("spec is %+v", p.Spec)
	}
	got, err := pods.Get(ctx, "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, got); diff != "" {
		t.Errorf("get differs from create (-create +get):\n%s", diff)
	}

	got.Labels["x"] = "y"
	got.Status.Phase = corev1.PodRunning // not by this way
	up, err := pods.Update(ctx, got, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if up.Labels["x"] != "y" || up.Status.Phase != corev1.PodPending || up.Generation != 1 || up.ResourceVersion == p.ResourceVersion {
		t.Errorf("update: %+v", up)
	}
	if _, err = pods.Update(ctx, p, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("update of an old state: %v", err)
	}
	up.Status.Phase = corev1.PodRunning
	up.Spec.Containers[0].Image = "other" // not by this way
	st, err := pods.UpdateStatus(ctx, up, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if st.Status.Phase != corev1.PodRunning || st.Spec.Containers[0].Image != "i:1" {
		t.Errorf("status: %+v", st)
	}
	same, err := pods.UpdateStatus(ctx, st, metav1.UpdateOptions{})
	if err != nil || same.ResourceVersion != st.ResourceVersion {
		t.Errorf("an update that changes nothing wrote: %v %v", same.ResourceVersion, err)
	}
	patched, err := pods.Patch(ctx, "a", types.StrategicMergePatchType,
		[]byte(`{"spec":{"containers":[{"name":"c","image":"i:2"}]}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if patched.Spec.Containers[0].Image != "i:2" || patched.Generation != 2 || patched.Spec.Containers[0].ImagePullPolicy == "" {
		t.Errorf("patch: %+v", patched)
	}
	patched, err = pods.Patch(ctx, "a", types.JSONPatchType, []byte(`[{"op":"add","path":"/metadata/labels/j","value":"1"}]`), metav1.PatchOptions{})
	if err != nil || patched.Labels["j"] != "1" {
		t.Errorf("JSON patch: %v %v", patched, err)
	}
	patched, err = pods.Patch(ctx, "a", types.MergePatchType, []byte(`{"status":{"phase":"Failed"}}`), metav1.PatchOptions{}, "status")
	if err != nil || patched.Status.Phase != corev1.PodFailed {
		t.Errorf("patch of status: %v %v", patched, err)
	}

	if _, err = pods.Create(ctx, newPod("b"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 2 || list.Items[0].Name != "a" || list.ResourceVersion == "" {
		t.Errorf("list: %+v %v", list, err)
	}
	list, err = client.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: "app in (b)", FieldSelector: "status.phase=Pending"})
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != "b" {
		t.Errorf("selected: %+v %v", list, err)
	}
	list, err = pods.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name!=a"})
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != "b" {
		t.Errorf("selected: %+v %v", list, err)
	}
	if err = pods.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=b"}); err != nil {
		t.Error(err)
	}
	if err = pods.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if list, err = pods.List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
		t.Errorf("left: %+v %v", list, err)
	}
}

func TestGenerateName(t *testing.T) {
	f := newFixture(t)
	long := strings.Repeat("x", 70) + "-"
	for _, base := range []string{"web-", long} {
		r := f.do(t, "POST", mapsPath, fmt.Sprintf(`{"metadata":{"generateName":%q}}`, base))
		if r.Code != http.StatusCreated {
			t.Fatal(r)
		}
		name := metaOf(t, r).Name
		want := "^" + base[:min(len(base), 58)] + "[bcdfghjklmnpqrstvwxz2456789]{5}$"
		if !regexp.MustCompile(want).MatchString(name) {
			t.Errorf("name %q does not match %s", name, want)
		}
	}
}

func TestDryRun(t *testing.T) {
	f := newFixture(t)
	cm := f.mustMap(t, "there", "")
	for _, c := range []struct{ method, path, body, media string }{
		{"POST", mapsPath, mapJSON("new", ""), "application/json"},
		{"PUT", mapsPath + "/there", `{"metadata":{"name":"there"},"data":{"k":"w"}}`, "application/json"},
		{"PATCH", mapsPath + "/there", `{"data":{"k":"w"}}`, mergePatch},
		{"DELETE", mapsPath + "/there", "", ""},
		{"DELETE", mapsPath, "", ""},
	} {
		r := f.do(t, c.method, c.path+"?dryRun=All", c.body, "Content-Type", c.media)
		if r.Code >= 300 {
			t.Errorf("%s: %+v", c.method, r)
		}
		if c.method != "DELETE" && strings.Contains(c.body, "there") && !strings.Contains(r.Body, `"k":"w"`) {
			t.Errorf("%s: the answer does not show the change: %s", c.method, r.Body)
		}
	}
	if r := f.do(t, "POST", mapsPath+"?dryRun=All", mapJSON("there", "")); r.Code != http.StatusConflict {
		t.Errorf("dry run of a create that must fail: %+v", r)
	}
	l, err := f.client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(l.Items) != 1 || l.Items[0].ResourceVersion != cm.ResourceVersion {
		t.Errorf("left: %+v %v", l, err)
	}
}

func TestWarnings(t *testing.T) {
	f := newFixture(t)
	r := f.do(t, "POST", podsPath, podJSON("a", `,"foo":1,"foo":2`))
	if r.Code != http.StatusCreated {
		t.Fatal(r)
	}
	want := []string{`299 - "unknown field \"spec.foo\""`}
	if diff := cmp.Diff(want, r.Header["Warning"][:1]); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if r := f.do(t, "PATCH", podsPath+"/a", `{"spec":{"bar":1}}`, "Content-Type", mergePatch); r.Header.Get("Warning") != `299 - "unknown field \"spec.bar\""` {
		t.Errorf("patch: %+v", r)
	}
	if r := f.do(t, "PATCH", podsPath+"/a?fieldValidation=Ignore", `{"spec":{"bar":1}}`, "Content-Type", mergePatch); r.Header.Get("Warning") != "" {
		t.Errorf("patch: %+v", r)
	}
}

func TestUpdateRules(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	leases := f.client.CoordinationV1().Leases("default")
	l, err := leases.Update(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "l"}}, metav1.UpdateOptions{})
	if err != nil || l.UID == "" {
		t.Fatalf("an update may create a lease: %v", err)
	}
	r := f.do(t, "PUT", "/apis/coordination.k8s.io/v1/namespaces/default/leases/m", `{"metadata":{"name":"m"}}`)
	if r.Code != http.StatusCreated {
		t.Errorf("create by update: %+v", r)
	}
	d, err := f.client.AppsV1().Deployments("default").Create(ctx, newDeployment("d", 1), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d.ResourceVersion, d.UID, d.CreationTimestamp, d.Generation = "", "", metav1.Time{}, 77
	d.Annotations = map[string]string{"a": "b"}
	d, err = f.client.AppsV1().Deployments("default").Update(ctx, d, metav1.UpdateOptions{})
	if err != nil || d.UID == "" || d.CreationTimestamp.IsZero() || d.Generation != 1 {
		t.Errorf("unconditional update: %+v %v", d, err)
	}
	d.Spec.Replicas = new(int32)
	d, err = f.client.AppsV1().Deployments("default").Update(ctx, d, metav1.UpdateOptions{})
	if err != nil || d.Generation != 2 {
		t.Errorf("change of the spec: %+v %v", d, err)
	}
	d.Status.Replicas, d.Labels = 5, map[string]string{"evil": "1"}
	d, err = f.client.AppsV1().Deployments("default").UpdateStatus(ctx, d, metav1.UpdateOptions{})
	if err != nil || d.Generation != 2 || d.Status.Replicas != 5 || d.Labels["evil"] != "" {
		t.Errorf("change of the status: %+v %v", d, err)
	}
}

// TestContention has many clients change one object, each as client-go
// recommends.
func TestContention(t *testing.T) {
	f := newFixture(t)
	f.mustMap(t, "n", "")
	maps := f.client.CoreV1().ConfigMaps("default")
	const workers, each = 8, 10
	var wg sync.WaitGroup
	backoff := retry.DefaultBackoff
	backoff.Steps = 1000
	for range workers {
		wg.Go(func() {
			for range each {
				err := retry.RetryOnConflict(backoff, func() error {
					m, err := maps.Get(t.Context(), "n", metav1.GetOptions{})
					if err != nil {
						return err
					}
					var n int
					fmt.Sscan(m.Data["n"], &n)
					m.Data["n"] = fmt.Sprint(n + 1)
					_, err = maps.Update(t.Context(), m, metav1.UpdateOptions{})
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range workers { // patches without a revision get in between, and never fail
		wg.Go(func() {
			for j := range each {
				f.mustPatch(t, mapsPath+"/n", fmt.Sprintf(`{"data":{"w%d":"%d"}}`, i, j))
			}
		})
	}
	wg.Wait()
	m, err := maps.Get(t.Context(), "n", metav1.GetOptions{})
	if err != nil || m.Data["n"] != fmt.Sprint(workers*each) {
		t.Errorf("data is %v, %v", m.Data, err)
	}
	for i := range workers {
		if m.Data[fmt.Sprint("w", i)] != fmt.Sprint(each-1) {
			t.Errorf("patches of %d are lost: %v", i, m.Data)
		}
	}
}

func TestDynamicAndMetadata(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	gvr := schema.GroupVersionResource{Group: "plugins.proa.io", Version: "v1", Resource: "wasmmodules"}
	modules := dynamic.NewForConfigOrDie(f.config).Resource(gvr)
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "plugins.proa.io/v1", "kind": "WasmModule", "metadata": map[string]any{"name": "m"},
		"spec": map[string]any{"digest": "sha256:" + strings.Repeat("ab", 32)},
	}}
	u, err := modules.Create(ctx, u, metav1.CreateOptions{})
	if err != nil || u.GetGeneration() != 1 {
		t.Fatal(u, err)
	}
	if err = unstructured.SetNestedField(u.Object, "native/1", "status", "abi"); err != nil {
		t.Fatal(err)
	}
	u.SetLabels(map[string]string{"no": "way"})
	u, err = modules.UpdateStatus(ctx, u, metav1.UpdateOptions{})
	if abi, _, _ := unstructured.NestedString(u.Object, "status", "abi"); err != nil || abi != "native/1" || len(u.GetLabels()) != 0 || u.GetGeneration() != 1 {
		t.Errorf("status: %v %v", u, err)
	}
	u.SetResourceVersion("")
	if _, err = modules.Update(ctx, u, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("update without a revision: %v", err)
	}

	f.mustMap(t, "a", `"x":"1"`)
	metas := metadata.NewForConfigOrDie(f.config).Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default")
	m, err := metas.Get(ctx, "a", metav1.GetOptions{})
	if err != nil || m.Labels["x"] != "1" || m.UID == "" {
		t.Errorf("metadata: %+v %v", m, err)
	}
	l, err := metas.List(ctx, metav1.ListOptions{})
	if err != nil || len(l.Items) != 1 || l.Items[0].Name != "a" || l.ResourceVersion == "" {
		t.Errorf("metadata list: %+v %v", l, err)
	}
	w, err := metas.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e := <-w.ResultChan()
	w.Stop()
	if o, ok := e.Object.(*metav1.PartialObjectMetadata); !ok || o.Name != "a" {
		t.Errorf("metadata watch: %+v", e)
	}
}

func TestEvents(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	_, err := f.client.EventsV1().Events("default").Create(ctx, &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "e"}, EventTime: metav1.NowMicro(), ReportingController: "x.y/z", ReportingInstance: "z-1",
		Action: "Did", Reason: "Because", Note: "note", Type: "Normal",
		Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "p"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := f.client.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=p,reason=Because"})
	if err != nil || len(l.Items) != 1 || l.Items[0].Message != "note" || l.Items[0].Kind != "" && l.Items[0].Kind != "Event" {
		t.Fatalf("%+v %v", l, err)
	}
	l2, err := f.client.EventsV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "regarding.name=p"})
	if err != nil || len(l2.Items) != 1 || l2.Items[0].Note != "note" || l2.Items[0].ResourceVersion != l.Items[0].ResourceVersion {
		t.Fatalf("%+v %v", l2, err)
	}
	r := f.do(t, "GET", "/apis/events.k8s.io/v1/namespaces/default/events/e", "")
	if !strings.Contains(r.Body, `"apiVersion":"events.k8s.io/v1"`) || !strings.Contains(r.Body, `"note":"note"`) {
		t.Error(r.Body)
	}
	s := f.watch(t, "/apis/events.k8s.io/v1/events?watch=1")
	if e := s.expect("ADDED e"); e.Object.APIVersion != "events.k8s.io/v1" {
		t.Errorf("%+v", e)
	}
	f.mustDelete(t, "/apis/events.k8s.io/v1/namespaces/default/events/e")
	s.expect("DELETED e")
}

func TestScale(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	deployments := f.client.AppsV1().Deployments("default")
	if _, err := deployments.Create(ctx, newDeployment("d", 3), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	sc, err := deployments.GetScale(ctx, "d", metav1.GetOptions{})
	if err != nil || sc.Spec.Replicas != 3 || sc.Status.Selector != "app=d" || sc.ResourceVersion == "" {
		t.Fatal(sc, err)
	}
	sc.Spec.Replicas = 5
	if sc, err = deployments.UpdateScale(ctx, "d", sc, metav1.UpdateOptions{}); err != nil || sc.Spec.Replicas != 5 {
		t.Fatal(sc, err)
	}
	r := f.do(t, "PATCH", "/apis/apps/v1/namespaces/default/deployments/d/scale", `{"spec":{"replicas":7}}`, "Content-Type", mergePatch)
	if r.Code != http.StatusOK || !strings.Contains(r.Body, `"replicas":7`) || !strings.Contains(r.Body, `"kind":"Scale"`) {
		t.Error(r)
	}
	d, err := deployments.Get(ctx, "d", metav1.GetOptions{})
	if err != nil || *d.Spec.Replicas != 7 || d.Generation != 3 {
		t.Error(d, err)
	}
	bad := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: autoscalingv1.ScaleSpec{Replicas: -1}}
	_, err = deployments.UpdateScale(ctx, "d", bad, metav1.UpdateOptions{})
	if want := `Scale.autoscaling "d" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0`; err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	old := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "d", ResourceVersion: "1"}, Spec: autoscalingv1.ScaleSpec{Replicas: 1}}
	if _, err = deployments.UpdateScale(ctx, "d", old, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("%v", err)
	}
}

func TestBinding(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	pods := f.client.CoreV1().Pods("default")
	p, err := pods.Create(ctx, newPod("p"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	bind := func(uid types.UID, node string) error {
		return pods.Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: uid, Annotations: map[string]string{"by": "me"}},
			Target:     corev1.ObjectReference{Kind: "Node", Name: node},
		}, metav1.CreateOptions{})
	}
	if err = bind("other", "n1"); !apierrors.IsConflict(err) {
		t.Errorf("other uid: %v", err)
	}
	if err = bind(p.UID, "n1"); err != nil {
		t.Fatal(err)
	}
	want := `Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"`
	if err = bind(p.UID, "n2"); !apierrors.IsConflict(err) || err.Error() != want {
		t.Errorf("second binding: %v", err)
	}
	p, err = pods.Get(ctx, "p", metav1.GetOptions{})
	if err != nil || p.Spec.NodeName != "n1" || p.Annotations["by"] != "me" || p.Generation != 1 {
		t.Errorf("%+v %v", p, err)
	}
	if c := p.Status.Conditions; len(c) != 1 || c[0].Type != corev1.PodScheduled || c[0].Status != corev1.ConditionTrue {
		t.Errorf("conditions are %+v", c)
	}
	if _, err := pods.Create(ctx, newPod("q"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r := f.do(t, "POST", "/api/v1/namespaces/default/bindings", `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"q"},"target":{"kind":"Node","name":"n1"}}`)
	if r.Code != http.StatusCreated || r.status(t).Status != metav1.StatusSuccess {
		t.Error(r)
	}
	if err := pods.EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "q", Namespace: "default"}}); err != nil {
		t.Error(err)
	}
	if q, err := pods.Get(ctx, "q", metav1.GetOptions{}); err != nil || q.DeletionTimestamp == nil {
		t.Errorf("evicted: %+v %v", q, err)
	}
}

// TestOwnFields has a client fail to change what only the server may.
func TestOwnFields(t *testing.T) {
	f := newFixture(t)
	r := f.do(t, "POST", mapsPath, mapJSON("a", `"uid":"mine","creationTimestamp":"2001-01-01T00:00:00Z","generation":9,"selfLink":"x",`+
		`"deletionTimestamp":"2001-01-01T00:00:00Z","deletionGracePeriodSeconds":1,"managedFields":[{"manager":"me"}]`))
	if r.Code != http.StatusCreated {
		t.Fatal(r)
	}
	m := metaOf(t, r)
	if m.UID == "mine" || m.CreationTimestamp.Year() == 2001 || m.Generation != 0 || m.DeletionTimestamp != nil || m.ManagedFields != nil {
		t.Errorf("%+v", m)
	}
	n := f.mustPatch(t, mapsPath+"/a", `{"metadata":{"creationTimestamp":"2001-01-01T00:00:00Z","generation":9,"deletionTimestamp":"2001-01-01T00:00:00Z","managedFields":[{"manager":"me"}],"labels":{"l":"1"}}}`)
	if !n.CreationTimestamp.Equal(&m.CreationTimestamp) || n.Generation != 0 || n.DeletionTimestamp != nil || n.ManagedFields != nil || n.Labels["l"] != "1" {
		t.Errorf("%+v", n)
	}
}

func TestResponseIsWhatIsStored(t *testing.T) {
	f := newFixture(t)
	created := f.do(t, "POST", podsPath, podJSON("a"))
	got := f.do(t, "GET", podsPath+"/a", "")
	if created.Body != got.Body {
		t.Errorf("create answers\n%s\nget answers\n%s", created.Body, got.Body)
	}
	list := f.do(t, "GET", podsPath, "")
	var l struct {
		Kind, APIVersion string
		Items            []json.RawMessage
	}
	if err := json.Unmarshal([]byte(list.Body), &l); err != nil {
		t.Fatal(err)
	}
	if l.Kind != "PodList" || l.APIVersion != "v1" || len(l.Items) != 1 || string(l.Items[0])+"\n" != got.Body {
		t.Errorf("list is %s", list.Body)
	}
}
