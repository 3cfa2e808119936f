// Package table makes the rows that kubectl get prints.
package table

import (
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/proa-project/proa/api"
	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
)

// Columns returns the columns of a kind. Those with a priority above 0 are
// printed in wide output only.
func Columns(r *api.Resource) []metav1.TableColumnDefinition {
	switch r.Kind {
	case "Pod":
		return podColumns()
	case "Deployment":
		return deploymentColumns()
	case "ReplicaSet":
		return replicaSetColumns()
	case "Node":
		return nodeColumns()
	case "Namespace":
		return between(column("Status", "string", "Active or Terminating.", 0))
	case "ConfigMap":
		return between(dataColumn())
	case "Secret":
		return between(column("Type", "string", "What the secret is for.", 0), dataColumn())
	case "ServiceAccount":
		return between(column("Secrets", "string", "Number of secrets that pods of the account may mount.", 0))
	case "Event":
		return eventColumns()
	case "Lease":
		return between(column("Holder", "string", "Who holds the lease.", 0))
	case "Role", "ClusterRole":
		return roleColumns()
	case "RoleBinding", "ClusterRoleBinding":
		return bindingColumns()
	case "CustomResourceDefinition":
		return []metav1.TableColumnDefinition{nameColumn(), column("Created At", "date", "When it was created.", 0)}
	case "WasmModule":
		return wasmModuleColumns()
	case "AdmissionPlugin":
		return admissionPluginColumns()
	case "SchedulerPlugin":
		return pluginColumns(column("Points", "string", "Points of scheduling at which it is called.", 0))
	case "AuthorizationPlugin", "AuthenticationPlugin":
		return pluginColumns(column("Order", "integer", "Its place among the others.", 0))
	case "ConversionPlugin":
		return pluginColumns(column("CRD", "string", "The custom resource that it converts.", 0))
	case "VirtualAPI":
		return pluginColumns(column("Resources", "string", "What it answers for.", 0))
	case "Reconciler":
		return pluginColumns(
			column("For", "string", "The kind that it is called for.", 0),
			column("Objects", "integer", "Objects of the kind.", 0), column("Failing", "integer", "Objects whose last call failed.", 0))
	case "PolicyScan":
		return between(
			column("Plugin", "string", "The plugin that is asked.", 0), column("Source", "string", "What it is asked about.", 0),
			column("Phase", "string", "How far it is.", 0), column("Processed", "integer", "Requests or objects so far.", 0))
	case "PolicyReport":
		return between(
			column("Pass", "integer", "Allowed and unchanged.", 0), column("Fail", "integer", "Denied.", 0),
			column("Warn", "integer", "Changed, or allowed with warnings.", 0), column("Error", "integer", "No answer.", 0),
			column("Skip", "integer", "Not asked about.", 0))
	case "AdmissionTrace":
		return between(
			column("Outcome", "string", "What became of the request.", 0), column("Operation", "string", "What was asked for.", 0),
			column("Resource", "string", "Of what.", 0), column("Object", "string", "Its namespace and name.", 0),
			column("User", "string", "Who asked.", 0), column("Micros", "integer", "Time that the policies took.", 0))
	}
	return between(admissionColumns(r.Kind)...)
}

// Row returns the cells of one object of the kind, in the order of Columns; now
// is what ages are counted to. Only Cells is set. An object of another kind has
// its name and age for cells.
func Row(_ *api.Resource, obj runtime.Object, now time.Time) metav1.TableRow {
	return metav1.TableRow{Cells: cells(obj, now)}
}

func cells(obj runtime.Object, now time.Time) []any {
	switch o := obj.(type) {
	case *corev1.Pod:
		return pod(o, now)
	case *appsv1.Deployment:
		return deployment(o, now)
	case *appsv1.ReplicaSet:
		return replicaSet(o, now)
	case *corev1.Node:
		return node(o, now)
	case *corev1.Namespace:
		return []any{o.Name, string(o.Status.Phase), age(o.CreationTimestamp, now)}
	case *corev1.ConfigMap:
		return []any{o.Name, int64(len(o.Data) + len(o.BinaryData)), age(o.CreationTimestamp, now)}
	case *corev1.Secret:
		return []any{o.Name, string(o.Type), int64(len(o.Data)), age(o.CreationTimestamp, now)}
	case *corev1.ServiceAccount:
		return []any{o.Name, int64(len(o.Secrets)), age(o.CreationTimestamp, now)}
	case *corev1.Event:
		return event(o, now)
	case *eventsv1.Event:
		return event(api.CoreEvent(o), now)
	case *coordinationv1.Lease:
		holder := ""
		if o.Spec.HolderIdentity != nil {
			holder = *o.Spec.HolderIdentity
		}
		return []any{o.Name, holder, age(o.CreationTimestamp, now)}
	case *rbacv1.Role:
		return role(&o.ObjectMeta)
	case *rbacv1.ClusterRole:
		return role(&o.ObjectMeta)
	case *rbacv1.RoleBinding:
		return roleBinding(&o.ObjectMeta, &o.RoleRef, o.Subjects, now)
	case *rbacv1.ClusterRoleBinding:
		return roleBinding(&o.ObjectMeta, &o.RoleRef, o.Subjects, now)
	case *apiextensionsv1.CustomResourceDefinition:
		return []any{o.Name, o.CreationTimestamp.UTC().Format(time.RFC3339)}
	case *pluginsv1.WasmModule:
		return wasmModule(o, now)
	case *pluginsv1.AdmissionPlugin:
		return admissionPlugin(o, now)
	case *pluginsv1.SchedulerPlugin:
		return plugin(o, now, points(o.Status.Points))
	case *pluginsv1.AuthorizationPlugin:
		return plugin(o, now, int64(o.Spec.Order))
	case *pluginsv1.AuthenticationPlugin:
		return plugin(o, now, int64(o.Spec.Order))
	case *pluginsv1.ConversionPlugin:
		return plugin(o, now, o.Spec.CustomResourceDefinition)
	case *pluginsv1.VirtualAPI:
		return plugin(o, now, plurals(o.Spec.Resources))
	case *pluginsv1.Reconciler:
		return plugin(o, now, resourceName(&o.Spec.For), int64(o.Status.Objects), int64(o.Status.Failing))
	case *pluginsv1.PolicyScan:
		return []any{o.Name, o.Spec.Plugin, string(o.Spec.Source), orNone(o.Status.Phase), int64(o.Status.Processed), age(o.CreationTimestamp, now)}
	case *pluginsv1.PolicyReport:
		s := &o.Summary
		return []any{o.Name, int64(s.Pass), int64(s.Fail), int64(s.Warn), int64(s.Error), int64(s.Skip), age(o.CreationTimestamp, now)}
	case *pluginsv1.AdmissionTrace:
		return admissionTrace(o, now)
	}
	if list := admissionCells(obj, now); list != nil {
		return list
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return []any{}
	}
	return []any{m.GetName(), age(m.GetCreationTimestamp(), now)}
}

// column makes the definition of a column; wide ones have priority 1.
func column(name, kind, description string, priority int32) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: kind, Description: description, Priority: priority}
}

// nameColumn is the first of nearly all kinds.
func nameColumn() metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name", Description: "The object's name."}
}

func ageColumn() metav1.TableColumnDefinition {
	return column("Age", "string", "Time since the object was created.", 0)
}

func containersColumn() metav1.TableColumnDefinition {
	return column("Containers", "string", "Names of the containers.", 1)
}

func imagesColumn() metav1.TableColumnDefinition {
	return column("Images", "string", "Images of the containers.", 1)
}

func selectorColumn() metav1.TableColumnDefinition {
	return column("Selector", "string", "Labels of the pods.", 1)
}

// between returns the columns of a kind that has few: name, middle, age.
func between(middle ...metav1.TableColumnDefinition) []metav1.TableColumnDefinition {
	return append(append([]metav1.TableColumnDefinition{nameColumn()}, middle...), ageColumn())
}

func dataColumn() metav1.TableColumnDefinition {
	return column("Data", "string", "Number of keys.", 0)
}

// age returns the time from t to now as kubectl prints it.
func age(t metav1.Time, now time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t.Time))
}

// orNone returns s, or <none> for "".
func orNone(s string) string {
	if s == "" {
		return "<none>"
	}
	return s
}

// orUnknown returns s, or <unknown> for "".
func orUnknown(s string) string {
	if s == "" {
		return "<unknown>"
	}
	return s
}

// namesAndImages returns the names and images of containers, comma-separated.
func namesAndImages(list []corev1.Container) (names, images string) {
	n, i := make([]string, len(list)), make([]string, len(list))
	for j := range list {
		n[j], i[j] = list[j].Name, list[j].Image
	}
	return strings.Join(n, ","), strings.Join(i, ",")
}

// ratio returns a of b.
func ratio(a, b int) string { return strconv.Itoa(a) + "/" + strconv.Itoa(b) }
