// Package defaulting fills in what a client left out of an object, kind by
// kind, with the values that Kubernetes documents.
package defaulting

import (
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
)

// Default fills in what is left out of obj, which it changes. It does nothing
// for kinds without defaults. To default twice is to default once.
func Default(obj runtime.Object) {
	switch o := obj.(type) {
	case *corev1.Pod:
		pod(o)
	case *corev1.Node:
		node(o)
	case *corev1.Namespace:
		namespace(o)
	case *corev1.Secret:
		secret(o)
	case *appsv1.Deployment:
		deployment(o)
	case *appsv1.ReplicaSet:
		fillPtr(&o.Spec.Replicas, 1)
		podSpec(&o.Spec.Template.Spec)
	case *authenticationv1.TokenRequest:
		fillPtr(&o.Spec.ExpirationSeconds, 3600)
	case *rbacv1.RoleBinding:
		binding(&o.RoleRef, o.Subjects)
	case *rbacv1.ClusterRoleBinding:
		binding(&o.RoleRef, o.Subjects)
	case *apiextensionsv1.CustomResourceDefinition:
		definition(o)
	case pluginsv1.Binding:
		plugin(o)
	case *pluginsv1.PolicyScan:
		fill(&o.Spec.Limit, 10_000)
	default:
		admission(o)
	}
}

// fill sets what is zero.
func fill[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}

// fillPtr sets what is nil.
func fillPtr[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}

// secret also moves the write-only stringData to where it is stored.
func secret(o *corev1.Secret) {
	fill(&o.Type, corev1.SecretTypeOpaque)
	if len(o.StringData) == 0 {
		o.StringData = nil
		return
	}
	if o.Data == nil {
		o.Data = map[string][]byte{}
	}
	for key, value := range o.StringData {
		o.Data[key] = []byte(value)
	}
	o.StringData = nil
}

// podCIDRs keeps the list and the older field with its first element alike;
// where they differ the older one counts.
func podCIDRs(s *corev1.NodeSpec) {
	switch {
	case s.PodCIDR == "" && len(s.PodCIDRs) > 0:
		s.PodCIDR = s.PodCIDRs[0]
	case s.PodCIDR != "" && (len(s.PodCIDRs) == 0 || s.PodCIDRs[0] != s.PodCIDR):
		s.PodCIDRs = []string{s.PodCIDR}
	}
}

func namespace(o *corev1.Namespace) {
	fill(&o.Status.Phase, corev1.NamespaceActive)
	if o.Name == "" || o.Labels[corev1.LabelMetadataName] == o.Name {
		return // an empty name may be generated later
	}
	if o.Labels == nil {
		o.Labels = map[string]string{}
	}
	o.Labels[corev1.LabelMetadataName] = o.Name
}

func node(o *corev1.Node) {
	if o.Status.Allocatable == nil && len(o.Status.Capacity) > 0 {
		o.Status.Allocatable = o.Status.Capacity.DeepCopy()
	}
	roundUp(o.Status.Capacity)
	roundUp(o.Status.Allocatable)
	podCIDRs(&o.Spec)
}

func deployment(o *appsv1.Deployment) {
	spec := &o.Spec
	fillPtr(&spec.Replicas, 1)
	fillPtr(&spec.RevisionHistoryLimit, 10)
	fillPtr(&spec.ProgressDeadlineSeconds, 600)
	fill(&spec.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
	if spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		fillPtr(&spec.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
		fillPtr(&spec.Strategy.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
		fillPtr(&spec.Strategy.RollingUpdate.MaxSurge, intstr.FromString("25%"))
	}
	podSpec(&spec.Template.Spec)
}
