package table

import (
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// admissionColumns returns what the kinds of admissionregistration.k8s.io have
// between name and age; nothing for other kinds.
func admissionColumns(kind string) []metav1.TableColumnDefinition {
	param := column("ParamKind", "string", "Kind of the parameters.", 0)
	switch kind {
	case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
		return []metav1.TableColumnDefinition{column("Webhooks", "integer", "Number of webhooks.", 0)}
	case "ValidatingAdmissionPolicy":
		return []metav1.TableColumnDefinition{column("Validations", "integer", "Number of validations.", 0), param}
	case "MutatingAdmissionPolicy":
		return []metav1.TableColumnDefinition{column("Mutations", "integer", "Number of mutations.", 0), param}
	case "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicyBinding":
		return []metav1.TableColumnDefinition{
			column("PolicyName", "string", "Name of the policy.", 0), column("ParamRef", "string", "The parameters.", 0),
		}
	}
	return nil
}

// admissionReads returns what the cells between name and age are made of.
func admissionReads(kind string) []string {
	switch kind {
	case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
		return []string{"webhooks[]"}
	case "ValidatingAdmissionPolicy":
		return []string{"spec.validations[]", "spec.paramKind"}
	case "MutatingAdmissionPolicy":
		return []string{"spec.mutations[]", "spec.paramKind"}
	case "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicyBinding":
		return []string{"spec.policyName", "spec.paramRef"}
	}
	return nil
}

// admissionCells returns the cells of an object of admissionregistration.k8s.io;
// nil for others.
func admissionCells(obj runtime.Object, now time.Time) []any {
	switch o := obj.(type) {
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		return []any{o.Name, int64(len(o.Webhooks)), age(o.CreationTimestamp, now)}
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		return []any{o.Name, int64(len(o.Webhooks)), age(o.CreationTimestamp, now)}
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		return []any{o.Name, int64(len(o.Spec.Validations)), paramKind(o.Spec.ParamKind), age(o.CreationTimestamp, now)}
	case *admissionregistrationv1.MutatingAdmissionPolicy:
		return []any{o.Name, int64(len(o.Spec.Mutations)), paramKind(o.Spec.ParamKind), age(o.CreationTimestamp, now)}
	case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		return []any{o.Name, o.Spec.PolicyName, paramRef(o.Spec.ParamRef), age(o.CreationTimestamp, now)}
	case *admissionregistrationv1.MutatingAdmissionPolicyBinding:
		return []any{o.Name, o.Spec.PolicyName, paramRef(o.Spec.ParamRef), age(o.CreationTimestamp, now)}
	}
	return nil
}

const unset = "<unset>"

func paramKind(k *admissionregistrationv1.ParamKind) string {
	if k == nil {
		return unset
	}
	return k.APIVersion + "/" + k.Kind
}

func paramRef(r *admissionregistrationv1.ParamRef) string {
	switch {
	case r == nil:
		return unset
	case r.Name != "" && r.Namespace != "":
		return r.Namespace + "/" + r.Name
	case r.Name != "":
		return "*/" + r.Name // in which namespace, if in any, is the request's matter
	case r.Selector != nil:
		return r.Selector.String()
	}
	return unset
}
