package policy_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/api"
	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/admission/policy"
	"github.com/proa-project/proa/httpapi/request"
)

// A fake is a policy that answers as it is told, and notes that it was called.
type fake struct {
	id       policy.ID
	order    int32
	reinvoke bool
	judge    func(in *policy.Input) (*policy.Verdict, error)
	calls    *[]string
}

func (f *fake) ID() policy.ID { return f.id }
func (f *fake) Order() int32  { return f.order }
func (f *fake) Reinvoke() bool {
	return f.reinvoke
}

func (f *fake) Matches(context.Context, *admission.Request) (bool, error) { return true, nil }

func (f *fake) Judge(_ context.Context, in *policy.Input) (*policy.Verdict, error) {
	if f.calls != nil {
		*f.calls = append(*f.calls, f.id.Name)
	}
	if f.judge == nil {
		return &policy.Verdict{}, nil
	}
	return f.judge(in)
}

// set is a source of policies that do not change.
type set struct{ s policy.Set }

func (s *set) Policies(context.Context) (*policy.Set, error) { return &s.s, nil }

func sources(mutate, validate []policy.Policy) []policy.Source {
	return []policy.Source{&set{policy.Set{Mutate: mutate, Validate: validate}}}
}

func write(annotations map[string]string) *admission.Request {
	cm := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default", Annotations: annotations},
	}
	return &admission.Request{
		UID: "u", Operation: admission.Create, Resource: api.ByType(cm), Namespace: "default", Name: "a",
		User: &request.User{Name: "alice"}, Object: cm,
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	var calls []string
	one := func(kind, name string, order int32) policy.Policy {
		return &fake{id: policy.ID{Kind: kind, Name: name}, order: order, calls: &calls}
	}
	c := policy.New(policy.Config{Sources: append(
		sources(nil, []policy.Policy{one(policy.ValidatingWebhook, "hook", 0), one(policy.ValidatingWebhook, "early-hook", -1)}),
		sources(nil, []policy.Policy{one(policy.AdmissionPlugin, "b", 0), one(policy.AdmissionPlugin, "a", 0), one(policy.AdmissionPlugin, "last", 7), one(policy.ValidatingAdmissionPolicy, "cel", 0)})...,
	)})
	if err := c.Validator().Validate(t.Context(), write(nil)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"early-hook", "cel", "a", "b", "hook", "last"}, calls); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// add is a policy that adds an annotation with the value n, unless it is there.
func add(name string, reinvoke bool, calls *[]string) *fake {
	f := &fake{id: policy.ID{Kind: policy.MutatingWebhook, Name: name}, reinvoke: reinvoke, calls: calls}
	f.judge = func(in *policy.Input) (*policy.Verdict, error) {
		if strings.Contains(string(in.Object), `"`+name+`"`) {
			return &policy.Verdict{}, nil
		}
		return &policy.Verdict{Patch: fmt.Appendf(nil, `[{"op":"add","path":"/metadata/annotations/%s","value":"x"}]`, name)}, nil
	}
	return f
}

func TestReinvocation(t *testing.T) {
	t.Parallel()
	var calls []string
	c := policy.New(policy.Config{Sources: sources([]policy.Policy{add("one", true, &calls), add("two", false, &calls), add("three", true, &calls), &fake{id: policy.ID{Kind: policy.MutatingWebhook, Name: "z"}, reinvoke: true, calls: &calls}}, nil)})
	r := write(map[string]string{"k": "v"})
	if err := c.Mutator().Mutate(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	// By name: one, three, two, z. Two was the last to change the object, so one
	// and three may want to look again, and z need not.
	if diff := cmp.Diff([]string{"one", "three", "two", "z", "one", "three"}, calls); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	got := r.Object.(*corev1.ConfigMap).Annotations
	if diff := cmp.Diff(map[string]string{"k": "v", "one": "x", "two": "x", "three": "x"}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestBadChanges(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		verdict policy.Verdict
		want    string
	}{
		"patch of nothing":  {policy.Verdict{Patch: []byte(`[{"op":"remove","path":"/spec"}]`)}, "the patch cannot be applied"},
		"patch that is not": {policy.Verdict{Patch: []byte(`{"op":1}`)}, "the patch cannot be read"},
		"no JSON":           {policy.Verdict{Object: []byte(`{`)}, "it is no JSON"},
		"another kind":      {policy.Verdict{Object: []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","namespace":"default"}}`)}, "as a ConfigMap"},
		"another name":      {policy.Verdict{Object: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b","namespace":"default"}}`)}, `its metadata.name is "b", not "a"`},
		"unknown field":     {policy.Verdict{Object: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"},"x":1}`)}, `unknown field "x"`},
	} {
		bad := &fake{id: policy.ID{Kind: policy.AdmissionPlugin, Name: "bad"}, judge: func(*policy.Input) (*policy.Verdict, error) { return &tc.verdict, nil }}
		c := policy.New(policy.Config{Sources: sources([]policy.Policy{add("good", false, nil), bad}, nil)})
		r := write(map[string]string{"k": "v"})
		var d *admission.Denial
		if err := c.Mutator().Mutate(t.Context(), r); !errors.As(err, &d) || d.Status.Code != http.StatusInternalServerError ||
			!strings.HasPrefix(d.Status.Message, `admission plugin "bad" failed: BadReply: `) || !strings.Contains(d.Status.Message, tc.want) {
			t.Errorf("%s: %v", name, err)
		}
		if len(r.Object.(*corev1.ConfigMap).Annotations) != 1 {
			t.Errorf("%s: the object is half changed", name)
		}
	}
	change := &fake{id: policy.ID{Kind: policy.AdmissionPlugin, Name: "late"}, judge: func(*policy.Input) (*policy.Verdict, error) {
		return &policy.Verdict{Patch: []byte(`[]`)}, nil
	}}
	c := policy.New(policy.Config{Sources: sources(nil, []policy.Policy{change})})
	if err := c.Validator().Validate(t.Context(), write(nil)); err == nil || !strings.Contains(err.Error(), "for the mutating phase") {
		t.Errorf("a change in the validating phase: %v", err)
	}
}

func TestGuarded(t *testing.T) {
	t.Parallel()
	denies := &fake{id: policy.ID{Kind: policy.AdmissionPlugin, Name: "d"}, judge: func(*policy.Input) (*policy.Verdict, error) {
		return &policy.Verdict{Denied: &metav1.Status{Message: "no"}}, nil
	}}
	hook := &fake{id: policy.ID{Kind: policy.ValidatingWebhook, Name: "h"}, judge: denies.judge}
	c := policy.New(policy.Config{Sources: sources(nil, []policy.Policy{denies}), ExemptNamespaces: []string{"exempt"}})
	for name, r := range map[string]*admission.Request{
		"plugins":  {Resource: api.ByGVR(pluginsv1.GroupName, "v1", "admissionplugins"), Object: &pluginsv1.AdmissionPlugin{}},
		"webhooks": {Resource: &api.Resource{Group: "admissionregistration.k8s.io", Version: "v1", Plural: "validatingwebhookconfigurations"}},
		"exempt":   {Resource: api.ByGVR("", "v1", "configmaps"), Namespace: "exempt", Object: &corev1.ConfigMap{}},
	} {
		if err := c.Validator().Validate(t.Context(), r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	c = policy.New(policy.Config{Sources: sources(nil, []policy.Policy{hook}), ExemptNamespaces: []string{"default"}})
	if err := c.Validator().Validate(t.Context(), write(nil)); err == nil {
		t.Error("a webhook is kept out of an exempt namespace, which upstream's are not")
	}
}

// TestBudget gives the second phase what the first has left.
func TestBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var left []time.Duration
		slow := func(name string) policy.Policy {
			return &fake{id: policy.ID{Kind: policy.AdmissionPlugin, Name: name}, judge: func(in *policy.Input) (*policy.Verdict, error) {
				left = append(left, time.Until(in.Deadline))
				<-time.After(time.Second)
				return &policy.Verdict{}, nil
			}}
		}
		c := policy.New(policy.Config{Budget: 10 * time.Second, Sources: sources([]policy.Policy{slow("a"), slow("b")}, []policy.Policy{slow("c")})})
		r := write(nil)
		if err := c.Mutator().Mutate(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if err := c.Validator().Validate(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if want := []time.Duration{10 * time.Second, 9 * time.Second, 8 * time.Second}; !slices.Equal(left, want) {
			t.Errorf("left %v, want %v", left, want)
		}
	})
}

// TestTraces keeps one trace for a request, however many writes it is, and
// forgets the oldest.
func TestTraces(t *testing.T) {
	t.Parallel()
	traces := policy.NewTraces(2)
	c := policy.New(policy.Config{Traces: traces, Sources: sources(nil, []policy.Policy{&fake{id: policy.ID{Kind: policy.AdmissionPlugin, Name: "p"}}})})
	for _, id := range []string{"one", "two", "three"} {
		ctx := request.With(t.Context(), &request.State{AuditID: id})
		for range 2 {
			if err := c.Validator().Validate(ctx, write(nil)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := traces.Get("one"); err == nil {
		t.Error("the oldest is kept")
	}
	tr, err := traces.Get("three")
	if err != nil || len(tr.Steps) != 2 || tr.Outcome != "Allowed" || tr.Request.User != "alice" || tr.Steps[0].Name != "p" {
		t.Errorf("%+v, %v", tr, err)
	}
	if list := traces.List(); len(list) != 2 || list[0].Name != "two" {
		t.Errorf("%d traces", len(list))
	}
}
