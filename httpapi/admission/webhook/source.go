package webhook

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/httpapi/admission/celpolicy"
	"github.com/proa-project/proa/httpapi/admission/match"
	"github.com/proa-project/proa/httpapi/admission/policy"
)

// A Config is what webhooks are made of and what they need. All functions are
// safe for concurrent use; objects that they return are not changed.
type Config struct {
	// Ready returns when the functions below know everything, or the error of
	// ctx. Nil is at once.
	Ready func(ctx context.Context) error

	Validating func() []*admissionregistrationv1.ValidatingWebhookConfiguration
	Mutating   func() []*admissionregistrationv1.MutatingWebhookConfiguration

	// Namespace returns the labels of a namespace. Nil is none.
	Namespace match.NamespaceLabels
	// Authorize answers what match conditions ask of the authorizer. Nil allows
	// nothing.
	Authorize celpolicy.Authorize
	// Resolve returns the address, as host:port, at which a Service is reached.
	// Nil knows no Service.
	Resolve func(ctx context.Context, namespace, name string, port int32) (string, error)
}

// A Source has the webhooks of a Config. It is safe for concurrent use.
type Source struct {
	policy.Lazy

	c       *Config
	clients *clients
	// known belongs to whoever makes the set: webhooks by kind, uid and version
	// of the configuration.
	known map[string][]*hook
}

// New returns a Source. Close it when it is no longer used. Its Invalidate says
// that a configuration has changed.
func New(c Config) *Source {
	s := &Source{c: &c}
	s.What, s.Ready, s.Build = "webhook configurations", c.Ready, s.build
	s.clients = &clients{resolve: c.Resolve, made: map[string]*caller{}}
	return s
}

// Close closes connections that nobody uses.
func (s *Source) Close() { s.clients.keep(nil) }

// build makes the set; what has not changed is taken over.
func (s *Source) build() *policy.Set {
	next := map[string][]*hook{}
	set := &policy.Set{}
	var mutating []*admissionregistrationv1.MutatingWebhookConfiguration
	if s.c.Mutating != nil {
		mutating = byName(s.c.Mutating())
	}
	for _, o := range mutating {
		for _, h := range s.reuse(next, policy.MutatingWebhook, o, func() []*hook { return mutatingHooks(s, o) }) {
			set.Mutate = append(set.Mutate, h.at(len(set.Mutate)))
		}
	}
	var validating []*admissionregistrationv1.ValidatingWebhookConfiguration
	if s.c.Validating != nil {
		validating = byName(s.c.Validating())
	}
	for _, o := range validating {
		for _, h := range s.reuse(next, policy.ValidatingWebhook, o, func() []*hook { return validatingHooks(s, o) }) {
			set.Validate = append(set.Validate, h.at(len(set.Validate)))
		}
	}
	s.known = next
	used := map[string]bool{}
	for _, list := range next {
		for _, h := range list {
			used[h.address.key()] = true
		}
	}
	s.clients.keep(used)
	return set
}

func (s *Source) reuse(next map[string][]*hook, kind string, o metav1.Object, compile func() []*hook) []*hook {
	key := kind + "/" + o.GetName() + "/" + string(o.GetUID()) + "/" + o.GetResourceVersion()
	list, ok := s.known[key]
	if !ok || o.GetResourceVersion() == "" {
		list = compile()
	}
	next[key] = list
	return list
}

func byName[T metav1.Object](list []T) []T {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b T) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return list
}

// orderOf returns the place in the order that a configuration says.
func orderOf(o metav1.Object) int32 {
	n, err := strconv.ParseInt(o.GetAnnotations()[policy.OrderAnnotation], 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}
