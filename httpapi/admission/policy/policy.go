// Package policy runs the policies of users in one declared order, whatever
// they are made of: WebAssembly plugins, CEL policies, webhooks.
//
// The Chain is one Mutator and one Validator of the server's admission. It
// takes policies from Sources, sorts them, calls those that match within one
// budget for the whole request, does with their answers what their modes say,
// and keeps a trace of it all under the audit id of the response.
//
// What a chain cannot do is lock a cluster: writes of the kinds that policies
// are made of are never shown to policies, namespaces can be exempt, and there
// is a switch outside the API that turns all policies off.
package policy

import (
	"context"
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/admission"
)

// The kinds of policies, in the order in which those of the same declared order
// are called.
const (
	MutatingAdmissionPolicy   = "MutatingAdmissionPolicy"
	ValidatingAdmissionPolicy = "ValidatingAdmissionPolicy"
	AdmissionPlugin           = "AdmissionPlugin"
	MutatingWebhook           = "MutatingWebhook"
	ValidatingWebhook         = "ValidatingWebhook"
)

func rank(kind string) int {
	for i, k := range []string{MutatingAdmissionPolicy, ValidatingAdmissionPolicy, AdmissionPlugin, MutatingWebhook, ValidatingWebhook} {
		if k == kind {
			return i
		}
	}
	return -1
}

// OrderAnnotation is where upstream's kinds say their place in the order, as a
// whole number; the default is 0.
const OrderAnnotation = "plugins.proa.io/order"

// An ID names a policy in traces, messages and metrics.
type ID struct{ Kind, Name string }

// A Policy judges writes. It is safe for concurrent use. A policy that has
// Reinvoke() bool and returns true is called a second time in the mutating
// phase if another has changed the object after it.
type Policy interface {
	ID() ID
	// Order is the place in the order, lower first; then the kind and the name
	// decide.
	Order() int32
	// Matches reports whether the policy wants to see a write. An error fails
	// the write.
	Matches(ctx context.Context, r *admission.Request) (bool, error)
	// Judge answers. The error is a *Failure, or that of the context.
	Judge(ctx context.Context, in *Input) (*Verdict, error)
}

// An Input is what a policy judges. It is good until Judge returns.
type Input struct {
	Request *admission.Request
	Phase   pluginsv1.Phase
	// Object is JSON, as the policies before have left it, and OldObject the
	// stored one; nil for none. They must not be changed.
	Object, OldObject []byte
	// Deadline ends the budget that all policies of the request share.
	Deadline time.Time

	value, old map[string]any
	memo       *map[ID]any
}

// Keep keeps a value for a policy until the request's end, so that it can
// answer in the second phase as in the first.
func (in *Input) Keep(id ID, v any) {
	if in.memo == nil {
		return
	}
	if *in.memo == nil {
		*in.memo = map[ID]any{}
	}
	(*in.memo)[id] = v
}

// Kept returns what was kept, nil for nothing.
func (in *Input) Kept(id ID) any {
	if in.memo == nil {
		return nil
	}
	return (*in.memo)[id]
}

// Value returns Object decoded, with int64 and float64 for numbers. It is
// shared by all policies and must not be changed. It is nil if there is none.
func (in *Input) Value() (map[string]any, error) { return decoded(&in.value, in.Object) }

// OldValue returns OldObject decoded, as Value does.
func (in *Input) OldValue() (map[string]any, error) { return decoded(&in.old, in.OldObject) }

func decoded(into *map[string]any, from []byte) (map[string]any, error) {
	if *into == nil && len(from) > 0 {
		if err := utiljson.Unmarshal(from, into); err != nil {
			return nil, err
		}
	}
	return *into, nil
}

// change gives the input another object.
func (in *Input) change(object []byte) { in.Object, in.value = object, nil }

// A Verdict is a policy's answer.
type Verdict struct {
	// Denied is the complete answer for the client; nil allows.
	Denied      *metav1.Status
	Warnings    []string
	Annotations map[string]string // keys complete
	// Patch is RFC 6902, Object the whole new object: one of them at most, and
	// in the mutating phase only.
	Patch, Object json.RawMessage
	// Mode is what the chain makes of a denial and a change; empty is Enforce.
	Mode pluginsv1.Mode
	// Skipped says that there was nothing to judge after all.
	Skipped bool

	// The rest is for the trace.
	Message      string
	Fuel, Memory int64
	HostCalls    []string
	Digest       string
}

// A Failure is a policy without a usable answer.
type Failure struct { //nolint:errname // the field's word
	Reason, Detail string
	// Ignore lets the write pass without the policy.
	Ignore bool
	// Status is the complete answer if it is not ignored; nil is the chain's.
	Status *metav1.Status
	// Retry says that the same request may fare better in a second.
	Retry bool
	// The rest is for the trace.
	Fuel, Memory int64
	HostCalls    []string
}

func (f *Failure) Error() string { return f.Reason + ": " + f.Detail }

// A Set is the policies of a source by phase. It never changes.
type Set struct{ Mutate, Validate []Policy }

// A Source has policies.
type Source interface {
	// Policies returns the same Set until something has changed. It is called
	// for each write. Until the first set is known it waits.
	Policies(ctx context.Context) (*Set, error)
}
