package api

import (
	"reflect"
	"slices"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
)

// eventTTL is how long an event lives.
const eventTTL = time.Hour

// Resources returns the table of kinds in discovery order. The slice and its
// rows are shared and must not be changed.
func Resources() []*Resource { return table().rows }

// ByGVR returns the row of a resource, or nil.
func ByGVR(group, version, plural string) *Resource {
	return table().gvr[schema.GroupVersionResource{Group: group, Version: version, Resource: plural}]
}

// ByKind returns the row of a kind, or nil.
func ByKind(gvk schema.GroupVersionKind) *Resource { return table().gvk[gvk] }

// ByType returns the row whose objects have the Go type of obj, or nil.
func ByType(obj runtime.Object) *Resource { return table().types[reflect.TypeOf(obj)] }

type index struct {
	rows  []*Resource
	gvr   map[schema.GroupVersionResource]*Resource
	gvk   map[schema.GroupVersionKind]*Resource
	types map[reflect.Type]*Resource
}

//nolint:gochecknoglobals // built once, never changed
var table = sync.OnceValue(func() *index {
	x := &index{
		rows:  slices.Concat(rows(), accessRows(), reviewRows(), definitionRows()),
		gvr:   map[schema.GroupVersionResource]*Resource{},
		gvk:   map[schema.GroupVersionKind]*Resource{},
		types: map[reflect.Type]*Resource{},
	}
	for _, r := range x.rows {
		r.extract = newExtractor(r)
		x.gvr[r.GVR()] = r
		x.gvk[r.GVK()] = r
		x.types[reflect.TypeOf(r.New())] = r
	}
	return x
})

// rows is the table.
func rows() []*Resource {
	allVerbs := []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	objectVerbs := []string{"create", "delete", "get", "list", "patch", "update", "watch"}
	statusVerbs := []string{"get", "patch", "update"}
	streamVerbs := []string{"create", "get"}
	status := Subresource{Name: "status", Verbs: statusVerbs}
	scale := Subresource{
		Name: "scale", Group: autoscalingv1.GroupName, Version: "v1", Kind: "Scale", Verbs: statusVerbs,
		New: func() runtime.Object { return &autoscalingv1.Scale{} },
	}

	events := &Resource{
		Version: "v1", Kind: "Event", Plural: "events", Singular: "event",
		Namespaced: true, ShortNames: []string{"ev"}, Verbs: allVerbs,
		Storage: "/registry/events/", TTL: eventTTL,
		New:     func() Object { return &corev1.Event{} },
		NewList: func() runtime.Object { return &corev1.EventList{} },
		Fields: []string{
			"involvedObject.kind", "involvedObject.namespace", "involvedObject.name",
			"involvedObject.uid", "involvedObject.apiVersion", "involvedObject.resourceVersion",
			"involvedObject.fieldPath", "reason", "reportingComponent", "source", "type",
		},
		CreateOnUpdate: true, UnconditionalUpdate: true,
	}

	return []*Resource{
		{
			Version: "v1", Kind: "ConfigMap", Plural: "configmaps", Singular: "configmap",
			Namespaced: true, ShortNames: []string{"cm"}, Verbs: allVerbs,
			Storage:             "/registry/configmaps/",
			New:                 func() Object { return &corev1.ConfigMap{} },
			NewList:             func() runtime.Object { return &corev1.ConfigMapList{} },
			UnconditionalUpdate: true,
		},
		events,
		{
			Version: "v1", Kind: "Namespace", Plural: "namespaces", Singular: "namespace",
			ShortNames: []string{"ns"}, Verbs: objectVerbs,
			Storage: "/registry/namespaces/",
			New:     func() Object { return &corev1.Namespace{} },
			NewList: func() runtime.Object { return &corev1.NamespaceList{} },
			Fields:  []string{"status.phase"},
			Subresources: []Subresource{
				{Name: "finalize", Verbs: []string{"update"}},
				status,
			},
			UnconditionalUpdate: true,
		},
		{
			Version: "v1", Kind: "Node", Plural: "nodes", Singular: "node",
			ShortNames: []string{"no"}, Verbs: allVerbs,
			Storage:             "/registry/minions/",
			New:                 func() Object { return &corev1.Node{} },
			NewList:             func() runtime.Object { return &corev1.NodeList{} },
			Fields:              []string{"spec.unschedulable"},
			Subresources:        []Subresource{status},
			UnconditionalUpdate: true,
		},
		{
			Version: "v1", Kind: "Pod", Plural: "pods", Singular: "pod",
			Namespaced: true, ShortNames: []string{"po"}, Categories: []string{"all"}, Verbs: allVerbs,
			Storage: "/registry/pods/",
			New:     func() Object { return &corev1.Pod{} },
			NewList: func() runtime.Object { return &corev1.PodList{} },
			Fields: []string{
				"spec.hostNetwork", "spec.nodeName", "spec.restartPolicy", "spec.schedulerName",
				"spec.serviceAccountName", "status.nominatedNodeName", "status.phase",
				"status.podIP", "status.podIPs",
			},
			Subresources: []Subresource{
				{Name: "attach", Version: "v1", Kind: "PodAttachOptions", Verbs: streamVerbs},
				{
					Name: "binding", Version: "v1", Kind: "Binding", Verbs: []string{"create"},
					New: func() runtime.Object { return &corev1.Binding{} },
				},
				{
					Name: "eviction", Group: policyv1.GroupName, Version: "v1", Kind: "Eviction", Verbs: []string{"create"},
					New: func() runtime.Object { return &policyv1.Eviction{} },
				},
				{Name: "exec", Version: "v1", Kind: "PodExecOptions", Verbs: streamVerbs},
				{Name: "log", Verbs: []string{"get"}},
				{Name: "portforward", Version: "v1", Kind: "PodPortForwardOptions", Verbs: streamVerbs},
				status,
			},
			GracefulDelete:      true,
			UnconditionalUpdate: true,
		},
		{
			Version: "v1", Kind: "Secret", Plural: "secrets", Singular: "secret",
			Namespaced: true, Verbs: allVerbs,
			Storage:             "/registry/secrets/",
			New:                 func() Object { return &corev1.Secret{} },
			NewList:             func() runtime.Object { return &corev1.SecretList{} },
			Fields:              []string{"type"},
			UnconditionalUpdate: true,
		},
		{
			Version: "v1", Kind: "ServiceAccount", Plural: "serviceaccounts", Singular: "serviceaccount",
			Namespaced: true, ShortNames: []string{"sa"}, Verbs: allVerbs,
			Storage: "/registry/serviceaccounts/",
			New:     func() Object { return &corev1.ServiceAccount{} },
			NewList: func() runtime.Object { return &corev1.ServiceAccountList{} },
			Subresources: []Subresource{{
				Name: "token", Group: authenticationv1.GroupName, Version: "v1", Kind: "TokenRequest", Verbs: []string{"create"},
				New: func() runtime.Object { return &authenticationv1.TokenRequest{} },
			}},
			UnconditionalUpdate: true,
		},
		{
			Group: "apps", Version: "v1", Kind: "Deployment", Plural: "deployments", Singular: "deployment",
			Namespaced: true, ShortNames: []string{"deploy"}, Categories: []string{"all"}, Verbs: allVerbs,
			Storage:             "/registry/deployments/",
			New:                 func() Object { return &appsv1.Deployment{} },
			NewList:             func() runtime.Object { return &appsv1.DeploymentList{} },
			Subresources:        []Subresource{scale, status},
			UnconditionalUpdate: true,
		},
		{
			Group: "apps", Version: "v1", Kind: "ReplicaSet", Plural: "replicasets", Singular: "replicaset",
			Namespaced: true, ShortNames: []string{"rs"}, Categories: []string{"all"}, Verbs: allVerbs,
			Storage:             "/registry/replicasets/",
			New:                 func() Object { return &appsv1.ReplicaSet{} },
			NewList:             func() runtime.Object { return &appsv1.ReplicaSetList{} },
			Fields:              []string{"status.replicas"},
			Subresources:        []Subresource{scale, status},
			UnconditionalUpdate: true,
		},
		{
			Group: "events.k8s.io", Version: "v1", Kind: "Event", Plural: "events", Singular: "event",
			Namespaced: true, ShortNames: []string{"ev"}, Verbs: allVerbs,
			Storage: events.Storage, TTL: eventTTL,
			New:     func() Object { return &eventsv1.Event{} },
			NewList: func() runtime.Object { return &eventsv1.EventList{} },
			Fields: []string{
				"reason", "regarding.kind", "regarding.namespace", "regarding.name", "regarding.uid",
				"regarding.apiVersion", "regarding.resourceVersion", "regarding.fieldPath",
				"reportingController", "type",
			},
			StoredAs:   events,
			ToStored:   eventToStored,
			FromStored: eventFromStored,
			StoredFields: map[string]string{
				"reason":                    "reason",
				"regarding.kind":            "involvedObject.kind",
				"regarding.namespace":       "involvedObject.namespace",
				"regarding.name":            "involvedObject.name",
				"regarding.uid":             "involvedObject.uid",
				"regarding.apiVersion":      "involvedObject.apiVersion",
				"regarding.resourceVersion": "involvedObject.resourceVersion",
				"regarding.fieldPath":       "involvedObject.fieldPath",
				"reportingController":       "reportingComponent",
				"type":                      "type",
			},
			CreateOnUpdate: true, UnconditionalUpdate: true,
		},
		{
			Group: admissionregistrationv1.GroupName, Version: "v1", Kind: "MutatingAdmissionPolicy", Plural: "mutatingadmissionpolicies", Singular: "mutatingadmissionpolicy",
			Categories: []string{"api-extensions"}, Verbs: allVerbs,
			Storage: "/registry/mutatingadmissionpolicies/",
			New:     func() Object { return &admissionregistrationv1.MutatingAdmissionPolicy{} },
			NewList: func() runtime.Object { return &admissionregistrationv1.MutatingAdmissionPolicyList{} },
		},
		{
			Group: admissionregistrationv1.GroupName, Version: "v1", Kind: "MutatingAdmissionPolicyBinding", Plural: "mutatingadmissionpolicybindings", Singular: "mutatingadmissionpolicybinding",
			Categories: []string{"api-extensions"}, Verbs: allVerbs,
			Storage: "/registry/mutatingadmissionpolicybindings/",
			New:     func() Object { return &admissionregistrationv1.MutatingAdmissionPolicyBinding{} },
			NewList: func() runtime.Object { return &admissionregistrationv1.MutatingAdmissionPolicyBindingList{} },
		},
		{
			Group: admissionregistrationv1.GroupName, Version: "v1", Kind: "MutatingWebhookConfiguration", Plural: "mutatingwebhookconfigurations", Singular: "mutatingwebhookconfiguration",
			Categories: []string{"api-extensions"}, Verbs: allVerbs,
			Storage: "/registry/mutatingwebhookconfigurations/",
			New:     func() Object { return &admissionregistrationv1.MutatingWebhookConfiguration{} },
			NewList: func() runtime.Object { return &admissionregistrationv1.MutatingWebhookConfigurationList{} },
		},
		{
			Group: admissionregistrationv1.GroupName, Version: "v1", Kind: "ValidatingAdmissionPolicy", Plural: "validatingadmissionpolicies", Singular: "validatingadmissionpolicy",
			Categories: []string{"api-extensions"}, Verbs: allVerbs,
			Storage:      "/registry/validatingadmissionpolicies/",
			New:          func() Object { return &admissionregistrationv1.ValidatingAdmissionPolicy{} },
			NewList:      func() runtime.Object { return &admissionregistrationv1.ValidatingAdmissionPolicyList{} },
			Subresources: []Subresource{status},
		},
		{
			Group: admissionregistrationv1.GroupName, Version: "v1", Kind: "ValidatingAdmissionPolicyBinding", Plural: "validatingadmissionpolicybindings", Singular: "validatingadmissionpolicybinding",
			Categories: []string{"api-extensions"}, Verbs: allVerbs,
			Storage: "/registry/validatingadmissionpolicybindings/",
			New:     func() Object { return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{} },
			NewList: func() runtime.Object { return &admissionregistrationv1.ValidatingAdmissionPolicyBindingList{} },
		},
		{
			Group: admissionregistrationv1.GroupName, Version: "v1", Kind: "ValidatingWebhookConfiguration", Plural: "validatingwebhookconfigurations", Singular: "validatingwebhookconfiguration",
			Categories: []string{"api-extensions"}, Verbs: allVerbs,
			Storage: "/registry/validatingwebhookconfigurations/",
			New:     func() Object { return &admissionregistrationv1.ValidatingWebhookConfiguration{} },
			NewList: func() runtime.Object { return &admissionregistrationv1.ValidatingWebhookConfigurationList{} },
		},
		{
			Group: "coordination.k8s.io", Version: "v1", Kind: "Lease", Plural: "leases", Singular: "lease",
			Namespaced: true, Verbs: allVerbs,
			Storage:        "/registry/leases/",
			New:            func() Object { return &coordinationv1.Lease{} },
			NewList:        func() runtime.Object { return &coordinationv1.LeaseList{} },
			CreateOnUpdate: true,
		},
		{
			Group: pluginsv1.GroupName, Version: "v1", Kind: "AdmissionPlugin", Plural: "admissionplugins", Singular: "admissionplugin",
			Verbs:        allVerbs,
			Storage:      "/registry/plugins.proa.io/admissionplugins/",
			New:          func() Object { return &pluginsv1.AdmissionPlugin{} },
			NewList:      func() runtime.Object { return &pluginsv1.AdmissionPluginList{} },
			Subresources: []Subresource{status},
		},
		{
			Group: pluginsv1.GroupName, Version: "v1", Kind: "AuthenticationPlugin", Plural: "authenticationplugins", Singular: "authenticationplugin",
			Verbs:        allVerbs,
			Storage:      "/registry/plugins.proa.io/authenticationplugins/",
			New:          func() Object { return &pluginsv1.AuthenticationPlugin{} },
			NewList:      func() runtime.Object { return &pluginsv1.AuthenticationPluginList{} },
			Subresources: []Subresource{status},
		},
		{
			Group: pluginsv1.GroupName, Version: "v1", Kind: "AuthorizationPlugin", Plural: "authorizationplugins", Singular: "authorizationplugin",
			Verbs:        allVerbs,
			Storage:      "/registry/plugins.proa.io/authorizationplugins/",
			New:          func() Object { return &pluginsv1.AuthorizationPlugin{} },
			NewList:      func() runtime.Object { return &pluginsv1.AuthorizationPluginList{} },
			Subresources: []Subresource{status},
		},
		{
			Group: pluginsv1.GroupName, Version: "v1", Kind: "ConversionPlugin", Plural: "conversionplugins", Singular: "conversionplugin",
			Verbs:        allVerbs,
			Storage:      "/registry/plugins.proa.io/conversionplugins/",
			New:          func() Object { return &pluginsv1.ConversionPlugin{} },
			NewList:      func() runtime.Object { return &pluginsv1.ConversionPluginList{} },
			Subresources: []Subresource{status},
		},
		{
			Group: pluginsv1.GroupName, Version: "v1", Kind: "PolicyReport", Plural: "policyreports", Singular: "policyreport",
			Verbs:   allVerbs,
			Storage: "/registry/plugins.proa.io/policyreports/",
			New:     func() Object { return &pluginsv1.PolicyReport{} },
			NewList: func() runtime.Object { return &pluginsv1.PolicyReportList{} },
		},
		{
			Group: pluginsv1.GroupName, Version: "v1", Kind: "PolicyScan", Plural: "policyscans", Singular: "policyscan",
			Verbs:        allVerbs,
			Storage:      "/registry/plugins.proa.io/policyscans/",
			New:          func() Object { return &pluginsv1.PolicyScan{} },
			NewList:      func() runtime.Object { return &pluginsv1.PolicyScanList{} },
			Subresources: []Subresource{status},
		},
		{
			Group: pluginsv1.GroupName, Version: "v1", Kind: "Reconciler", Plural: "reconcilers", Singular: "reconciler",
			Verbs:        allVerbs,
			Storage:      "/registry/plugins.proa.io/reconcilers/",
			New:          func() Object { return &pluginsv1.Reconciler{} },
			NewList:      func() runtime.Object { return &pluginsv1.ReconcilerList{} },
			Subresources: []Subresource{status},
		},
		{
			Group: pluginsv1.GroupName, Version: "v1", Kind: "SchedulerPlugin", Plural: "schedulerplugins", Singular: "schedulerplugin",
			Verbs:        allVerbs,
			Storage:      "/registry/plugins.proa.io/schedulerplugins/",
			New:          func() Object { return &pluginsv1.SchedulerPlugin{} },
			NewList:      func() runtime.Object { return &pluginsv1.SchedulerPluginList{} },
			Subresources: []Subresource{status},
		},
		{
			Group: pluginsv1.GroupName, Version: "v1", Kind: "VirtualAPI", Plural: "virtualapis", Singular: "virtualapi",
			Verbs:        allVerbs,
			Storage:      "/registry/plugins.proa.io/virtualapis/",
			New:          func() Object { return &pluginsv1.VirtualAPI{} },
			NewList:      func() runtime.Object { return &pluginsv1.VirtualAPIList{} },
			Subresources: []Subresource{status},
		},
		{
			Group: pluginsv1.GroupName, Version: "v1", Kind: "WasmModule", Plural: "wasmmodules", Singular: "wasmmodule",
			Verbs:   allVerbs,
			Storage: "/registry/plugins.proa.io/wasmmodules/",
			New:     func() Object { return &pluginsv1.WasmModule{} },
			NewList: func() runtime.Object { return &pluginsv1.WasmModuleList{} },
			Subresources: []Subresource{
				{Name: "content", Verbs: []string{"get", "update"}},
				status,
			},
		},
	}
}
