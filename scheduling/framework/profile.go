package framework

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Enabled is a plugin in a profile. Weight multiplies its scores; 0 means 1.
type Enabled struct {
	Plugin Plugin
	Weight int64
}

// An Extra is a plugin that is added to profiles at run time.
type Extra struct {
	Enabled
	// Schedulers are the names of the profiles that it belongs to.
	Schedulers []string
}

// Profile is what one scheduler name does: plugins by extension point, each
// point in the order of the list that the profile was made of.
type Profile struct {
	// Name is the spec.schedulerName of the pods that it schedules.
	Name string

	PreEnqueue []PreEnqueuePlugin
	PostFilter []PostFilterPlugin
	Reserve    []ReservePlugin
	Permit     []PermitPlugin
	PreBind    []PreBindPlugin
	Bind       []BindPlugin
	PostBind   []PostBindPlugin
	Enqueue    []EnqueuePlugin

	enabled []Enabled
	filters []filterSlot
	scores  []scoreSlot
	signers []SignPlugin // those of the above that are
	// unsigned says that some are not; their filters come after the others'.
	unsigned bool
}

// A filterSlot is a plugin with PreFilter, Filter or both.
type filterSlot struct {
	plugin Plugin
	pre    PreFilterPlugin
	filter FilterPlugin
	signed bool
}

type scoreSlot struct {
	pre       PreScorePlugin
	score     ScorePlugin
	normalize NormalizePlugin
	weight    int64
	signed    bool
}

// NewProfile sorts plugins, which stand in call order, into extension points.
// Two plugins of one name, or a negative weight, are an error.
func NewProfile(name string, plugins ...Enabled) (*Profile, error) {
	p := &Profile{Name: name, enabled: plugins}
	seen := make(map[string]bool)
	for _, e := range plugins {
		if e.Weight < 0 {
			return nil, fmt.Errorf("profile %q: plugin %q: negative weight %d", name, e.Plugin.Name(), e.Weight)
		}
		if seen[e.Plugin.Name()] {
			return nil, fmt.Errorf("profile %q: plugin %q is there twice", name, e.Plugin.Name())
		}
		seen[e.Plugin.Name()] = true
		p.add(e)
	}
	p.sign()
	if len(p.filters) > maxCodes {
		return nil, fmt.Errorf("profile %q: more than %d filter plugins", name, maxCodes)
	}
	return p, nil
}

// With returns a profile of the name with the plugins of p and then more.
func (p *Profile) With(name string, more ...Enabled) (*Profile, error) {
	return NewProfile(name, append(slices.Clip(p.enabled), more...)...)
}

// Same reports whether the profiles do the same: the same plugins, in one order
// and with the same weights.
func (p *Profile) Same(o *Profile) bool {
	return p.Name == o.Name && slices.Equal(p.enabled, o.enabled)
}

func (p *Profile) add(e Enabled) {
	pre := at[PreFilterPlugin](e.Plugin, PointPreFilter)
	filter := at[FilterPlugin](e.Plugin, PointFilter)
	if pre != nil || filter != nil {
		p.filters = append(p.filters, filterSlot{plugin: e.Plugin, pre: pre, filter: filter})
	}
	if score := at[ScorePlugin](e.Plugin, PointScore); score != nil {
		slot := scoreSlot{score: score, weight: max(e.Weight, 1)}
		slot.pre = at[PreScorePlugin](e.Plugin, PointPreScore)
		slot.normalize, _ = e.Plugin.(NormalizePlugin)
		p.scores = append(p.scores, slot)
	}
	p.PreEnqueue = appendIf(p.PreEnqueue, e.Plugin, "")
	p.PostFilter = appendIf(p.PostFilter, e.Plugin, PointPostFilter)
	p.Reserve = appendIf(p.Reserve, e.Plugin, PointReserve)
	p.Permit = appendIf(p.Permit, e.Plugin, PointPermit)
	p.PreBind = appendIf(p.PreBind, e.Plugin, PointPreBind)
	p.Bind = appendIf(p.Bind, e.Plugin, PointBind)
	p.PostBind = appendIf(p.PostBind, e.Plugin, PointPostBind)
	p.Enqueue = appendIf(p.Enqueue, e.Plugin, "")
}

// at returns the plugin as what serves the point, or nil. "" is a point that
// who implements it serves.
func at[T any](p Plugin, point Point) T {
	t, _ := p.(T)
	if partial, ok := p.(PartialPlugin); ok && point != "" && !partial.Serves(point) {
		var none T
		return none
	}
	return t
}

// sign finds out whose plugins sign. If a filter that does comes after one that
// does not, none is said to: the first filter that vetoes a node gives the
// reason.
func (p *Profile) sign() {
	add := func(plugin Plugin) bool {
		s, ok := plugin.(SignPlugin)
		if ok && !slices.Contains(p.signers, s) {
			p.signers = append(p.signers, s)
		}
		p.unsigned = p.unsigned || !ok
		return ok
	}
	for k := range p.filters {
		f := &p.filters[k]
		f.signed = add(f.plugin)
		if f.signed && k > 0 && !p.filters[k-1].signed {
			p.signers = nil
			return
		}
	}
	for k := range p.scores {
		p.scores[k].signed = add(p.scores[k].score)
	}
}

func appendIf[T any](list []T, p Plugin, point Point) []T {
	if t := at[T](p, point); any(t) != nil {
		return append(list, t)
	}
	return list
}

// Admit asks the PreEnqueue plugins about a pod: nil if it may be scheduled,
// otherwise the first refusal and the plugin it is from.
func (p *Profile) Admit(pod *corev1.Pod) (*Rejection, string) {
	for _, plugin := range p.PreEnqueue {
		if r := plugin.PreEnqueue(pod); r != nil {
			return r, plugin.Name()
		}
	}
	return nil, ""
}
