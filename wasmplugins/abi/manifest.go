package abi

import "strings"

// Wants returns the capabilities that a module of a foreign ABI makes use of:
// such a module has no manifest, but its own metadata, or its ABI, tells. The
// result is nil for modules of the native ABI.
func Wants(abi string, sections map[string][]byte) []string {
	if abi != KubewardenABI && abi != KubewardenWASI {
		return nil
	}
	m, err := ParseKubewardenMetadata(sections[KubewardenSection])
	if err != nil {
		return nil // without metadata it may read nothing
	}
	var wants []string
	if len(m.ContextAwareResources) > 0 {
		wants = append(wants, "kube.get", "kube.list")
	}
	if m.HostCapabilities == nil { // policies of older versions do not say
		return append(wants, "authz.can_i")
	}
	for _, pattern := range m.HostCapabilities {
		prefix, many := strings.CutSuffix(pattern, "*")
		if pattern == "kubernetes/can_i" || many && strings.HasPrefix("kubernetes/can_i", prefix) {
			return append(wants, "authz.can_i")
		}
	}
	return wants
}
