package dynamic

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proa-project/proa/api"
)

// A Kind is one resource of a Set. It does not change; another in its place is
// another Kind.
type Kind struct {
	Resource *api.Resource
	// Columns are what tables show after the name. UseGoType says that
	// api/table knows better.
	Columns   []Column
	UseGoType bool
	// Schema is the OpenAPI v3 schema of the object, decoded; nil is free-form.
	Schema map[string]any

	// Provider answers for the kind, or Stored says what is special about the
	// objects in storage. The other is nil.
	Provider Provider
	Stored   Stored

	source  *Virtual // nil for stored kinds
	poll    *Poll
	context context.Context //nolint:containedctx // how long the kind is served
	cancel  context.CancelFunc
	writing sync.RWMutex // is read-locked by writes under way
}

// Stored is what is special about the objects of a kind in storage.
type Stored interface {
	// Read returns stored objects, as JSON, in the form of the kind: converted,
	// pruned and defaulted. The result may be its argument.
	Read(ctx context.Context, values [][]byte) ([][]byte, error)
	// Lasting says that what Read makes of a value now, it always will, so that
	// it may be remembered.
	Lasting() bool
	// Write returns an object, as JSON, in the form that is stored.
	Write(ctx context.Context, value []byte) ([]byte, error)
	// Prepare brings an object into shape that a client has sent or admission
	// has changed: it drops what the schema does not know, and fills in
	// defaults. It returns the paths of what it has dropped, and an error if the
	// object's metadata is none.
	Prepare(obj *unstructured.Unstructured) (unknown []string, err error)
	// Validate returns the faults of a new object, or of one that is to replace
	// old; status says that only the status may differ.
	Validate(ctx context.Context, obj, old *unstructured.Unstructured, status bool) field.ErrorList
	// ScalePaths returns where an object has the replicas that it wants and has
	// and its selector, "" if there is none: .spec.replicas. Without a scale all
	// are "".
	ScalePaths() (spec, status, selector string)
}

// Context ends when the kind is no longer served, or by another Kind.
func (k *Kind) Context() context.Context { return k.context }

// Enter begins a write, unless the kind is no longer served; Leave ends it.
func (k *Kind) Enter() bool {
	k.writing.RLock()
	if k.context.Err() != nil {
		k.writing.RUnlock()
		return false
	}
	return true
}

// Leave ends what Enter began.
func (k *Kind) Leave() { k.writing.RUnlock() }

// Idle reports whether no write is under way.
func (k *Kind) Idle() bool {
	if !k.writing.TryLock() {
		return false
	}
	k.writing.Unlock()
	return true
}

// Drain waits for the writes of a kind that is no longer served.
func (k *Kind) Drain() {
	<-k.context.Done()
	k.writing.Lock()
	defer k.writing.Unlock()
}

// begin says that the kind is served from now on.
func (k *Kind) begin() { k.context, k.cancel = context.WithCancel(context.Background()) }

// Poll returns the shared list behind watches of a virtual kind, nil for
// others.
func (k *Kind) Poll() *Poll { return k.poll }

// path is what a kind is looked up by.
func (k *Kind) path() string { return path(k.Resource.Group, k.Resource.Version, k.Resource.Plural) }

func path(group, version, plural string) string { return group + "/" + version + "/" + plural }

// newVirtual returns the kind of a virtual resource.
func newVirtual(v *Virtual) (*Kind, error) {
	switch r := v.Resource; {
	case r == nil, v.Provider == nil:
		return nil, errors.New("a virtual resource needs Resource and Provider")
	case r.Group == "" || r.Version == "" || r.Plural == "" || r.Kind == "":
		return nil, fmt.Errorf("virtual resource %q: group, version, plural and kind must be set", r.GVR())
	case r.Storage != "" || r.StoredAs != nil || len(r.Subresources) > 0:
		return nil, fmt.Errorf("virtual resource %q: it has no storage and no subresources", r.GVR())
	}
	row := api.Dynamic(v.Resource)
	if len(row.Verbs) == 0 {
		row.Verbs = verbsOf(v.Provider)
	}
	if row.Singular == "" {
		row.Singular = strings.ToLower(row.Kind)
	}
	interval := v.Poll
	if interval == 0 {
		interval = 10 * time.Second
	}
	row.UnconditionalUpdate = true
	k := &Kind{
		Resource: row, Columns: v.Columns, UseGoType: v.Columns == nil && v.Resource.New != nil,
		Provider: v.Provider, source: v,
	}
	k.poll = newPoll(row, interval, func(ctx context.Context) (*unstructured.UnstructuredList, error) {
		return v.Provider.List(ctx, &Request{User: Server})
	})
	return k, nil
}

// is reports whether the kind may stay in place of the virtual resource.
func (k *Kind) is(v *Virtual) bool {
	t := reflect.TypeOf(v.Provider)
	return k.source != nil && k.source.Resource == v.Resource && k.source.Poll == v.Poll &&
		slices.Equal(k.source.Columns, v.Columns) && (k.source.Columns == nil) == (v.Columns == nil) &&
		reflect.TypeOf(k.source.Provider) == t && t.Comparable() && k.source.Provider == v.Provider
}
