package defaulting

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
)

// plugin fills in what all kinds of plugins have, then what one kind has.
func plugin(o pluginsv1.Binding) {
	common, _ := o.Bound()
	fill(&common.FailurePolicy, admissionregistrationv1.Fail)
	switch o := o.(type) {
	case *pluginsv1.AdmissionPlugin:
		fill(&o.Spec.Mode, pluginsv1.ModeEnforce)
		for i := range o.Spec.Rules {
			fillPtr(&o.Spec.Rules[i].Scope, admissionregistrationv1.AllScopes)
		}
	case *pluginsv1.SchedulerPlugin:
		fill(&o.Spec.Weight, 1)
		if len(o.Spec.SchedulerNames) == 0 {
			o.Spec.SchedulerNames = []string{"default-scheduler"}
		}
	case *pluginsv1.AuthenticationPlugin:
		fillPtr(&o.Spec.CacheSeconds, 10)
	case *pluginsv1.VirtualAPI:
		for i := range o.Spec.Resources {
			fill(&o.Spec.Resources[i].PollSeconds, 10)
		}
	}
}
