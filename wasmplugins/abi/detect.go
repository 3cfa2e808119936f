package abi

import (
	"slices"
	"strings"
)

// The ABIs that Detect tells apart.
const (
	Native         = "proa/v1"
	KubewardenABI  = "kubewarden-wapc"
	KubewardenWASI = "kubewarden-wasi"
	RegoABI        = "opa"
	GatekeeperABI  = "gatekeeper"
	SchedulerABI   = "kube-scheduler-wasm"
	Unknown        = ""
)

// Detect tells the ABI of a module by its exported functions, its imported
// ones as "module.name", and its custom sections. What only the section
// KubewardenSection says is believed as far as the functions agree.
func Detect(exports map[string]string, imports []string, sections map[string][]byte) string {
	has := func(name string) bool { _, ok := exports[name]; return ok }
	from := func(modules ...string) bool {
		return slices.ContainsFunc(imports, func(i string) bool {
			return slices.ContainsFunc(modules, func(m string) bool { return strings.HasPrefix(i, m+".") })
		})
	}
	mode := ""
	if section, ok := sections[KubewardenSection]; ok {
		if m, err := ParseKubewardenMetadata(section); err == nil {
			mode = m.ExecutionMode
		}
	}
	switch {
	case has(ExportVersion):
		return Native
	case has("__guest_call") || from("wapc"):
		return KubewardenABI
	case has("opa_json_parse") || has("opa_eval"):
		if mode == ModeGatekeeper {
			return GatekeeperABI
		}
		return RegoABI
	case from("k8s.io/scheduler", "k8s.io/api"):
		return SchedulerABI
	case has("_start") && (mode == ModeWASI || from("host", "kubewarden:javy/host")):
		return KubewardenWASI
	}
	return Unknown
}
