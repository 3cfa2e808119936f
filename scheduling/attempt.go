package scheduling

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/proa-project/proa/scheduling/framework"
	"github.com/proa-project/proa/scheduling/queue"
)

// attempt chooses a node for one pod, books it and hands the binding to the
// workers. It runs on the loop only: one decision at a time.
func (s *Scheduler) attempt(ctx context.Context, e *queue.Entry) {
	pod := e.Pod
	profile := s.profileOf(pod.Pod)
	if profile == nil || pod.Pod.DeletionTimestamp != nil || s.cache.knows(pod.Pod.UID) {
		s.queue.Done(e)
		return
	}
	start := time.Now()
	s.cache.refresh(&s.snapshot)
	s.work.Tie = s.work.Tie*6364136223846793005 + 1442695040888963407
	s.work.Tie ^= s.work.Tie >> 33
	result, diagnosis, err := framework.Schedule(&s.snapshot, pod, profile, &s.work)
	s.metrics.algorithm.Observe(time.Since(start).Seconds())
	switch {
	case err != nil:
		s.fail(ctx, e, profile, start, err)
		return
	case diagnosis != nil:
		s.unschedulable(ctx, e, profile, start, diagnosis)
		return
	}
	if err := s.cache.assume(pod, result.Node); err != nil {
		s.queue.Done(e) // the API has shown it on a node meanwhile
		return
	}
	for i, p := range profile.Reserve {
		if err := p.Reserve(ctx, pod, result.Node); err != nil {
			s.unreserve(ctx, profile.Reserve[:i+1], pod, result.Node)
			s.cache.forget(pod.Pod.UID)
			s.fail(ctx, e, profile, start, fmt.Errorf("plugin %q: reserve: %w", p.Name(), err))
			return
		}
	}
	s.queue.Done(e)
	bind := func(permitted error) { s.bind(ctx, e, profile, result.Node, start, permitted) }
	if len(profile.Permit) == 0 {
		s.submit(ctx, func() { bind(nil) })
		return
	}
	// Pods that wait for each other must not keep a worker busy.
	s.waiting.Go(func() {
		err := s.permitted(ctx, profile, pod, result.Node)
		s.submit(ctx, func() { bind(err) })
	})
}

func (s *Scheduler) unreserve(ctx context.Context, plugins []framework.ReservePlugin, pod *framework.PodInfo, node string) {
	for _, p := range slices.Backward(plugins) {
		p.Unreserve(ctx, pod, node)
	}
}

// unschedulable puts back a pod that no node fits, and tells its owner why.
func (s *Scheduler) unschedulable(ctx context.Context, e *queue.Entry, profile *framework.Profile, start time.Time, d *framework.Diagnosis) {
	node, err := framework.PostFilter(&s.snapshot, e.Pod, profile, d)
	if err != nil {
		s.fail(ctx, e, profile, start, err)
		return
	}
	pod, message := e.Pod, d.Message()
	if node != "" {
		s.queue.Nominate(pod, node)
	}
	s.metrics.done(profile.Name, resultUnschedulable, start)
	s.queue.Reject(e, d.Plugins)
	s.submit(ctx, func() { s.report(ctx, pod, reasonUnschedulable, message, node) })
}

// fail puts back a pod after an error that is not its own.
func (s *Scheduler) fail(ctx context.Context, e *queue.Entry, profile *framework.Profile, start time.Time, cause error) {
	pod := e.Pod
	s.log.Error().Err(cause).Str("namespace", pod.Pod.Namespace).Str("pod", pod.Pod.Name).Msg("cannot schedule pod")
	s.metrics.done(profile.Name, resultError, start)
	s.queue.Retry(e, nil)
	s.submit(ctx, func() { s.report(ctx, pod, reasonError, cause.Error(), "") })
}
