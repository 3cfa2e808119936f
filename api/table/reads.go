package table

import (
	eventsv1 "k8s.io/api/events/v1"

	"github.com/proa-project/proa/api"
)

// reads returns the paths of all that the cells of a kind are made of, as
// api.Select wants them. Nothing else is decoded for a row, so a new column
// needs what it shows to be here; TestReads fails if it is not.
func reads(r *api.Resource) []string {
	if r.Kind == "Event" {
		return eventReads(r)
	}
	return append([]string{"metadata.name", "metadata.creationTimestamp"}, moreReads(r)...)
}

// moreReads returns what the cells are made of beside name and age.
func moreReads(r *api.Resource) []string {
	switch r.Kind {
	case "Pod":
		return podReads()
	case "Deployment":
		return append(templateReads(), "status.readyReplicas", "status.updatedReplicas", "status.availableReplicas")
	case "ReplicaSet":
		return append(templateReads(), "status.replicas", "status.readyReplicas")
	case "Node":
		return []string{
			"metadata.labels", "spec.unschedulable", "status.conditions[].type", "status.conditions[].status",
			"status.addresses[].type", "status.addresses[].address",
			"status.nodeInfo.kubeletVersion", "status.nodeInfo.osImage", "status.nodeInfo.kernelVersion",
			"status.nodeInfo.containerRuntimeVersion",
		}
	case "Namespace":
		return []string{"status.phase"}
	case "ConfigMap":
		return []string{"data{}", "binaryData{}"}
	case "Secret":
		return []string{"type", "data{}"}
	case "ServiceAccount":
		return []string{"secrets[]"}
	case "Lease":
		return []string{"spec.holderIdentity"}
	case "RoleBinding", "ClusterRoleBinding":
		return bindingReads()
	case "WasmModule":
		return []string{
			"spec.digest", "status.digest", "status.abi", "status.sizeBytes",
			"status.conditions[].type", "status.conditions[].status",
		}
	case "AdmissionPlugin":
		return pluginReads("spec.phases", "spec.mode", "spec.failurePolicy")
	case "SchedulerPlugin":
		return pluginReads("status.points")
	case "AuthorizationPlugin", "AuthenticationPlugin":
		return pluginReads("spec.order")
	case "ConversionPlugin":
		return pluginReads("spec.customResourceDefinition")
	case "VirtualAPI":
		return pluginReads("spec.resources[].plural")
	case "Reconciler":
		return pluginReads("spec.for", "status.objects", "status.failing")
	case "PolicyScan":
		return []string{"spec.plugin", "spec.source", "status.phase", "status.processed"}
	case "AdmissionTrace":
		return []string{"outcome", "request", "micros"}
	case "PolicyReport":
		return []string{"summary"}
	}
	return admissionReads(r.Kind)
}

// pluginReads adds what the cells of all kinds of plugins are made of.
func pluginReads(own ...string) []string {
	return append(own, "spec.module", "status.failures", "status.conditions[].type", "status.conditions[].status")
}

func podReads() []string {
	paths := []string{
		"metadata.deletionTimestamp",
		"spec.containers[]", "spec.initContainers[].name", "spec.initContainers[].restartPolicy",
		"spec.nodeName", "spec.readinessGates[].conditionType",
		"status.phase", "status.reason", "status.nominatedNodeName", "status.podIPs[].ip",
		"status.conditions[].type", "status.conditions[].status", "status.conditions[].reason",
		"status.initContainerStatuses[].name", "status.initContainerStatuses[].started",
		"status.containerStatuses[].state.running{}",
	}
	for _, list := range []string{"status.initContainerStatuses[].", "status.containerStatuses[]."} {
		for _, path := range []string{
			"ready", "restartCount", "lastState.terminated.finishedAt", "state.waiting.reason",
			"state.terminated.reason", "state.terminated.signal", "state.terminated.exitCode",
		} {
			paths = append(paths, list+path)
		}
	}
	return paths
}

// templateReads is what kinds have that make pods.
func templateReads() []string {
	return []string{
		"spec.replicas", "spec.selector",
		"spec.template.spec.containers[].name", "spec.template.spec.containers[].image",
	}
}

func eventReads(r *api.Resource) []string {
	paths := []string{
		"metadata.name", "type", "reason", "eventTime", "series.count", "series.lastObservedTime", "reportingInstance",
	}
	if r.Group == eventsv1.GroupName {
		return append(paths, "regarding.kind", "regarding.name", "regarding.fieldPath", "note", "reportingController",
			"deprecatedSource.component", "deprecatedSource.host",
			"deprecatedFirstTimestamp", "deprecatedLastTimestamp", "deprecatedCount")
	}
	return append(paths, "involvedObject.kind", "involvedObject.name", "involvedObject.fieldPath", "message", "reportingComponent",
		"source.component", "source.host", "firstTimestamp", "lastTimestamp", "count")
}
