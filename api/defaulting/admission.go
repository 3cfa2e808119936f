package defaulting

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// admission fills in the kinds of admissionregistration.k8s.io.
func admission(obj runtime.Object) {
	switch o := obj.(type) {
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for i := range o.Webhooks {
			w := &o.Webhooks[i]
			webhook(&w.FailurePolicy, &w.MatchPolicy, &w.TimeoutSeconds, &w.ClientConfig)
			selectors(&w.NamespaceSelector, &w.ObjectSelector)
			rules(w.Rules)
		}
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for i := range o.Webhooks {
			w := &o.Webhooks[i]
			webhook(&w.FailurePolicy, &w.MatchPolicy, &w.TimeoutSeconds, &w.ClientConfig)
			selectors(&w.NamespaceSelector, &w.ObjectSelector)
			rules(w.Rules)
			fillPtr(&w.ReinvocationPolicy, admissionregistrationv1.NeverReinvocationPolicy)
		}
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		fillPtr(&o.Spec.FailurePolicy, admissionregistrationv1.Fail)
		matchResources(o.Spec.MatchConstraints)
	case *admissionregistrationv1.MutatingAdmissionPolicy:
		fillPtr(&o.Spec.FailurePolicy, admissionregistrationv1.Fail)
		matchResources(o.Spec.MatchConstraints)
	case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		matchResources(o.Spec.MatchResources)
	case *admissionregistrationv1.MutatingAdmissionPolicyBinding:
		matchResources(o.Spec.MatchResources)
	}
}

// webhook fills in what both kinds of webhooks have.
func webhook(
	failure **admissionregistrationv1.FailurePolicyType, match **admissionregistrationv1.MatchPolicyType,
	timeout **int32, c *admissionregistrationv1.WebhookClientConfig,
) {
	fillPtr(failure, admissionregistrationv1.Fail)
	fillPtr(match, admissionregistrationv1.Equivalent)
	fillPtr(timeout, 10)
	if c.Service != nil {
		fillPtr(&c.Service.Port, 443)
	}
}

func selectors(list ...**metav1.LabelSelector) {
	for _, s := range list {
		fillPtr(s, metav1.LabelSelector{})
	}
}

func rules(list []admissionregistrationv1.RuleWithOperations) {
	for i := range list {
		fillPtr(&list[i].Scope, admissionregistrationv1.AllScopes)
	}
}

func matchResources(m *admissionregistrationv1.MatchResources) {
	if m == nil {
		return
	}
	fillPtr(&m.MatchPolicy, admissionregistrationv1.Equivalent)
	selectors(&m.NamespaceSelector, &m.ObjectSelector)
	for _, list := range [][]admissionregistrationv1.NamedRuleWithOperations{m.ResourceRules, m.ExcludeResourceRules} {
		for i := range list {
			fillPtr(&list[i].Scope, admissionregistrationv1.AllScopes)
		}
	}
}
