package nodeagent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/nodeagent/cri"
)

const (
	leaseNamespace = "kube-node-lease"
	leaseSeconds   = 40
	// statusAtLeast is how often the node's status is written though nothing
	// has changed: the lease is the sign of life.
	statusAtLeast = 5 * time.Minute
	maxImages     = 50
)

// A nodeClient keeps the node's own objects up to date: the Node and its
// Lease.
type nodeClient struct {
	agent  *Agent
	nodes  *client.Client[*corev1.Node]
	leases *client.Client[*coordinationv1.Lease]
	port   int32 // of the agent's server

	mu                  sync.Mutex // guards the fields below
	machine             machine
	runtime             cri.Version
	capacityOf, allowed corev1.ResourceList

	// the rest belongs to run

	node      *corev1.Node // as last read or written
	lease     *coordinationv1.Lease
	writtenAt time.Time
}

func newNodeClient(a *Agent) *nodeClient {
	n := &nodeClient{agent: a, nodes: client.For[*corev1.Node](a.REST), leases: client.For[*coordinationv1.Lease](a.REST)}
	n.look()
	return n
}

// look reads the machine anew.
func (n *nodeClient) look() machine {
	m := readMachine(n.agent.RootDir)
	capacity, allowed := m.resources(n.agent.MaxPods)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.machine, n.capacityOf, n.allowed = m, capacity, allowed
	return m
}

func (n *nodeClient) setRuntime(v cri.Version) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.runtime = v
}

func (n *nodeClient) capacity() corev1.ResourceList {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.capacityOf
}

func (n *nodeClient) allocatable() corev1.ResourceList {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.allowed
}

// run registers the node and sends signs of life until ctx is done.
func (n *nodeClient) run(ctx context.Context) error {
	for delay := 50 * time.Millisecond; ; delay = min(2*delay, 5*time.Second) {
		err := n.register(ctx)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		n.agent.Log.Warn().Err(err).Msg("cannot register the node")
		if !pause(ctx, delay) {
			return ctx.Err()
		}
	}
	n.agent.Log.Info().Str("node", n.agent.NodeName).Msg("node is registered")
	for wait := time.Duration(0); pause(ctx, wait); {
		wait = n.agent.Heartbeat
		err := n.renew(ctx)
		if err == nil {
			err = n.heartbeat(ctx)
		}
		if err != nil && ctx.Err() == nil {
			n.agent.Log.Warn().Err(err).Msg("cannot send a sign of life")
			wait = min(wait, time.Second)
		}
	}
	return ctx.Err()
}

// create makes the Node.
func (n *nodeClient) create(ctx context.Context) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.agent.NodeName, Labels: n.labels()}}
	node.Spec.Taints = n.agent.Taints
	n.setStatus(ctx, node, time.Now())
	created, err := n.nodes.Create(ctx, node)
	if err != nil {
		return fmt.Errorf("create node %q: %w", node.Name, err)
	}
	n.node, n.writtenAt = created, time.Now()
	return nil
}

// register makes the Node, or takes over the one that is there.
func (n *nodeClient) register(ctx context.Context) error {
	err := n.create(ctx)
	if err == nil {
		return n.renew(ctx)
	}
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	old, err := n.nodes.Get(ctx, "", n.agent.NodeName)
	if err != nil {
		return fmt.Errorf("read node %q: %w", n.agent.NodeName, err)
	}
	changed := false
	for k, v := range n.labels() {
		if old.Labels[k] != v {
			if old.Labels == nil {
				old.Labels = map[string]string{}
			}
			old.Labels[k], changed = v, true
		}
	}
	if changed {
		if old, err = n.nodes.Update(ctx, old); err != nil {
			return fmt.Errorf("label node %q: %w", n.agent.NodeName, err)
		}
	}
	n.node = old
	if err := n.renew(ctx); err != nil {
		return err
	}
	return n.heartbeat(ctx)
}

func (n *nodeClient) labels() map[string]string {
	system, arch := serverPlatform()
	labels := map[string]string{
		corev1.LabelHostname: n.agent.NodeName, corev1.LabelOSStable: system, corev1.LabelArchStable: arch,
		"beta.kubernetes.io/os": system, "beta.kubernetes.io/arch": arch,
	}
	maps.Copy(labels, n.agent.Labels)
	return labels
}

// heartbeat writes the node's status if it has changed, or not been written
// for long.
func (n *nodeClient) heartbeat(ctx context.Context) error {
	now := time.Now()
	// others label and taint the node, and may delete it
	fresh, err := n.nodes.Get(ctx, "", n.agent.NodeName)
	switch {
	case apierrors.IsNotFound(err):
		return n.create(ctx)
	case err != nil:
		return fmt.Errorf("read the node: %w", err)
	}
	n.node = fresh
	for range 3 {
		next := n.node.DeepCopy()
		n.setStatus(ctx, next, now)
		if now.Sub(n.writtenAt) < statusAtLeast && sameStatus(&n.node.Status, &next.Status) {
			return nil
		}
		written, err := n.nodes.UpdateStatus(ctx, next)
		switch {
		case err == nil:
			n.node, n.writtenAt = written, now
			return nil
		case apierrors.IsConflict(err):
			if n.node, err = n.nodes.Get(ctx, "", n.agent.NodeName); err != nil {
				return fmt.Errorf("read the node: %w", err)
			}
		default:
			return fmt.Errorf("write the node's status: %w", err)
		}
	}
	return apierrors.NewConflict(corev1.Resource("nodes"), n.agent.NodeName, nil)
}

// sameStatus tells whether two statuses differ only in the times of heartbeats.
func sameStatus(a, b *corev1.NodeStatus) bool {
	x, y := a.DeepCopy(), b.DeepCopy()
	for _, s := range []*corev1.NodeStatus{x, y} {
		for i := range s.Conditions {
			s.Conditions[i].LastHeartbeatTime = metav1.Time{}
		}
	}
	return equality.Semantic.DeepEqual(x, y)
}

// renew renews the lease, and makes it if it is not there.
func (n *nodeClient) renew(ctx context.Context) error {
	now := metav1.NewMicroTime(time.Now())
	for range 3 {
		if n.lease == nil {
			lease, err := n.leases.Get(ctx, leaseNamespace, n.agent.NodeName)
			switch {
			case apierrors.IsNotFound(err):
				name, seconds := n.agent.NodeName, int32(leaseSeconds)
				lease, err = n.leases.Create(ctx, &coordinationv1.Lease{
					ObjectMeta: metav1.ObjectMeta{Namespace: leaseNamespace, Name: name, OwnerReferences: n.owner()},
					Spec:       coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: &seconds, RenewTime: &now},
				})
				if err == nil {
					n.lease = lease
					return nil
				}
				if apierrors.IsAlreadyExists(err) {
					continue
				}
				return fmt.Errorf("create the node's lease: %w", err)
			case err != nil:
				return fmt.Errorf("read the node's lease: %w", err)
			}
			n.lease = lease
		}
		next := n.lease.DeepCopy()
		next.Spec.HolderIdentity, next.Spec.RenewTime = &n.agent.NodeName, &now
		if len(next.OwnerReferences) == 0 {
			next.OwnerReferences = n.owner()
		}
		written, err := n.leases.Update(ctx, next)
		if err == nil {
			n.lease = written
			return nil
		}
		n.lease = nil
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("renew the node's lease: %w", err)
		}
	}
	return apierrors.NewConflict(coordinationv1.Resource("leases"), n.agent.NodeName, nil)
}

func (n *nodeClient) owner() []metav1.OwnerReference {
	if n.node == nil || n.node.UID == "" {
		return nil
	}
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.node.Name, UID: n.node.UID}}
}

// setStatus fills in the node's status; conditions of others are kept.
func (n *nodeClient) setStatus(ctx context.Context, node *corev1.Node, now time.Time) {
	m := n.look()
	s := &node.Status
	s.Capacity, s.Allocatable = n.capacity(), n.allocatable()
	s.DaemonEndpoints.KubeletEndpoint.Port = n.port
	s.Addresses = nil
	for _, ip := range n.agent.NodeIPs {
		s.Addresses = append(s.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
	}
	s.Addresses = append(s.Addresses, corev1.NodeAddress{Type: corev1.NodeHostName, Address: n.agent.NodeName})

	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	version, err := n.agent.Runtime.Version(ctx)
	if err == nil {
		n.setRuntime(version)
	} else {
		n.mu.Lock()
		version = n.runtime
		n.mu.Unlock()
	}
	system, arch := serverPlatform()
	s.NodeInfo = corev1.NodeSystemInfo{
		MachineID: m.machineID, SystemUUID: m.systemUUID, BootID: m.bootID, KernelVersion: m.kernel,
		OSImage: m.distribution, OperatingSystem: system, Architecture: arch, KubeletVersion: n.agent.Version,
	}
	if version.Name != "" {
		s.NodeInfo.ContainerRuntimeVersion = version.String()
	}
	n.setConditions(ctx, s, &m, now)
	if images, err := n.agent.Runtime.Images(ctx); err == nil {
		s.Images = imageList(images)
	}
}

func (n *nodeClient) setConditions(ctx context.Context, s *corev1.NodeStatus, m *machine, now time.Time) {
	set := func(t corev1.NodeConditionType, is bool, reason, message string) {
		status := corev1.ConditionFalse
		if is {
			status = corev1.ConditionTrue
		}
		i := slices.IndexFunc(s.Conditions, func(c corev1.NodeCondition) bool { return c.Type == t })
		if i < 0 {
			s.Conditions = append(s.Conditions, corev1.NodeCondition{Type: t})
			i = len(s.Conditions) - 1
		}
		c := &s.Conditions[i]
		at := metav1.NewTime(now.Truncate(time.Second))
		if c.Status != status {
			c.Status, c.LastTransitionTime = status, at
		}
		c.Reason, c.Message, c.LastHeartbeatTime = reason, message, at
	}
	if m.memory > 0 && m.memoryFree < kept {
		set(corev1.NodeMemoryPressure, true, "KubeletHasInsufficientMemory", "kubelet has insufficient memory available")
	} else {
		set(corev1.NodeMemoryPressure, false, "KubeletHasSufficientMemory", "kubelet has sufficient memory available")
	}
	if m.disk > 0 && m.diskFree < m.disk/20 {
		set(corev1.NodeDiskPressure, true, "KubeletHasDiskPressure", "kubelet has disk pressure")
	} else {
		set(corev1.NodeDiskPressure, false, "KubeletHasNoDiskPressure", "kubelet has no disk pressure")
	}
	if m.pidsFree > 0 && m.pidsFree < 1000 {
		set(corev1.NodePIDPressure, true, "KubeletHasInsufficientPID", "kubelet has insufficient PID available")
	} else {
		set(corev1.NodePIDPressure, false, "KubeletHasSufficientPID", "kubelet has sufficient PID available")
	}
	status, err := n.agent.Runtime.Status(ctx)
	switch {
	case err != nil:
		set(corev1.NodeReady, false, "KubeletNotReady", "container runtime is down")
	case !status.RuntimeReady:
		set(corev1.NodeReady, false, "KubeletNotReady", "container runtime not ready: "+status.Message)
	case !status.NetworkReady:
		set(corev1.NodeReady, false, "KubeletNotReady", "container runtime network not ready: "+status.Message)
	default:
		set(corev1.NodeReady, true, "KubeletReady", "kubelet is posting ready status")
	}
}

// imageList returns the largest images, as the scheduler wants to know them.
func imageList(images []*cri.Image) []corev1.ContainerImage {
	slices.SortFunc(images, func(a, b *cri.Image) int {
		if a.Size != b.Size {
			return int(b.Size - a.Size)
		}
		return strings.Compare(a.ID, b.ID)
	})
	var list []corev1.ContainerImage
	for _, i := range images[:min(len(images), maxImages)] {
		if names := i.Names[:min(len(i.Names), 5)]; len(names) > 0 {
			list = append(list, corev1.ContainerImage{Names: names, SizeBytes: i.Size})
		}
	}
	return list
}
