package wasmplugins_test

import (
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/client"
)

// A kind is one of the kinds that bind a module, as the matrix handles it.
type kind struct {
	name   string
	create func(f *fixture, name, module, settings string, l *pluginsv1.Limits)
	ready  func(f *fixture, name string) (status metav1.ConditionStatus, reason string)
	remove func(f *fixture, name string)
	status func(f *fixture, name string) *pluginsv1.PluginStatus
}

// kindOf makes a kind of what makes its objects. The object of VirtualAPIs has
// a name that its plugin does not choose.
func kindOf[T pluginsv1.Binding](name string, object func(name string) T) kind {
	get := func(f *fixture, name string) *pluginsv1.PluginStatus {
		o, err := client.For[T](f.rest).Get(f.t.Context(), "", object(name).GetName())
		if err != nil {
			f.t.Fatal(err)
		}
		_, s := o.Bound()
		return s
	}
	return kind{
		name: name, status: get,
		create: func(f *fixture, name, module, settings string, l *pluginsv1.Limits) {
			o := object(name)
			common, _ := o.Bound()
			common.Module, common.Limits = module, l
			if settings != "" {
				common.Settings = &runtime.RawExtension{Raw: []byte(settings)}
			}
			if _, err := client.For[T](f.rest).Create(f.t.Context(), o); err != nil {
				f.t.Fatal(err)
			}
		},
		ready: func(f *fixture, name string) (metav1.ConditionStatus, string) {
			if c := meta.FindStatusCondition(get(f, name).Conditions, "Ready"); c != nil {
				return c.Status, c.Reason + " " + c.Message
			}
			return "", ""
		},
		remove: func(f *fixture, name string) {
			if err := client.For[T](f.rest).Delete(f.t.Context(), "", object(name).GetName(), metav1.DeleteOptions{}); err != nil {
				f.t.Fatal(err)
			}
		},
	}
}

// matrixKinds are the kinds by the name that the rows of the matrix have for
// them.
func matrixKinds() map[string]kind {
	none := new(int32)
	admission := func(phase pluginsv1.Phase) func(name string) *pluginsv1.AdmissionPlugin {
		return func(name string) *pluginsv1.AdmissionPlugin {
			return &pluginsv1.AdmissionPlugin{ObjectMeta: named(name), Spec: pluginsv1.AdmissionPluginSpec{
				Phases: []pluginsv1.Phase{phase},
				Rules:  []admissionregistrationv1.RuleWithOperations{rule("configmaps", admissionregistrationv1.Create)},
				// Nobody writes such objects but to ask the plugin.
				ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"matrix": name}},
			}}
		}
	}
	return map[string]kind{
		"mutate":   kindOf("AdmissionPlugin", admission(pluginsv1.PhaseMutate)),
		"validate": kindOf("AdmissionPlugin", admission(pluginsv1.PhaseValidate)),
		"authorize": kindOf("AuthorizationPlugin", func(name string) *pluginsv1.AuthorizationPlugin {
			return &pluginsv1.AuthorizationPlugin{ObjectMeta: named(name), Spec: pluginsv1.AuthorizationPluginSpec{Users: []string{name}}}
		}),
		"authenticate": kindOf("AuthenticationPlugin", func(name string) *pluginsv1.AuthenticationPlugin {
			return &pluginsv1.AuthenticationPlugin{ObjectMeta: named(name), Spec: pluginsv1.AuthenticationPluginSpec{TokenPrefix: name + "-", CacheSeconds: none}}
		}),
		"convert": kindOf("ConversionPlugin", func(name string) *pluginsv1.ConversionPlugin {
			return &pluginsv1.ConversionPlugin{ObjectMeta: named(name), Spec: pluginsv1.ConversionPluginSpec{CustomResourceDefinition: "things." + name}}
		}),
		"serve": kindOf("VirtualAPI", func(name string) *pluginsv1.VirtualAPI {
			group := name + ".example.test"
			return &pluginsv1.VirtualAPI{ObjectMeta: named("v1." + group), Spec: pluginsv1.VirtualAPISpec{Group: group, Version: "v1", Resources: []pluginsv1.VirtualResource{
				{Plural: "things", Kind: "Thing", Verbs: []string{"get"}},
			}}}
		}),
		"reconcile": kindOf("Reconciler", func(name string) *pluginsv1.Reconciler {
			cm := pluginsv1.WatchedKind{Version: "v1", Resource: "configmaps"}
			primary := cm
			primary.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"reconcile": name}}
			return &pluginsv1.Reconciler{ObjectMeta: named(name), Spec: pluginsv1.ReconcilerSpec{
				Common: pluginsv1.Common{ServiceAccount: &pluginsv1.ServiceAccountReference{Namespace: "default", Name: "operator"}},
				For:    primary, Owns: []pluginsv1.WatchedKind{cm},
			}}
		}),
		"schedule": kindOf("SchedulerPlugin", func(name string) *pluginsv1.SchedulerPlugin {
			return &pluginsv1.SchedulerPlugin{ObjectMeta: named(name)}
		}),
		"schedule at Bind": kindOf("SchedulerPlugin", func(name string) *pluginsv1.SchedulerPlugin {
			return &pluginsv1.SchedulerPlugin{ObjectMeta: named(name), Spec: pluginsv1.SchedulerPluginSpec{Points: []pluginsv1.SchedulerPoint{pluginsv1.PointBind}}}
		}),
	}
}

// await waits until a plugin's condition Ready has the status.
func (k kind) await(f *fixture, name string, want metav1.ConditionStatus) (reason string) {
	f.t.Helper()
	f.until(fmt.Sprintf("%s %s is Ready=%s", k.name, name, want), func() bool {
		status, r := k.ready(f, name)
		reason = r
		return status == want
	})
	return reason
}
