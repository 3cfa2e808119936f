package simulated

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"runtime"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"
)

func itoa[T int | int32](n T) string { return strconv.Itoa(int(n)) }

// node is what the process keeps of one node.
type node struct {
	name string
	addr string

	mu      sync.Mutex // guards the fields below
	uid     types.UID  // empty while it is not registered
	gone    bool       // somebody has deleted it
	lease   string     // resourceVersion of the lease; empty if it must be made
	used    amounts
	holders map[types.UID]amounts // pods that take room
	free    addresses
}

// amounts is what pods take that a node counts: milli-CPU, bytes, pods.
type amounts struct{ cpu, memory, pods int64 }

func (a amounts) add(b amounts, sign int64) amounts {
	return amounts{a.cpu + sign*b.cpu, a.memory + sign*b.memory, a.pods + sign*b.pods}
}

func amountsOf(list corev1.ResourceList) amounts {
	return amounts{list.Cpu().MilliValue(), list.Memory().Value(), list.Pods().Value()}
}

// take books a pod. It returns the reason and message of a refusal if there is
// no room; a pod that runs already is not refused.
func (n *node) take(p *corev1.Pod, capacity amounts, runs bool) (reason, message string) {
	want := amountsOf(resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{UseStatusResources: true}))
	want.pods = 1
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.holders[p.UID]; ok {
		return "", ""
	}
	if !runs {
		for _, r := range []struct {
			name                string
			want, used, allowed int64
		}{
			{"pods", want.pods, n.used.pods, capacity.pods},
			{"cpu", want.cpu, n.used.cpu, capacity.cpu},
			{"memory", want.memory, n.used.memory, capacity.memory},
		} {
			if r.want > 0 && r.used+r.want > r.allowed {
				return "OutOf" + r.name, "Pod was rejected: Node didn't have enough resource: " + r.name +
					", requested: " + strconv.FormatInt(r.want, 10) + ", used: " + strconv.FormatInt(r.used, 10) +
					", capacity: " + strconv.FormatInt(r.allowed, 10)
			}
		}
	}
	if n.holders == nil {
		n.holders = make(map[types.UID]amounts)
	}
	n.holders[p.UID] = want
	n.used = n.used.add(want, +1)
	return "", ""
}

// leave gives back what a pod has taken; a second call does nothing.
func (n *node) leave(uid types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a, ok := n.holders[uid]; ok {
		delete(n.holders, uid)
		n.used = n.used.add(a, -1)
	}
}

// addresses hands out the addresses of one node, lowest first.
type addresses struct {
	next  uint32
	freed []uint32
}

func (a *addresses) get(size uint32) uint32 {
	if n := len(a.freed); n > 0 {
		i := a.freed[n-1]
		a.freed = a.freed[:n-1]
		return i
	}
	a.next++
	return (a.next - 1) % size
}

// nth returns the address that stands n above the first of the network.
func nth(network netip.Prefix, n uint32) string {
	base := network.Masked().Addr().As4()
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(base[:])+n)
	return netip.AddrFrom4(b).String()
}

// nodeObject is the Node as it registers itself.
func (c *Cluster) nodeObject(i int, now time.Time) *corev1.Node {
	cfg := &c.cfg
	n := c.nodes[i]
	labels := maps.Clone(cfg.Labels)
	if labels == nil {
		labels = make(map[string]string, 8)
	}
	maps.Copy(labels, map[string]string{
		corev1.LabelHostname:           n.name,
		corev1.LabelOSStable:           "linux",
		corev1.LabelArchStable:         runtime.GOARCH,
		corev1.LabelInstanceTypeStable: "simulated",
		corev1.LabelTopologyZone:       cfg.Zones[i%len(cfg.Zones)],
		corev1.LabelTopologyRegion:     "simulated",
		labelType:                      labelValue,
	})
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.name, Labels: labels},
		Spec:       corev1.NodeSpec{ProviderID: "simulated://" + n.name, Taints: cfg.Taints},
		Status: corev1.NodeStatus{
			Capacity: cfg.Capacity, Allocatable: cfg.Capacity,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: n.addr}, {Type: corev1.NodeHostName, Address: n.name},
			},
			Conditions: conditions(nil, now),
			NodeInfo: corev1.NodeSystemInfo{
				MachineID: n.name, SystemUUID: n.name, BootID: n.name,
				KernelVersion: "simulated", OSImage: "Simulated", OperatingSystem: "linux", Architecture: runtime.GOARCH,
				ContainerRuntimeVersion: "simulated://1.0.0", KubeletVersion: cfg.Version,
			},
		},
	}
}

// Every simulated node has this label.
const labelType, labelValue = "type", "simulated"

// conditions are those of a healthy node. The times of what has been so before
// stay.
func conditions(old []corev1.NodeCondition, now time.Time) []corev1.NodeCondition {
	want := []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory", Message: "simulated node has sufficient memory available"},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure", Message: "simulated node has no disk pressure"},
		{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientPID", Message: "simulated node has sufficient PID available"},
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "simulated node is posting ready status"},
	}
	for i := range want {
		w := &want[i]
		w.LastHeartbeatTime, w.LastTransitionTime = metav1.NewTime(now), metav1.NewTime(now)
		for _, o := range old {
			if o.Type == w.Type && o.Status == w.Status {
				w.LastTransitionTime = o.LastTransitionTime
			}
		}
	}
	return want
}

// healthy reports whether the Node says that it is ready.
func healthy(n *corev1.Node) bool {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == corev1.NodeReady {
			return n.Status.Conditions[i].Status == corev1.ConditionTrue
		}
	}
	return false
}
