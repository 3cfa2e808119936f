package validation

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proa-project/proa/api"
	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
)

// nameRule returns the rule for names of a kind, of which generateName is the
// beginning.
func nameRule(r *api.Resource) metavalidation.ValidateNameFunc {
	switch r.Kind {
	case "Namespace":
		return metavalidation.NameIsDNSLabel
	case "Event":
		if r.Group == "" { // old clients name them after anything
			return pathSegment
		}
	case "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding":
		return pathSegment
	}
	return metavalidation.NameIsDNSSubdomain
}

// pathSegment is the rule for names that only have to fit into a URL.
func pathSegment(name string, prefix bool) []string {
	if !prefix && (name == "." || name == "..") {
		return []string{"may not be '" + name + "'"}
	}
	var msgs []string
	for _, s := range []string{"/", "%"} {
		if strings.Contains(name, s) {
			msgs = append(msgs, "may not contain '"+s+"'")
		}
	}
	return msgs
}

// metadata checks the metadata of a new object of a kind in the table.
func metadata(f *faults, obj api.Object) {
	r := api.ByType(obj)
	if r == nil || r.CreateOnly {
		return
	}
	path := field.NewPath("metadata")
	f.add(metavalidation.ValidateObjectMetaAccessor(obj, r.Namespaced, nameRule(r), path)...)
	finalizers(f, r, obj, path)
}

// metadataUpdate checks the metadata of an object that is to replace old.
func metadataUpdate(f *faults, obj, old api.Object) {
	path := field.NewPath("metadata")
	errs := metavalidation.ValidateObjectMetaAccessorUpdate(obj, old, path)
	r := api.ByType(obj)
	if obj.GetResourceVersion() == "" && r != nil && r.UnconditionalUpdate {
		version := path.Child("resourceVersion").String()
		errs = slices.DeleteFunc(errs, func(err *field.Error) bool { return err.Field == version })
	}
	f.add(errs...)
	if !slices.Equal(obj.GetFinalizers(), old.GetFinalizers()) {
		f.add(metavalidation.ValidateFinalizers(obj.GetFinalizers(), path.Child("finalizers"))...)
		finalizers(f, r, obj, path)
	}
}

// finalizers checks that names without a domain are those of Kubernetes. For
// kinds that are not its own, Kubernetes does not ask.
func finalizers(f *faults, r *api.Resource, obj metav1.Object, path *field.Path) {
	if r == nil || r.Group == pluginsv1.GroupName {
		return
	}
	for i, name := range obj.GetFinalizers() {
		finalizer(f, name, path.Child("finalizers").Index(i))
	}
}

func finalizer(f *faults, name string, path *field.Path) {
	if strings.Contains(name, "/") {
		return
	}
	switch name {
	case string(corev1.FinalizerKubernetes), metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents:
	default:
		f.invalid(path, name, "name is neither a standard finalizer name nor is it fully qualified")
	}
}

// immutable checks that a field has not changed.
func immutable(f *faults, path *field.Path, value, old any) {
	if !equality.Semantic.DeepEqual(value, old) {
		f.invalid(path, value, metavalidation.FieldImmutableErrorMsg)
	}
}

func conditions(f *faults, list []metav1.Condition, path *field.Path) {
	f.add(metav1validation.ValidateConditions(list, path.Child("conditions"))...)
}

// subdomain and label are the rules for names that refer to other objects.
func subdomain(name string) []string { return metavalidation.NameIsDNSSubdomain(name, false) }
func label(name string) []string     { return metavalidation.NameIsDNSLabel(name, false) }
