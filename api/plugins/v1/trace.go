//nolint:modernize // omitempty, too: that is how the documents and other tools tell optional fields
package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// An AdmissionTrace tells what the policies did to one request. Its name is
// the audit id of the response. It is read-only, and the server that answered
// the request keeps the last few thousand.
type AdmissionTrace struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	Request TracedRequest `json:"request"`
	// Outcome is Allowed, Denied or Failed.
	Outcome string `json:"outcome"`
	Message string `json:"message,omitempty"`
	// Micros is how long all policies took together.
	Micros int64 `json:"micros"`
	// Steps are the policies in the order in which they were called.
	Steps       []TraceStep       `json:"steps,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// A TracedRequest is what was asked for, and by whom.
type TracedRequest struct {
	User        string `json:"user,omitempty"`
	Operation   string `json:"operation"`
	Group       string `json:"group,omitempty"`
	Version     string `json:"version"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource,omitempty"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name,omitempty"`
	DryRun      bool   `json:"dryRun,omitempty"`
}

// A TraceStep is the call of one policy.
type TraceStep struct {
	// Kind and Name are of the policy: an AdmissionPlugin, a webhook, a
	// ValidatingAdmissionPolicy.
	Kind  string `json:"kind"`
	Name  string `json:"name"`
	Phase Phase  `json:"phase"`
	// Mode is what was made of the answer.
	Mode Mode `json:"mode,omitempty"`
	// Outcome is Allowed, Denied, Changed, Failed, Ignored or Skipped.
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Patch is what the policy changed or, where it may not, would have, as
	// RFC 6902.
	Patch    string   `json:"patch,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// Micros, Fuel, MemoryBytes and HostCalls are what the call took.
	Micros      int64    `json:"micros"`
	Fuel        int64    `json:"fuel,omitempty"`
	MemoryBytes int64    `json:"memoryBytes,omitempty"`
	HostCalls   []string `json:"hostCalls,omitempty"`
	// Digest is of the module's version that answered.
	Digest string `json:"digest,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AdmissionTraceList is a list of AdmissionTraces.
type AdmissionTraceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`

	Items []AdmissionTrace `json:"items"`
}
