package framework

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// NodeInfo is a node and the sum of what the pods on it take. It is a value:
// its slices and maps are shared and are replaced, never changed in place
// (Pods may grow behind its end).
type NodeInfo struct {
	Node *corev1.Node
	Pods []*PodInfo
	// Allocatable is what the node offers; Requested what its pods ask for;
	// NonZero the same with defaults, for scoring.
	Allocatable, Requested, NonZero Resource
	// Ports are the host ports in use, one entry for each pod's port.
	Ports []HostPort
	// Images are the images on the node by each of their names, in bytes.
	Images map[string]int64
	// Generation moves with every change to the node or its pods, and no two
	// states of any nodes of a snapshot have the same; 0 is unknown.
	Generation int64
}

// SetNode makes n the information of this version of the node. The pods stay.
func (n *NodeInfo) SetNode(node *corev1.Node) {
	old := n.Node
	n.Node = node
	n.Allocatable = NewResource(node.Status.Allocatable)
	if old == nil || !sameImages(old.Status.Images, node.Status.Images) {
		n.Images = imageSizes(node.Status.Images)
	}
}

// AddPod books a pod on the node.
func (n *NodeInfo) AddPod(p *PodInfo) {
	n.Pods = append(n.Pods, p)
	n.Requested = n.Requested.Add(p.Request)
	n.NonZero = n.NonZero.Add(p.NonZero)
	if len(p.HostPorts) > 0 {
		n.Ports = append(slices.Clip(n.Ports), p.HostPorts...)
	}
}

// RemovePod takes off the pod with the UID and reports whether it was there.
func (n *NodeInfo) RemovePod(uid types.UID) bool {
	i := slices.IndexFunc(n.Pods, func(p *PodInfo) bool { return p.Pod.UID == uid })
	if i < 0 {
		return false
	}
	p := n.Pods[i]
	pods := make([]*PodInfo, 0, len(n.Pods))
	n.Pods = append(append(pods, n.Pods[:i]...), n.Pods[i+1:]...)
	n.Requested = n.Requested.Sub(p.Request)
	n.NonZero = n.NonZero.Sub(p.NonZero)
	if len(p.HostPorts) > 0 {
		n.Ports = slices.Clone(n.Ports)
		for _, h := range p.HostPorts {
			if j := slices.Index(n.Ports, h); j >= 0 {
				n.Ports = slices.Delete(n.Ports, j, j+1)
			}
		}
	}
	return true
}

func sameImages(a, b []corev1.ContainerImage) bool {
	return slices.EqualFunc(a, b, func(x, y corev1.ContainerImage) bool {
		return x.SizeBytes == y.SizeBytes && slices.Equal(x.Names, y.Names)
	})
}

func imageSizes(images []corev1.ContainerImage) map[string]int64 {
	if len(images) == 0 {
		return nil
	}
	sizes := make(map[string]int64, 2*len(images))
	for _, image := range images {
		for _, name := range image.Names {
			sizes[name] = image.SizeBytes
		}
	}
	return sizes
}

// ImageName returns the name of an image as nodes report it: one without a tag
// or digest means the tag latest.
func ImageName(name string) string {
	if strings.LastIndexByte(name, ':') <= strings.LastIndexByte(name, '/') {
		return name + ":latest"
	}
	return name
}
