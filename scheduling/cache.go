package scheduling

import (
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/scheduling/framework"
)

// errPlaced is returned for a pod that has a node already.
var errPlaced = errors.New("pod is on a node already")

// cache is what the scheduler knows of nodes and of the pods on them: what the
// API has said, and on top of it the pods that it has placed itself and whose
// binding the API has not shown yet. Such an assumed pod takes its place on the
// node from the moment of the decision, so no place is given away twice.
type cache struct {
	mu         sync.Mutex // guards all below
	nodes      map[string]*cachedNode
	pods       map[types.UID]*cachedPod
	dirty      []*cachedNode // changed since the last refresh
	assumed    int
	generation int64
}

// cachedNode is a node, or the pods that are on one that is not known.
type cachedNode struct {
	name  string
	info  framework.NodeInfo // Node is nil if it is not known
	dirty bool
}

type cachedPod struct {
	info    *framework.PodInfo
	node    string
	assumed bool
	// bound is when the binding was done; zero before, and for pods that are
	// not assumed.
	bound time.Time
}

func newCache() *cache {
	return &cache{nodes: make(map[string]*cachedNode), pods: make(map[types.UID]*cachedPod)}
}

// setNode adds a node or brings it up to date.
func (c *cache) setNode(node *corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.node(node.Name)
	n.info.SetNode(node)
	c.touch(n)
}

// removeNode takes a node out. Its pods are remembered until they are gone too.
func (c *cache) removeNode(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, ok := c.nodes[name]
	if !ok {
		return
	}
	n.info.Node = nil
	n.info.Images = nil
	c.touch(n)
	c.drop(n)
}

// setPod books a pod that the API shows on a node, and confirms it if it was
// assumed. It returns what was known of the pod, nil if nothing was.
func (c *cache) setPod(p *framework.PodInfo) (old *framework.PodInfo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if was := c.pods[p.Pod.UID]; was != nil {
		old = was.info
		c.unbook(was)
	}
	c.book(&cachedPod{info: p, node: p.Pod.Spec.NodeName})
	return old
}

// removePod takes a pod out that has ended or is gone, and returns what was
// known of it.
func (c *cache) removePod(uid types.UID) (old *framework.PodInfo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pods[uid]
	if p == nil {
		return nil
	}
	c.unbook(p)
	return p.info
}

// assume books a pod on the node that was chosen for it. It returns errPlaced
// if the pod has a node already.
func (c *cache) assume(p *framework.PodInfo, node string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pods[p.Pod.UID] != nil {
		return errPlaced
	}
	c.book(&cachedPod{info: p, node: node, assumed: true})
	return nil
}

// finish notes that the binding of an assumed pod is done.
func (c *cache) finish(uid types.UID, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.pods[uid]; p != nil && p.assumed {
		p.bound = now
	}
}

// forget takes back an assumed pod and reports whether it still was one.
func (c *cache) forget(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pods[uid]
	if p == nil || !p.assumed {
		return false
	}
	c.unbook(p)
	return true
}

// knows reports whether the pod has a node, by the API's word or by our own.
func (c *cache) knows(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pods[uid] != nil
}

// overdue returns the pods that were bound before the time and that the API
// still does not show on their node.
func (c *cache) overdue(before time.Time) []*framework.PodInfo {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.assumed == 0 {
		return nil
	}
	var list []*framework.PodInfo
	for _, p := range c.pods {
		if p.assumed && !p.bound.IsZero() && p.bound.Before(before) {
			list = append(list, p.info)
		}
	}
	return list
}

// refresh brings the snapshot up to date with what has changed since the last
// call. A cache feeds one snapshot.
func (c *cache) refresh(s *framework.Snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, n := range c.dirty {
		n.dirty = false
		c.dirty[i] = nil
		if n.info.Node == nil {
			s.Remove(n.name)
		} else if c.nodes[n.name] == n {
			s.Set(&n.info)
		}
	}
	c.dirty = c.dirty[:0]
}

// copyTo fills an empty snapshot with everything but one pod.
func (c *cache) copyTo(s *framework.Snapshot, without types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.nodes {
		if n.info.Node == nil {
			continue
		}
		info := n.info
		if p := c.pods[without]; p != nil && p.node == n.name {
			info.RemovePod(without)
		}
		s.Set(&info)
	}
}

// sizes returns how many nodes, pods and assumed pods there are.
func (c *cache) sizes() (nodes, pods, assumed int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.nodes), len(c.pods), c.assumed
}

func (c *cache) node(name string) *cachedNode {
	n := c.nodes[name]
	if n == nil {
		n = &cachedNode{name: name}
		c.nodes[name] = n
	}
	return n
}

func (c *cache) book(p *cachedPod) {
	n := c.node(p.node)
	n.info.AddPod(p.info)
	c.pods[p.info.Pod.UID] = p
	if p.assumed {
		c.assumed++
	}
	c.touch(n)
}

func (c *cache) unbook(p *cachedPod) {
	uid := p.info.Pod.UID
	delete(c.pods, uid)
	if p.assumed {
		c.assumed--
	}
	n := c.nodes[p.node]
	n.info.RemovePod(uid)
	c.touch(n)
	c.drop(n)
}

// drop forgets an entry that stands for nothing.
func (c *cache) drop(n *cachedNode) {
	if n.info.Node == nil && len(n.info.Pods) == 0 {
		delete(c.nodes, n.name)
	}
}

func (c *cache) touch(n *cachedNode) {
	c.generation++
	n.info.Generation = c.generation
	if !n.dirty {
		n.dirty = true
		c.dirty = append(c.dirty, n)
	}
}
