package v1

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Common is what every object that has a module called says of it.
type Common struct {
	// Module is the name of the WasmModule.
	Module string `json:"module"`
	// Digest, as sha256:<hex>, pins one of the module's versions, which are
	// listed in its status; without it the plugin follows the module. Setting
	// it to an earlier version is a rollback.
	Digest string `json:"digest,omitempty"`
	// Settings are handed to the module as they are.
	Settings *runtime.RawExtension `json:"settings,omitempty"`
	// FailurePolicy says what happens when the module fails: Fail (the
	// default) refuses what it was asked about, Ignore goes on without it.
	FailurePolicy admissionregistrationv1.FailurePolicyType `json:"failurePolicy,omitempty"`
	Limits        *Limits                                   `json:"limits,omitempty"`
	// Capabilities are the host calls that the module may make. One that is
	// not listed both here and in the module's manifest is denied.
	Capabilities []Capability `json:"capabilities,omitempty"`
	// ServiceAccount is who the module is when it reads the API: its rights
	// decide. Without one it can read nothing.
	ServiceAccount *ServiceAccountReference `json:"serviceAccount,omitempty"`
}

// Limits bound one call of a module. Unset fields mean the defaults.
type Limits struct {
	// TimeoutMillis is the wall-clock limit: 100 by default, 1000 at most. For
	// a SchedulerPlugin it is of processor time for the cycle of a pod: 20 by
	// default, 200 for modules that are called node by node. A Reconciler,
	// for which nobody waits, has 1000 by default.
	TimeoutMillis int32 `json:"timeoutMillis,omitempty"`
	// MemoryMiB is the limit of linear memory: 32 by default, 128 at most.
	MemoryMiB int32 `json:"memoryMiB,omitempty"`
	// Fuel is the limit of metered units: 20,000,000 by default, 200,000,000
	// for a Reconciler.
	Fuel int64 `json:"fuel,omitempty"`
}

// A ServiceAccountReference names a ServiceAccount.
type ServiceAccountReference struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// The names of capabilities.
const (
	CapabilityKubeGet   = "kube.get"
	CapabilityKubeList  = "kube.list"
	CapabilityCanI      = "authz.can_i"
	CapabilityClockWall = "clock.wall"
	CapabilityRandom    = "random"
	CapabilityHTTP      = "http"
	CapabilityConfig    = "config.read"
)

// A Capability is one host call that is granted, and how far.
type Capability struct {
	// Name is kube.get, kube.list, authz.can_i, clock.wall, random, http or
	// config.read.
	Name string `json:"name"`
	// Resources bound kube.get and kube.list; at least one is needed there.
	Resources []CapabilityResource `json:"resources,omitempty"`
	// Hosts bound http, each as host or host:port. The server's configuration
	// has to allow them, too.
	Hosts []string `json:"hosts,omitempty"`
	// ConfigMaps are what config.read reads, each as namespace/name.
	ConfigMaps []string `json:"configMaps,omitempty"`
}

// A CapabilityResource is what of the API may be read.
type CapabilityResource struct {
	Group    string `json:"group,omitempty"`
	Version  string `json:"version"`
	Resource string `json:"resource"`
	// Namespaces that may be read; empty is all.
	Namespaces []string `json:"namespaces,omitempty"`
	// Fields are the paths of the members that the module gets, such as
	// metadata.labels or spec.containers[].image; empty is all.
	Fields []string `json:"fields,omitempty"`
}

// PluginStatus says how a plugin does, on all servers together.
type PluginStatus struct {
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// ModuleDigest is of the version that runs.
	ModuleDigest string `json:"moduleDigest,omitempty"`
	// Capabilities are those that are in force: wanted by the module's
	// manifest and granted by this object.
	Capabilities []string `json:"capabilities,omitempty"`
	// Failures counts calls that ended without an answer; LastFailure says how
	// the last of them did.
	Failures    int64          `json:"failures,omitempty"`
	LastFailure *PluginFailure `json:"lastFailure,omitempty"`
	// Conditions are Ready and, for plugins with a breaker, Degraded, which is
	// true while calls are not made because too many have failed.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// A PluginFailure is one call without an answer.
type PluginFailure struct {
	Time metav1.Time `json:"time"`
	// Reason is DeadlineExceeded, FuelExhausted, OutOfMemory, StackOverflow,
	// Trapped, BadReply or CapabilityDenied.
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}
