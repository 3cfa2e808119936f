//nolint:modernize // omitempty, too: that is how the documents and other tools tell optional fields
package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// A ConversionPlugin has a module convert the objects of a custom resource
// between its versions, in place of a conversion webhook.
type ConversionPlugin struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	Spec   ConversionPluginSpec   `json:"spec,omitempty,omitzero"`
	Status ConversionPluginStatus `json:"status,omitempty,omitzero"`
}

// ConversionPluginSpec says which module converts what.
type ConversionPluginSpec struct {
	Common `json:",inline"`

	// CustomResourceDefinition is the name of the definition, plural.group.
	CustomResourceDefinition string `json:"customResourceDefinition"`
}

// ConversionPluginStatus says how the plugin does.
type ConversionPluginStatus struct {
	PluginStatus `json:",inline"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ConversionPluginList is a list of ConversionPlugins.
type ConversionPluginList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`

	Items []ConversionPlugin `json:"items"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// A VirtualAPI is a version of an API group that a module answers for, in
// place of an aggregated API server. Its name is version.group.
type VirtualAPI struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	Spec   VirtualAPISpec   `json:"spec,omitempty,omitzero"`
	Status VirtualAPIStatus `json:"status,omitempty,omitzero"`
}

// VirtualAPISpec says what the module answers for.
type VirtualAPISpec struct {
	Common `json:",inline"`

	Group     string            `json:"group"`
	Version   string            `json:"version"`
	Resources []VirtualResource `json:"resources"`
}

// A VirtualResource is one resource of a virtual API.
type VirtualResource struct {
	Plural     string   `json:"plural"`
	Singular   string   `json:"singular,omitempty"`
	Kind       string   `json:"kind"`
	Namespaced bool     `json:"namespaced,omitempty"`
	ShortNames []string `json:"shortNames,omitempty"`
	// Verbs are of get, list, watch, create, update and delete.
	Verbs []string `json:"verbs"`
	// PollSeconds is how often the module is asked for the list while somebody
	// watches: 10 by default.
	PollSeconds int32 `json:"pollSeconds,omitempty"`
	// Columns are what kubectl get prints after the name.
	Columns []VirtualColumn `json:"columns,omitempty"`
}

// A VirtualColumn is a column of a table of virtual objects.
type VirtualColumn struct {
	Name string `json:"name"`
	// Type is string, integer, number, boolean or date.
	Type string `json:"type"`
	// JSONPath is where the value is, such as .spec.size.
	JSONPath string `json:"jsonPath"`
}

// VirtualAPIStatus says how the module does.
type VirtualAPIStatus struct {
	PluginStatus `json:",inline"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// VirtualAPIList is a list of VirtualAPIs.
type VirtualAPIList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`

	Items []VirtualAPI `json:"items"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// A Reconciler has a module called with each object of a kind, and makes true
// what it answers: the objects that should be there and the object's status.
// It is an operator without a pod. What it may write is up to the rights of its
// ServiceAccount.
type Reconciler struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	Spec   ReconcilerSpec   `json:"spec,omitempty,omitzero"`
	Status ReconcilerStatus `json:"status,omitempty,omitzero"`
}

// ReconcilerSpec says which module is called, and for what.
type ReconcilerSpec struct {
	Common `json:",inline"`

	// For is the kind whose objects the module is called with.
	For WatchedKind `json:"for"`
	// Owns are the kinds of the objects that the module answers with. They are
	// owned by the object; one that is missing from an answer is deleted.
	Owns []WatchedKind `json:"owns,omitempty"`
	// ResyncSeconds is how often every object is looked at without a change;
	// 0 is never, otherwise 10 at least.
	ResyncSeconds int32 `json:"resyncSeconds,omitempty"`
}

// A WatchedKind is a kind by its version and plural.
type WatchedKind struct {
	Group    string `json:"group,omitempty"`
	Version  string `json:"version"`
	Resource string `json:"resource"`
	// Selector narrows down the objects.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// ReconcilerStatus says how the reconciler does.
type ReconcilerStatus struct {
	PluginStatus `json:",inline"`

	// Objects counts those of the kind; Failing those whose last call failed.
	Objects int32 `json:"objects,omitempty"`
	Failing int32 `json:"failing,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ReconcilerList is a list of Reconcilers.
type ReconcilerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`

	Items []Reconciler `json:"items"`
}
