package webhook

import (
	"cmp"
	"context"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/admission/celpolicy"
	"github.com/proa-project/proa/httpapi/admission/match"
	"github.com/proa-project/proa/httpapi/admission/policy"
)

// A hook is one webhook of a configuration. It never changes.
type hook struct {
	s             *Source
	kind          string
	configuration string
	name          string
	order         int32
	index         int // among all webhooks of the kind

	mutates    bool
	again      bool // reinvocationPolicy
	ignore     bool // failurePolicy
	equivalent bool // matchPolicy
	dryRun     bool // it may be called for a dry run
	timeout    time.Duration
	versions   []string
	match      *match.Matcher
	matchErr   error
	conditions *celpolicy.Conditions
	address    address
}

var _ policy.Policy = (*hook)(nil)

func validatingHooks(s *Source, o *admissionregistrationv1.ValidatingWebhookConfiguration) []*hook {
	list := make([]*hook, len(o.Webhooks))
	for i := range o.Webhooks {
		w := &o.Webhooks[i]
		list[i] = newHook(s, o, &admissionregistrationv1.MutatingWebhook{
			Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy, MatchPolicy: w.MatchPolicy,
			NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector, SideEffects: w.SideEffects,
			TimeoutSeconds: w.TimeoutSeconds, AdmissionReviewVersions: w.AdmissionReviewVersions, MatchConditions: w.MatchConditions,
		})
		list[i].kind = policy.ValidatingWebhook
	}
	return list
}

func mutatingHooks(s *Source, o *admissionregistrationv1.MutatingWebhookConfiguration) []*hook {
	list := make([]*hook, len(o.Webhooks))
	for i := range o.Webhooks {
		list[i] = newHook(s, o, &o.Webhooks[i])
		list[i].kind, list[i].mutates = policy.MutatingWebhook, true
	}
	return list
}

// defaultTimeout is that of webhooks which do not say.
const defaultTimeout = 10 * time.Second

func newHook(s *Source, o metav1.Object, w *admissionregistrationv1.MutatingWebhook) *hook {
	h := &hook{
		s: s, configuration: o.GetName(), name: w.Name, order: orderOf(o),
		again:      w.ReinvocationPolicy != nil && *w.ReinvocationPolicy == admissionregistrationv1.IfNeededReinvocationPolicy,
		ignore:     w.FailurePolicy != nil && *w.FailurePolicy == admissionregistrationv1.Ignore,
		equivalent: w.MatchPolicy == nil || *w.MatchPolicy == admissionregistrationv1.Equivalent,
		dryRun: w.SideEffects != nil && (*w.SideEffects == admissionregistrationv1.SideEffectClassNone ||
			*w.SideEffects == admissionregistrationv1.SideEffectClassNoneOnDryRun),
		timeout: defaultTimeout, versions: w.AdmissionReviewVersions,
		conditions: celpolicy.NewConditions(w.MatchConditions), address: addressOf(&w.ClientConfig),
	}
	if w.TimeoutSeconds != nil {
		h.timeout = time.Duration(*w.TimeoutSeconds) * time.Second
	}
	h.match, h.matchErr = match.New(match.Spec{Rules: match.Rules(w.Rules), Namespaces: w.NamespaceSelector, Objects: w.ObjectSelector})
	return h
}

// at returns the hook at a place among those of its kind.
func (h *hook) at(index int) *hook {
	if h.index == index {
		return h
	}
	moved := *h
	moved.index = index
	return &moved
}

// ID implements policy.Policy.
func (h *hook) ID() policy.ID { return policy.ID{Kind: h.kind, Name: h.configuration + "/" + h.name} }

// Order implements policy.Policy.
func (h *hook) Order() int32 { return h.order }

// Reinvoke says that the webhook wants to see what others change after it.
func (h *hook) Reinvoke() bool { return h.again }

// Matches implements policy.Policy.
func (h *hook) Matches(ctx context.Context, r *admission.Request) (bool, error) {
	row, err := h.matches(ctx, r)
	return row != nil, err
}

// matches returns the row as which the webhook wants to see a write; nil if it
// does not want to.
func (h *hook) matches(ctx context.Context, r *admission.Request) (*api.Resource, error) {
	if h.matchErr != nil {
		return nil, h.matchErr
	}
	return celpolicy.Matches(ctx, h.match, h.equivalent, r, h.labels)
}

func (h *hook) labels(ctx context.Context, name string) (labels.Set, error) {
	if h.s.c.Namespace == nil {
		return nil, nil
	}
	return h.s.c.Namespace(ctx, name)
}

// limit is how long a call may take: what the webhook says, at most until the
// request's budget is used up.
func (h *hook) limit(deadline time.Time) time.Duration {
	limit := cmp.Or(h.timeout, defaultTimeout)
	if !deadline.IsZero() {
		limit = min(limit, time.Until(deadline))
	}
	return limit
}
