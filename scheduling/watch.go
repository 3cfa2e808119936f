package scheduling

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/proa-project/proa/informers"
	"github.com/proa-project/proa/scheduling/framework"
)

// finished reports whether the pod has ended: it takes nothing of its node.
func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func (s *Scheduler) nodeHandler() informers.Handler[*corev1.Node] {
	return informers.Handler[*corev1.Node]{
		Add: func(node *corev1.Node, _ bool) {
			s.cache.setNode(node)
			s.move(framework.Change{Event: framework.NodeAdded, Node: node})
		},
		Update: func(old, node *corev1.Node) {
			s.cache.setNode(node)
			s.move(framework.NodeChange(old, node))
		},
		Delete: func(node *corev1.Node) { s.cache.removeNode(node.Name) },
	}
}

func (s *Scheduler) podHandler() informers.Handler[*corev1.Pod] {
	return informers.Handler[*corev1.Pod]{
		Add:    func(pod *corev1.Pod, _ bool) { s.podSet(pod) },
		Update: func(_, pod *corev1.Pod) { s.podSet(pod) },
		Delete: func(pod *corev1.Pod) { s.podGone(pod) },
	}
}

// podSet takes in a pod as the API shows it. It looks at the state only, not at
// how it came about.
func (s *Scheduler) podSet(pod *corev1.Pod) {
	switch {
	case finished(pod):
		s.podGone(pod)
	case pod.Spec.NodeName != "":
		info := framework.NewPodInfo(pod)
		old := s.cache.setPod(info)
		s.queue.Delete(pod.UID)
		if old == nil || old.Pod.Spec.NodeName == "" {
			s.move(framework.Change{Event: framework.PodAdded, Pod: info})
		} else {
			s.move(framework.PodChange(old, info))
		}
	case s.profileOf(pod) == nil || pod.DeletionTimestamp != nil:
		s.queue.Delete(pod.UID)
	case !s.cache.knows(pod.UID):
		s.queue.Set(framework.NewPodInfo(pod))
	}
}

func (s *Scheduler) podGone(pod *corev1.Pod) {
	s.queue.Delete(pod.UID)
	if old := s.cache.removePod(pod.UID); old != nil {
		s.move(framework.Change{Event: framework.PodRemoved, OldPod: old})
	}
}

// move tells the queue of a change that some plugin cares about.
func (s *Scheduler) move(c framework.Change) {
	if c.Event&s.profiles.Load().interest != 0 {
		s.queue.Move(c)
	}
}
