package table

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
)

func readyColumn() metav1.TableColumnDefinition {
	return column("Ready", "string", "Whether it can be used.", 0)
}

func wasmModuleColumns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		nameColumn(),
		column("Digest", "string", "Digest of the code, shortened.", 0),
		column("ABI", "string", "How the host talks to the code.", 0),
		column("Size", "string", "Size of the code.", 0),
		readyColumn(), ageColumn(),
	}
}

// shortDigest is how much of a digest tells modules apart: sha256: and 12 digits.
const shortDigest = len("sha256:") + 12

func wasmModule(m *pluginsv1.WasmModule, now time.Time) []any {
	digest := m.Status.Digest
	if digest == "" {
		digest = m.Spec.Digest
	}
	if len(digest) > shortDigest {
		digest = digest[:shortDigest]
	}
	size := "<none>"
	if m.Status.SizeBytes > 0 {
		size = bytes(m.Status.SizeBytes)
	}
	return []any{
		m.Name, orNone(digest), orNone(m.Status.ABI), size, ready(m.Status.Conditions), age(m.CreationTimestamp, now),
	}
}

func admissionPluginColumns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		nameColumn(),
		column("Module", "string", "Name of the WasmModule.", 0),
		column("Phases", "string", "Phases of admission in which it is called.", 0),
		column("Mode", "string", "What is made of its answers.", 0),
		column("Policy", "string", "What happens when the plugin fails.", 0),
		readyColumn(),
		column("Failures", "integer", "Calls that ended without an answer.", 0),
		ageColumn(),
	}
}

func admissionPlugin(p *pluginsv1.AdmissionPlugin, now time.Time) []any {
	phases := make([]string, len(p.Spec.Phases))
	for i, phase := range p.Spec.Phases {
		phases[i] = string(phase)
	}
	return []any{
		p.Name, p.Spec.Module, strings.Join(phases, ","), string(p.Spec.Mode), string(p.Spec.FailurePolicy),
		ready(p.Status.Conditions), p.Status.Failures, age(p.CreationTimestamp, now),
	}
}

// pluginColumns are the columns of a kind of plugins, with its own between.
func pluginColumns(own ...metav1.TableColumnDefinition) []metav1.TableColumnDefinition {
	list := append([]metav1.TableColumnDefinition{nameColumn(), column("Module", "string", "Name of the WasmModule.", 0)}, own...)
	return append(list, readyColumn(), column("Failures", "integer", "Calls that ended without an answer.", 0), ageColumn())
}

func plugin(o pluginsv1.Binding, now time.Time, own ...any) []any {
	common, status := o.Bound()
	list := append([]any{o.GetName(), common.Module}, own...)
	return append(list, ready(status.Conditions), status.Failures, age(o.GetCreationTimestamp(), now))
}

func points(list []pluginsv1.SchedulerPoint) string {
	names := make([]string, len(list))
	for i, p := range list {
		names[i] = string(p)
	}
	return orNone(strings.Join(names, ","))
}

func plurals(list []pluginsv1.VirtualResource) string {
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].Plural
	}
	return strings.Join(names, ",")
}

func resourceName(k *pluginsv1.WatchedKind) string {
	if k.Group == "" {
		return k.Resource
	}
	return k.Resource + "." + k.Group
}

func admissionTrace(o *pluginsv1.AdmissionTrace, now time.Time) []any {
	r := &o.Request
	resource, object := r.Resource, r.Name
	if r.Subresource != "" {
		resource += "/" + r.Subresource
	}
	if r.Namespace != "" {
		object = r.Namespace + "/" + r.Name
	}
	return []any{o.Name, o.Outcome, r.Operation, resource, object, r.User, o.Micros, age(o.CreationTimestamp, now)}
}

// ready returns the status of the condition Ready.
func ready(list []metav1.Condition) string {
	for i := range list {
		if list[i].Type == "Ready" {
			return string(list[i].Status)
		}
	}
	return string(metav1.ConditionUnknown)
}

// bytes returns a size in binary units.
func bytes(n int64) string {
	const ki, mi = 1 << 10, 1 << 20
	switch {
	case n >= mi:
		return fmt.Sprintf("%.1fMi", float64(n)/mi)
	case n >= ki:
		return fmt.Sprintf("%.1fKi", float64(n)/ki)
	default:
		return fmt.Sprintf("%d", n)
	}
}
