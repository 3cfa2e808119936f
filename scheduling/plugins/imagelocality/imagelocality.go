// Package imagelocality prefers nodes that have a pod's images already.
package imagelocality

import (
	"iter"

	corev1 "k8s.io/api/core/v1"

	"github.com/proa-project/proa/scheduling/framework"
)

// Name is the plugin's name in profiles.
const Name = "ImageLocality"

// Below minSize the images of a pod do not matter; maxSize for each image is as
// good as it gets.
const (
	minSize = 23 << 20
	maxSize = 1000 << 20
)

// Plugin scores nodes by the bytes of the pod's images that they have. An image
// that few nodes have counts less, so that they do not get all the pods.
type Plugin struct{}

// Name returns the plugin's name.
func (*Plugin) Name() string { return Name }

// PreScore keeps the names of the images that some node has, and skips Score
// if there are none.
func (p *Plugin) PreScore(c *framework.Cycle, _ []int32) (bool, error) {
	s := &state{}
	for image := range images(&c.Pod.Pod.Spec) {
		s.count++
		name := framework.ImageName(image)
		if n := c.Snapshot.NodesWithImage(name); n > 0 {
			s.images = append(s.images, spread{name, float64(n) / float64(c.Snapshot.Len())})
		}
	}
	if len(s.images) == 0 {
		return true, nil
	}
	c.SetState(p, s)
	return false, nil
}

// images are all that a pod's containers and volumes are made of.
func images(spec *corev1.PodSpec) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, list := range [...][]corev1.Container{spec.InitContainers, spec.Containers} {
			for i := range list {
				if !yield(list[i].Image) {
					return
				}
			}
		}
		for i := range spec.Volumes {
			if v := spec.Volumes[i].Image; v != nil && !yield(v.Reference) {
				return
			}
		}
	}
}

type state struct {
	images []spread
	count  int64 // of all images of the pod
}

// spread is an image and the part of the nodes that have it.
type spread struct {
	name string
	part float64
}

// Score adds up the sizes of the images that the node has.
func (p *Plugin) Score(c *framework.Cycle, nodes []int32, scores []int64) error {
	s, _ := c.State(p).(*state)
	if s == nil {
		return nil
	}
	for k, i := range nodes {
		have := c.Snapshot.Node(i).Images
		if len(have) == 0 {
			continue
		}
		var sum int64
		for _, image := range s.images {
			sum += int64(float64(have[image.name]) * image.part)
		}
		scores[k] = priority(sum, s.count)
	}
	return nil
}

func priority(sum, images int64) int64 {
	most := maxSize * images
	sum = min(max(sum, minSize), most)
	return framework.MaxScore * (sum - minSize) / (most - minSize)
}

// Sign leaves out pods whose images some node has: what an image counts depends
// on how many nodes have it. For all others no node scores.
func (*Plugin) Sign(c *framework.Cycle, key []byte) ([]byte, bool) {
	if !c.Snapshot.AnyImages() {
		return key, true
	}
	for image := range images(&c.Pod.Pod.Spec) {
		if c.Snapshot.NodesWithImage(framework.ImageName(image)) > 0 {
			return key, false
		}
	}
	return key, true
}
