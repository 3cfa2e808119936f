// Package scan asks admission plugins about the past: about the requests that
// the server has recorded, and about the objects that exist, without any effect
// but a report.
//
// A Recording keeps the latest writes, as they were before any policy saw them.
// A Scanner does what PolicyScans say, and writes a PolicyReport for each.
package scan

import (
	"bytes"
	"context"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/proa-project/proa/api"
	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/request"
	"github.com/proa-project/proa/wasmplugins/abi"
)

// Bounds of a Recording.
const (
	defaultRecorded = 1000
	maxRecordedSize = 32 << 20 // bytes of all objects together
)

// A Recording keeps the latest writes in memory. It is safe for concurrent use
// and implements policy.Recorder.
type Recording struct {
	most int

	mu   sync.Mutex // guards the fields below
	ring []*recorded
	next int // where the oldest is, once the ring is full
	size int
}

// A recorded is one write. It never changes.
type recorded struct {
	at          time.Time
	uid         string
	operation   admission.Operation
	resource    *api.Resource
	subresource string
	namespace   string
	name        string
	user        *request.User
	dryRun      bool
	object, old []byte
}

// NewRecording returns a memory of as many writes; 0 is 1,000. It takes up to
// 32 MiB.
func NewRecording(most int) *Recording {
	if most <= 0 {
		most = defaultRecorded
	}
	return &Recording{most: most, ring: make([]*recorded, most)}
}

// boring says that a write is one of the many that nobody has policies for:
// heartbeats, events, and what controllers say about their progress.
func boring(r *admission.Request) bool {
	switch r.Resource.Plural {
	case "leases", "events":
		return true
	}
	return r.Resource.Group == pluginsv1.GroupName || r.Subresource == "status"
}

// Record implements policy.Recorder.
func (rec *Recording) Record(r *admission.Request) {
	if boring(r) {
		return
	}
	object, err := r.ObjectJSON()
	if err != nil {
		return // the write fails of it
	}
	old, err := r.OldObjectJSON()
	if err != nil {
		return
	}
	e := &recorded{
		at: time.Now(), uid: r.UID, operation: r.Operation, resource: r.Resource, subresource: r.Subresource,
		namespace: r.Namespace, name: r.Name, user: r.User, dryRun: r.DryRun, object: object, old: old,
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.put(e)
	for i := 1; rec.size > maxRecordedSize && i < rec.most; i++ {
		rec.drop((rec.next + i - 1) % rec.most)
	}
}

func (rec *Recording) put(e *recorded) {
	rec.drop(rec.next)
	rec.ring[rec.next] = e
	rec.next = (rec.next + 1) % rec.most
	rec.size += len(e.object) + len(e.old)
}

func (rec *Recording) drop(i int) {
	if e := rec.ring[i]; e != nil {
		rec.size -= len(e.object) + len(e.old)
		rec.ring[i] = nil
	}
}

// all returns what is recorded, the oldest first.
func (rec *Recording) all() []*recorded {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	list := make([]*recorded, 0, rec.most)
	for i := range rec.most {
		if e := rec.ring[(rec.next+i)%rec.most]; e != nil {
			list = append(list, e)
		}
	}
	return list
}

// request makes the write again. Objects are not of their Go types: policies
// that are asked about the past read JSON and labels.
func (e *recorded) request() (*admission.Request, error) {
	r := &admission.Request{
		UID: e.uid, Operation: e.operation, Resource: e.resource, Subresource: e.subresource,
		Namespace: e.namespace, Name: e.name, User: e.user, DryRun: true,
	}
	var err error
	if r.Object, err = decode(e.object); err != nil {
		return nil, err
	}
	if r.OldObject, err = decode(e.old); err != nil {
		return nil, err
	}
	r.Encoded(e.object)
	return r, nil
}

// decode makes an object of JSON; nil stays nil.
func decode(b []byte) (runtime.Object, error) {
	if len(b) == 0 {
		return nil, nil //nolint:nilnil // none is a value here
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(b); err != nil {
		return nil, err
	}
	return u, nil
}

// ServeHTTP answers with all that is recorded, oldest first, as JSON lines of
// AdmissionRequests: what "proa plugin replay" reads.
func (rec *Recording) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	var b bytes.Buffer
	for _, e := range rec.all() {
		b.Write(e.line())
		b.WriteByte('\n')
	}
	w.Header().Set("Content-Type", "application/jsonl")
	_, _ = w.Write(b.Bytes()) // the client may be gone
}

func (e *recorded) line() []byte {
	gvk := e.resource.GVK()
	a := abi.AdmissionRequest{
		UID: e.uid, Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind,
		ResourceGroup: e.resource.Group, ResourceVersion: e.resource.Version, Resource: e.resource.Plural,
		SubResource: e.subresource, Namespace: e.namespace, Name: e.name, Operation: string(e.operation),
		DryRun: e.dryRun, Object: e.object, OldObject: e.old,
	}
	if s := e.resource.Subresource(e.subresource); s != nil && s.Kind != "" {
		a.Group, a.Version, a.Kind = s.Group, s.Version, s.Kind
	}
	if e.user != nil {
		a.Username, a.UserUID, a.Groups, a.Extra = e.user.Name, e.user.UID, e.user.Groups, e.user.Extra
	}
	return a.AppendRequest(nil)
}

// A case is something to ask a plugin about.
type question struct {
	request *admission.Request
	at      metav1.Time
}

// recordedQuestions hands the recorded writes to ask.
func (rec *Recording) questions(ctx context.Context, ask func(question) error) error {
	for _, e := range rec.all() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r, err := e.request()
		if err != nil {
			continue // what was refused for its form
		}
		if err := ask(question{r, metav1.NewTime(e.at.Truncate(time.Second))}); err != nil {
			return err
		}
	}
	return nil
}
