//nolint:modernize // omitempty, too: that is how the documents and other tools tell optional fields
package v1

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// A WasmModule is the code of plugins. Its bytes are either inline in
// spec.code or uploaded to the content subresource.
type WasmModule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	Spec   WasmModuleSpec   `json:"spec,omitempty,omitzero"`
	Status WasmModuleStatus `json:"status,omitempty,omitzero"`
}

// WasmModuleSpec says where the code is.
type WasmModuleSpec struct {
	// Code is the module itself, up to 1 MiB.
	Code []byte `json:"code,omitempty"`
	// Digest, as sha256:<hex>, pins the bytes that may be used. An upload to
	// the content subresource sets it.
	Digest string `json:"digest,omitempty"`
}

// WasmModuleStatus says what the host found in the code.
type WasmModuleStatus struct {
	Digest             string             `json:"digest,omitempty"`
	ABI                string             `json:"abi,omitempty"`
	SizeBytes          int64              `json:"sizeBytes,omitempty"`
	CompileMillis      int64              `json:"compileMillis,omitempty"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// WasmModuleList is a list of WasmModules.
type WasmModuleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`

	Items []WasmModule `json:"items"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// An AdmissionPlugin has a module called for writes that match its rules.
type AdmissionPlugin struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	Spec   AdmissionPluginSpec   `json:"spec,omitempty,omitzero"`
	Status AdmissionPluginStatus `json:"status,omitempty,omitzero"`
}

// A Phase is a part of admission.
type Phase string

// The phases.
const (
	PhaseMutate   Phase = "Mutate"
	PhaseValidate Phase = "Validate"
)

// AdmissionPluginSpec says which module is called, when, and within what.
type AdmissionPluginSpec struct {
	// Module is the name of the WasmModule.
	Module string `json:"module"`
	// Phases in which the module is called.
	Phases []Phase `json:"phases"`
	// Rules, selectors and match conditions are those of webhooks.
	Rules             []admissionregistrationv1.RuleWithOperations `json:"rules"`
	NamespaceSelector *metav1.LabelSelector                        `json:"namespaceSelector,omitempty"`
	ObjectSelector    *metav1.LabelSelector                        `json:"objectSelector,omitempty"`
	// Settings are handed to the module as they are.
	Settings *runtime.RawExtension `json:"settings,omitempty"`
	// Order sorts plugins, lower first, then by name; the default is 0.
	Order int32 `json:"order,omitempty"`
	// FailurePolicy says what happens when the module fails: Fail (the
	// default) refuses the write, Ignore lets it pass.
	FailurePolicy admissionregistrationv1.FailurePolicyType `json:"failurePolicy,omitempty"`
	Limits        *Limits                                   `json:"limits,omitempty"`
}

// Limits bound one call of a module. Unset fields mean the defaults.
type Limits struct {
	// TimeoutMillis is the wall-clock limit: 100 by default, 1000 at most.
	TimeoutMillis int32 `json:"timeoutMillis,omitempty"`
	// MemoryMiB is the limit of linear memory: 32 by default, 128 at most.
	MemoryMiB int32 `json:"memoryMiB,omitempty"`
	// Fuel is the limit of metered units: 20,000,000 by default.
	Fuel int64 `json:"fuel,omitempty"`
}

// AdmissionPluginStatus says how the plugin does.
type AdmissionPluginStatus struct {
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	ModuleDigest       string `json:"moduleDigest,omitempty"`
	// Failures counts calls that ended without an answer, on all servers
	// together; LastFailure says how the last of them did.
	Failures    int64              `json:"failures,omitempty"`
	LastFailure *PluginFailure     `json:"lastFailure,omitempty"`
	Conditions  []metav1.Condition `json:"conditions,omitempty"`
}

// A PluginFailure is one call without an answer.
type PluginFailure struct {
	Time metav1.Time `json:"time"`
	// Reason is DeadlineExceeded, FuelExhausted, OutOfMemory, StackOverflow,
	// Trapped, BadReply or CapabilityDenied.
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AdmissionPluginList is a list of AdmissionPlugins.
type AdmissionPluginList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`

	Items []AdmissionPlugin `json:"items"`
}
