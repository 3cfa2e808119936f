//nolint:modernize // omitempty, too: that is how the documents and other tools tell optional fields
package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// A WasmModule is the code of plugins. Its bytes are inline in spec.code,
// uploaded to the content subresource, or pulled from a registry.
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
	// the content subresource sets it. Setting it to one of status.versions is
	// a rollback for all plugins that follow the module.
	Digest string `json:"digest,omitempty"`
	// Image is an OCI artifact to pull the code from.
	Image *ModuleImage `json:"image,omitempty"`
	// Signatures are of the module's bytes. If the server has trusted keys,
	// one of them must be by one of those.
	Signatures []ModuleSignature `json:"signatures,omitempty"`
	// VersionHistoryLimit is how many earlier versions are kept for rollback:
	// 3 by default, 10 at most.
	VersionHistoryLimit *int32 `json:"versionHistoryLimit,omitempty"`
}

// A ModuleImage is an OCI artifact with one module in it.
type ModuleImage struct {
	// Reference is registry/repository:tag or registry/repository@sha256:hex.
	Reference string `json:"reference"`
	// PullSecret is a Secret of type kubernetes.io/dockerconfigjson.
	PullSecret *SecretReference `json:"pullSecret,omitempty"`
	// PlainHTTP speaks HTTP to the registry instead of HTTPS.
	PlainHTTP bool `json:"plainHTTP,omitempty"`
}

// A SecretReference names a Secret.
type SecretReference struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// A ModuleSignature is of the module's bytes: Ed25519, or ECDSA P-256 over
// their SHA-256 in ASN.1 form.
type ModuleSignature struct {
	// Key is the name of the trusted key; empty tries all.
	Key string `json:"key,omitempty"`
	// Signature is the raw signature.
	Signature []byte `json:"signature"`
}

// WasmModuleStatus says what the host found in the code.
type WasmModuleStatus struct {
	Digest        string `json:"digest,omitempty"`
	ABI           string `json:"abi,omitempty"`
	SizeBytes     int64  `json:"sizeBytes,omitempty"`
	CompileMillis int64  `json:"compileMillis,omitempty"`
	// SignedBy is the name of the trusted key that has signed the module.
	SignedBy string `json:"signedBy,omitempty"`
	// Manifest is what the module says of itself.
	Manifest *ModuleManifest `json:"manifest,omitempty"`
	// Versions are the digests that plugins may pin, newest first.
	Versions           []ModuleVersion    `json:"versions,omitempty"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// A ModuleManifest is what a module says of itself.
type ModuleManifest struct {
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
	// Points are the extension points that the module is for.
	Points []string `json:"points,omitempty"`
	// Capabilities are the host calls that the module wants.
	Capabilities []string `json:"capabilities,omitempty"`
}

// A ModuleVersion is code that the module had and that is kept.
type ModuleVersion struct {
	Digest    string      `json:"digest"`
	SizeBytes int64       `json:"sizeBytes,omitempty"`
	Time      metav1.Time `json:"time"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// WasmModuleList is a list of WasmModules.
type WasmModuleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`

	Items []WasmModule `json:"items"`
}
