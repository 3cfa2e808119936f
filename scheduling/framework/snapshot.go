package framework

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Flag marks what is rare on a node, so that plugins pass over the others.
type Flag uint8

const (
	// FlagUnschedulable is a node with spec.unschedulable.
	FlagUnschedulable Flag = 1 << iota
	// FlagHardTaint is a node with a NoSchedule or NoExecute taint.
	FlagHardTaint
	// FlagSoftTaint is a node with a PreferNoSchedule taint.
	FlagSoftTaint
	// FlagPorts is a node with host ports in use.
	FlagPorts

	flags = 4
)

// Columns are the numbers of all nodes, each a slice by node index. The rows of
// indices that no node has are zero.
type Columns struct {
	AllocCPU, AllocMemory, AllocEphemeral, AllocPods []int64
	UsedCPU, UsedMemory, UsedEphemeral, UsedPods     []int64
	NonZeroCPU, NonZeroMemory                        []int64
	Generation                                       []int64 // NodeInfo.Generation
	Flags                                            []Flag
}

// Snapshot is the state of all nodes at one time. A node has the same index
// from when it is first set until it is removed; an index that has become free
// may be given to another node. The zero value is empty and ready for use.
//
// A Snapshot is not safe for use while it is being changed.
type Snapshot struct {
	Columns

	infos  []NodeInfo // by index; Node is nil where the index is free
	byName map[string]int32
	free   []int32
	list   []int32 // the indices in use, ascending
	stale  bool    // list must be made again
	count  [flags]int
	images map[string]int // how many nodes have the image
}

// Len returns the number of nodes.
func (s *Snapshot) Len() int { return len(s.byName) }

// Size returns a number above all indices in use.
func (s *Snapshot) Size() int { return len(s.infos) }

// Node returns the node at an index in use. The pointer is good until the
// snapshot changes, and what it points to must not be changed.
func (s *Snapshot) Node(i int32) *NodeInfo { return &s.infos[i] }

// Name returns the name of the node at an index in use.
func (s *Snapshot) Name(i int32) string { return s.infos[i].Node.Name }

// Index returns the index of the node with the name.
func (s *Snapshot) Index(name string) (int32, bool) {
	i, ok := s.byName[name]
	return i, ok
}

// Indices returns the indices in use in ascending order. The slice belongs to
// the snapshot.
func (s *Snapshot) Indices() []int32 {
	if s.stale {
		s.list = s.list[:0]
		for i := range s.infos {
			if s.infos[i].Node != nil {
				s.list = append(s.list, int32(i))
			}
		}
		s.stale = false
	}
	return s.list
}

// Any reports whether some node has one of the flags.
func (s *Snapshot) Any(f Flag) bool {
	for b := range flags {
		if f&(1<<b) != 0 && s.count[b] > 0 {
			return true
		}
	}
	return false
}

// NodesWithImage returns how many nodes have the image, whose name is as
// ImageName gives it.
func (s *Snapshot) NodesWithImage(name string) int { return s.images[name] }

// AnyImages reports whether some node has an image.
func (s *Snapshot) AnyImages() bool { return len(s.images) > 0 }

// Set adds a node or brings it up to date, and returns its index.
func (s *Snapshot) Set(n *NodeInfo) int32 {
	i, known := s.byName[n.Node.Name]
	if !known {
		i = s.take(n.Node.Name)
		s.stale = true
	}
	old := &s.infos[i]
	if old.Node != n.Node {
		s.countImages(old.Images, -1)
		s.countImages(n.Images, +1)
	}
	s.setFlags(i, flagsOf(n))
	*old = *n
	old.Pods = slices.Clip(old.Pods)
	s.AllocCPU[i], s.AllocMemory[i] = n.Allocatable.MilliCPU, n.Allocatable.Memory
	s.AllocEphemeral[i], s.AllocPods[i] = n.Allocatable.EphemeralStorage, n.Allocatable.Pods
	s.UsedCPU[i], s.UsedMemory[i] = n.Requested.MilliCPU, n.Requested.Memory
	s.UsedEphemeral[i], s.UsedPods[i] = n.Requested.EphemeralStorage, int64(len(n.Pods))
	s.NonZeroCPU[i], s.NonZeroMemory[i] = n.NonZero.MilliCPU, n.NonZero.Memory
	s.Generation[i] = n.Generation
	return i
}

// Remove takes a node out; one that is not there is no error.
func (s *Snapshot) Remove(name string) {
	i, ok := s.byName[name]
	if !ok {
		return
	}
	s.countImages(s.infos[i].Images, -1)
	s.setFlags(i, 0)
	s.infos[i] = NodeInfo{}
	for _, c := range s.columns() {
		(*c)[i] = 0
	}
	delete(s.byName, name)
	s.free = append(s.free, i)
	s.stale = true
}

// take gives the name an index.
func (s *Snapshot) take(name string) int32 {
	if s.byName == nil {
		s.byName = make(map[string]int32)
		s.images = make(map[string]int)
	}
	var i int32
	if n := len(s.free); n > 0 {
		i, s.free = s.free[n-1], s.free[:n-1]
	} else {
		i = int32(len(s.infos)) //nolint:gosec // nodes are fewer
		s.infos = append(s.infos, NodeInfo{})
		for _, c := range s.columns() {
			*c = append(*c, 0)
		}
		s.Flags = append(s.Flags, 0)
	}
	s.byName[name] = i
	return i
}

func (s *Snapshot) columns() [11]*[]int64 {
	return [...]*[]int64{
		&s.AllocCPU, &s.AllocMemory, &s.AllocEphemeral, &s.AllocPods,
		&s.UsedCPU, &s.UsedMemory, &s.UsedEphemeral, &s.UsedPods,
		&s.NonZeroCPU, &s.NonZeroMemory, &s.Generation,
	}
}

func (s *Snapshot) setFlags(i int32, f Flag) {
	if s.Flags[i] == f {
		return
	}
	for b := range flags {
		s.count[b] += int(f>>b&1) - int(s.Flags[i]>>b&1)
	}
	s.Flags[i] = f
}

func (s *Snapshot) countImages(images map[string]int64, by int) {
	for name := range images {
		if s.images[name] += by; s.images[name] == 0 {
			delete(s.images, name)
		}
	}
}

func flagsOf(n *NodeInfo) Flag {
	var f Flag
	if n.Node.Spec.Unschedulable {
		f |= FlagUnschedulable
	}
	for i := range n.Node.Spec.Taints {
		switch n.Node.Spec.Taints[i].Effect {
		case corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute:
			f |= FlagHardTaint
		case corev1.TaintEffectPreferNoSchedule:
			f |= FlagSoftTaint
		}
	}
	if len(n.Ports) > 0 {
		f |= FlagPorts
	}
	return f
}
