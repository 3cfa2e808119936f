package nodeagent

import (
	"context"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// publish hands a status over to be written. Only the last one counts.
func (w *worker) publish(s *corev1.PodStatus) {
	w.mu.Lock()
	w.want = s
	same := equality.Semantic.DeepEqual(merge(&w.pod.Status, s), w.pod.Status)
	w.mu.Unlock()
	if same {
		return
	}
	select {
	case w.dirty <- struct{}{}:
	default:
	}
}

// writeStatuses writes what publish gets until ctx is done.
func (w *worker) writeStatuses(ctx context.Context) {
	const first, longest = 100 * time.Millisecond, 5 * time.Second
	delay := first
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.dirty:
		}
		for ctx.Err() == nil {
			err := w.writeStatus(ctx)
			if err == nil {
				delay = first
				break
			}
			if ctx.Err() == nil {
				w.log.Debug().Err(err).Msg("cannot write the pod's status")
			}
			timer := time.NewTimer(delay)
			select {
			case <-ctx.Done():
			case <-timer.C:
			}
			timer.Stop()
			delay = min(2*delay, longest)
		}
	}
}

// writeStatus writes the last published status, unless the API has it.
func (w *worker) writeStatus(ctx context.Context) error {
	w.writeLocked.Lock()
	defer w.writeLocked.Unlock()
	w.mu.Lock()
	base, want, gone := w.pod, w.want, w.gone
	w.mu.Unlock()
	for range 5 {
		if want == nil || gone {
			return nil
		}
		next := *base
		next.Status = merge(&base.Status, want)
		if equality.Semantic.DeepEqual(next.Status, base.Status) {
			return nil
		}
		written, err := w.agent.pods.UpdateStatus(ctx, &next)
		switch {
		case apierrors.IsNotFound(err):
			return nil // the informer will tell
		case apierrors.IsConflict(err):
			if base, err = w.agent.pods.Get(ctx, base.Namespace, base.Name); err != nil || base.UID != w.uid {
				if apierrors.IsNotFound(err) {
					return nil
				}
				return err
			}
		case err != nil:
			return err
		default:
			w.mu.Lock()
			if !older(written, w.pod) {
				w.pod = written
			}
			w.mu.Unlock()
			return nil
		}
	}
	return apierrors.NewConflict(corev1.Resource("pods"), base.Name, nil)
}

// older tells whether a is an older state of an object than b.
func older(a, b *corev1.Pod) bool {
	ra, errA := strconv.ParseUint(a.ResourceVersion, 10, 64)
	rb, errB := strconv.ParseUint(b.ResourceVersion, 10, 64)
	return errA == nil && errB == nil && ra < rb
}

// merge returns own with what others have put into the status.
func merge(others, own *corev1.PodStatus) corev1.PodStatus {
	s := *own
	s.NominatedNodeName = others.NominatedNodeName
	s.EphemeralContainerStatuses = others.EphemeralContainerStatuses
	s.ResourceClaimStatuses = others.ResourceClaimStatuses
	if others.QOSClass != "" {
		s.QOSClass = others.QOSClass
	}
	if others.StartTime != nil {
		s.StartTime = others.StartTime
	}
	s.Conditions = nil
	for _, c := range others.Conditions {
		if !ours(c.Type) {
			s.Conditions = append(s.Conditions, c)
		}
	}
	for _, c := range own.Conditions {
		if ours(c.Type) {
			s.Conditions = append(s.Conditions, c)
		} else if !has(s.Conditions, c.Type) && c.Type == corev1.PodScheduled {
			s.Conditions = append(s.Conditions, c)
		}
	}
	return s
}

// ours tells whether a node agent alone writes a condition.
func ours(t corev1.PodConditionType) bool {
	switch t {
	case corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady:
		return true
	default:
		return false
	}
}

func has(list []corev1.PodCondition, t corev1.PodConditionType) bool {
	for _, c := range list {
		if c.Type == t {
			return true
		}
	}
	return false
}
