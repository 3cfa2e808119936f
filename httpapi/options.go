package httpapi

import (
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	internalvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proa-project/proa/api"
)

// listOptions are the parameters of a list or watch, but for the selectors.
type listOptions struct {
	revision    int64 // with hasRevision
	hasRevision bool
	match       metav1.ResourceVersionMatch
	limit       int64
	next        string // the continue token
	timeout     int64  // seconds, 0 if unset
	bookmarks   bool
	initial     *bool // sendInitialEvents
}

// parseListOptions reads and checks the parameters of a list or watch.
func (c *call) parseListOptions(watch bool) (*listOptions, error) {
	o := &listOptions{}
	q := c.query()
	if q == nil {
		return o, nil
	}
	var err error
	if o.limit, err = number(q.Get("limit")); err != nil {
		return nil, err
	}
	if o.timeout, err = number(q.Get("timeoutSeconds")); err != nil {
		return nil, err
	}
	o.match = metav1.ResourceVersionMatch(q.Get("resourceVersionMatch"))
	o.next = q.Get("continue")
	o.bookmarks = isTrue(q, "allowWatchBookmarks")
	if _, ok := q["sendInitialEvents"]; ok {
		v := isTrue(q, "sendInitialEvents")
		o.initial = &v
	}
	version := q.Get("resourceVersion")
	faults := internalvalidation.ValidateListOptions(&internalversion.ListOptions{
		Watch: watch, ResourceVersion: version, ResourceVersionMatch: o.match, Continue: o.next, SendInitialEvents: o.initial,
	}, true)
	if len(faults) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", faults)
	}
	o.revision, o.hasRevision, err = revision(version)
	return o, err
}

// number reads a parameter that is a number, "" as 0.
func number(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, badRequest("%v", err)
	}
	return n, nil
}

// revision reads a resourceVersion that a client names.
func revision(text string) (n int64, ok bool, err error) {
	if text == "" {
		return 0, false, nil
	}
	u, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, false, badRequest("invalid resource version: %v",
			field.Invalid(field.NewPath("resourceVersion"), text, err.Error()))
	}
	return int64(u), true, nil
}

// writeOptions are the parameters of a write.
type writeOptions struct {
	dryRun     []string
	manager    string
	validation string
	strictness api.Strictness
}

// parseWriteOptions reads and checks the parameters of a create, update or
// patch; kind is what upstream calls them.
func (c *call) parseWriteOptions(kind string) (writeOptions, error) {
	o := writeOptions{strictness: api.Warn}
	q := c.query()
	if q == nil {
		return o, nil
	}
	o.dryRun, o.manager, o.validation = q["dryRun"], q.Get("fieldManager"), q.Get("fieldValidation")
	var faults field.ErrorList
	faults = append(faults, metavalidation.ValidateDryRun(field.NewPath("dryRun"), o.dryRun)...)
	faults = append(faults, metavalidation.ValidateFieldManager(o.manager, field.NewPath("fieldManager"))...)
	faults = append(faults, metavalidation.ValidateFieldValidation(field.NewPath("fieldValidation"), o.validation)...)
	if len(faults) > 0 {
		return o, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", faults)
	}
	switch o.validation {
	case metav1.FieldValidationIgnore:
		o.strictness = api.Ignore
	case metav1.FieldValidationStrict:
		o.strictness = api.Strict
	}
	return o, nil
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{Kind: kind, APIVersion: "meta.k8s.io/v1"}
}

func (o *writeOptions) create() *metav1.CreateOptions {
	return &metav1.CreateOptions{TypeMeta: typeMeta("CreateOptions"), DryRun: o.dryRun, FieldManager: o.manager, FieldValidation: o.validation}
}

func (o *writeOptions) update() *metav1.UpdateOptions {
	return &metav1.UpdateOptions{TypeMeta: typeMeta("UpdateOptions"), DryRun: o.dryRun, FieldManager: o.manager, FieldValidation: o.validation}
}

func (o *writeOptions) patch() *metav1.PatchOptions {
	return &metav1.PatchOptions{TypeMeta: typeMeta("PatchOptions"), DryRun: o.dryRun, FieldManager: o.manager, FieldValidation: o.validation}
}

// parseDeleteOptions reads the parameters of a delete, which stand in the
// query if there is no body.
func (c *call) parseDeleteOptions() (*metav1.DeleteOptions, error) {
	o := &metav1.DeleteOptions{TypeMeta: typeMeta("DeleteOptions")}
	q := c.query()
	if q == nil {
		return o, nil
	}
	o.DryRun = q["dryRun"]
	if v := q.Get("gracePeriodSeconds"); v != "" {
		n, err := number(v)
		if err != nil {
			return nil, err
		}
		o.GracePeriodSeconds = &n
	}
	if v := metav1.DeletionPropagation(q.Get("propagationPolicy")); v != "" {
		o.PropagationPolicy = &v
	}
	if _, ok := q["orphanDependents"]; ok {
		v := isTrue(q, "orphanDependents")
		o.OrphanDependents = &v //nolint:staticcheck // old clients send it
	}
	return o, nil
}

// checkDeleteOptions refuses options that make no sense.
func checkDeleteOptions(o *metav1.DeleteOptions) error {
	if faults := metavalidation.ValidateDeleteOptions(o); len(faults) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", faults)
	}
	if g := o.GracePeriodSeconds; g != nil && *g > 1<<31 {
		return badRequest("%v", fmt.Errorf("gracePeriodSeconds: Invalid value: %d: must be below 2^31", *g))
	}
	return nil
}
