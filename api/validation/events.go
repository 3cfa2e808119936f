package validation

import (
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proa-project/proa/api"
)

const (
	maxEventField = 128
	maxEventNote  = 1024
)

// event checks an event in the core form; reporter is the name of the field
// that says who reports. Those without an eventTime are of the old sort, of
// which little is asked.
func event(f *faults, e *corev1.Event, reporter string) {
	involved := field.NewPath("involvedObject", "namespace")
	const differs = "does not match event.namespace"
	ns := e.InvolvedObject.Namespace
	if e.EventTime.IsZero() {
		if ns != e.Namespace && (ns != "" || e.Namespace != metav1.NamespaceDefault) {
			f.invalid(involved, ns, differs)
		}
	} else {
		if ns == "" && e.Namespace != metav1.NamespaceDefault && e.Namespace != metav1.NamespaceSystem {
			f.invalid(involved, ns, differs)
		}
		f.needed(field.NewPath(reporter), e.ReportingController, nil)
		f.invalid(field.NewPath(reporter), e.ReportingController, validation.IsQualifiedName(e.ReportingController)...)
		short(f, "reportingInstance", e.ReportingInstance)
		short(f, "action", e.Action)
		short(f, "reason", e.Reason)
		if len(e.Message) > maxEventNote {
			f.add(field.TooLong(field.NewPath("message"), "", maxEventNote))
		}
	}
	f.invalid(field.NewPath("namespace"), e.Namespace, validation.IsDNS1123Subdomain(e.Namespace)...)
}

// short checks that a field is there and of the length that events allow.
func short(f *faults, name, value string) {
	f.needed(field.NewPath(name), value, nil)
	if len(value) > maxEventField {
		f.add(field.TooLong(field.NewPath(name), "", maxEventField))
	}
}

// newEvent checks a new event in the form of events.k8s.io, which may use none
// of the fields of the old sort.
func newEvent(f *faults, e *eventsv1.Event) {
	event(f, api.CoreEvent(e), "reportingController")
	if s := e.Series; s != nil {
		if s.Count < 2 {
			f.invalid(field.NewPath("series.count"), "", "should be at least 2")
		}
		if s.LastObservedTime.IsZero() {
			f.required(field.NewPath("series.lastObservedTime"))
		}
	}
	if e.EventTime.IsZero() {
		f.required(field.NewPath("eventTime"))
	}
	if e.Type != corev1.EventTypeNormal && e.Type != corev1.EventTypeWarning {
		f.invalid(field.NewPath("type"), "", "has invalid value: "+e.Type)
	}
	const unset = "needs to be unset"
	if !e.DeprecatedFirstTimestamp.IsZero() {
		f.invalid(field.NewPath("firstTimestamp"), "", unset)
	}
	if !e.DeprecatedLastTimestamp.IsZero() {
		f.invalid(field.NewPath("lastTimestamp"), "", unset)
	}
	if e.DeprecatedCount != 0 {
		f.invalid(field.NewPath("count"), "", unset)
	}
	if e.DeprecatedSource != (corev1.EventSource{}) {
		f.invalid(field.NewPath("source"), "", unset)
	}
}

// eventUpdate checks an event that is to replace old: only its series and its
// metadata may change.
func eventUpdate(f *faults, e, old *eventsv1.Event) {
	event(f, api.CoreEvent(e), "reportingController")
	for _, c := range []struct {
		name       string
		value, old any
	}{
		{"involvedObject", e.Regarding, old.Regarding},
		{"reason", e.Reason, old.Reason},
		{"message", e.Note, old.Note},
		{"source", e.DeprecatedSource, old.DeprecatedSource},
		{"firstTimestamp", e.DeprecatedFirstTimestamp, old.DeprecatedFirstTimestamp},
		{"lastTimestamp", e.DeprecatedLastTimestamp, old.DeprecatedLastTimestamp},
		{"count", e.DeprecatedCount, old.DeprecatedCount},
		{"type", e.Type, old.Type},
		{"eventTime", e.EventTime, old.EventTime},
		{"action", e.Action, old.Action},
		{"related", e.Related, old.Related},
		{"reportingController", e.ReportingController, old.ReportingController},
		{"reportingInstance", e.ReportingInstance, old.ReportingInstance},
	} {
		immutable(f, field.NewPath(c.name), c.value, c.old)
	}
}
