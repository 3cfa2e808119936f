// Package validation holds the semantic rules of each kind: what a schema
// cannot say. Paths and texts are those of Kubernetes.
package validation

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proa-project/proa/api"
	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
)

// Create returns the faults of a new object, which has been defaulted and
// named. Bodies of subresources (Binding, Scale, TokenRequest) are objects, too;
// of their metadata nothing is checked.
func Create(obj api.Object) field.ErrorList {
	f := &faults{}
	metadata(f, obj)
	switch o := obj.(type) {
	case *corev1.Pod:
		pod(f, o)
		podCreate(f, o)
	case *corev1.Event:
		event(f, o, "reportingComponent")
	case *eventsv1.Event:
		newEvent(f, o)
	case *apiextensionsv1.CustomResourceDefinition:
		definition(f, o)
	default:
		rules(f, obj)
		admission(f, obj)
	}
	return f.list
}

// Update returns the faults of an object that is to replace old. Both have been
// defaulted, and the fields that the server owns have been carried over. A
// resourceVersion may be missing where the kind allows that.
func Update(obj, old api.Object) field.ErrorList {
	f := &faults{}
	metadataUpdate(f, obj, old)
	switch o := obj.(type) {
	case *corev1.Pod:
		pod(f, o)
		with(f, o, old, podUpdate)
	case *corev1.Event:
		event(f, o, "reportingComponent")
	case *eventsv1.Event:
		with(f, o, old, eventUpdate)
	case *apiextensionsv1.CustomResourceDefinition:
		with(f, o, old, definitionUpdate)
	case *corev1.ConfigMap:
		rules(f, obj)
		with(f, o, old, configMapUpdate)
	case *corev1.Secret:
		rules(f, obj)
		with(f, o, old, secretUpdate)
	case *corev1.Node:
		rules(f, obj)
		with(f, o, old, nodeUpdate)
	case *appsv1.Deployment:
		rules(f, obj)
		with(f, o, old, deploymentUpdate)
	case *appsv1.ReplicaSet:
		rules(f, obj)
		with(f, o, old, replicaSetUpdate)
	case *rbacv1.RoleBinding:
		rules(f, obj)
		with(f, o, old, func(f *faults, o, old *rbacv1.RoleBinding) { sameRole(f, &o.RoleRef, &old.RoleRef) })
	case *rbacv1.ClusterRoleBinding:
		rules(f, obj)
		with(f, o, old, func(f *faults, o, old *rbacv1.ClusterRoleBinding) { sameRole(f, &o.RoleRef, &old.RoleRef) })
	default:
		rules(f, obj)
		admission(f, obj)
	}
	return f.list
}

// UpdateStatus returns the faults of an object that is to replace old through
// the status subresource: only metadata and status may differ, which is the
// caller's duty, and only they are checked.
func UpdateStatus(obj, old api.Object) field.ErrorList {
	f := &faults{}
	metadataUpdate(f, obj, old)
	path := field.NewPath("status")
	switch o := obj.(type) {
	case *corev1.Pod:
		with(f, o, old, podStatus)
	case *corev1.Namespace:
		namespaceStatus(f, o, path)
	case *corev1.Node:
		nodeStatus(f, &o.Status, path)
	case *appsv1.Deployment:
		with(f, o, old, deploymentStatus)
	case *appsv1.ReplicaSet:
		replicaSetStatus(f, &o.Status, path)
	case *apiextensionsv1.CustomResourceDefinition:
		with(f, o, old, definitionStatus)
	case *pluginsv1.WasmModule:
		conditions(f, o.Status.Conditions, path)
	case pluginsv1.Binding:
		_, s := o.Bound()
		conditions(f, s.Conditions, path)
	case *pluginsv1.PolicyScan:
		conditions(f, o.Status.Conditions, path)
	default:
		admissionStatus(f, obj, path)
	}
	return f.list
}

// with calls check with an object and the one that it is to replace.
func with[T api.Object](f *faults, obj T, old api.Object, check func(f *faults, obj, old T)) {
	o, ok := old.(T)
	if !ok {
		f.add(field.InternalError(nil, fmt.Errorf("a %T cannot replace a %T", obj, old)))
		return
	}
	check(f, obj, o)
}

// rules checks what is the same for new and changed objects.
func rules(f *faults, obj api.Object) {
	spec := field.NewPath("spec")
	switch o := obj.(type) {
	case *corev1.ConfigMap:
		configMap(f, o)
	case *corev1.Secret:
		secret(f, o)
	case *corev1.Namespace:
		namespace(f, o, spec)
	case *corev1.Node:
		node(f, o, spec)
	case *coordinationv1.Lease:
		lease(f, &o.Spec, spec)
	case *appsv1.Deployment:
		deployment(f, &o.Spec, spec)
	case *appsv1.ReplicaSet:
		replicaSet(f, &o.Spec, spec)
	case *pluginsv1.WasmModule:
		wasmModule(f, &o.Spec, spec)
	case pluginsv1.Binding:
		plugin(f, o, spec)
	case *pluginsv1.PolicyScan:
		policyScan(f, &o.Spec, spec)
	case *corev1.Binding:
		binding(f, o)
	case *autoscalingv1.Scale:
		f.nonNegative(spec.Child("replicas"), int64(o.Spec.Replicas))
	case *authenticationv1.TokenRequest:
		tokenRequest(f, &o.Spec, spec)
	case *rbacv1.Role:
		policyRules(f, o.Rules, true)
	case *rbacv1.ClusterRole:
		clusterRole(f, o)
	case *rbacv1.RoleBinding:
		roleBinding(f, &o.RoleRef, o.Subjects, true)
	case *rbacv1.ClusterRoleBinding:
		roleBinding(f, &o.RoleRef, o.Subjects, false)
	default:
		review(f, obj)
	}
}
