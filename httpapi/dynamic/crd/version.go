// Package crd turns CustomResourceDefinitions into kinds that are served: it
// compiles their schemas, keeps the run-time table in step with the stored
// definitions, sets their conditions, and cleans up after deleted ones.
package crd

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"

	"github.com/proa-project/proa/api"
)

// A Converter converts objects between the versions of a definition, in place
// of a conversion webhook. objs are JSON, and so are the results, in the same
// order. An error fails the request.
type Converter interface {
	Convert(ctx context.Context, crdName string, objs [][]byte, toAPIVersion string) ([][]byte, error)
}

// A version is one version of a definition, compiled. It does not change, and
// implements dynamic.Stored.
type version struct {
	crd        string // the name of the definition
	apiVersion string
	stored     string // the apiVersion in storage
	kind       string
	namespaced bool
	converter  func(crdName string) (_ Converter, lasting bool) // nil for none
	single     bool                                             // there is no other version

	structural *schema.Structural
	unknown    bool // whatever the schema does not know is kept
	validator  validation.SchemaValidator
	status     validation.SchemaValidator // of the status alone
	rules      *cel.Validator             // nil without x-kubernetes-validations
	scale      *apiextensionsv1.CustomResourceSubresourceScale
	published  map[string]any // the schema as JSON
}

// compile returns a version of a definition.
func compile(crd *apiextensionsv1.CustomResourceDefinition, v *apiextensionsv1.CustomResourceDefinitionVersion) (*version, error) {
	out := &version{
		crd: crd.Name, apiVersion: crd.Spec.Group + "/" + v.Name, kind: crd.Spec.Names.Kind,
		namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped, unknown: crd.Spec.PreserveUnknownFields,
	}
	for i := range crd.Spec.Versions {
		if crd.Spec.Versions[i].Storage {
			out.stored = crd.Spec.Group + "/" + crd.Spec.Versions[i].Name
		}
	}
	out.single = len(crd.Spec.Versions) == 1
	if v.Subresources != nil {
		out.scale = v.Subresources.Scale
	}
	if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
		return nil, fmt.Errorf("version %q has no schema", v.Name)
	}
	props := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema.DeepCopy(), props, nil); err != nil {
		return nil, fmt.Errorf("schema of version %q: %w", v.Name, err)
	}
	if err := out.compileSchema(props); err != nil {
		return nil, fmt.Errorf("schema of version %q: %w", v.Name, err)
	}
	text, err := json.Marshal(v.Schema.OpenAPIV3Schema)
	if err == nil {
		err = json.Unmarshal(text, &out.published)
	}
	return out, err
}

func (v *version) compileSchema(props *apiextensions.JSONSchemaProps) error {
	var err error
	if v.structural, err = schema.NewStructural(props); err != nil {
		return err
	}
	if err = defaulting.PruneDefaults(v.structural); err != nil {
		return err
	}
	if v.validator, _, err = validation.NewSchemaValidator(props); err != nil {
		return err
	}
	status := &apiextensions.JSONSchemaProps{}
	if s, ok := props.Properties["status"]; ok {
		status = &s
	}
	if v.status, _, err = validation.NewSchemaValidator(status); err != nil {
		return err
	}
	v.rules = cel.NewValidator(v.structural, true, celconfig.PerCallLimit)
	return nil
}

// Prepare implements dynamic.Stored.
func (v *version) Prepare(obj *unstructured.Unstructured) (unknown []string, err error) {
	return v.prepare(obj, false)
}

// prepare is Prepare; with drop, metadata that is malformed is dropped.
func (v *version) prepare(obj *unstructured.Unstructured, drop bool) (unknown []string, err error) {
	// Metadata is not the schema's.
	meta, found, strange, err := objectmeta.GetObjectMetaWithOptions(obj.Object, objectmeta.ObjectMetaOptions{
		DropMalformedFields: drop, ReturnUnknownFieldPaths: true,
	})
	if err != nil {
		return nil, err
	}
	delete(obj.Object, "metadata")
	if !v.unknown {
		options := schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
		unknown = pruning.PruneWithOptions(obj.Object, v.structural, true, options)
	}
	// What is embedded has metadata, too, of which nothing but its own fields is kept.
	fault, more := objectmeta.CoerceWithOptions(nil, obj.Object, v.structural, false, objectmeta.CoerceOptions{
		DropInvalidFields: drop, ReturnUnknownFieldPaths: true,
	})
	if fault != nil {
		return nil, fault
	}
	unknown = slices.Concat(unknown, strange, more)
	defaulting.PruneNonNullableNullsWithoutDefaults(obj.Object, v.structural)
	defaulting.Default(obj.Object, v.structural)
	if found {
		if err := objectmeta.SetObjectMeta(obj.Object, meta); err != nil {
			return nil, err
		}
	}
	slices.Sort(unknown)
	return slices.Compact(unknown), nil
}

// ScalePaths implements dynamic.Stored.
func (v *version) ScalePaths() (spec, status, selector string) {
	if v.scale == nil {
		return "", "", ""
	}
	if v.scale.LabelSelectorPath != nil {
		selector = *v.scale.LabelSelectorPath
	}
	return v.scale.SpecReplicasPath, v.scale.StatusReplicasPath, selector
}

// Validate implements dynamic.Stored.
func (v *version) Validate(ctx context.Context, obj, old *unstructured.Unstructured, status bool) field.ErrorList {
	if faults := v.validateType(obj); len(faults) > 0 {
		return faults
	}
	path := field.NewPath("metadata")
	if old == nil {
		faults := metavalidation.ValidateObjectMetaAccessor(obj, v.namespaced, metavalidation.NameIsDNSSubdomain, path)
		faults = append(faults, validation.ValidateCustomResource(nil, obj.Object, v.validator)...)
		faults = append(faults, v.validateScale(obj, true)...)
		return v.validateRest(ctx, obj, nil, faults, nil)
	}
	correlated := common.NewCorrelatedObject(obj.Object, old.Object, &model.Structural{Structural: v.structural})
	faults := metavalidation.ValidateObjectMetaAccessorUpdate(obj, old, path)
	if status {
		if s, ok := obj.Object["status"]; ok {
			faults = append(faults, validation.ValidateCustomResourceUpdate(field.NewPath("status"), s, old.Object["status"], v.status, validation.WithRatcheting(correlated.Key("status")))...)
		}
	} else {
		faults = append(faults, validation.ValidateCustomResourceUpdate(nil, obj.Object, old.Object, v.validator, validation.WithRatcheting(correlated))...)
	}
	faults = append(faults, v.validateScale(obj, !status)...)
	return v.validateRest(ctx, obj, old, faults, correlated)
}

func (v *version) validateType(obj *unstructured.Unstructured) (faults field.ErrorList) {
	if k := obj.GetKind(); k != v.kind {
		faults = append(faults, field.Invalid(field.NewPath("kind"), k, "must be "+v.kind))
	}
	if a := obj.GetAPIVersion(); a != v.apiVersion {
		faults = append(faults, field.Invalid(field.NewPath("apiVersion"), a, "must be "+v.apiVersion))
	}
	return faults
}

// validateRest adds what a schema alone cannot say: embedded objects, lists
// that are maps or sets, and the schema's CEL rules.
func (v *version) validateRest(ctx context.Context, obj, old *unstructured.Unstructured, faults field.ErrorList, correlated *common.CorrelatedObject) field.ErrorList {
	faults = append(faults, objectmeta.Validate(ctx, nil, obj.Object, v.structural, false)...)
	if old == nil || len(listtype.ValidateListSetsAndMaps(nil, v.structural, old.Object)) == 0 {
		faults = append(faults, listtype.ValidateListSetsAndMaps(nil, v.structural, obj.Object)...)
	}
	if v.rules == nil {
		return faults
	}
	if slices.ContainsFunc(faults, blocks) {
		return append(faults, field.Invalid(nil, nil,
			"some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"))
	}
	var before any
	var options []cel.Option
	if old != nil {
		before, options = old.Object, append(options, cel.WithRatcheting(correlated))
	}
	broken, _ := v.rules.Validate(ctx, nil, v.structural, obj.Object, before, celconfig.RuntimeCELCostBudget, options...)
	return append(faults, broken...)
}

// blocks reports whether a fault makes it unsafe to evaluate rules.
func blocks(f *field.Error) bool {
	switch f.Type {
	case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
		return true
	default:
		return false
	}
}

// validateScale checks what the scale subresource shows; spec says whether the
// wanted replicas count, too.
func (v *version) validateScale(obj *unstructured.Unstructured, spec bool) (faults field.ErrorList) {
	if v.scale == nil {
		return nil
	}
	number := func(path string) {
		n, _, err := unstructured.NestedInt64(obj.Object, strings.Split(strings.TrimPrefix(path, "."), ".")...)
		switch {
		case err != nil:
			faults = append(faults, field.Invalid(field.NewPath(path), n, err.Error()))
		case n < 0:
			faults = append(faults, field.Invalid(field.NewPath(path), n, "should be a non-negative integer"))
		case n > 1<<31-1:
			faults = append(faults, field.Invalid(field.NewPath(path), n, "should be less than or equal to 2147483647"))
		}
	}
	if spec {
		number(v.scale.SpecReplicasPath)
	}
	number(v.scale.StatusReplicasPath)
	if p := v.scale.LabelSelectorPath; p != nil {
		if text, _, err := unstructured.NestedString(obj.Object, strings.Split(strings.TrimPrefix(*p, "."), ".")...); err != nil {
			faults = append(faults, field.Invalid(field.NewPath(*p), text, err.Error()))
		}
	}
	return faults
}

// Read implements dynamic.Stored. Objects that are in form already are
// returned as they are.
func (v *version) Read(ctx context.Context, values [][]byte) ([][]byte, error) {
	out := slices.Clone(values)
	if err := v.convert(ctx, out, v.apiVersion); err != nil {
		return nil, err
	}
	for i, value := range out {
		obj := &unstructured.Unstructured{}
		if err := api.DecodeStored(value, obj); err != nil {
			return nil, err
		}
		if _, err := v.prepare(obj, true); err != nil {
			return nil, err
		}
		own, err := api.Encode(obj)
		if err != nil {
			return nil, err
		}
		out[i] = own
	}
	return out, nil
}

// Lasting implements dynamic.Stored.
func (v *version) Lasting() bool {
	if v.single || v.converter == nil {
		return true
	}
	_, lasting := v.converter(v.crd)
	return lasting
}

// Write implements dynamic.Stored.
func (v *version) Write(ctx context.Context, value []byte) ([]byte, error) {
	if v.apiVersion == v.stored {
		return value, nil
	}
	out := [][]byte{value}
	err := v.convert(ctx, out, v.stored)
	return out[0], err
}

// convert converts those of the objects that are of another version, in place.
func (v *version) convert(ctx context.Context, objs [][]byte, to string) error {
	var which []int
	var from [][]byte
	for i, value := range objs {
		var have string
		if json.Unmarshal(api.Member(value, "apiVersion"), &have) != nil || have != to {
			which, from = append(which, i), append(from, value)
		}
	}
	if len(from) == 0 {
		return nil
	}
	converted, err := v.converted(ctx, from, to)
	if err != nil {
		return fmt.Errorf("conversion of %s to %s: %w", v.crd, to, err)
	}
	for j, i := range which {
		objs[i] = converted[j]
	}
	return nil
}

func (v *version) converted(ctx context.Context, from [][]byte, to string) ([][]byte, error) {
	out := make([][]byte, len(from))
	for i, value := range from {
		obj := &unstructured.Unstructured{}
		if err := api.DecodeStored(value, obj); err != nil {
			return nil, err
		}
		obj.SetAPIVersion(to)
		var err error
		if out[i], err = api.Encode(obj); err != nil {
			return nil, err
		}
	}
	if v.converter == nil {
		return out, nil
	}
	c, _ := v.converter(v.crd)
	if c == nil {
		return out, nil
	}
	got, err := c.Convert(ctx, v.crd, from, to)
	if err != nil {
		return nil, err
	}
	return checkConverted(from, got, to)
}
