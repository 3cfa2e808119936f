//nolint:modernize // omitempty, too: that is how the documents and other tools tell optional fields
package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// A PolicyScan asks an AdmissionPlugin about requests of the past, or about
// the objects that exist, without any effect but a PolicyReport of its name.
type PolicyScan struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	Spec   PolicyScanSpec   `json:"spec,omitempty,omitzero"`
	Status PolicyScanStatus `json:"status,omitempty,omitzero"`
}

// A ScanSource is what a scan goes over.
type ScanSource string

// The sources.
const (
	// ScanRecorded are the last requests, as the server has recorded them.
	ScanRecorded ScanSource = "Recorded"
	// ScanExisting are the objects that exist.
	ScanExisting ScanSource = "Existing"
)

// PolicyScanSpec says who is asked about what.
type PolicyScanSpec struct {
	// Plugin is the name of an AdmissionPlugin, in whatever mode.
	Plugin string `json:"plugin"`
	// Candidate asks the plugin's candidate instead.
	Candidate bool `json:"candidate,omitempty"`
	// Source is Recorded or Existing.
	Source ScanSource `json:"source"`
	// NamespaceSelector narrows down the objects.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// Limit is the most requests or objects; 10,000 by default.
	Limit int32 `json:"limit,omitempty"`
	// IntervalSeconds repeats the scan; 0 is once, otherwise 60 at least.
	IntervalSeconds int32 `json:"intervalSeconds,omitempty"`
}

// PolicyScanStatus says how far a scan is.
type PolicyScanStatus struct {
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Phase is Running, Done or Failed.
	Phase       string             `json:"phase,omitempty"`
	Message     string             `json:"message,omitempty"`
	StartedAt   *metav1.Time       `json:"startedAt,omitempty"`
	CompletedAt *metav1.Time       `json:"completedAt,omitempty"`
	Processed   int32              `json:"processed,omitempty"`
	Conditions  []metav1.Condition `json:"conditions,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PolicyScanList is a list of PolicyScans.
type PolicyScanList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`

	Items []PolicyScan `json:"items"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// A PolicyReport is the outcome of a PolicyScan, in the shape of the reports
// of the Kubernetes policy working group.
type PolicyReport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	Summary PolicyReportSummary  `json:"summary,omitempty,omitzero"`
	Results []PolicyReportResult `json:"results,omitempty"`
}

// PolicyReportSummary counts results.
type PolicyReportSummary struct {
	Pass  int32 `json:"pass"`
	Fail  int32 `json:"fail"`
	Warn  int32 `json:"warn"`
	Error int32 `json:"error"`
	Skip  int32 `json:"skip"`
}

// PolicyReportResult is the outcome for one object or request. Passes are
// counted, not listed.
type PolicyReportResult struct {
	// Policy is the plugin, Source who says so.
	Policy string `json:"policy"`
	Source string `json:"source,omitempty"`
	// Result is pass, fail, warn, error or skip.
	Result    string              `json:"result"`
	Message   string              `json:"message,omitempty"`
	Resources []ResourceReference `json:"resources,omitempty"`
	Timestamp metav1.Time         `json:"timestamp,omitempty,omitzero"`
	// Properties are the operation, the user and what would be changed.
	Properties map[string]string `json:"properties,omitempty"`
}

// A ResourceReference names an object.
type ResourceReference struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name,omitempty"`
	UID        string `json:"uid,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PolicyReportList is a list of PolicyReports.
type PolicyReportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`

	Items []PolicyReport `json:"items"`
}
