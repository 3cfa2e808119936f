package cri

import (
	"context"
	"errors"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/proa-project/proa/nodeagent/podworker"
)

// A Pod is what the runtime has of one pod.
type Pod struct {
	Namespace, Name string
	UID             types.UID
	Sandboxes       []podworker.Sandbox
	Containers      []podworker.Container
}

// Pod returns what the runtime has of one pod. Both lists are empty if it
// knows nothing of it.
func (r *Runtime) Pod(ctx context.Context, uid types.UID) (Pod, error) {
	ctx, cancel := r.timeout(ctx)
	defer cancel()
	selector := map[string]string{labelPodUID: string(uid)}
	p := Pod{UID: uid}
	sandboxes, err := r.rt.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{
		Filter: &runtimeapi.PodSandboxFilter{LabelSelector: selector},
	})
	if err != nil {
		return Pod{}, wrap("list pod sandboxes", err)
	}
	for _, s := range sandboxes.Items {
		p.Namespace, p.Name = s.GetMetadata().GetNamespace(), s.GetMetadata().GetName()
		sandbox := podworker.Sandbox{
			ID: s.Id, Attempt: int(s.GetMetadata().GetAttempt()), CreatedAt: unixNano(s.CreatedAt),
			Ready: s.State == runtimeapi.PodSandboxState_SANDBOX_READY,
		}
		if sandbox.Ready {
			sandbox.IPs, err = r.sandboxIPs(ctx, s.Id)
			if err = ignoreNotFound(err); err != nil {
				return Pod{}, err
			}
		}
		p.Sandboxes = append(p.Sandboxes, sandbox)
	}
	containers, err := r.rt.ListContainers(ctx, &runtimeapi.ListContainersRequest{
		Filter: &runtimeapi.ContainerFilter{LabelSelector: selector},
	})
	if err != nil {
		return Pod{}, wrap("list containers", err)
	}
	for _, c := range containers.Containers {
		resp, err := r.rt.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: c.Id})
		if err = wrap("ask for the container's status", err); errors.Is(err, ErrNotFound) {
			continue
		} else if err != nil {
			return Pod{}, err
		}
		p.Containers = append(p.Containers, container(c.PodSandboxId, resp.Status))
	}
	return p, nil
}

// Pods returns the pods that the runtime has sandboxes or containers of,
// without the sandboxes and containers themselves.
func (r *Runtime) Pods(ctx context.Context) ([]Pod, error) {
	ctx, cancel := r.timeout(ctx)
	defer cancel()
	sandboxes, err := r.rt.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return nil, wrap("list pod sandboxes", err)
	}
	containers, err := r.rt.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return nil, wrap("list containers", err)
	}
	var pods []Pod
	seen := map[string]bool{}
	add := func(labels map[string]string) {
		if uid := labels[labelPodUID]; uid != "" && !seen[uid] {
			seen[uid] = true
			pods = append(pods, Pod{Namespace: labels[labelPodNamespace], Name: labels[labelPodName], UID: types.UID(uid)})
		}
	}
	for _, s := range sandboxes.Items {
		add(s.Labels)
	}
	for _, c := range containers.Containers {
		add(c.Labels)
	}
	return pods, nil
}

// States returns a mark for each pod that changes whenever a sandbox or
// container of it comes, goes or changes its state.
func (r *Runtime) States(ctx context.Context) (map[types.UID]string, error) {
	ctx, cancel := r.timeout(ctx)
	defer cancel()
	sandboxes, err := r.rt.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return nil, wrap("list pod sandboxes", err)
	}
	containers, err := r.rt.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return nil, wrap("list containers", err)
	}
	sum := map[types.UID]uint64{}
	for _, s := range sandboxes.Items {
		sum[types.UID(s.Labels[labelPodUID])] += mix(s.Id, int32(s.State))
	}
	for _, c := range containers.Containers {
		sum[types.UID(c.Labels[labelPodUID])] += mix(c.Id, int32(c.State))
	}
	delete(sum, "")
	marks := make(map[types.UID]string, len(sum))
	for uid, n := range sum {
		marks[uid] = strconv.FormatUint(n, 16)
	}
	return marks, nil
}

// mix returns a number that is the ID's and the state's; sums of them do not
// depend on the order.
func mix(id string, state int32) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * 1099511628211
	}
	return (h ^ uint64(uint32(state)+1)) * 1099511628211 //nolint:gosec // a hash
}

func (r *Runtime) sandboxIPs(ctx context.Context, id string) ([]string, error) {
	resp, err := r.rt.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id})
	if err != nil {
		return nil, wrap("ask for the pod sandbox's status", err)
	}
	network := resp.GetStatus().GetNetwork()
	if network.GetIp() == "" {
		return nil, nil
	}
	ips := []string{network.Ip}
	for _, a := range network.AdditionalIps {
		ips = append(ips, a.Ip)
	}
	return ips, nil
}

func container(sandboxID string, s *runtimeapi.ContainerStatus) podworker.Container {
	c := podworker.Container{
		ID: s.Id, Name: s.Labels[labelContainerName], SandboxID: sandboxID,
		Attempt: number(s.Annotations[annotationRestartCount]),
		Streak:  number(s.Annotations[annotationStreak]),
		Hash:    s.Annotations[annotationHash],
		Image:   s.Annotations[annotationImage], ImageID: s.ImageRef,
		CreatedAt: unixNano(s.CreatedAt), StartedAt: unixNano(s.StartedAt), FinishedAt: unixNano(s.FinishedAt),
		ExitCode: s.ExitCode, Reason: s.Reason, Message: s.Message,
	}
	if c.ImageID == "" {
		c.ImageID = s.ImageId
	}
	switch s.State {
	case runtimeapi.ContainerState_CONTAINER_CREATED:
		c.State = podworker.Created
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		c.State = podworker.Running
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		c.State = podworker.Exited
	default:
		c.State = podworker.Unknown
	}
	if c.State == podworker.Exited && c.StartedAt.IsZero() {
		c.StartedAt = c.CreatedAt
	}
	return c
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0 // not one of ours, or from another version
	}
	return n
}

func unixNano(n int64) time.Time {
	if n <= 0 {
		return time.Time{}
	}
	return time.Unix(0, n)
}

func ignoreNotFound(err error) error {
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}
