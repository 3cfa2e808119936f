//nolint:modernize // omitempty, too: that is how the documents and other tools tell optional fields
package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// A SchedulerPlugin has a module take part in the scheduling of pods.
type SchedulerPlugin struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	Spec   SchedulerPluginSpec   `json:"spec,omitempty,omitzero"`
	Status SchedulerPluginStatus `json:"status,omitempty,omitzero"`
}

// A SchedulerPoint is a point of the scheduling framework.
type SchedulerPoint string

// The points.
const (
	PointPreFilter  SchedulerPoint = "PreFilter"
	PointFilter     SchedulerPoint = "Filter"
	PointPostFilter SchedulerPoint = "PostFilter"
	PointPreScore   SchedulerPoint = "PreScore"
	PointScore      SchedulerPoint = "Score"
	PointReserve    SchedulerPoint = "Reserve"
	PointPermit     SchedulerPoint = "Permit"
	PointPreBind    SchedulerPoint = "PreBind"
	PointBind       SchedulerPoint = "Bind"
	PointPostBind   SchedulerPoint = "PostBind"
)

// SchedulerPluginSpec says which module is called, and at which points.
type SchedulerPluginSpec struct {
	Common `json:",inline"`

	// SchedulerNames are the profiles, as pods name them in
	// spec.schedulerName; default-scheduler by default. A name that no profile
	// has makes one that is like the default.
	SchedulerNames []string `json:"schedulerNames,omitempty"`
	// Points at which the module is called; by default all that it has. Bind
	// is among them only when it is named.
	Points []SchedulerPoint `json:"points,omitempty"`
	// Weight multiplies the module's scores; 1 by default, 100 at most.
	Weight int32 `json:"weight,omitempty"`
	// Order sorts the plugins, lower first, then by name. All come after the
	// built-in ones.
	Order int32 `json:"order,omitempty"`
}

// SchedulerPluginStatus says how the plugin does.
type SchedulerPluginStatus struct {
	PluginStatus `json:",inline"`

	// Points at which the module is called.
	Points []SchedulerPoint `json:"points,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// SchedulerPluginList is a list of SchedulerPlugins.
type SchedulerPluginList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`

	Items []SchedulerPlugin `json:"items"`
}
