package framework

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// MaxScore is the highest score of one plugin after normalization.
const MaxScore = 100

// A Plugin takes part in scheduling at the extension points whose interfaces it
// implements. Its methods may be called by several goroutines at once.
type Plugin interface {
	// Name is how profiles, messages and metrics call the plugin.
	Name() string
}

// A Point is an extension point.
type Point string

// The points that a PartialPlugin may serve. NormalizeScore goes with Score,
// and Unreserve with Reserve.
const (
	PointPreFilter  Point = "PreFilter"
	PointFilter     Point = "Filter"
	PointPostFilter Point = "PostFilter"
	PointPreScore   Point = "PreScore"
	PointScore      Point = "Score"
	PointReserve    Point = "Reserve"
	PointPermit     Point = "Permit"
	PointPreBind    Point = "PreBind"
	PointBind       Point = "Bind"
	PointPostBind   Point = "PostBind"
)

// A PartialPlugin implements the interfaces of points that it does not serve:
// what it does is known at run time only.
type PartialPlugin interface {
	Plugin
	Serves(p Point) bool
}

// A Rejection says why a pod, or a node for a pod, is refused. It never
// changes.
type Rejection struct {
	// Reasons are what users read, each counted by itself.
	Reasons []string
	// Unresolvable means that taking other pods off the node would not help.
	Unresolvable bool
}

// A PreEnqueuePlugin keeps pods out of the queue. The pod is asked about again
// when it is updated.
type PreEnqueuePlugin interface {
	Plugin
	// PreEnqueue returns nil to let the pod in.
	PreEnqueue(pod *corev1.Pod) *Rejection
}

// A Decision is what a PreFilterPlugin makes of a pod. The zero value goes on
// with all nodes.
type Decision struct {
	// Skip leaves out the plugin's Filter for this pod.
	Skip bool
	// Rejection refuses the pod on every node.
	Rejection *Rejection
	// Restrict leaves only Nodes in the running. It may be empty.
	Restrict bool
	Nodes    []int32
}

// A PreFilterPlugin looks at the pod before any node.
type PreFilterPlugin interface {
	Plugin
	// PreFilter returns an error only for a failure of its own, which ends the
	// attempt.
	PreFilter(c *Cycle) (Decision, error)
}

// A FilterPlugin vetoes nodes that a pod cannot run on.
type FilterPlugin interface {
	Plugin
	// Filter sets v.Codes for each of the nodes that it vetoes. The nodes are
	// ascending indices into the snapshot, not to be changed or kept; the codes
	// come from v.Code. An error ends the attempt.
	Filter(c *Cycle, nodes []int32, v *Verdicts) error
}

// A PostFilterPlugin is asked for help after every node has been vetoed.
type PostFilterPlugin interface {
	Plugin
	// PostFilter may name a node that will become free, and adds a sentence to
	// the message that the user reads.
	PostFilter(c *Cycle, d *Diagnosis) (node, message string, err error)
}

// A PreScorePlugin looks at the feasible nodes before they are scored.
type PreScorePlugin interface {
	Plugin
	// PreScore returns true to leave out the plugin's Score for this pod.
	PreScore(c *Cycle, nodes []int32) (skip bool, err error)
}

// A ScorePlugin says how good each feasible node is for the pod.
type ScorePlugin interface {
	Plugin
	// Score sets scores[k] for nodes[k]; all are 0 before. Without a
	// NormalizeScore they must be in 0..MaxScore.
	Score(c *Cycle, nodes []int32, scores []int64) error
}

// A NormalizePlugin brings its scores to 0..MaxScore.
type NormalizePlugin interface {
	ScorePlugin
	NormalizeScore(c *Cycle, nodes []int32, scores []int64) error
}

// A SignPlugin is a Filter or Score plugin whose verdict on a node, and score of
// it, depend on nothing but that node and a part of the pod. What it has said
// for one pod then holds for others with an equal part, until the node changes:
// it is asked about the changed nodes only, and PreScore, Filter and Score are
// given no others. Plugins of the profile that do not sign are asked about all
// that these let pass.
type SignPlugin interface {
	Plugin
	// Sign appends the part of the pod that the plugin looks at, in a form that
	// no other part has. It returns false if for this pod, or as the nodes are,
	// more than that counts, or scores must be normalized.
	Sign(c *Cycle, key []byte) ([]byte, bool)
}

// A ReservePlugin books what a pod needs on the chosen node.
type ReservePlugin interface {
	Plugin
	Reserve(ctx context.Context, pod *PodInfo, node string) error
	// Unreserve takes the booking back, also one that was never made.
	Unreserve(ctx context.Context, pod *PodInfo, node string)
}

// A PermitPlugin has the last word before a pod is bound.
type PermitPlugin interface {
	Plugin
	// Permit returns nil to let the pod go on. It may block, for at most the
	// time that MaxWait says; ctx ends then.
	Permit(ctx context.Context, pod *PodInfo, node string) error
	MaxWait() time.Duration
}

// A PreBindPlugin does what must be done before the pod is bound.
type PreBindPlugin interface {
	Plugin
	PreBind(ctx context.Context, pod *PodInfo, node string) error
}

// A BindPlugin binds pods in place of the scheduler's own binding.
type BindPlugin interface {
	Plugin
	// Bind returns false if it leaves the pod to the next.
	Bind(ctx context.Context, pod *PodInfo, node string) (done bool, err error)
}

// A PostBindPlugin is told of bound pods.
type PostBindPlugin interface {
	Plugin
	PostBind(ctx context.Context, pod *PodInfo, node string)
}

// A Cycle is one attempt to schedule one pod.
type Cycle struct {
	Snapshot *Snapshot
	Pod      *PodInfo
	state    []entry
	enders   []Ender
}

type entry struct {
	key   any
	value any
}

// An Ender has something to give back when an attempt is over.
type Ender interface {
	// EndCycle is called once, on the goroutine of the attempt. placed says
	// that a node was chosen.
	EndCycle(placed bool)
}

// OnEnd has e told when no plugin will be called in this attempt any more, the
// last that asked first.
func (c *Cycle) OnEnd(e Ender) { c.enders = append(c.enders, e) }

func (c *Cycle) end(placed bool) {
	for _, e := range slices.Backward(c.enders) {
		e.EndCycle(placed)
	}
	clear(c.enders)
	c.enders = c.enders[:0]
}

// SetState keeps a value for later calls in this attempt. The key is the plugin
// or something else that only those who are to find the value have.
func (c *Cycle) SetState(key, v any) {
	for i := range c.state {
		if c.state[i].key == key {
			c.state[i].value = v
			return
		}
	}
	c.state = append(c.state, entry{key, v})
}

// State returns what was kept under the key, or nil.
func (c *Cycle) State(key any) any {
	for i := range c.state {
		if c.state[i].key == key {
			return c.state[i].value
		}
	}
	return nil
}

// Code names one of a plugin's rejections in one attempt; 0 is no rejection.
type Code uint8

// Verdicts is where one FilterPlugin writes its vetoes.
type Verdicts struct {
	// Codes is by node index; it is 0 for all nodes that Filter is given.
	Codes      []Code
	rejections []Rejection
}

// maxCodes bounds the different rejections of a plugin for one pod; the last is
// used for all further ones.
const maxCodes = 255

// Code returns the code of a rejection. A plugin asks for each rejection once
// and uses the code for all nodes that it applies to.
func (v *Verdicts) Code(r Rejection) Code {
	for i := range v.rejections {
		if have := &v.rejections[i]; have.Unresolvable == r.Unresolvable && slices.Equal(have.Reasons, r.Reasons) {
			return Code(i + 1)
		}
	}
	if len(v.rejections) < maxCodes {
		v.rejections = append(v.rejections, r)
	}
	return Code(len(v.rejections)) //nolint:gosec // at most maxCodes
}
