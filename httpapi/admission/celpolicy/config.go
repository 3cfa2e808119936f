package celpolicy

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/request"
)

// A Config is what policies are made of and what they need to judge. All
// functions are safe for concurrent use; objects that they return are shared and
// are not changed.
type Config struct {
	// Ready returns when the functions below know everything, or the error of
	// ctx. Nil is at once.
	Ready func(ctx context.Context) error

	ValidatingPolicies func() []*admissionregistrationv1.ValidatingAdmissionPolicy
	ValidatingBindings func() []*admissionregistrationv1.ValidatingAdmissionPolicyBinding
	MutatingPolicies   func() []*admissionregistrationv1.MutatingAdmissionPolicy
	MutatingBindings   func() []*admissionregistrationv1.MutatingAdmissionPolicyBinding

	// Namespace returns a namespace; nil if it is not there.
	Namespace func(ctx context.Context, name string) (*corev1.Namespace, error)
	// Authorize answers what expressions ask of the authorizer. Nil allows
	// nothing.
	Authorize Authorize
	// Params reads parameters; nil knows no kind of them.
	Params Params
	// Types returns what merges objects of a kind as its schema says; nil for a
	// kind that is not known. Without the function, only what JSON shows of an
	// object is known, and lists are not merged.
	Types func(schema.GroupVersionKind) (managedfields.TypeConverter, error)
	// Default fills in the defaults of an object between two mutations. Nil does
	// nothing.
	Default func(runtime.Object)
}

// Authorize decides whether a user may do something, with a reason.
type Authorize func(ctx context.Context, user *request.User, info *request.Info) (allowed bool, reason string, err error)

// Params reads the objects that policies take as parameters.
type Params interface {
	// Kind returns the row of a kind; nil if there is none.
	Kind(gvk schema.GroupVersionKind) *api.Resource
	// Get returns an object as its JSON decodes, with int64 and float64 for
	// numbers; nil if it is not there. The namespace is empty for kinds without.
	Get(ctx context.Context, row *api.Resource, namespace, name string) (map[string]any, error)
	// List returns the objects that a selector selects, sorted by namespace and
	// name.
	List(ctx context.Context, row *api.Resource, namespace string, selector labels.Selector) ([]map[string]any, error)
}

// namespaceLabels returns the labels of a namespace, as matching wants them.
func (c *Config) namespaceLabels(ctx context.Context, name string) (labels.Set, error) {
	ns, err := c.namespace(ctx, name)
	if err != nil {
		return nil, err
	}
	return ns.Labels, nil
}

func (c *Config) namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	if c.Namespace != nil {
		if ns, err := c.Namespace(ctx, name); ns != nil || err != nil {
			return ns, err
		}
	}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
}
