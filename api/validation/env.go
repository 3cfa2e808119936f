package validation

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func env(f *faults, list []corev1.EnvVar, path *field.Path) {
	for i, v := range list {
		p := path.Index(i)
		f.needed(p.Child("name"), v.Name, validation.IsRelaxedEnvVarName)
		if v.ValueFrom != nil {
			envSource(f, v.ValueFrom, v.Value, p.Child("valueFrom"))
		}
	}
}

func envSource(f *faults, s *corev1.EnvVarSource, value string, path *field.Path) {
	n := 0
	if s.FieldRef != nil {
		n++
		fieldRef(f, s.FieldRef, envFields, path.Child("fieldRef"))
	}
	if s.ResourceFieldRef != nil {
		n++
		resourceFieldRef(f, s.ResourceFieldRef, false, path.Child("resourceFieldRef"))
	}
	if r := s.ConfigMapKeyRef; r != nil {
		n++
		f.invalid(path.Child("configMapKeyRef", "name"), r.Name, subdomain(r.Name)...)
		f.needed(path.Child("configMapKeyRef", "key"), r.Key, validation.IsConfigMapKey)
	}
	if r := s.SecretKeyRef; r != nil {
		n++
		f.invalid(path.Child("secretKeyRef", "name"), r.Name, subdomain(r.Name)...)
		f.needed(path.Child("secretKeyRef", "key"), r.Key, validation.IsConfigMapKey)
	}
	if r := s.FileKeyRef; r != nil {
		n++
		f.needed(path.Child("fileKeyRef", "volumeName"), r.VolumeName, nil)
		f.needed(path.Child("fileKeyRef", "path"), r.Path, nil)
		f.needed(path.Child("fileKeyRef", "key"), r.Key, validation.IsRelaxedEnvVarName)
	}
	switch {
	case n == 0:
		f.invalid(path, "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`")
	case value != "":
		f.invalid(path, "", "may not be specified when `value` is not empty")
	case n > 1:
		f.invalid(path, "", "may not have more than one field specified at a time")
	}
}

func envFrom(f *faults, list []corev1.EnvFromSource, path *field.Path) {
	for i, s := range list {
		p := path.Index(i)
		optional(f, p.Child("prefix"), s.Prefix, validation.IsRelaxedEnvVarName)
		n := 0
		if s.ConfigMapRef != nil {
			n++
			f.needed(p.Child("configMapRef", "name"), s.ConfigMapRef.Name, subdomain)
		}
		if s.SecretRef != nil {
			n++
			f.needed(p.Child("secretRef", "name"), s.SecretRef.Name, subdomain)
		}
		switch {
		case n == 0:
			f.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
		case n > 1:
			f.invalid(path, "", "may not have more than one field specified at a time")
		}
	}
}

// The fields of a pod that its containers can be told, in the order of
// upstream's text.
//
//nolint:gochecknoglobals // constant lists
var (
	envFields = []string{
		"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
	}
	volumeFields = []string{"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"}
	// podFields can be named at all.
	podFields = append([]string{
		"spec.restartPolicy", "spec.schedulerName", "status.phase", "metadata.annotations", "metadata.labels",
	}, envFields...)
	containerFields = []string{
		"limits.cpu", "limits.ephemeral-storage", "limits.memory",
		"requests.cpu", "requests.ephemeral-storage", "requests.memory",
	}
)

func fieldRef(f *faults, r *corev1.ObjectFieldSelector, allowed []string, path *field.Path) {
	if r.APIVersion == "" {
		f.required(path.Child("apiVersion"))
		return
	}
	fieldPath := path.Child("fieldPath")
	if r.FieldPath == "" {
		f.required(fieldPath)
		return
	}
	if r.APIVersion != "v1" {
		f.invalid(fieldPath, r.FieldPath, "error converting fieldPath: unsupported pod version: "+r.APIVersion)
		return
	}
	name, key, subscript := strings.Cut(strings.TrimSuffix(r.FieldPath, "']"), "['")
	switch {
	case subscript && name == "metadata.annotations":
		f.invalid(path, strings.ToLower(key), validation.IsQualifiedName(strings.ToLower(key))...)
	case subscript && name == "metadata.labels":
		f.invalid(path, key, validation.IsQualifiedName(key)...)
	case subscript:
		f.invalid(fieldPath, r.FieldPath, "error converting fieldPath: field label does not support subscript")
	case !slices.Contains(podFields, name):
		f.invalid(fieldPath, r.FieldPath, "error converting fieldPath: field label not supported: "+name)
	case !slices.Contains(allowed, name):
		f.add(field.NotSupported(fieldPath, name, allowed))
	}
}

func resourceFieldRef(f *faults, r *corev1.ResourceFieldSelector, volume bool, path *field.Path) {
	switch {
	case volume && r.ContainerName == "":
		f.required(path.Child("containerName"))
	case r.Resource == "":
		f.required(path.Child("resource"))
	case !slices.Contains(containerFields, r.Resource) && !strings.HasPrefix(r.Resource, "requests.hugepages-") && !strings.HasPrefix(r.Resource, "limits.hugepages-"):
		f.add(field.NotSupported(path.Child("resource"), r.Resource, containerFields))
	}
	if r.Divisor.IsZero() {
		return
	}
	divisor := r.Divisor.String()
	_, name, _ := strings.Cut(r.Resource, ".")
	switch {
	case name == "cpu":
		if divisor != "1m" && divisor != "1" {
			f.invalid(path.Child("divisor"), r.Resource, "only divisor's values 1m and 1 are supported with the cpu resource")
		}
	case name == "memory", name == "ephemeral-storage", strings.HasPrefix(name, "hugepages-"):
		if !slices.Contains(byteUnits, divisor) {
			kind := "memory"
			if name != "memory" {
				kind = "local ephemeral storage"
			}
			if strings.HasPrefix(name, "hugepages-") {
				kind = "hugepages"
			}
			f.invalid(path.Child("divisor"), r.Resource,
				fmt.Sprintf("only divisor's values %s are supported with the %s resource", strings.Join(byteUnits, ", "), kind))
		}
	}
}

//nolint:gochecknoglobals // a constant list
var byteUnits = []string{"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}
