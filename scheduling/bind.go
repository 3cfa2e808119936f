package scheduling

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/scheduling/framework"
	"github.com/proa-project/proa/scheduling/queue"
)

// errElsewhere is the end of a binding that somebody else has made.
var errElsewhere = errors.New("pod is bound to another node")

// bind takes an assumed pod through PreBind, Bind and PostBind, unless it was
// not permitted.
func (s *Scheduler) bind(ctx context.Context, e *queue.Entry, profile *framework.Profile, node string, start time.Time, permitted error) {
	pod := e.Pod
	// A binding that has begun gets a little time when the scheduler stops.
	bctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bindTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		if sleep(bctx, bindGrace) {
			cancel()
		}
	})()
	err := permitted
	if err == nil {
		err = s.bound(bctx, profile, pod, node)
	}
	if err != nil {
		s.unreserve(bctx, profile.Reserve, pod, node)
		s.giveBack(ctx, e, profile, start, node, err)
		return
	}
	s.cache.finish(pod.Pod.UID, time.Now())
	s.metrics.scheduled(profile.Name, e, start)
	s.events.Action(pod.Pod, nil, corev1.EventTypeNormal, "Scheduled", "Binding",
		fmt.Sprintf("Successfully assigned %s/%s to %s", pod.Pod.Namespace, pod.Pod.Name, node))
	for _, p := range profile.PostBind {
		p.PostBind(bctx, pod, node)
	}
}

// permitted asks the Permit plugins, each of which may take its time.
func (s *Scheduler) permitted(ctx context.Context, profile *framework.Profile, pod *framework.PodInfo, node string) error {
	for _, p := range profile.Permit {
		pctx, cancel := context.WithTimeout(ctx, p.MaxWait())
		err := p.Permit(pctx, pod, node)
		cancel()
		if err != nil {
			return fmt.Errorf("plugin %q: permit: %w", p.Name(), err)
		}
	}
	return nil
}

func (s *Scheduler) bound(ctx context.Context, profile *framework.Profile, pod *framework.PodInfo, node string) error {
	for _, p := range profile.PreBind {
		if err := p.PreBind(ctx, pod, node); err != nil {
			return fmt.Errorf("plugin %q: prebind: %w", p.Name(), err)
		}
	}
	for _, p := range profile.Bind {
		done, err := p.Bind(ctx, pod, node)
		if err != nil {
			return fmt.Errorf("plugin %q: bind: %w", p.Name(), err)
		}
		if done {
			return nil
		}
	}
	return s.post(ctx, pod, node)
}

// post creates the Binding. When it returns an error, the pod is not bound to
// the node: if the answer leaves that open, the API is asked.
func (s *Scheduler) post(ctx context.Context, pod *framework.PodInfo, node string) error {
	b := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Pod.Namespace, Name: pod.Pod.Name, UID: pod.Pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
	err := s.cfg.REST.Post(ctx, s.client.Resource(), pod.Pod.Namespace, pod.Pod.Name, "binding", b, nil)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("bind pod %q to node %q: %w", pod.Pod.Namespace+"/"+pod.Pod.Name, node, err)
	if decided(err) {
		return err
	}
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		now, getErr := s.client.Get(ctx, pod.Pod.Namespace, pod.Pod.Name)
		switch {
		case getErr == nil && now.UID == pod.Pod.UID && now.Spec.NodeName == node:
			return nil
		case getErr == nil && now.UID == pod.Pod.UID && now.Spec.NodeName != "":
			return errElsewhere
		case getErr == nil, apierrors.IsNotFound(getErr):
			return err
		}
		if !sleep(ctx, wait) {
			return err
		}
	}
}

// decided reports whether an error means that the API has refused: what is not
// a client's mistake may have been done in part.
func decided(err error) bool {
	var st apierrors.APIStatus
	return errors.As(err, &st) && st.Status().Code >= 400 && st.Status().Code < 500
}

// sleep waits, and reports whether the time has gone by before ctx was done.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// giveBack takes back an assumed pod whose binding failed, and puts the pod
// into the queue again unless it is gone or bound.
func (s *Scheduler) giveBack(ctx context.Context, e *queue.Entry, profile *framework.Profile, start time.Time, node string, cause error) {
	pod := e.Pod
	if s.cache.forget(pod.Pod.UID) {
		// Its place is free again.
		s.move(framework.Change{Event: framework.PodRemoved, OldPod: pod})
	}
	s.metrics.done(profile.Name, resultError, start)
	now, ok := s.pods.Get(pod.Pod.Namespace, pod.Pod.Name)
	if ctx.Err() != nil || !ok || now.UID != pod.Pod.UID || now.Spec.NodeName != "" || apierrors.IsNotFound(cause) || errors.Is(cause, errElsewhere) {
		s.log.Debug().Err(cause).Str("node", node).Msg("pod is no longer to be bound")
		return
	}
	s.log.Warn().Err(cause).Str("namespace", pod.Pod.Namespace).Str("pod", pod.Pod.Name).Str("node", node).Msg("cannot bind pod")
	s.queue.Retry(e, framework.NewPodInfo(now))
	s.report(ctx, pod, reasonError, cause.Error(), "")
}

// confirm looks after assumed pods whose binding is done but which the watch
// does not show: it asks the API, and believes it.
func (s *Scheduler) confirm(ctx context.Context) {
	for sleep(ctx, confirmTimeout/2) {
		for _, pod := range s.cache.overdue(time.Now().Add(-confirmTimeout)) {
			now, err := s.client.Get(ctx, pod.Pod.Namespace, pod.Pod.Name)
			gone := apierrors.IsNotFound(err) || err == nil && (now.UID != pod.Pod.UID || finished(now))
			switch {
			case gone:
				s.cache.forget(pod.Pod.UID)
				s.move(framework.Change{Event: framework.PodRemoved, OldPod: pod})
			case err == nil && now.Spec.NodeName != "":
				s.cache.setPod(framework.NewPodInfo(now))
			case err == nil:
				s.cache.forget(pod.Pod.UID)
				s.queue.Set(framework.NewPodInfo(now))
			}
		}
	}
}
