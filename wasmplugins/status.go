package wasmplugins

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
	conditionCompiled = "Compiled"
)

// writeStatus writes what is known of a module or plugin to its object, if that
// says otherwise. It is called for changes on this side only: several servers
// that run the same plugins do not correct each other.
func (h *Host) writeStatus(ctx context.Context, k key) error {
	var err error
	if k.module {
		err = h.writeModule(ctx, k.name)
	} else {
		err = h.writePlugin(ctx, k.name)
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (h *Host) writeModule(ctx context.Context, name string) error {
	m, ok := h.modules.Get("", name)
	if !ok {
		return nil
	}
	h.mu.Lock()
	s := h.code[name]
	if s == nil {
		h.mu.Unlock()
		return nil
	}
	want := m.Status.DeepCopy()
	want.ObservedGeneration = s.generation
	want.Digest, want.ABI = s.digest, s.abi
	compiled, ready := truth(conditionCompiled, reasonCompiled, s.problem), truth(conditionReady, reasonCompiled, s.problem)
	if s.code != nil {
		want.SizeBytes = s.code.Size
		compiled = truth(conditionCompiled, reasonCompiled, nil)
		if want.CompileMillis == 0 || m.Status.Digest != s.digest {
			want.CompileMillis = max(1, s.code.CompileTime.Milliseconds())
		}
	} else {
		want.SizeBytes, want.CompileMillis = 0, 0
	}
	h.mu.Unlock()
	set(&want.Conditions, want.ObservedGeneration, compiled, ready)
	if apiequality.Semantic.DeepEqual(&m.Status, want) {
		return nil
	}
	m = m.DeepCopy()
	m.Status = *want
	_, err := h.moduleAPI.UpdateStatus(ctx, m)
	return err
}

func (h *Host) writePlugin(ctx context.Context, name string) error {
	p, ok := h.plugins.Get("", name)
	if !ok {
		return nil
	}
	h.mu.Lock()
	s := h.loaded[name]
	h.mu.Unlock()
	if s == nil {
		return nil
	}
	running, _ := s.get()
	want := p.Status.DeepCopy()

	s.mu.Lock()
	want.ObservedGeneration, want.ModuleDigest = s.generation, s.digest
	ready := truth(conditionReady, reasonServing, s.problem)
	if running != nil && s.problem != nil {
		ready = metav1.Condition{
			Type: conditionReady, Status: metav1.ConditionTrue, Reason: reasonServingPrevious,
			Message: "what ran before goes on: " + s.problem.reason + ": " + s.problem.message,
		}
	}
	failures := s.failures
	want.Failures += failures
	if failures > 0 {
		want.LastFailure = &pluginsv1.PluginFailure{Time: metav1.NewTime(s.last.at), Reason: s.last.reason, Message: s.last.detail}
	}
	s.mu.Unlock()
	set(&want.Conditions, want.ObservedGeneration, ready)
	if apiequality.Semantic.DeepEqual(&p.Status, want) {
		return nil
	}
	p = p.DeepCopy()
	p.Status = *want
	if _, err := h.pluginAPI.UpdateStatus(ctx, p); err != nil {
		return err
	}
	if failures > 0 {
		s.mu.Lock()
		s.failures -= failures
		s.written = time.Now()
		more := s.failures > 0
		s.mu.Unlock()
		if more {
			h.status.AddAfter(key{false, name}, h.c.StatusInterval)
		}
	}
	return nil
}

// truth is a condition that is true unless there is a problem.
func truth(kind, reason string, p *problem) metav1.Condition {
	if p != nil {
		return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: p.reason, Message: p.message}
	}
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason}
}

func set(conditions *[]metav1.Condition, generation int64, cs ...metav1.Condition) {
	for _, c := range cs {
		c.ObservedGeneration = generation
		meta.SetStatusCondition(conditions, c)
	}
}
