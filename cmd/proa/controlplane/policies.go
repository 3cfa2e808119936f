package controlplane

import (
	"cmp"
	"context"
	"errors"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/api/defaulting"
	"github.com/proa-project/proa/httpapi"
	"github.com/proa-project/proa/httpapi/admission/celpolicy"
	"github.com/proa-project/proa/httpapi/admission/policy"
	"github.com/proa-project/proa/httpapi/admission/webhook"
	"github.com/proa-project/proa/httpapi/authz"
	"github.com/proa-project/proa/httpapi/dynamic"
	"github.com/proa-project/proa/httpapi/request"
	"github.com/proa-project/proa/informers"
	"github.com/proa-project/proa/storage"
)

// upstreamPolicies returns the sources of the policies that are made of
// upstream's kinds: those in CEL, and webhooks. They follow the factory's
// informers, which may run before or after.
func upstreamPolicies(factory *informers.Factory, store storage.Store, a authz.Authorizer, documents httpapi.Documents, kinds *dynamic.Table) []policy.Source {
	return []policy.Source{
		celPolicies(factory, store, a, documents, kinds),
		webhookPolicies(factory, store, a),
	}
}

// celPolicies returns the source of policies in CEL.
func celPolicies(factory *informers.Factory, store storage.Store, a authz.Authorizer, documents httpapi.Documents, kinds *dynamic.Table) *celpolicy.Source {
	validating := informers.For[*admissionregistrationv1.ValidatingAdmissionPolicy](factory)
	validatingBindings := informers.For[*admissionregistrationv1.ValidatingAdmissionPolicyBinding](factory)
	mutating := informers.For[*admissionregistrationv1.MutatingAdmissionPolicy](factory)
	mutatingBindings := informers.For[*admissionregistrationv1.MutatingAdmissionPolicyBinding](factory)
	s := celpolicy.New(celpolicy.Config{
		Ready:              synced(validating, validatingBindings, mutating, mutatingBindings),
		ValidatingPolicies: listOf(validating),
		ValidatingBindings: listOf(validatingBindings),
		MutatingPolicies:   listOf(mutating),
		MutatingBindings:   listOf(mutatingBindings),
		Namespace:          lookup{store: store}.Namespace,
		Authorize:          allowedBy(a),
		Params:             params{store: store, kinds: kinds},
		Types:              celpolicy.NewTypes(documents.Handler()).Converter,
		Default:            func(obj runtime.Object) { defaulting.Default(obj) },
	})
	invalidates(validating, s.Invalidate)
	invalidates(validatingBindings, s.Invalidate)
	invalidates(mutating, s.Invalidate)
	invalidates(mutatingBindings, s.Invalidate)
	return s
}

// webhookPolicies returns the source of webhooks. There are no Services yet, so
// none can be resolved.
func webhookPolicies(factory *informers.Factory, store storage.Store, a authz.Authorizer) *webhook.Source {
	validating := informers.For[*admissionregistrationv1.ValidatingWebhookConfiguration](factory)
	mutating := informers.For[*admissionregistrationv1.MutatingWebhookConfiguration](factory)
	s := webhook.New(webhook.Config{
		Ready:      synced(validating, mutating),
		Validating: listOf(validating),
		Mutating:   listOf(mutating),
		Namespace: func(ctx context.Context, name string) (labels.Set, error) {
			ns, err := lookup{store: store}.Namespace(ctx, name)
			if ns == nil || err != nil {
				return nil, err
			}
			return ns.Labels, nil
		},
		Authorize: allowedBy(a),
	})
	invalidates(validating, s.Invalidate)
	invalidates(mutating, s.Invalidate)
	return s
}

func listOf[T api.Object](i *informers.Informer[T]) func() []T {
	return func() []T { return i.List(nil) }
}

// invalidates has f called after each change.
func invalidates[T api.Object](i *informers.Informer[T], f func()) {
	i.AddHandler(informers.Handler[T]{Add: func(T, bool) { f() }, Update: func(T, T) { f() }, Delete: func(T) { f() }})
}

// A syncer is an informer of any kind.
type syncer interface {
	WaitForSync(ctx context.Context) error
}

// synced returns a function that waits for informers.
func synced(list ...syncer) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, i := range list {
			if err := i.WaitForSync(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// allowedBy asks an authorizer on behalf of an expression.
func allowedBy(a authz.Authorizer) celpolicy.Authorize {
	return func(ctx context.Context, u *request.User, i *request.Info) (bool, string, error) {
		d, reason, err := a.Authorize(ctx, u, i)
		return d == authz.Allow, reason, err
	}
}

// Namespace returns a namespace; nil if it is not there.
func (l lookup) Namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	obj, err := l.object(ctx, "namespaces", "", name)
	ns, _ := obj.(*corev1.Namespace) // nil is the answer
	return ns, err
}

// params reads what policies take as parameters from the server's own watch
// cache.
type params struct {
	store storage.Store
	kinds *dynamic.Table // may be nil
}

// Kind implements celpolicy.Params. Kinds without objects in storage are none.
func (p params) Kind(gvk schema.GroupVersionKind) *api.Resource {
	if row := api.ByKind(gvk); row != nil {
		if row.Storage == "" {
			return nil
		}
		return row
	}
	if p.kinds == nil {
		return nil
	}
	for _, k := range p.kinds.Current().Kinds() {
		if k.Resource.GVK() == gvk && k.Stored != nil {
			return k.Resource
		}
	}
	return nil
}

// Get implements celpolicy.Params. What the cache does not have yet is asked for
// again, fresh.
func (p params) Get(ctx context.Context, row *api.Resource, namespace, name string) (map[string]any, error) {
	item, err := p.store.Get(ctx, row.Key(namespace, name), storage.GetOptions{Match: storage.NotOlderThan})
	if errors.Is(err, storage.ErrNotFound) {
		item, err = p.store.Get(ctx, row.Key(namespace, name), storage.GetOptions{Match: storage.Fresh})
	}
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return decodedAs(row, item.Value)
}

// List implements celpolicy.Params.
func (p params) List(ctx context.Context, row *api.Resource, namespace string, selector labels.Selector) ([]map[string]any, error) {
	list, err := p.store.List(ctx, row.Prefix(namespace), storage.ListOptions{Match: storage.NotOlderThan})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b storage.Item) int { return cmp.Compare(a.Key, b.Key) })
	var out []map[string]any
	for i := range list.Items {
		obj, err := decodedAs(row, list.Items[i].Value)
		if err != nil {
			return nil, err
		}
		if selector.Matches(labelsOf(obj)) {
			out = append(out, obj)
		}
	}
	return out, nil
}

// decodedAs decodes a stored value into its form as row.
func decodedAs(row *api.Resource, value []byte) (map[string]any, error) {
	if row.FromStored == nil {
		var m map[string]any
		err := utiljson.Unmarshal(value, &m)
		return m, err
	}
	obj := row.Stored().New()
	if err := api.DecodeStored(value, obj); err != nil {
		return nil, err
	}
	obj, err := row.FromStored(obj)
	if err != nil {
		return nil, err
	}
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	m["apiVersion"], m["kind"] = row.GroupVersion().String(), row.Kind
	return m, nil
}

func labelsOf(obj map[string]any) labels.Set {
	set := labels.Set{}
	meta, _ := obj["metadata"].(map[string]any) // none has no labels
	values, _ := meta["labels"].(map[string]any)
	for k, v := range values {
		set[k], _ = v.(string)
	}
	return set
}
