package event

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The figures of upstream's correlation.
const (
	maxEntries    = 4096             // events and objects that are remembered
	similarWindow = 10 * time.Minute // in which similar events are counted
	maxSimilar    = 10               // similar events before they are combined
	burst         = 25               // events about one object at once
	refill        = 5 * time.Minute  // one more is allowed after this
	combined      = "(combined from similar events): "
)

// A subject is what events are similar in.
type subject struct {
	kind, namespace, name, uid, apiVersion, fieldPath string
	typ, reason, action                               string
}

// A same is what events must have in common to be counted as one.
type same struct {
	subject
	message string
}

// An entry is an event as it is stored or is to be stored.
type entry struct {
	occurrence
	combined    bool
	count       int32
	first, last time.Time
	stored      string // the name of the Event, once it is stored
	queued      bool   // it is in the batch already
}

func (e *entry) namespace() string {
	if e.about.Namespace == "" {
		return metav1.NamespaceDefault
	}
	return e.about.Namespace
}

func (e *entry) text() string {
	if e.combined {
		return combined + e.message
	}
	return e.message
}

type similar struct {
	messages map[string]struct{}
	last     time.Time
}

type bucket struct {
	tokens float64
	at     time.Time
}

// A correlator joins repeats. It belongs to one goroutine.
type correlator struct {
	entries map[same]*entry
	similar map[subject]*similar
	buckets map[subject]*bucket // keyed by the object only
}

func newCorrelator() *correlator {
	return &correlator{entries: map[same]*entry{}, similar: map[subject]*similar{}, buckets: map[subject]*bucket{}}
}

// join returns the events that are to be stored after a batch of occurrences,
// each once.
func (c *correlator) join(batch []occurrence) []*entry {
	var out []*entry
	for _, o := range batch {
		e := c.add(o)
		if e != nil && !e.queued {
			e.queued = true
			out = append(out, e)
		}
	}
	for _, e := range out {
		e.queued = false
	}
	return out
}

func (c *correlator) add(o occurrence) *entry {
	about := subjectOf(o.about)
	sub := about
	sub.typ, sub.reason, sub.action = o.typ, o.reason, o.action
	k := same{sub, o.message}
	isCombined := c.many(sub, o)
	if isCombined {
		k.message = ""
	}
	if !c.allowed(about, o.at) {
		return nil
	}
	e := c.entries[k]
	if e == nil {
		makeRoom(c.entries)
		e = &entry{occurrence: o, first: o.at, combined: isCombined}
		c.entries[k] = e
	}
	e.message = o.message
	e.count++
	e.last = o.at
	return e
}

func subjectOf(r corev1.ObjectReference) subject {
	return subject{
		kind: r.Kind, namespace: r.Namespace, name: r.Name, uid: string(r.UID),
		apiVersion: r.APIVersion, fieldPath: r.FieldPath,
	}
}

// many counts the different messages of similar events and tells whether they
// are so many that they are combined.
func (c *correlator) many(sub subject, o occurrence) bool {
	s := c.similar[sub]
	if s == nil || o.at.Sub(s.last) > similarWindow {
		makeRoom(c.similar)
		s = &similar{messages: map[string]struct{}{}}
		c.similar[sub] = s
	}
	s.last = o.at
	if len(s.messages) >= maxSimilar {
		_, known := s.messages[o.message]
		return !known
	}
	s.messages[o.message] = struct{}{}
	return len(s.messages) >= maxSimilar
}

// allowed takes a token of the object's bucket.
func (c *correlator) allowed(about subject, now time.Time) bool {
	b := c.buckets[about]
	if b == nil {
		makeRoom(c.buckets)
		b = &bucket{tokens: burst, at: now}
		c.buckets[about] = b
	}
	b.tokens = min(burst, b.tokens+float64(now.Sub(b.at))/float64(refill))
	b.at = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// makeRoom drops some of what is remembered: forgetting costs an extra event,
// nothing else.
func makeRoom[K comparable, V any](m map[K]V) {
	if len(m) < maxEntries {
		return
	}
	drop := maxEntries / 8
	for k := range m {
		if drop == 0 {
			return
		}
		delete(m, k)
		drop--
	}
}
