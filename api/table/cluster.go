package table

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func nodeColumns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		nameColumn(),
		column("Status", "string", "Whether the node is ready and takes pods.", 0),
		column("Roles", "string", "Roles that labels give to the node.", 0),
		ageColumn(),
		column("Version", "string", "Version of the node agent.", 0),
		column("Internal-IP", "string", "Address within the cluster.", 1),
		column("External-IP", "string", "Address outside of the cluster.", 1),
		column("OS-Image", "string", "Operating system.", 1),
		column("Kernel-Version", "string", "Version of the kernel.", 1),
		column("Container-Runtime", "string", "Container runtime and its version.", 1),
	}
}

func node(n *corev1.Node, now time.Time) []any {
	status := "Unknown"
	for _, c := range n.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		status = "NotReady"
		if c.Status == corev1.ConditionTrue {
			status = "Ready"
		}
	}
	if n.Spec.Unschedulable {
		status += ",SchedulingDisabled"
	}
	info := &n.Status.NodeInfo
	return []any{
		n.Name, status, roles(n.Labels), age(n.CreationTimestamp, now), info.KubeletVersion,
		address(n, corev1.NodeInternalIP), address(n, corev1.NodeExternalIP),
		orUnknown(info.OSImage), orUnknown(info.KernelVersion), orUnknown(info.ContainerRuntimeVersion),
	}
}

// The labels that say what a node is for.
const (
	rolePrefix = "node-role.kubernetes.io/"
	roleLabel  = "kubernetes.io/role"
)

func roles(labels map[string]string) string {
	var list []string
	for key, value := range labels {
		if role, ok := strings.CutPrefix(key, rolePrefix); ok && role != "" {
			list = append(list, role)
		} else if key == roleLabel && value != "" {
			list = append(list, value)
		}
	}
	slices.Sort(list)
	return orNone(strings.Join(slices.Compact(list), ","))
}

func address(n *corev1.Node, t corev1.NodeAddressType) string {
	for _, a := range n.Status.Addresses {
		if a.Type == t {
			return a.Address
		}
	}
	return "<none>"
}

func eventColumns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		column("Last Seen", "string", "Time since it happened last.", 0),
		column("Type", "string", "Normal or Warning.", 0),
		column("Reason", "string", "Why it happened, in one word.", 0),
		column("Object", "string", "What it happened to.", 0),
		column("Subobject", "string", "Which part of the object.", 1),
		column("Source", "string", "Who reported it.", 1),
		column("Message", "string", "What happened.", 0),
		column("First Seen", "string", "Time since it happened first.", 1),
		column("Count", "string", "How often it happened.", 1),
		{Name: "Name", Type: "string", Format: "name", Description: "The event's name.", Priority: 1},
	}
}

func event(e *corev1.Event, now time.Time) []any {
	first := age(e.FirstTimestamp, now)
	if e.FirstTimestamp.IsZero() {
		first = age(metav1.Time(e.EventTime), now)
	}
	last := age(e.LastTimestamp, now)
	if e.LastTimestamp.IsZero() {
		last = first
	}
	count := max(e.Count, 1)
	if e.Series != nil {
		last, count = age(metav1.Time(e.Series.LastObservedTime), now), e.Series.Count
	}
	target := strings.ToLower(e.InvolvedObject.Kind)
	if e.InvolvedObject.Name != "" {
		target += "/" + e.InvolvedObject.Name
	}
	source, host := e.Source.Component, e.Source.Host
	if source == "" && host == "" {
		source, host = e.ReportingController, e.ReportingInstance
	}
	if host != "" {
		source += ", " + host
	}
	return []any{
		last, e.Type, e.Reason, target, e.InvolvedObject.FieldPath, source,
		strings.TrimSpace(e.Message), first, int64(count), e.Name,
	}
}
