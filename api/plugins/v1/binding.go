package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// A Binding is an object of any kind that has a module called at an extension
// point.
type Binding interface {
	runtime.Object
	metav1.Object
	// Bound returns the parts that all such kinds have, for reading and
	// changing in place.
	Bound() (*Common, *PluginStatus)
}

// Bound implements Binding.
func (p *AdmissionPlugin) Bound() (*Common, *PluginStatus) {
	return &p.Spec.Common, &p.Status.PluginStatus
}

// Bound implements Binding.
func (p *SchedulerPlugin) Bound() (*Common, *PluginStatus) {
	return &p.Spec.Common, &p.Status.PluginStatus
}

// Bound implements Binding.
func (p *AuthorizationPlugin) Bound() (*Common, *PluginStatus) {
	return &p.Spec.Common, &p.Status.PluginStatus
}

// Bound implements Binding.
func (p *AuthenticationPlugin) Bound() (*Common, *PluginStatus) {
	return &p.Spec.Common, &p.Status.PluginStatus
}

// Bound implements Binding.
func (p *ConversionPlugin) Bound() (*Common, *PluginStatus) {
	return &p.Spec.Common, &p.Status.PluginStatus
}

// Bound implements Binding.
func (p *VirtualAPI) Bound() (*Common, *PluginStatus) {
	return &p.Spec.Common, &p.Status.PluginStatus
}

// Bound implements Binding.
func (p *Reconciler) Bound() (*Common, *PluginStatus) {
	return &p.Spec.Common, &p.Status.PluginStatus
}
