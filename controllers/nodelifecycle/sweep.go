package nodelifecycle

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A sweeper deletes pods that nobody else will: those of nodes that do not
// exist, those that were deleted before they got a node, and finished ones
// that are too many. It belongs to one goroutine.
type sweeper struct {
	c *Controller
	// missing are nodes that pods name and that do not exist, and since when.
	missing map[string]time.Time
}

func (s *sweeper) sweep(ctx context.Context) {
	now := time.Now()
	pods := s.c.pods.List(nil)
	zero := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	for _, p := range finishedSurplus(pods, s.c.cfg.KeepFinished) {
		s.logged(s.c.deletePod(ctx, p, zero))
	}
	named := map[string]bool{} // node -> certainly lost
	for _, p := range pods {
		if ctx.Err() != nil {
			return
		}
		name := p.Spec.NodeName
		if name == "" {
			if p.DeletionTimestamp != nil {
				s.logged(s.c.deletePod(ctx, p, zero))
			}
			continue
		}
		lost, known := named[name]
		if !known {
			lost = s.lost(ctx, name, now)
			named[name] = lost
		}
		if lost {
			s.collect(ctx, p, zero, now)
		}
	}
	for name := range s.missing {
		if _, ok := named[name]; !ok {
			delete(s.missing, name)
		}
	}
}

// lost tells whether a node has been missing long enough, and is missing at
// the server too.
func (s *sweeper) lost(ctx context.Context, name string, now time.Time) bool {
	if _, ok := s.c.nodes.Get("", name); ok {
		delete(s.missing, name)
		return false
	}
	since, ok := s.missing[name]
	if !ok {
		s.missing[name] = now
		return false
	}
	if now.Sub(since) < s.c.cfg.Quarantine {
		return false
	}
	_, err := s.c.nodesC.Get(ctx, "", name)
	return apierrors.IsNotFound(err)
}

// collect ends a pod whose node is gone.
func (s *sweeper) collect(ctx context.Context, p *corev1.Pod, zero metav1.DeleteOptions, now time.Time) {
	phase := corev1.PodFailed
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		phase = ""
	}
	if phase != "" {
		if err := s.c.disrupt(ctx, p, phase, "DeletionByPodGC", "PodGC: node no longer exists", now); err != nil {
			s.logged(err)
			return
		}
	}
	s.logged(s.c.deletePod(ctx, p, zero))
}

func (s *sweeper) logged(err error) {
	if err != nil {
		s.c.cfg.Log.Debug().Err(err).Msg("cannot delete pod, trying again at the next sweep")
	}
}
