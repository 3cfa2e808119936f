package controlplane

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/admission/builtin"
	"github.com/proa-project/proa/httpapi/admission/noderestriction"
	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/wasmplugins"
)

// admissionChain is the order of admission: what is built in first, so that
// plugins see complete objects, and the plugins of users last.
func admissionChain(look lookup, host *wasmplugins.Host) *admission.Chain {
	return &admission.Chain{
		Mutators: []admission.Mutator{
			builtin.NamespaceLifecycle{
				Namespaces: look,
				Immortal:   []string{"default", "kube-system", "kube-public", "kube-node-lease"},
			},
			builtin.ServiceAccount{},
			builtin.DefaultTolerationSeconds{},
			host.Mutator(),
		},
		Validators: []admission.Validator{
			&noderestriction.Validator{Pods: look},
			host.Validator(),
		},
	}
}

// Phase implements builtin.Namespaces.
func (l lookup) Phase(ctx context.Context, name string, fresh bool) (corev1.NamespacePhase, bool, error) {
	match := storage.NotOlderThan
	if fresh {
		match = storage.Fresh
	}
	obj, err := l.read(ctx, "namespaces", "", name, match)
	ns, ok := obj.(*corev1.Namespace)
	if !ok || err != nil {
		return "", false, err
	}
	return ns.Status.Phase, true, nil
}
