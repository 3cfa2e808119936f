package celpolicy_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/admission/celpolicy"
	"github.com/proa-project/proa/httpapi/admission/policy"
)

// store is a changing Config.
type store struct {
	mu       sync.Mutex
	policies []*admissionregistrationv1.ValidatingAdmissionPolicy
	bindings []*admissionregistrationv1.ValidatingAdmissionPolicyBinding
}

func (s *store) config() celpolicy.Config {
	c := world{}.config()
	c.ValidatingPolicies = func() []*admissionregistrationv1.ValidatingAdmissionPolicy {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.policies
	}
	c.ValidatingBindings = func() []*admissionregistrationv1.ValidatingAdmissionPolicyBinding {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.bindings
	}
	return c
}

func (s *store) set(t testing.TB, policies, bindings []string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.policies, s.bindings = nil, nil
	for _, text := range policies {
		s.policies = append(s.policies, load[*admissionregistrationv1.ValidatingAdmissionPolicy](t, text))
	}
	for _, text := range bindings {
		s.bindings = append(s.bindings, load[*admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, text))
	}
}

func polText(name, version, annotations, message string) string {
	return `{metadata: {name: ` + name + `, uid: u` + name + `, resourceVersion: "` + version + `", annotations: {` + annotations + `}}, spec: {` + match + `, validations: [{expression: "false", message: "` + message + `"}]}}`
}

func bindText(name, policy, annotations string) string {
	return `{metadata: {name: ` + name + `, annotations: {` + annotations + `}}, spec: {policyName: ` + policy + `, validationActions: [Deny]}}`
}

func TestSource(t *testing.T) {
	s := &store{}
	src := celpolicy.New(s.config())
	policies := func() []policy.Policy {
		t.Helper()
		set, err := src.Policies(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if again, err := src.Policies(context.Background()); err != nil || again != set {
			t.Error("the set changes by itself", err)
		}
		return set.Validate
	}
	if got := policies(); len(got) != 0 {
		t.Fatal(got)
	}
	s.set(t, []string{polText("a", "1", "", "one"), polText("b", "1", `plugins.proa.io/order: "-3"`, "b")},
		[]string{bindText("z", "a", ""), bindText("yy", "b", ""), bindText("x", "a", `plugins.proa.io/order: "5"`), bindText("w", "gone", "")})
	if got := policies(); len(got) != 0 {
		t.Error("it looks without being told", got)
	}
	src.Invalidate()
	got := map[policy.ID]int32{}
	for _, p := range policies() {
		got[p.ID()] = p.Order()
	}
	want := map[policy.ID]int32{
		{Kind: "ValidatingAdmissionPolicy", Name: "a/z"}: 0, {Kind: "ValidatingAdmissionPolicy", Name: "b/yy"}: -3, {Kind: "ValidatingAdmissionPolicy", Name: "a/x"}: 5,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	s.set(t, []string{polText("a", "2", "", "two")}, []string{bindText("z", "a", "")})
	src.Invalidate()
	list := policies()
	if len(list) != 1 {
		t.Fatal(list)
	}
	if got := outcome(list[0].Judge(context.Background(), write(t, admission.Create, deployment, ""))); !strings.HasSuffix(got, ": two") {
		t.Error(got)
	}
}

// Until everything is known, the caller waits, or its context ends.
func TestSource_ready(t *testing.T) {
	c := world{}.config()
	ready := make(chan struct{})
	c.Ready = func(ctx context.Context) error {
		select {
		case <-ready:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	src := celpolicy.New(c)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := src.Policies(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	close(ready)
	if _, err := src.Policies(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// Writers see a policy's old or new text while it changes, nothing else.
func TestSource_hammer(t *testing.T) {
	s := &store{}
	s.set(t, []string{polText("a", "0", "", "version 0")}, []string{bindText("z", "a", "")})
	src := celpolicy.New(s.config())
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		in := write(t, admission.Create, deployment, "")
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				set, err := src.Policies(context.Background())
				if err != nil || len(set.Validate) != 1 {
					t.Error(set, err)
					return
				}
				if got := outcome(set.Validate[0].Judge(context.Background(), in)); !strings.Contains(got, "denied request: version ") {
					t.Error(got)
					return
				}
			}
		})
	}
	for i := range 100 {
		s.set(t, []string{polText("a", strconv.Itoa(i+1), "", "version "+strconv.Itoa(i+1))}, []string{bindText("z", "a", "")})
		src.Invalidate()
	}
	close(done)
	wg.Wait()
}

// The chain calls policies of both kinds in order and gives upstream's answers.
func TestChain(t *testing.T) {
	c := world{}.config()
	c.Types = types(t)
	c.MutatingPolicies = func() []*admissionregistrationv1.MutatingAdmissionPolicy {
		return []*admissionregistrationv1.MutatingAdmissionPolicy{load[*admissionregistrationv1.MutatingAdmissionPolicy](t,
			`{metadata: {name: m, uid: m}, spec: {`+match+`, reinvocationPolicy: Never, mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{spec: Object.spec{replicas: 9}}"}}]}}`)}
	}
	c.MutatingBindings = func() []*admissionregistrationv1.MutatingAdmissionPolicyBinding {
		return []*admissionregistrationv1.MutatingAdmissionPolicyBinding{load[*admissionregistrationv1.MutatingAdmissionPolicyBinding](t, `{metadata: {name: b}, spec: {policyName: m}}`)}
	}
	c.ValidatingPolicies = func() []*admissionregistrationv1.ValidatingAdmissionPolicy {
		return []*admissionregistrationv1.ValidatingAdmissionPolicy{load[*admissionregistrationv1.ValidatingAdmissionPolicy](t,
			`{metadata: {name: v, uid: v}, spec: {`+match+`, validations: [{expression: "object.spec.replicas < 9", message: "nine"}]}}`)}
	}
	c.ValidatingBindings = func() []*admissionregistrationv1.ValidatingAdmissionPolicyBinding {
		return []*admissionregistrationv1.ValidatingAdmissionPolicyBinding{load[*admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, bindText("b", "v", ""))}
	}
	chain := policy.New(policy.Config{Sources: []policy.Source{celpolicy.New(c)}})
	r := write(t, admission.Create, deployment, "").Request
	if err := chain.Mutator().Mutate(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	err := chain.Validator().Validate(context.Background(), r)
	d := (*admission.Denial)(nil)
	if !errors.As(err, &d) {
		t.Fatal(err)
	}
	const want = `deployments.apps "web" is forbidden: ValidatingAdmissionPolicy 'v' with binding 'b' denied request: nine`
	if d.Status.Message != want || d.Status.Code != 422 || d.Status.Reason != "Invalid" {
		t.Errorf("got %+v", d.Status)
	}
}
