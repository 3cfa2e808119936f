package scheduling

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/proa-project/proa/scheduling/framework"
)

// Extra are plugins that come and go while the scheduler runs.
type Extra interface {
	// WaitSynced waits until Plugins has those that were there at the start, or
	// returns the error of ctx.
	WaitSynced(ctx context.Context) error
	// Plugins returns those of now, in the order in which they are called,
	// which is after the plugins of the profiles. A scheduler name that no
	// profile has makes one that is like the first of Config.Profiles. The
	// slice never changes.
	Plugins() []framework.Extra
	// Subscribe has changed called whenever Plugins returns others, until the
	// function that it returns is called. changed returns at once.
	Subscribe(changed func()) (cancel func())
}

// profiles are what pods may name at one time. They never change.
type profiles struct {
	byName   map[string]*framework.Profile
	interest framework.Event // what may move an unschedulable pod
}

// profileNames returns the names of the profiles, the given ones first.
func (s *Scheduler) profileNames(extra []framework.Extra) []string {
	var names []string
	for _, p := range s.cfg.Profiles {
		names = append(names, p.Name)
	}
	for i := range extra {
		for _, name := range extra[i].Schedulers {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// makeProfiles adds the extra plugins to the given profiles. A profile whose
// plugins are those of before stays the same.
func (s *Scheduler) makeProfiles(extra []framework.Extra, before *profiles) *profiles {
	out := &profiles{byName: make(map[string]*framework.Profile)}
	for _, name := range s.profileNames(extra) {
		p := s.cfg.Profiles[0]
		if i := slices.IndexFunc(s.cfg.Profiles, func(p *framework.Profile) bool { return p.Name == name }); i >= 0 {
			p = s.cfg.Profiles[i]
		} else if renamed, err := p.With(name); err == nil { // the same plugins fit again
			p = renamed
		}
		for i := range extra {
			if !slices.Contains(extra[i].Schedulers, name) {
				continue
			}
			with, err := p.With(name, extra[i].Enabled)
			if err != nil {
				s.log.Error().Err(err).Str("profile", name).Str("plugin", extra[i].Plugin.Name()).Msg("plugin is left out of a profile")
				continue
			}
			p = with
		}
		if before != nil {
			if old := before.byName[name]; old != nil && old.Same(p) {
				p = old
			}
		}
		out.byName[name] = p
		out.interest |= p.Interest()
	}
	return out
}

// follow keeps the profiles as the extra plugins are, until ctx is done. An
// attempt that has begun ends with the profile that it began with.
func (s *Scheduler) follow(ctx context.Context, changed <-chan struct{}) {
	for {
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
		before := s.profiles.Load()
		now := s.makeProfiles(s.cfg.Extra.Plugins(), before)
		s.profiles.Store(now)
		s.log.Debug().Int("profiles", len(now.byName)).Msg("scheduler plugins changed")
		s.adopt(before, now)
		s.queue.Move(framework.Change{Event: framework.AnyEvent})
	}
}

// adopt takes up the pods of profiles that are new, and lets go of those whose
// profile has gone.
func (s *Scheduler) adopt(before, now *profiles) {
	differs := func(pod *corev1.Pod) bool {
		name := schedulerName(pod)
		return (before.byName[name] == nil) != (now.byName[name] == nil)
	}
	for _, pod := range s.pods.List(labels.Everything()) {
		// A pod that was updated meanwhile is looked at again, since who told
		// of the update may have been before us.
		for pod.Spec.NodeName == "" && differs(pod) {
			s.podSet(pod)
			latest, ok := s.pods.Get(pod.Namespace, pod.Name)
			if !ok {
				s.queue.Delete(pod.UID)
				break
			}
			if latest == pod {
				break
			}
			pod = latest
		}
	}
}
