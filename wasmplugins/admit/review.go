package admit

import (
	"context"
	"slices"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/admission/policy"
	"github.com/proa-project/proa/wasmplugins/engine"
)

// reviewTime bounds a Review.
const reviewTime = 10 * time.Second

// Review asks a plugin, or its candidate, about a write in all its phases,
// whatever its mode, and has no effect. A nil Verdict says that the plugin is
// not for such writes; Object in it is the object as the plugin would leave it.
// Errors are *policy.Failure and the context's.
func (p *Point) Review(ctx context.Context, plugin string, candidate bool, r *admission.Request) (*policy.Verdict, error) {
	b := p.find(plugin)
	if b == nil {
		return nil, &policy.Failure{Reason: string(engine.NotReady), Detail: "there is no AdmissionPlugin " + plugin, Retry: true}
	}
	h := b.handle
	if candidate {
		if h = b.candidate; h == nil {
			return nil, &policy.Failure{Reason: string(engine.NotReady), Detail: "the plugin has no candidate", Retry: true}
		}
	}
	if ok, err := b.Matches(ctx, r); err != nil || !ok {
		return nil, err
	}
	in := &policy.Input{Request: r, Deadline: time.Now().Add(reviewTime)}
	var err error
	if in.Object, err = r.ObjectJSON(); err != nil {
		return nil, err
	}
	if in.OldObject, err = r.OldObjectJSON(); err != nil {
		return nil, err
	}
	sum := &policy.Verdict{}
	for _, phase := range []pluginsv1.Phase{pluginsv1.PhaseMutate, pluginsv1.PhaseValidate} {
		if !b.has(phase) {
			continue
		}
		in.Phase = phase
		v, err := b.verdict(b.ask(ctx, h, in, requestOf(in)))
		if err != nil {
			return nil, err
		}
		sum.Warnings = append(sum.Warnings, v.Warnings...)
		if v.Denied != nil {
			sum.Denied = v.Denied
			break
		}
		if v.Object == nil && v.Patch == nil {
			continue
		}
		if in.Object, err = changed(in.Object, v); err != nil {
			return nil, &policy.Failure{Reason: string(engine.BadReply), Detail: err.Error()}
		}
		sum.Object = in.Object
	}
	return sum, nil
}

func changed(object []byte, v *policy.Verdict) ([]byte, error) {
	if v.Object != nil {
		return v.Object, nil
	}
	patch, err := jsonpatch.DecodePatch(v.Patch)
	if err != nil {
		return nil, err
	}
	return patch.Apply(object)
}

// find returns a plugin as it is now, nil if there is none of the name.
func (p *Point) find(name string) *binding {
	set := p.set.Load()
	for _, list := range [][]policy.Policy{set.Mutate, set.Validate} {
		for _, one := range list {
			if b, ok := one.(*binding); ok && b.object.Name == name {
				return b
			}
		}
	}
	return nil
}

func (b *binding) has(phase pluginsv1.Phase) bool {
	return slices.Contains(b.object.Spec.Phases, phase)
}
