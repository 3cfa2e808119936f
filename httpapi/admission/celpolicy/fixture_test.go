package celpolicy_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/proa-project/proa/api"
	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/admission/celpolicy"
	"github.com/proa-project/proa/httpapi/admission/policy"
	"github.com/proa-project/proa/httpapi/request"
)

// load reads an object from YAML.
func load[T api.Object](t testing.TB, text string) T {
	t.Helper()
	var zero T
	obj, ok := api.ByType(zero).New().(T)
	if !ok {
		t.Fatalf("%T has no row", zero)
	}
	if _, err := api.Decode([]byte(text), api.MediaYAML, obj, api.Strict); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return obj
}

// world is a Config from objects in YAML.
type world struct {
	params     map[string]string // kind/namespace/name -> YAML
	namespaces map[string]string // name -> labels in YAML
	allowed    []string          // what the authorizer allows: user verb resource
}

func (w world) config() celpolicy.Config {
	return celpolicy.Config{
		Namespace: func(_ context.Context, name string) (*corev1.Namespace, error) {
			text, ok := w.namespaces[name]
			if !ok {
				return nil, nil
			}
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
			return ns, yaml.Unmarshal([]byte(text), &ns.Labels)
		},
		Authorize: func(_ context.Context, u *request.User, i *request.Info) (bool, string, error) {
			what := i.Path
			if i.Resource != nil {
				what = strings.Trim(i.Namespace+"/"+i.Resource.Plural+"."+i.Resource.Group, "/.")
			}
			if slices.Contains(w.allowed, u.Name+" "+i.Verb+" "+what) {
				return true, "", nil
			}
			return false, "nobody may " + i.Verb + " " + what, nil
		},
		Params: w,
	}
}

func (w world) Kind(gvk schema.GroupVersionKind) *api.Resource { return api.ByKind(gvk) }

func (w world) Get(_ context.Context, row *api.Resource, namespace, name string) (map[string]any, error) {
	return tree(w.params[row.Kind+"/"+namespace+"/"+name])
}

func (w world) List(_ context.Context, row *api.Resource, namespace string, selector labels.Selector) ([]map[string]any, error) {
	var list []map[string]any
	for _, name := range []string{"a", "b", "c"} {
		obj, err := w.Get(context.Background(), row, namespace, name)
		if err != nil {
			return nil, err
		}
		if obj == nil {
			continue
		}
		set := labels.Set{}
		meta, _ := obj["metadata"].(map[string]any)  // none is empty
		values, _ := meta["labels"].(map[string]any) // none is empty
		for k, v := range values {
			set[k], _ = v.(string)
		}
		if selector.Matches(set) {
			list = append(list, obj)
		}
	}
	return list, nil
}

func tree(text string) (map[string]any, error) {
	if text == "" {
		return nil, nil
	}
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return nil, err
	}
	var m map[string]any
	return m, utiljson.Unmarshal(data, &m)
}

// write makes the input for a write of an object in YAML.
func write(t testing.TB, op admission.Operation, object, old string) *policy.Input {
	t.Helper()
	decode := func(text string) (api.Object, []byte) {
		if text == "" {
			return nil, nil
		}
		var meta metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(text), &meta); err != nil {
			t.Fatal(err)
		}
		obj := api.ByKind(meta.GroupVersionKind()).New()
		if _, err := api.Decode([]byte(text), api.MediaYAML, obj, api.Strict); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		data, err := api.Encode(obj)
		if err != nil {
			t.Fatal(err)
		}
		return obj, data
	}
	in := &policy.Input{Phase: pluginsv1.PhaseValidate, Request: &admission.Request{
		Operation: op, Options: &metav1.CreateOptions{FieldManager: "me"}, User: &request.User{Name: "ann", Groups: []string{"devs"}, Extra: map[string][]string{"k": {"v"}}},
	}}
	r := in.Request
	obj, data := decode(object)
	was, oldData := decode(old)
	in.Object, in.OldObject = data, oldData
	some := was
	if obj != nil {
		r.Object, some = obj, obj
	}
	if was != nil {
		r.OldObject = was
	}
	r.Resource, r.Namespace, r.Name = api.ByType(some), some.GetNamespace(), some.GetName()
	return in
}

// only returns the one policy of a config.
func only(t testing.TB, c celpolicy.Config) policy.Policy {
	t.Helper()
	set, err := celpolicy.New(c).Policies(context.Background())
	if err != nil || len(set.Mutate)+len(set.Validate) != 1 {
		t.Fatal(set, err)
	}
	if len(set.Mutate) > 0 {
		return set.Mutate[0]
	}
	return set.Validate[0]
}

// match is a MatchResources for all writes of all kinds.
const match = `matchConstraints: {resourceRules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*/*"]}]}`

func validating(t testing.TB, w world, spec, binding string) policy.Policy {
	t.Helper()
	c := w.config()
	if !strings.Contains(spec, "matchConstraints") {
		spec = match + ", " + spec
	}
	p := load[*admissionregistrationv1.ValidatingAdmissionPolicy](t, `{metadata: {name: pol, uid: "1", resourceVersion: "1"}, spec: {`+spec+`}}`)
	if !strings.Contains(binding, "validationActions") {
		binding = strings.Trim("validationActions: [Deny], "+binding, ", ")
	}
	b := load[*admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, `{metadata: {name: bind}, spec: {policyName: pol, `+binding+`}}`)
	c.ValidatingPolicies = func() []*admissionregistrationv1.ValidatingAdmissionPolicy {
		return []*admissionregistrationv1.ValidatingAdmissionPolicy{p}
	}
	c.ValidatingBindings = func() []*admissionregistrationv1.ValidatingAdmissionPolicyBinding {
		return []*admissionregistrationv1.ValidatingAdmissionPolicyBinding{b}
	}
	return only(t, c)
}

func mutating(t testing.TB, c celpolicy.Config, spec, binding string) policy.Policy {
	t.Helper()
	if !strings.Contains(spec, "matchConstraints") {
		spec = match + ", " + spec
	}
	if !strings.Contains(spec, "reinvocationPolicy") {
		spec += ", reinvocationPolicy: Never"
	}
	p := load[*admissionregistrationv1.MutatingAdmissionPolicy](t, `{metadata: {name: pol, uid: "1", resourceVersion: "1"}, spec: {`+spec+`}}`)
	b := load[*admissionregistrationv1.MutatingAdmissionPolicyBinding](t, `{metadata: {name: bind}, spec: {`+strings.Trim("policyName: pol, "+binding, ", ")+`}}`)
	c.MutatingPolicies = func() []*admissionregistrationv1.MutatingAdmissionPolicy {
		return []*admissionregistrationv1.MutatingAdmissionPolicy{p}
	}
	c.MutatingBindings = func() []*admissionregistrationv1.MutatingAdmissionPolicyBinding {
		return []*admissionregistrationv1.MutatingAdmissionPolicyBinding{b}
	}
	return only(t, c)
}

const deployment = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop, labels: {app: web}}, spec: {replicas: 3, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: a, image: "web:1"}]}}}}`
