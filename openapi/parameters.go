package openapi

import (
	"reflect"

	"github.com/getkin/kin-openapi/openapi3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The bodies that all resources have in common.
//
//nolint:gochecknoglobals // constants in all but name
var (
	deleteOptions = metav1.DeleteOptions{}
	status        = metav1.Status{}
	patch         = metav1.Patch{}
)

// parameters are the query parameters of operations. They are shared by all
// operations of a document.
type parameters struct {
	pretty, list, write, patch, delete openapi3.Parameters

	selection openapi3.Parameters            // of a deletecollection
	stream    map[string]openapi3.Parameters // by subresource
}

func newParameters() *parameters {
	return &parameters{
		pretty: openapi3.Parameters{parameter("query", "pretty", "string", "'true' asks for indented output.")},
		list: optionParameters(metav1.ListOptions{}, "allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit",
			"resourceVersion", "resourceVersionMatch", "sendInitialEvents", "timeoutSeconds", "watch"),
		write:  optionParameters(metav1.CreateOptions{}, "dryRun", "fieldManager", "fieldValidation"),
		patch:  optionParameters(metav1.PatchOptions{}, "dryRun", "fieldManager", "fieldValidation", "force"),
		delete: optionParameters(metav1.DeleteOptions{}, "dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy"),
		selection: optionParameters(metav1.ListOptions{}, "continue", "fieldSelector", "labelSelector", "limit",
			"resourceVersion", "resourceVersionMatch", "timeoutSeconds"),
		stream: map[string]openapi3.Parameters{
			"log":         optionParameters(corev1.PodLogOptions{}),
			"exec":        optionParameters(corev1.PodExecOptions{}),
			"attach":      optionParameters(corev1.PodAttachOptions{}),
			"portforward": optionParameters(corev1.PodPortForwardOptions{}),
		},
	}
}

// optionParameters returns parameters for fields of an options kind, for all
// of them if none is named.
func optionParameters(options any, names ...string) openapi3.Parameters {
	t := reflect.TypeOf(options)
	wanted := map[string]bool{"kind": false, "apiVersion": false}
	for _, n := range names {
		wanted[n] = true
	}
	var params openapi3.Parameters
	for _, f := range fieldsOf(t) {
		if want, listed := wanted[f.name]; listed && !want || !listed && len(names) > 0 {
			continue
		}
		typ := f.Type
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
			typ = typ.Elem()
		}
		params = append(params, parameter("query", f.name, jsonType(typ), docsOf(f.owner)[f.name]))
	}
	return params
}

func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return openapi3.TypeBoolean
	case reflect.Int, reflect.Int32, reflect.Int64:
		return openapi3.TypeInteger
	default:
		return openapi3.TypeString
	}
}

func parameter(in, name, typ, text string) *openapi3.ParameterRef {
	return &openapi3.ParameterRef{Value: &openapi3.Parameter{
		In: in, Name: name, Description: text, Required: in == "path",
		Schema: openapi3.NewSchemaRef("", &openapi3.Schema{Type: &openapi3.Types{typ}, UniqueItems: true}),
	}}
}
