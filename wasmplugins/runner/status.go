package runner

import (
	"context"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
)

// Condition types.
const (
	conditionReady    = "Ready"
	conditionDegraded = "Degraded"
)

// writeStatus writes what is known of a plugin to its object, if that says
// otherwise. It is called for changes on this side only: several servers that
// run the same plugins do not correct each other.
func (r *Runner[T, G]) writeStatus(ctx context.Context, name string) error {
	o, ok := r.objects.Get("", name)
	r.mu.Lock()
	h := r.handles[name]
	r.mu.Unlock()
	if !ok || h == nil || r.point.Silent {
		return nil
	}
	g, running := h.Running()
	want, _ := o.DeepCopyObject().(T) // a copy has the type of the original
	_, status := want.Bound()
	failures := h.describe(status, running)
	if r.point.Amend != nil {
		r.point.Amend(want, g)
	}
	if apiequality.Semantic.DeepEqual(o, want) {
		return nil
	}
	if _, err := r.api.UpdateStatus(ctx, want); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	if failures > 0 && h.wrote(failures) {
		r.status.AddAfter(name, r.c.StatusInterval)
	}
	return nil
}

// describe brings a status up to date and returns how many failures it counts
// more than before.
func (h *Handle[T, G]) describe(s *pluginsv1.PluginStatus, running bool) int64 {
	open := h.breaker.isOpen()
	h.mu.Lock()
	defer h.mu.Unlock()
	s.ObservedGeneration, s.ModuleDigest, s.Capabilities = h.generation, h.Digest(), h.inForce
	ready := metav1.Condition{Type: conditionReady, Status: metav1.ConditionTrue, Reason: reasonServing}
	switch {
	case h.problem == nil:
	case running:
		ready.Reason, ready.Message = reasonServingPrevious, "what ran before goes on: "+h.problem.reason+": "+h.problem.message
	default:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, h.problem.reason, h.problem.message
	}
	set(s, ready)
	degraded := metav1.Condition{Type: conditionDegraded, Status: metav1.ConditionFalse, Reason: reasonCalled}
	if open {
		degraded.Status, degraded.Reason = metav1.ConditionTrue, reasonBreakerOpen
		degraded.Message = "too many calls have failed, the last with " + h.last.reason
	}
	set(s, degraded)
	if h.failures > 0 {
		s.Failures += h.failures
		s.LastFailure = &pluginsv1.PluginFailure{Time: metav1.NewTime(h.last.at.Truncate(time.Second)), Reason: h.last.reason, Message: h.last.detail}
	}
	return h.failures
}

func set(s *pluginsv1.PluginStatus, c metav1.Condition) {
	c.ObservedGeneration = s.ObservedGeneration
	meta.SetStatusCondition(&s.Conditions, c)
}

// wrote takes off the failures that are in the status now, and reports whether
// there are more.
func (h *Handle[T, G]) wrote(failures int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures -= failures
	h.written = time.Now()
	return h.failures > 0
}
