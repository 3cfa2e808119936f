package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/nodeagent/cri"
	"github.com/proa-project/proa/nodeagent/podworker"
)

// do does one action. Failures that podworker must know of are recorded in
// observed; the error is for the log.
func (w *worker) do(ctx context.Context, pod *corev1.Pod, a podworker.Action) error {
	switch a.Do {
	case podworker.PrepareVolumes:
		return w.prepareVolumes(ctx, pod)
	case podworker.CreateSandbox:
		return w.createSandbox(ctx, pod, a)
	case podworker.EnsureImage:
		return w.ensureImage(ctx, pod, a)
	case podworker.CreateContainer:
		return w.createContainer(ctx, pod, a)
	case podworker.StartContainer:
		return w.startContainer(ctx, pod, a)
	case podworker.StopContainers:
		return w.stopContainers(ctx, pod, a)
	case podworker.StopSandbox:
		return w.paced(ctx, w.agent.Runtime.StopSandbox(ctx, a.ID))
	case podworker.RemoveContainer:
		return w.removeContainer(ctx, a)
	case podworker.RemoveSandbox:
		return w.paced(ctx, w.agent.Runtime.RemoveSandbox(ctx, a.ID))
	case podworker.Finish:
		return w.paced(ctx, w.finish(ctx, pod))
	default:
		return fmt.Errorf("no action %v", a.Do)
	}
}

// paced waits a while after a failure of something that is tried again as long
// as it takes.
func (w *worker) paced(ctx context.Context, err error) error {
	if err != nil && ctx.Err() == nil {
		timer := time.NewTimer(500 * time.Millisecond)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
	}
	return err
}

func (w *worker) prepareVolumes(ctx context.Context, pod *corev1.Pod) error {
	err := w.makeDirs(pod)
	if err == nil {
		err = w.volumes.Prepare(ctx, pod)
	}
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		w.agent.events.Event(pod, corev1.EventTypeWarning, "FailedMount", err.Error())
		w.observed.Volumes.Failure = w.observed.Volumes.Failure.Add(time.Now(), "FailedMount", err.Error())
		return err
	}
	w.agent.cgroups.add(pod)
	w.refreshed = time.Now()
	w.observed.Volumes = podworker.Volumes{Ready: true}
	return nil
}

// makeDirs makes the folders of the pod and of its containers.
func (w *worker) makeDirs(pod *corev1.Pod) error {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for _, dir := range []string{filepath.Join(w.logDir, list[i].Name), w.containerDir(list[i].Name)} {
				if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // read by log collectors
					return err
				}
			}
		}
	}
	return nil
}

func (w *worker) containerDir(name string) string {
	return filepath.Join(w.dir(), "containers", name)
}

// refresh brings the volumes up to date.
func (w *worker) refresh(ctx context.Context, pod *corev1.Pod) {
	w.refreshed = time.Now()
	if err := w.volumes.Refresh(ctx, pod); err != nil && ctx.Err() == nil {
		w.agent.events.Event(pod, corev1.EventTypeWarning, "FailedMount", err.Error())
	}
}

func (w *worker) createSandbox(ctx context.Context, pod *corev1.Pod, a podworker.Action) error {
	if a.Attempt > 0 {
		w.agent.events.Event(pod, corev1.EventTypeNormal, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
	}
	_, err := w.agent.Runtime.RunSandbox(ctx, pod, w.sandboxOptions(pod, a.Attempt))
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		w.agent.events.Eventf(pod, corev1.EventTypeWarning, "FailedCreatePodSandBox", "Failed to create pod sandbox: %v", err)
		w.observed.SandboxFailure = w.observed.SandboxFailure.Add(time.Now(), "FailedCreatePodSandBox", err.Error())
		return err
	}
	w.observed.SandboxFailure = podworker.Failure{}
	return nil
}

// ensureImage sees to a container's image by its pull policy.
func (w *worker) ensureImage(ctx context.Context, pod *corev1.Pod, a podworker.Action) error {
	c := container(pod, a.Container)
	w.attempt(c.Name, func(t *podworker.Attempt) {
		if t.Number != a.Attempt || t.Image != c.Image {
			*t = podworker.Attempt{Number: a.Attempt, Image: c.Image}
		}
	})
	ref, reason, err := w.image(ctx, pod, c)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		w.attempt(c.Name, func(t *podworker.Attempt) { t.Failure = t.Failure.Add(time.Now(), reason, err.Error()) })
		return err
	}
	w.attempt(c.Name, func(t *podworker.Attempt) { t.ImageRef, t.Failure = ref, podworker.Failure{} })
	return nil
}

// image returns the reference of a container's image, or why it is not there.
func (w *worker) image(ctx context.Context, pod *corev1.Pod, c *corev1.Container) (ref, reason string, err error) {
	event := func(typ, reason, format string, args ...any) {
		w.containerEvent(pod, c.Name, typ, reason, fmt.Sprintf(format, args...))
	}
	if !podworker.ValidImage(c.Image) {
		err = fmt.Errorf("Failed to apply default image tag %q: couldn't parse image name %q: invalid reference format", c.Image, c.Image) //nolint:staticcheck // the text that users know
		event(corev1.EventTypeWarning, "InspectFailed", "%v", err)
		event(corev1.EventTypeWarning, "Failed", "Error: %s", podworker.InvalidImageName)
		return "", podworker.InvalidImageName, err
	}
	image, err := w.agent.Runtime.Image(ctx, c.Image)
	switch {
	case err != nil && !errors.Is(err, cri.ErrNotFound):
		event(corev1.EventTypeWarning, "InspectFailed", "Failed to inspect image %q: %v", c.Image, err)
		return "", podworker.ImageInspectError, fmt.Errorf("failed to inspect image %q: %w", c.Image, err)
	case err == nil && c.ImagePullPolicy != corev1.PullAlways:
		event(corev1.EventTypeNormal, "Pulled", "Container image %q already present on machine", c.Image)
		return image.ID, "", nil
	case err != nil && c.ImagePullPolicy == corev1.PullNever:
		err = fmt.Errorf("Container image %q is not present with pull policy of Never", c.Image) //nolint:staticcheck // the text that users know
		event(corev1.EventTypeWarning, podworker.ErrImageNeverPull, "%v", err)
		event(corev1.EventTypeWarning, "Failed", "Error: %s", podworker.ErrImageNeverPull)
		return "", podworker.ErrImageNeverPull, err
	}
	event(corev1.EventTypeNormal, "Pulling", "Pulling image %q", c.Image)
	begun := time.Now()
	ref, err = w.pull(ctx, pod, c.Image)
	if err != nil {
		if ctx.Err() == nil {
			event(corev1.EventTypeWarning, "Failed", "Failed to pull image %q: %v", c.Image, err)
			event(corev1.EventTypeWarning, "Failed", "Error: %s", podworker.ErrImagePull)
		}
		return "", podworker.ErrImagePull, err
	}
	took := time.Since(begun).Round(time.Millisecond)
	size := int64(0)
	if pulled, failed := w.agent.Runtime.Image(ctx, ref); failed == nil {
		size = pulled.Size
	}
	event(corev1.EventTypeNormal, "Pulled", "Successfully pulled image %q in %v (%v including waiting). Image size: %d bytes.", c.Image, took, took, size)
	return ref, "", nil
}

func (w *worker) createContainer(ctx context.Context, pod *corev1.Pod, a podworker.Action) error {
	c := container(pod, a.Container)
	options, err := w.containerOptions(ctx, pod, c, a)
	reason := podworker.CreateContainerConfigError
	if err == nil {
		reason = podworker.CreateContainerError
		_, err = w.agent.Runtime.CreateContainer(ctx, a.ID, pod, c, options)
	}
	if err != nil {
		return w.attemptFailed(ctx, pod, c.Name, "", reason, err)
	}
	w.containerEvent(pod, c.Name, corev1.EventTypeNormal, "Created", "Created container: "+c.Name)
	w.attempt(c.Name, func(t *podworker.Attempt) { t.Failure = podworker.Failure{} })
	return nil
}

func (w *worker) startContainer(ctx context.Context, pod *corev1.Pod, a podworker.Action) error {
	if err := w.agent.Runtime.StartContainer(ctx, a.ID); err != nil {
		return w.attemptFailed(ctx, pod, a.Container, a.ID, podworker.RunContainerError, err)
	}
	w.containerEvent(pod, a.Container, corev1.EventTypeNormal, "Started", "Started container "+a.Container)
	w.attempt(a.Container, func(t *podworker.Attempt) { t.Failure = podworker.Failure{} })
	c := container(pod, a.Container)
	if c.Lifecycle == nil || c.Lifecycle.PostStart == nil {
		return nil
	}
	if err := w.hook(ctx, pod, c, a.ID, c.Lifecycle.PostStart, time.Minute); err != nil {
		w.containerEvent(pod, c.Name, corev1.EventTypeWarning, "FailedPostStartHook", "PostStartHook failed")
		return errors.Join(err, w.agent.Runtime.StopContainer(ctx, a.ID, grace(pod)))
	}
	return nil
}

// attemptFailed records that a container's next instance could not be had.
func (w *worker) attemptFailed(ctx context.Context, pod *corev1.Pod, name, id, reason string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	w.containerEvent(pod, name, corev1.EventTypeWarning, "Failed", "Error: "+err.Error())
	w.attempt(name, func(t *podworker.Attempt) {
		t.NotStarted = id
		t.Failure = t.Failure.Add(time.Now(), reason, err.Error())
	})
	return err
}

// stopContainers stops containers at the same time, each with its hook before.
func (w *worker) stopContainers(ctx context.Context, pod *corev1.Pod, a podworker.Action) error {
	var g errgroup.Group
	for _, id := range a.IDs {
		name := w.nameOf(id)
		reason := a.Reason
		if reason == "" {
			reason = "Stopping container " + name
		}
		w.containerEvent(pod, name, corev1.EventTypeNormal, "Killing", reason)
		g.Go(func() error {
			left := a.Grace
			if c := container(pod, name); c != nil && c.Lifecycle != nil && c.Lifecycle.PreStop != nil && left > 0 {
				begun := time.Now()
				if err := w.hook(ctx, pod, c, id, c.Lifecycle.PreStop, left); err != nil && ctx.Err() == nil {
					w.containerEvent(pod, name, corev1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed")
				}
				left = max(left-time.Since(begun), min(2*time.Second, a.Grace))
			}
			return w.agent.Runtime.StopContainer(ctx, id, left)
		})
	}
	return w.paced(ctx, g.Wait())
}

func (w *worker) nameOf(id string) string {
	for _, c := range w.observed.Containers {
		if c.ID == id {
			return c.Name
		}
	}
	return ""
}

// grace returns the pod's own grace period.
func grace(pod *corev1.Pod) time.Duration {
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return 30 * time.Second
}

func (w *worker) removeContainer(ctx context.Context, a podworker.Action) error {
	if err := w.agent.Runtime.RemoveContainer(ctx, a.ID); err != nil {
		return w.paced(ctx, err)
	}
	for _, c := range w.observed.Containers {
		if c.ID == a.ID {
			return errors.Join(removeIfThere(w.logPath(c.Name, c.Attempt)), removeIfThere(w.messagePath(c.Name, c.Attempt)))
		}
	}
	return nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// finish takes the pod out of the API: all its containers have ended.
func (w *worker) finish(ctx context.Context, pod *corev1.Pod) error {
	if err := w.writeStatus(ctx); err != nil {
		return fmt.Errorf("write the last status: %w", err)
	}
	if err := w.volumes.Remove(); err != nil {
		return fmt.Errorf("remove volumes: %w", err)
	}
	now := int64(0)
	err := w.agent.pods.Delete(ctx, pod.Namespace, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &w.uid},
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete the pod: %w", err)
	}
	w.observed.Gone = true
	return nil
}

// cleanUp removes what the pod left on the node's disk and in its cgroups.
func (w *worker) cleanUp() {
	pod, _ := w.latest()
	err := errors.Join(w.volumes.Remove(), os.RemoveAll(w.dir()), os.RemoveAll(w.logDir), w.agent.cgroups.remove(pod))
	if err != nil {
		w.log.Warn().Err(err).Msg("cannot remove what a pod left behind")
	}
}

// container returns a container's specification by its name.
func container(pod *corev1.Pod, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}
