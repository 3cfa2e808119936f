package api

import (
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
)

// Scheme returns the Go types of all kinds that Proa reads or writes. It is
// built once and must not be changed.
func Scheme() *runtime.Scheme { return scheme() }

//nolint:gochecknoglobals // built once, never changed
var scheme = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme,
		appsv1.AddToScheme,
		eventsv1.AddToScheme,
		coordinationv1.AddToScheme,
		autoscalingv1.AddToScheme,
		policyv1.AddToScheme,
		authenticationv1.AddToScheme,
		admissionregistrationv1.AddToScheme,
		authorizationv1.AddToScheme,
		rbacv1.AddToScheme,
		pluginsv1.AddToScheme,
		apiextensionsv1.AddToScheme,
		metav1.AddMetaToScheme,
	} {
		if err := add(s); err != nil {
			panic(err) // the same type registered twice: wrong on every start
		}
	}
	// clients may name the options of a request in the group of metadata, too
	metav1.AddToGroupVersion(s, metav1.SchemeGroupVersion)
	return s
})
