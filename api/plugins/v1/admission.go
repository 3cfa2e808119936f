//nolint:modernize // omitempty, too: that is how the documents and other tools tell optional fields
package v1

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

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

// A Mode is what is made of a plugin's answer.
type Mode string

// The modes.
const (
	// ModeEnforce refuses and changes.
	ModeEnforce Mode = "Enforce"
	// ModeWarn turns denials into warnings for the client and changes nothing.
	ModeWarn Mode = "Warn"
	// ModeAudit puts denials and changes into audit annotations only.
	ModeAudit Mode = "Audit"
	// ModeShadow lets nobody but the trace and the metrics know.
	ModeShadow Mode = "Shadow"
)

// AdmissionPluginSpec says which module is called, when, and within what.
type AdmissionPluginSpec struct {
	Common `json:",inline"`

	// Phases in which the module is called.
	Phases []Phase `json:"phases"`
	// Rules, selectors and match conditions are those of webhooks.
	Rules             []admissionregistrationv1.RuleWithOperations `json:"rules"`
	NamespaceSelector *metav1.LabelSelector                        `json:"namespaceSelector,omitempty"`
	ObjectSelector    *metav1.LabelSelector                        `json:"objectSelector,omitempty"`
	MatchConditions   []admissionregistrationv1.MatchCondition     `json:"matchConditions,omitempty"`
	// Order sorts policies of all kinds, lower first, then by name; the
	// default is 0.
	Order int32 `json:"order,omitempty"`
	// Mode is Enforce (the default), Warn, Audit or Shadow.
	Mode Mode `json:"mode,omitempty"`
	// Candidate is another version that is tried beside the one above.
	Candidate *Candidate `json:"candidate,omitempty"`
}

// A Candidate is a version of a plugin on its way in. Without a share it is in
// shadow: it answers the same requests, and the differences are counted. With
// one, its answer counts instead of the other's for that share of requests.
type Candidate struct {
	// Module and Digest are the code; an empty module is the plugin's.
	Module string `json:"module,omitempty"`
	Digest string `json:"digest,omitempty"`
	// Settings replace the plugin's, if given.
	Settings *runtime.RawExtension `json:"settings,omitempty"`
	// Percent of the requests, chosen by the object's namespace and name, so
	// that one object always meets the same version.
	Percent int32 `json:"percent,omitempty"`
	// NamespaceSelector chooses namespaces whose requests all go to the
	// candidate.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
}

// AdmissionPluginStatus says how the plugin does.
type AdmissionPluginStatus struct {
	PluginStatus `json:",inline"`

	// Candidate compares the candidate's answers with the plugin's.
	Candidate *CandidateStatus `json:"candidate,omitempty"`
}

// CandidateStatus says how a candidate does beside the version that counts.
type CandidateStatus struct {
	ModuleDigest string `json:"moduleDigest,omitempty"`
	// Compared counts the requests that both have answered, Differing those
	// with another outcome, Failures those that the candidate had no answer to.
	Compared  int64 `json:"compared,omitempty"`
	Differing int64 `json:"differing,omitempty"`
	Failures  int64 `json:"failures,omitempty"`
	// Examples are the latest differences, ten at most.
	Examples []Difference `json:"examples,omitempty"`
}

// A Difference is a request that two versions answer differently.
type Difference struct {
	Time      metav1.Time `json:"time"`
	Operation string      `json:"operation"`
	Resource  string      `json:"resource"`
	Namespace string      `json:"namespace,omitempty"`
	Name      string      `json:"name,omitempty"`
	// Current and Candidate are the outcomes in words.
	Current   string `json:"current"`
	Candidate string `json:"candidate"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AdmissionPluginList is a list of AdmissionPlugins.
type AdmissionPluginList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`

	Items []AdmissionPlugin `json:"items"`
}
