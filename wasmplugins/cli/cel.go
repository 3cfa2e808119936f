package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/admission/celpolicy"
	"github.com/proa-project/proa/httpapi/admission/policy"
	"github.com/proa-project/proa/wasmplugins/abi"
)

// A celContender asks a policy in CEL, as the server does.
type celContender struct{ policies []policy.Policy }

func newCELContender(ctx context.Context, file string) (contender, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	p, err := celPolicy(text)
	if err != nil {
		return nil, err
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: p.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
	set, err := celpolicy.New(celpolicy.Config{
		ValidatingPolicies: func() []*admissionregistrationv1.ValidatingAdmissionPolicy {
			return []*admissionregistrationv1.ValidatingAdmissionPolicy{p}
		},
		ValidatingBindings: func() []*admissionregistrationv1.ValidatingAdmissionPolicyBinding {
			return []*admissionregistrationv1.ValidatingAdmissionPolicyBinding{binding}
		},
		MutatingPolicies: func() []*admissionregistrationv1.MutatingAdmissionPolicy { return nil },
		MutatingBindings: func() []*admissionregistrationv1.MutatingAdmissionPolicyBinding { return nil },
		Namespace: func(_ context.Context, name string) (*corev1.Namespace, error) {
			return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name}}}, nil
		},
	}).Policies(ctx)
	if err != nil {
		return nil, err
	}
	return &celContender{set.Validate}, nil
}

// celPolicy reads a ValidatingAdmissionPolicy, or makes one of an expression.
func celPolicy(text []byte) (*admissionregistrationv1.ValidatingAdmissionPolicy, error) {
	var meta metav1.TypeMeta
	p := &admissionregistrationv1.ValidatingAdmissionPolicy{}
	if yaml.Unmarshal(text, &meta) == nil && meta.Kind != "" {
		if meta.Kind != "ValidatingAdmissionPolicy" {
			return nil, fmt.Errorf("it is a %s, not a ValidatingAdmissionPolicy", meta.Kind)
		}
		return p, yaml.UnmarshalStrict(text, p)
	}
	fail, equivalent := admissionregistrationv1.Fail, admissionregistrationv1.Equivalent
	p.Name = "expression"
	p.Spec = admissionregistrationv1.ValidatingAdmissionPolicySpec{
		FailurePolicy: &fail,
		MatchConstraints: &admissionregistrationv1.MatchResources{
			MatchPolicy: &equivalent, NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{},
			ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}},
			}}},
		},
		Validations: []admissionregistrationv1.Validation{{Expression: string(bytes.TrimSpace(text))}},
	}
	return p, nil
}

func (c *celContender) Prepare(r *abi.AdmissionRequest) (func(context.Context) (outcome, error), error) {
	ask, err := writeOf(r)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (outcome, error) {
		again := *ask
		in := &policy.Input{Request: &again, Phase: pluginsv1.PhaseValidate, Object: r.Object, OldObject: r.OldObject, Deadline: time.Now().Add(10 * time.Second)}
		return c.judge(ctx, in)
	}, nil
}

func (c *celContender) judge(ctx context.Context, in *policy.Input) (outcome, error) {
	for _, p := range c.policies {
		matches, err := p.Matches(ctx, in.Request)
		if err != nil {
			return outcome{result: broken, message: err.Error()}, nil //nolint:nilerr // it is the outcome
		}
		if !matches {
			continue
		}
		v, err := p.Judge(ctx, in)
		var failure *policy.Failure
		switch {
		case errors.As(err, &failure):
			return outcome{result: broken, message: failure.Error()}, nil
		case err != nil:
			return outcome{}, err
		case v.Denied != nil:
			return outcome{result: fails, message: v.Denied.Message}, nil
		}
	}
	return outcome{result: passes}, nil
}

func (*celContender) Close() {}
