package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group.
const GroupName = "plugins.proa.io"

// SchemeGroupVersion is the group and version of the types here.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1"} //nolint:gochecknoglobals // a constant in all but name

// AddToScheme registers the types here.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(SchemeGroupVersion,
		&WasmModule{}, &WasmModuleList{},
		&AdmissionPlugin{}, &AdmissionPluginList{},
		&SchedulerPlugin{}, &SchedulerPluginList{},
		&AuthorizationPlugin{}, &AuthorizationPluginList{},
		&AuthenticationPlugin{}, &AuthenticationPluginList{},
		&ConversionPlugin{}, &ConversionPluginList{},
		&VirtualAPI{}, &VirtualAPIList{},
		&Reconciler{}, &ReconcilerList{},
		&PolicyScan{}, &PolicyScanList{},
		&PolicyReport{}, &PolicyReportList{},
		&AdmissionTrace{}, &AdmissionTraceList{},
	)
	metav1.AddToGroupVersion(s, SchemeGroupVersion)
	return nil
}
