// Package event records what components did to objects, as core/v1 Events,
// without ever holding the component up.
//
// Repeats are joined as upstream joins them: the same event again raises the
// count of the one that is stored; many events that differ only in their
// message become one "(combined from similar events)"; and an object about
// which a component talks too much is cut off for a while.
package event

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/client"
)

const (
	// queueSize is how many events may wait; more are dropped and counted.
	queueSize = 4096
	sendTries = 4
	sendPause = 250 * time.Millisecond
)

// A Recorder sends events in the name of one component. Its methods are safe
// for concurrent use. A nil *Recorder records nothing.
type Recorder struct {
	events    *client.Client[*corev1.Event]
	component string
	instance  string
	log       zerolog.Logger
	queue     chan occurrence
	dropped   atomic.Int64
	seen      *correlator
}

// An occurrence is one call of Event.
type occurrence struct {
	about                corev1.ObjectReference
	typ, reason, message string
	action               string
	related              *corev1.ObjectReference
	at                   time.Time
}

// NewRecorder returns a Recorder for a component, such as
// "deployment-controller"; instance names the process, such as the host. It
// sends nothing before Run.
func NewRecorder(rest *client.REST, component, instance string, log zerolog.Logger) *Recorder {
	return &Recorder{
		events: client.For[*corev1.Event](rest), component: component, instance: instance, log: log,
		queue: make(chan occurrence, queueSize), seen: newCorrelator(),
	}
}

// Event records that something has happened to obj. Typ is
// corev1.EventTypeNormal or EventTypeWarning, reason a CamelCase word, message
// a sentence for people. It returns at once.
func (r *Recorder) Event(obj api.Object, typ, reason, message string) {
	if r != nil {
		r.put(occurrence{about: Reference(obj), typ: typ, reason: reason, message: message})
	}
}

// Eventf is Event with a format.
func (r *Recorder) Eventf(obj api.Object, typ, reason, format string, args ...any) {
	if r != nil {
		r.Event(obj, typ, reason, fmt.Sprintf(format, args...))
	}
}

// EventRef is Event for a reference, which may name a part of an object with
// its FieldPath: "spec.containers{web}".
func (r *Recorder) EventRef(about corev1.ObjectReference, typ, reason, message string) {
	if r != nil {
		r.put(occurrence{about: about, typ: typ, reason: reason, message: message})
	}
}

// Action is Event with what was tried, such as "Binding", and the second
// object that was involved, or nil.
func (r *Recorder) Action(obj, related api.Object, typ, reason, action, message string) {
	if r == nil {
		return
	}
	o := occurrence{about: Reference(obj), typ: typ, reason: reason, message: message, action: action}
	if related != nil {
		ref := Reference(related)
		o.related = &ref
	}
	r.put(o)
}

func (r *Recorder) put(o occurrence) {
	o.at = time.Now()
	select {
	case r.queue <- o:
	default:
		r.dropped.Add(1)
	}
}

// Dropped returns how many events were lost because too many were waiting.
func (r *Recorder) Dropped() int64 { return r.dropped.Load() }

// Reference returns the reference to an object by which events name it.
func Reference(obj api.Object) corev1.ObjectReference {
	ref := corev1.ObjectReference{
		Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(),
	}
	if row := api.ByType(obj); row != nil {
		ref.Kind, ref.APIVersion = row.Kind, row.GroupVersion().String()
	} else {
		ref.APIVersion, ref.Kind = obj.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
	}
	return ref
}

// Run sends events until ctx is done, and returns its error. What waits then
// is dropped.
func (r *Recorder) Run(ctx context.Context) error {
	for {
		select {
		case o := <-r.queue:
			for _, w := range r.seen.join(r.gather(o)) {
				r.send(ctx, w)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// gather takes what waits already, so that repeats cost one write.
func (r *Recorder) gather(first occurrence) []occurrence {
	batch := []occurrence{first}
	for len(batch) < 256 {
		select {
		case o := <-r.queue:
			batch = append(batch, o)
		default:
			return batch
		}
	}
	return batch
}

// send stores one event, or the new count of one that was stored before.
func (r *Recorder) send(ctx context.Context, w *entry) {
	for try := 1; ; try++ {
		err := r.store(ctx, w)
		if err == nil || ctx.Err() != nil {
			return
		}
		if refused(err) || try == sendTries {
			r.log.Debug().Err(err).Str("reason", w.reason).Msg("cannot store event")
			return
		}
		t := time.NewTimer(sendPause << try)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}

// refused tells whether the server has understood the request and will not do
// it: another try would end in the same way.
func refused(err error) bool {
	var st apierrors.APIStatus
	if !errors.As(err, &st) {
		return false
	}
	c := st.Status().Code
	return c >= 400 && c < 500 && c != 429
}

func (r *Recorder) store(ctx context.Context, w *entry) error {
	if w.stored != "" {
		patch, err := json.Marshal(map[string]any{
			"count": w.count, "lastTimestamp": metav1.NewTime(w.last), "message": w.text(),
		})
		if err != nil {
			return err
		}
		_, err = r.events.Patch(ctx, w.namespace(), w.stored, types.MergePatchType, patch)
		if !apierrors.IsNotFound(err) {
			return err
		}
		w.stored, w.first, w.count = "", w.last, 1 // it has expired: begin again
	}
	ev := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.namespace(), Name: fmt.Sprintf("%s.%x", w.about.Name, uniqueNano(w.last)),
		},
		InvolvedObject: w.about, Related: w.related, Action: w.action,
		Reason: w.reason, Message: w.text(), Type: w.typ,
		Source:              corev1.EventSource{Component: r.component, Host: r.host()},
		ReportingController: r.component, ReportingInstance: r.instance,
		FirstTimestamp: metav1.NewTime(w.first), LastTimestamp: metav1.NewTime(w.last), Count: w.count,
	}
	_, err := r.events.Create(ctx, ev)
	if err == nil || apierrors.IsAlreadyExists(err) {
		w.stored = ev.Name
		return nil
	}
	return err
}

// host is the node in whose name the kubelet speaks; other components have
// none, as upstream.
func (r *Recorder) host() string {
	if r.component == "kubelet" {
		return r.instance
	}
	return ""
}

var lastNano atomic.Int64 //nolint:gochecknoglobals // names of events of one process must differ

// uniqueNano returns t in nanoseconds, moved on so that no two are the same.
func uniqueNano(t time.Time) int64 {
	n := t.UnixNano()
	for {
		last := lastNano.Load()
		next := max(n, last+1)
		if lastNano.CompareAndSwap(last, next) {
			return next
		}
	}
}
