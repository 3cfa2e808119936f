package wasmplugins_test

import (
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/api"
	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/request"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

// benchPod is a pod of some 3 KiB.
func benchPod() *corev1.Pod {
	c := corev1.Container{Name: "web", Image: "registry.example/team/web:v1.2.3", Ports: []corev1.ContainerPort{{ContainerPort: 8080}}}
	for n := range 12 {
		c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", n), Value: strings.Repeat("value ", 8)})
	}
	c.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi"), corev1.ResourceCPU: resource.MustParse("1")}
	second := c
	second.Name = "second"
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{c, second}},
	}
}

// BenchmarkValidate is what the host adds to a write: with no plugin, with one
// that does not match, with a small guest and with a Go guest.
func BenchmarkValidate(b *testing.B) {
	for _, bc := range []struct {
		name string
		wasm func() []byte
		kind string
	}{
		{"none", nil, ""},
		{"no match", func() []byte { return Fixed(allow) }, "secrets"},
		{"small", func() []byte { return Search(`"second"`) }, "pods"},
		{"go", func() []byte { return BuildGo(b, "../examples/plugins/require-limits") }, "pods"},
	} {
		f := newFixture(b)
		if bc.wasm != nil {
			f.upload("p", bc.wasm())
			f.plugin("p", metav1.ConditionTrue, func(p *pluginsv1.AdmissionPlugin) {
				p.Spec.Rules = []admissionregistrationv1.RuleWithOperations{rule(bc.kind, "CREATE")}
			})
		}
		pod := benchPod()
		encoded, err := api.Encode(pod)
		if err != nil {
			b.Fatal(err)
		}
		validator := f.policies.Validator()
		user := &request.User{Name: "system:serviceaccount:kube-system:replicaset-controller", Groups: []string{"system:authenticated"}}
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := &admission.Request{UID: "u", Operation: admission.Create, Resource: api.ByType(pod), Namespace: "default", Name: "web", User: user, Object: pod}
				r.Encoded(encoded)
				if err := validator.Validate(b.Context(), r); err != nil {
					b.Fatalf("%d bytes: %v", len(encoded), err)
				}
			}
		})
		f.stop()
	}
}

// BenchmarkMutate is a patch by a small guest, with the strict decoding of the
// outcome.
func BenchmarkMutate(b *testing.B) {
	f := newFixture(b)
	f.module("p", Fixed(label("x", "y")))
	f.plugin("p", metav1.ConditionTrue, mutating, func(p *pluginsv1.AdmissionPlugin) {
		p.Spec.Rules = []admissionregistrationv1.RuleWithOperations{rule("pods", "CREATE")}
	})
	pod := benchPod()
	mutator := f.policies.Mutator()
	b.ReportAllocs()
	for b.Loop() {
		r := &admission.Request{UID: "u", Operation: admission.Create, Resource: api.ByType(pod), Namespace: "default", Name: "web", User: request.Anonymous, Object: pod}
		if err := mutator.Mutate(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCreate is a whole write of a ConfigMap through the server, without
// and with a plugin.
func BenchmarkCreate(b *testing.B) {
	for _, with := range []string{"none", "small"} {
		f := newFixture(b)
		if with == "small" {
			f.module("p", Search(`"kind":"`))
			f.plugin("p", metav1.ConditionTrue)
		}
		b.Run(with, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := f.create(nil); err != nil {
					b.Fatal(err)
				}
			}
		})
		f.stop()
	}
}
