package policy

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"gomodules.xyz/jsonpatch/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/request"
)

// The outcomes of steps and requests.
const (
	outcomeAllowed = "Allowed"
	outcomeDenied  = "Denied"
	outcomeChanged = "Changed"
	outcomeFailed  = "Failed"
	outcomeIgnored = "Ignored"
	outcomeSkipped = "Skipped"
)

// maxSteps bounds a trace: one request may delete thousands of objects.
const maxSteps = 256

// maxPatch is how many bytes of a patch a trace keeps.
const maxPatch = 16 << 10

// A step is the call of one policy, before it is in a trace.
type step struct {
	pluginsv1.TraceStep

	id    ID
	phase pluginsv1.Phase
	took  time.Duration
}

func (s *step) verdict(v *Verdict) {
	s.Outcome, s.Mode, s.Message, s.Warnings = outcomeAllowed, v.Mode, v.Message, v.Warnings
	s.Fuel, s.MemoryBytes, s.HostCalls, s.Digest = v.Fuel, v.Memory, v.HostCalls, v.Digest
	switch {
	case v.Skipped:
		s.Outcome = outcomeSkipped
	case v.Denied != nil:
		s.Outcome, s.Message, s.Reason = outcomeDenied, v.Denied.Message, string(v.Denied.Reason)
	}
}

func (s *step) failure(f *Failure) {
	s.Outcome, s.Reason, s.Message = outcomeFailed, f.Reason, f.Detail
	if f.Ignore {
		s.Outcome = outcomeIgnored
	}
	s.Fuel, s.MemoryBytes, s.HostCalls = f.Fuel, f.Memory, f.HostCalls
}

// change notes a change as a patch. What is in a Secret stays there.
func (s *step) change(r *admission.Request, before []byte, v *Verdict) {
	if secret(r) {
		s.Patch = "(of a Secret)"
		return
	}
	if v.Patch != nil {
		s.Patch = cut(string(v.Patch), maxPatch)
		return
	}
	ops, err := jsonpatch.CreatePatch(before, v.Object)
	if err != nil {
		return // the object is no JSON, which is found out elsewhere
	}
	if b, err := json.Marshal(ops); err == nil {
		s.Patch = cut(string(b), maxPatch)
	}
}

func secret(r *admission.Request) bool {
	return r.Resource.Group == "" && r.Resource.Plural == "secrets"
}

// Traces keeps what has happened to the latest requests that policies have
// judged. It is safe for concurrent use.
type Traces struct {
	most int

	mu   sync.Mutex // guards the fields below
	ring []*trace
	next int // of the ring, once it is full the oldest
	byID map[string]*trace
}

// NewTraces returns a memory of as many requests; 0 is 4,096.
func NewTraces(most int) *Traces {
	if most <= 0 {
		most = 4096
	}
	return &Traces{most: most, byID: map[string]*trace{}}
}

// A trace is of one HTTP request, which may be several writes.
type trace struct {
	in *Traces
	of *request.State // the same request

	mu sync.Mutex // guards the field below
	o  pluginsv1.AdmissionTrace
}

// of returns the trace of the request that the context is of. A nil Traces has
// none, and a nil trace takes everything and keeps nothing.
func (t *Traces) of(ctx context.Context, r *admission.Request) *trace {
	if t == nil {
		return nil
	}
	state := request.From(ctx)
	id := r.UID
	if state != nil {
		id = state.AuditID
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if have := t.byID[id]; have != nil && state != nil && have.of == state {
		return have
	}
	tr := &trace{in: t, of: state}
	tr.o = pluginsv1.AdmissionTrace{
		TypeMeta:   metav1.TypeMeta{APIVersion: pluginsv1.SchemeGroupVersion.String(), Kind: "AdmissionTrace"},
		ObjectMeta: metav1.ObjectMeta{Name: id, CreationTimestamp: metav1.Now()},
		Outcome:    outcomeAllowed,
		Request: pluginsv1.TracedRequest{
			Operation: string(r.Operation), Group: r.Resource.Group, Version: r.Resource.Version, Resource: r.Resource.Plural,
			Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name, DryRun: r.DryRun,
		},
	}
	if r.User != nil {
		tr.o.Request.User = r.User.Name
	}
	t.keep(id, tr)
	return tr
}

// keep puts a trace in the place of the oldest.
func (t *Traces) keep(id string, tr *trace) {
	if len(t.ring) < t.most {
		t.ring = append(t.ring, tr)
	} else {
		old := t.ring[t.next]
		if t.byID[old.o.Name] == old {
			delete(t.byID, old.o.Name)
		}
		t.ring[t.next] = tr
	}
	t.next = (t.next + 1) % t.most
	t.byID[id] = tr
}

// Get returns the trace of the response with the audit id. The error is an
// *apierrors.StatusError: NotFound.
func (t *Traces) Get(id string) (*pluginsv1.AdmissionTrace, error) {
	t.mu.Lock()
	tr := t.byID[id]
	t.mu.Unlock()
	if tr == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: pluginsv1.GroupName, Resource: "admissiontraces"}, id)
	}
	return tr.copy(), nil
}

// List returns all traces, oldest first.
func (t *Traces) List() []*pluginsv1.AdmissionTrace {
	t.mu.Lock()
	ring := make([]*trace, 0, len(t.ring))
	if len(t.ring) == t.most {
		ring = append(ring, t.ring[t.next:]...)
		ring = append(ring, t.ring[:t.next]...)
	} else {
		ring = append(ring, t.ring...)
	}
	t.mu.Unlock()
	list := make([]*pluginsv1.AdmissionTrace, len(ring))
	for i, tr := range ring {
		list[i] = tr.copy()
	}
	return list
}

func (tr *trace) copy() *pluginsv1.AdmissionTrace {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.o.DeepCopy()
}

func (tr *trace) len() int {
	if tr == nil {
		return 0
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return len(tr.o.Steps)
}

// cut forgets the steps from n on, which are taken again.
func (tr *trace) cut(n int) {
	if tr == nil {
		return
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.o.Steps = tr.o.Steps[:min(n, len(tr.o.Steps))]
}

func (tr *trace) add(s *step) {
	if tr == nil {
		return
	}
	s.Kind, s.Name, s.Phase, s.Micros = s.id.Kind, s.id.Name, s.phase, s.took.Microseconds()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if len(tr.o.Steps) < maxSteps {
		tr.o.Steps = append(tr.o.Steps, s.TraceStep)
	}
}

// end notes the outcome of a phase.
func (tr *trace) end(r *admission.Request, took time.Duration, err error) {
	if tr == nil {
		return
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.o.Micros += took.Microseconds()
	for k, v := range r.Annotations {
		if tr.o.Annotations == nil {
			tr.o.Annotations = map[string]string{}
		}
		tr.o.Annotations[k] = v
	}
	if tr.o.Request.Name == "" {
		tr.o.Request.Name = r.Name
	}
	if err == nil {
		return
	}
	tr.o.Outcome, tr.o.Message = outcomeFailed, err.Error()
	var d *admission.Denial
	if n := len(tr.o.Steps); errors.As(err, &d) && n > 0 && tr.o.Steps[n-1].Outcome == outcomeDenied {
		tr.o.Outcome = outcomeDenied
	}
}
