package builtin_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/admission/builtin"
)

// phases are namespaces as the cache has them; fresh ones are only seen by a
// fresh look.
type phases map[string]corev1.NamespacePhase

func (p phases) Phase(_ context.Context, name string, fresh bool) (corev1.NamespacePhase, bool, error) {
	if name == "broken" {
		return "", false, errors.New("storage is away")
	}
	if name == "young" && !fresh {
		return "", false, nil
	}
	phase, ok := p[name]
	return phase, ok, nil
}

func req(op admission.Operation, plural, namespace, name, subresource string, obj runtime.Object) *admission.Request {
	return &admission.Request{
		Operation: op, Resource: api.ByGVR("", "v1", plural), Namespace: namespace, Name: name, Subresource: subresource, Object: obj,
	}
}

func TestNamespaceLifecycle(t *testing.T) {
	plugin := builtin.NamespaceLifecycle{
		Namespaces: phases{"ok": corev1.NamespaceActive, "young": corev1.NamespaceActive, "old": corev1.NamespaceTerminating},
		Immortal:   []string{"default"},
	}
	for name, c := range map[string]struct {
		r    *admission.Request
		want string
		code int32
	}{
		"active":            {req(admission.Create, "pods", "ok", "p", "", nil), "", 0},
		"not in the cache":  {req(admission.Create, "pods", "young", "p", "", nil), "", 0},
		"missing":           {req(admission.Create, "pods", "none", "p", "", nil), `namespaces "none" not found`, 404},
		"terminating":       {req(admission.Create, "pods", "old", "p", "", nil), `pods "p" is forbidden: unable to create new content in namespace old because it is being terminated`, 403},
		"update":            {req(admission.Update, "pods", "old", "p", "", nil), "", 0},
		"delete":            {req(admission.Delete, "pods", "none", "p", "", nil), "", 0},
		"subresource":       {req(admission.Create, "pods", "old", "p", "binding", nil), "", 0},
		"cluster":           {req(admission.Create, "nodes", "", "n", "", nil), "", 0},
		"new namespace":     {req(admission.Create, "namespaces", "", "new", "", nil), "", 0},
		"immortal":          {req(admission.Delete, "namespaces", "", "default", "", nil), `namespaces "default" is forbidden: this namespace may not be deleted`, 403},
		"mortal":            {req(admission.Delete, "namespaces", "", "x", "", nil), "", 0},
		"immortal's update": {req(admission.Update, "namespaces", "", "default", "", nil), "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			err := plugin.Mutate(t.Context(), c.r)
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var d *admission.Denial
			if !errors.As(err, &d) || d.Status.Message != c.want || d.Status.Code != c.code {
				t.Errorf("%v", err)
			}
		})
	}
	var d *admission.Denial
	if err := plugin.Mutate(t.Context(), req(admission.Create, "pods", "broken", "p", "", nil)); err == nil || errors.As(err, &d) {
		t.Errorf("storage fails: %v", err)
	}
}

func TestPodDefaults(t *testing.T) {
	own := int64(7)
	for name, c := range map[string]struct {
		pod     corev1.PodSpec
		account string
		count   int
	}{
		"bare":       {corev1.PodSpec{}, "default", 2},
		"account":    {corev1.PodSpec{ServiceAccountName: "x"}, "x", 2},
		"own":        {corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &own}}}, "default", 2},
		"everything": {corev1.PodSpec{Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}, "default", 1},
		"other":      {corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}}, "default", 3},
	} {
		t.Run(name, func(t *testing.T) {
			p := &corev1.Pod{Spec: c.pod}
			for _, m := range []admission.Mutator{builtin.ServiceAccount{}, builtin.DefaultTolerationSeconds{}} {
				if err := m.Mutate(t.Context(), req(admission.Create, "pods", "ok", "p", "", p)); err != nil {
					t.Fatal(err)
				}
			}
			if p.Spec.ServiceAccountName != c.account || len(p.Spec.Tolerations) != c.count {
				t.Errorf("%+v", p.Spec)
			}
			for _, tol := range p.Spec.Tolerations[len(c.pod.Tolerations):] {
				if *tol.TolerationSeconds != 300 || tol.Operator != corev1.TolerationOpExists || tol.Effect != corev1.TaintEffectNoExecute {
					t.Errorf("%+v", tol)
				}
			}
		})
	}
}
