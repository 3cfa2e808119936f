package registry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/request"
	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/storage/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newResource(tb testing.TB, plural string, change ...func(*Config)) *Resource {
	tb.Helper()
	cfg := Config{Store: memory.New(memory.Config{})}
	for _, c := range change {
		c(&cfg)
	}
	tb.Cleanup(func() { cfg.Store.Close() })
	for _, row := range api.Resources() {
		if row.Plural == plural {
			return New(row, cfg)
		}
	}
	tb.Fatalf("no %s", plural)
	return nil
}

func call(name string) *Call {
	return &Call{UID: "u", User: &request.User{Name: "alice"}, Namespace: "default", Name: name}
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i:1"}}},
	}
}

// A recorder notes the steps of a pipeline, and what it sees there.
type recorder struct{ steps *[]string }

func (r recorder) note(format string, args ...any) {
	*r.steps = append(*r.steps, fmt.Sprintf(format, args...))
}

func (r recorder) Mutate(_ context.Context, req *admission.Request) error {
	p, ok := req.Object.(*corev1.Pod)
	if !ok {
		r.note("mutate %s", req.Operation)
		return nil
	}
	r.note("mutate %s: policy %s, uid %t, old %t", req.Operation, p.Spec.RestartPolicy, p.UID != "", req.OldObject != nil)
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "sidecar", Image: "s:1"})
	p.UID, p.DeletionTimestamp = "evil", &metav1.Time{}
	req.Changed()
	return nil
}

func (r recorder) Validate(_ context.Context, req *admission.Request) error {
	p, ok := req.Object.(*corev1.Pod)
	if !ok {
		r.note("admit %s", req.Operation)
		return nil
	}
	body, err := req.ObjectJSON()
	if err != nil {
		return err
	}
	r.note("admit %s: %d containers, policy %s, uid %t, json %t", req.Operation, len(p.Spec.Containers),
		p.Spec.Containers[len(p.Spec.Containers)-1].ImagePullPolicy, p.UID != "" && p.UID != "evil", strings.Contains(string(body), "sidecar"))
	return nil
}

type schemaRecorder struct{ recorder }

func (r schemaRecorder) Validate(row *api.Resource, body []byte) field.ErrorList {
	r.note("schema of %s: sidecar %t", row.Kind, strings.Contains(string(body), "sidecar"))
	return nil
}

type loggedStore struct {
	storage.Store
	recorder
}

func (s loggedStore) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (int64, error) {
	s.note("store %s: revision in it %t", key, strings.Contains(string(value), "resourceVersion"))
	return s.Store.Create(ctx, key, value, ttl)
}

// TestPipeline has the order of the steps of a write.
func TestPipeline(t *testing.T) {
	var steps []string
	rec := recorder{&steps}
	r := newResource(t, "pods", func(c *Config) {
		c.Store = loggedStore{c.Store, rec}
		c.Schema = schemaRecorder{rec}
		c.Admission = &admission.Chain{Mutators: []admission.Mutator{rec}, Validators: []admission.Validator{rec}}
	})
	res, err := r.Create(t.Context(), call(""), pod("a"))
	if err != nil {
		t.Fatal(err)
	}
	if p := res.Object.(*corev1.Pod); p.UID == "evil" || p.DeletionTimestamp != nil || p.ResourceVersion == "" || !res.Created {
		t.Errorf("%+v", res)
	}
	if _, err := r.Delete(t.Context(), call("a"), &metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"mutate CREATE: policy Always, uid false, old false",
		"schema of Pod: sidecar true",
		"admit CREATE: 2 containers, policy IfNotPresent, uid true, json true",
		"store /registry/pods/default/a: revision in it false",
		"mutate DELETE",
		"admit DELETE",
	}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

// refuser refuses whatever is called by its name.
type refuser string

func (f refuser) Validate(_ context.Context, r *admission.Request) error {
	if o, ok := r.OldObject.(metav1.Object); ok && o.GetName() == string(f) {
		r.Warn("beware")
		return &admission.Denial{Status: metav1.Status{Message: "no"}}
	}
	return nil
}

func TestRefusedDelete(t *testing.T) {
	r := newResource(t, "configmaps", func(c *Config) {
		c.Admission = &admission.Chain{Validators: []admission.Validator{refuser("a")}}
	})
	if _, err := r.Create(t.Context(), call(""), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}); err != nil {
		t.Fatal(err)
	}
	c := call("a")
	var denial *admission.Denial
	if _, err := r.Delete(t.Context(), c, &metav1.DeleteOptions{}); !errors.As(err, &denial) {
		t.Errorf("%v", err)
	}
	if len(c.Warnings) == 0 || c.Warnings[0] != "beware" {
		t.Errorf("warnings are %v", c.Warnings)
	}
	if _, err := r.Load(t.Context(), call("a"), true); err != nil {
		t.Errorf("the object is gone: %v", err)
	}
}

// taken is a store in which the first names are taken.
type taken struct {
	storage.Store
	left *int
}

func (s taken) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (int64, error) {
	if *s.left--; *s.left >= 0 {
		return 0, storage.ErrExists
	}
	return s.Store.Create(ctx, key, value, ttl)
}

func TestGenerateName(t *testing.T) {
	for _, c := range []struct {
		taken  int
		reason Reason
	}{{0, 0}, {7, 0}, {8, NoFreeName}} {
		left := c.taken
		r := newResource(t, "configmaps", func(cfg *Config) { cfg.Store = taken{cfg.Store, &left} })
		res, err := r.Create(t.Context(), call(""), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "x-"}})
		if c.reason != 0 {
			if !is(err, c.reason) {
				t.Errorf("%d taken: %v", c.taken, err)
			}
			continue
		}
		if err != nil || !strings.Contains(string(res.Value), `"name":"`+res.Object.GetName()+`"`) {
			t.Errorf("%d taken: %v %s", c.taken, err, res.Value)
		}
	}
}

// stale is a cache that shows an old state, like one that lags behind.
type stale struct {
	storage.Store
	mu    *sync.Mutex
	items map[string]storage.Item
	fresh *int
}

func (s stale) Get(ctx context.Context, key string, o storage.GetOptions) (storage.Item, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.Match == storage.NotOlderThan {
		if item, ok := s.items[key]; ok {
			if item.Revision == 0 {
				return item, storage.ErrNotFound
			}
			return item, nil
		}
	}
	*s.fresh++
	return s.Store.Get(ctx, key, o)
}

// TestStaleCache has no refusal rest on an old state, and no change be lost
// because of one.
func TestStaleCache(t *testing.T) {
	var fresh int
	inner := memory.New(memory.Config{})
	items := map[string]storage.Item{}
	r := newResource(t, "configmaps", func(cfg *Config) { cfg.Store = stale{inner, &sync.Mutex{}, items, &fresh} })
	ctx := t.Context()
	key := r.Key("default", "a")

	first, err := r.Create(ctx, call(""), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"n": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	set := func(value, version string) Change {
		return func(old Stored) (api.Object, error) {
			m := old.Object.DeepCopyObject().(*corev1.ConfigMap)
			m.Data = map[string]string{"n": value, "was": old.Object.(*corev1.ConfigMap).Data["n"]}
			m.ResourceVersion = version
			return m, nil
		}
	}
	items[key] = storage.Item{Key: key} // the cache has not heard of it
	if _, err = r.Update(ctx, call("a"), set("2", "")); err != nil {
		t.Errorf("update of an object that the cache does not know: %v", err)
	}
	old, err := inner.Get(ctx, key, storage.GetOptions{Match: storage.Exact, Revision: 2})
	if err != nil {
		t.Fatal(err, first.Object.GetResourceVersion())
	}
	items[key] = old
	res, err := r.Update(ctx, call("a"), set("3", ""))
	if err != nil || res.Object.(*corev1.ConfigMap).Data["was"] != "2" {
		t.Errorf("the change was made to an old state: %s %v", res.Value, err)
	}
	if _, err = r.Update(ctx, call("a"), set("4", res.Object.GetResourceVersion())); err != nil {
		t.Errorf("conflict with an old state: %v", err)
	}
	if _, err = r.Update(ctx, call("a"), set("5", "2")); !is(err, Conflict) {
		t.Errorf("update of an old state that the cache thinks current: %v", err)
	}
	// A change that changes nothing of the old state does change the new one.
	res, err = r.Update(ctx, call("a"), func(Stored) (api.Object, error) {
		m := &corev1.ConfigMap{}
		return m, api.DecodeStored(old.Value, m)
	})
	if err != nil || res.Object.(*corev1.ConfigMap).Data["n"] != "1" || res.Object.GetResourceVersion() == "2" {
		t.Errorf("%s %v", res.Value, err)
	}
	uid := res.Object.GetUID()
	if _, err := r.Delete(ctx, call("a"), &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}); err != nil {
		t.Errorf("delete: %v", err)
	}
	if _, err := r.Delete(ctx, call("a"), &metav1.DeleteOptions{}); !is(err, NotFound) {
		t.Errorf("delete of an object that the cache still has: %v", err)
	}
}

func TestGeneration(t *testing.T) {
	r := newResource(t, "deployments")
	ctx := t.Context()
	one := int32(1)
	labels := map[string]string{"a": "b"}
	p := pod("x")
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: appsv1.DeploymentSpec{
		Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: p.Spec},
	}}
	if _, err := r.Create(ctx, call(""), d); err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		name, sub string
		change    func(*appsv1.Deployment)
		want      int64
	}{
		{"nothing", "", func(*appsv1.Deployment) {}, 1},
		{"label", "", func(d *appsv1.Deployment) { d.Labels = labels }, 1},
		{"status", "status", func(d *appsv1.Deployment) { d.Status.Replicas = 3; d.Spec.Paused = true }, 1},
		{"spec", "", func(d *appsv1.Deployment) { d.Spec.Paused = true }, 2},
		{"its own generation", "", func(d *appsv1.Deployment) { d.Generation = 9 }, 2},
		{"an empty list", "", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Tolerations = []corev1.Toleration{} }, 2},
	}
	for _, s := range steps {
		c := call("d")
		c.Subresource = s.sub
		res, err := r.Update(ctx, c, func(old Stored) (api.Object, error) {
			d := old.Object.DeepCopyObject().(*appsv1.Deployment)
			s.change(d)
			return d, nil
		})
		if err != nil || res.Object.GetGeneration() != s.want {
			t.Errorf("%s: generation %d, %v", s.name, res.Object.GetGeneration(), err)
		}
		if !strings.Contains(string(res.Value), fmt.Sprintf(`"generation":%d`, s.want)) {
			t.Errorf("%s: %s", s.name, res.Value)
		}
	}
}

func TestQOSClass(t *testing.T) {
	for _, c := range []struct {
		resources string
		want      corev1.PodQOSClass
	}{
		{`{}`, corev1.PodQOSBestEffort},
		{`{"requests":{"cpu":"1"}}`, corev1.PodQOSBurstable},
		{`{"limits":{"cpu":"1","memory":"1Gi"}}`, corev1.PodQOSGuaranteed},
		{`{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"1","memory":"1Gi"}}`, corev1.PodQOSGuaranteed},
		{`{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"500m"}}`, corev1.PodQOSBurstable},
		{`{"limits":{"cpu":"1"}}`, corev1.PodQOSBurstable},
		{`{"limits":{"nvidia.com/gpu":"1"}}`, corev1.PodQOSBestEffort},
	} {
		p := &corev1.Pod{}
		if err := api.DecodeStored([]byte(`{"spec":{"containers":[{"resources":`+c.resources+`}]}}`), p); err != nil {
			t.Fatal(err)
		}
		if got := qosClass(p); got != c.want {
			t.Errorf("%s: %s, want %s", c.resources, got, c.want)
		}
	}
}

func TestRecent_hammer(t *testing.T) {
	r := newRecent()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 1000 {
				r.wrote("key", int64(j*8+i))
			}
		})
	}
	wg.Wait()
	if got := r.least("key"); got != 7999 {
		t.Errorf("got %d", got)
	}
}

// TestPhases has all the ways in which a namespace goes.
func TestNamespacePhase(t *testing.T) {
	r := newResource(t, "namespaces")
	ns := Namespaces{Store: r.store}
	ctx := t.Context()
	phase := func() string {
		p, ok, err := ns.Phase(ctx, "x", true)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(p, " ", ok)
	}
	if got := phase(); got != " false" {
		t.Error(got)
	}
	c := call("")
	c.Namespace = ""
	if _, err := r.Create(ctx, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x"}}); err != nil {
		t.Fatal(err)
	}
	if got := phase(); got != "Active true" {
		t.Error(got)
	}
	res, err := r.Delete(ctx, &Call{Name: "x"}, &metav1.DeleteOptions{})
	if err != nil || res.Deleted || phase() != "Terminating true" {
		t.Error(res, err, phase())
	}
	res, err = r.Update(ctx, &Call{Name: "x", Subresource: "finalize"}, func(old Stored) (api.Object, error) {
		n := old.Object.DeepCopyObject().(*corev1.Namespace)
		n.Spec.Finalizers = nil
		return n, nil
	})
	if err != nil || !res.Deleted || phase() != " false" {
		t.Error(res, err, phase())
	}
}
