package abi

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// KubewardenSection is the name of the custom section with the metadata of
// Kubewarden's policies.
const KubewardenSection = "io.kubewarden.metadata"

// The execution modes of KubewardenMetadata.
const (
	ModeWaPC       = "kubewarden-wapc"
	ModeWASI       = "wasi"
	ModeOPA        = "opa"
	ModeGatekeeper = "gatekeeper"
)

// KubewardenMetadata is what a Kubewarden policy says of itself.
type KubewardenMetadata struct {
	ProtocolVersion string            `json:"protocolVersion,omitempty"`
	Rules           []KubewardenRule  `json:"rules,omitempty"`
	Annotations     map[string]string `json:"annotations,omitempty"`
	// Mutating says that the policy may change objects.
	Mutating bool `json:"mutating"`
	// ExecutionMode is one of the modes; the default is ModeWaPC.
	ExecutionMode string `json:"executionMode,omitempty"`
	// PolicyType is "kubernetes", the default, or "raw".
	PolicyType string `json:"policyType,omitempty"`
	// BackgroundAudit says that the policy may judge objects that are there
	// already; nil is yes.
	BackgroundAudit *bool `json:"backgroundAudit,omitempty"`
	// ContextAwareResources are the kinds that the policy wants to read.
	ContextAwareResources []KubewardenResource `json:"contextAwareResources,omitempty"`
	// HostCapabilities are patterns of the host's functions, such as "oci/*".
	HostCapabilities         []string `json:"hostCapabilities,omitempty"`
	MinimumKubewardenVersion string   `json:"minimumKubewardenVersion,omitempty"`
}

// A KubewardenRule is a rule that the author recommends, with the fields of a
// webhook's.
type KubewardenRule struct {
	Operations  []string `json:"operations"`
	APIGroups   []string `json:"apiGroups"`
	APIVersions []string `json:"apiVersions"`
	Resources   []string `json:"resources"`
}

// A KubewardenResource is a kind of objects.
type KubewardenResource struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// ParseKubewardenMetadata decodes the section. Its defaults are filled in.
func ParseKubewardenMetadata(section []byte) (*KubewardenMetadata, error) {
	m := &KubewardenMetadata{}
	if err := json.Unmarshal(section, m); err != nil {
		return nil, fmt.Errorf("section %s: %w", KubewardenSection, err)
	}
	if m.ExecutionMode == "" {
		m.ExecutionMode = ModeWaPC
	}
	if m.PolicyType == "" {
		m.PolicyType = "kubernetes"
	}
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("section %s: %w", KubewardenSection, err)
	}
	return m, nil
}

func (m *KubewardenMetadata) check() error {
	if !slices.Contains([]string{ModeWaPC, ModeWASI, ModeOPA, ModeGatekeeper}, m.ExecutionMode) {
		return fmt.Errorf("unknown execution mode %q", m.ExecutionMode)
	}
	for n, r := range m.Rules {
		if len(r.Operations) == 0 || len(r.APIGroups) == 0 || len(r.APIVersions) == 0 || len(r.Resources) == 0 {
			return fmt.Errorf("rule %d is not complete", n)
		}
	}
	for _, r := range m.ContextAwareResources {
		if r.APIVersion == "" || r.Kind == "" {
			return errors.New("a context-aware resource without version or kind")
		}
	}
	return nil
}

// MayRead reports whether the policy said that it wants to read a kind.
func (m *KubewardenMetadata) MayRead(apiVersion, kind string) bool {
	return m != nil && slices.Contains(m.ContextAwareResources, KubewardenResource{apiVersion, kind})
}

// SplitAPIVersion returns the group and the version of an apiVersion.
func SplitAPIVersion(s string) (group, version string) {
	group, version, ok := strings.Cut(s, "/")
	if !ok {
		return "", s
	}
	return group, version
}
