package schedwasm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/proa-project/proa/scheduling/framework"
	"github.com/proa-project/proa/wasmplugins/engine"
)

// The codes of a guest's status.
const (
	codeSuccess = iota
	codeError
	codeUnschedulable
	codeUnresolvable
	codeWait
	codeSkip
)

// A Cycle is one pod on its way through a guest. It belongs to one goroutine at
// a time.
type Cycle struct {
	g       *Guest
	session *engine.Session
	pod     *corev1.Pod
	encoded []byte
	// snapshot has the nodes until a node is chosen.
	snapshot *framework.Snapshot

	// What the guest may fetch during a call.
	node     string
	filtered []int32
	statuses map[string]int
	scores   map[string]int64

	// What the guest has answered.
	reason        string
	nodeNames     []string
	restricts     bool
	nominated     string
	normalized    map[string]int64
	clusterEvents []byte
}

type cycleKey struct{}

// of returns the cycle that an instance works for.
func of(i *engine.Instance) *Cycle {
	c, ok := i.Context().Value(cycleKey{}).(*Cycle)
	if !ok {
		i.Stop(engine.Trapped, "called the host before it was asked")
	}
	return c
}

// Begin begins the scheduling of a pod. The caller calls End.
func (g *Guest) Begin(ctx context.Context, pod *corev1.Pod, s *framework.Snapshot) (*Cycle, error) {
	g.mu.Lock()
	g.drop(pod.UID) // of an attempt before
	g.mu.Unlock()
	session, err := g.prog.Begin(ctx, engine.Call{Seed: string(pod.UID)})
	if err != nil {
		return nil, err
	}
	return &Cycle{g: g, session: session, pod: pod, snapshot: s}, nil
}

// End ends the scheduling of the pod. If it is to be bound and the guest has a
// say in that, the instance is kept until PostBind, Unreserve or Release.
func (c *Cycle) End(bind bool) {
	c.snapshot, c.filtered, c.statuses, c.scores = nil, nil, nil, nil
	if !bind || !c.g.binds {
		c.session.End()
		return
	}
	c.session.Loosen()
	c.g.keep(c)
}

// call calls a function of the guest.
func (c *Cycle) call(ctx context.Context, f int) (r uint64, u engine.Usage, err error) {
	u, err = c.run(ctx, func(i *engine.Instance) error {
		r, err = c.ask(i, f)
		return err
	})
	return r, u, err
}

func (c *Cycle) run(ctx context.Context, f func(i *engine.Instance) error) (engine.Usage, error) {
	return c.session.Run(context.WithValue(ctx, cycleKey{}, c), f)
}

func (c *Cycle) ask(i *engine.Instance, f int) (uint64, error) {
	c.reason = ""
	return i.Call(f)
}

// low is the low half of a result.
func low(r uint64) uint32 { return uint32(r) } //nolint:gosec // the half

// A status is how a function has ended.
type status struct {
	code   uint32
	reason string
}

// rejection returns what a status means for a pod or node, nil if it passes.
// Everything but the refusals that there are is an error.
func (c *Cycle) rejection(f int, s status) (*framework.Rejection, error) {
	switch s.code {
	case codeSuccess, codeSkip:
		return nil, nil
	case codeUnschedulable, codeUnresolvable:
		return &framework.Rejection{
			Reasons:      []string{cmp.Or(s.reason, "plugin "+c.g.c.Name+" refused")},
			Unresolvable: s.code == codeUnresolvable,
		}, nil
	case codeError:
		return nil, c.errorf("%s failed: %s", functions[f].name, cmp.Or(s.reason, "it does not say why"))
	}
	return nil, c.errorf("%s returned the status %d, which means nothing here", functions[f].name, int32(s.code)) //nolint:gosec // as the guest means it
}

func (c *Cycle) errorf(format string, args ...any) error {
	return &engine.Error{Plugin: c.g.c.Name, Reason: engine.BadReply, Detail: fmt.Sprintf(format, args...)}
}

// PreFilter calls the guest's. The error is an *engine.Error.
func (c *Cycle) PreFilter(ctx context.Context) (framework.Decision, engine.Usage, error) {
	var d framework.Decision
	if !c.g.has[fnPreFilter] {
		return d, engine.Usage{}, nil
	}
	r, u, err := c.call(ctx, fnPreFilter)
	if err != nil {
		return d, u, err
	}
	s := status{low(r), c.reason}
	d.Skip = s.code == codeSkip
	d.Rejection, err = c.rejection(fnPreFilter, s)
	if c.restricts && c.snapshot != nil {
		d.Restrict = true
		for _, name := range c.nodeNames {
			if i, ok := c.snapshot.Index(name); ok {
				d.Nodes = append(d.Nodes, i)
			}
		}
	}
	return d, u, err
}

// Filter calls the guest for each node, and veto with those that it refuses.
func (c *Cycle) Filter(ctx context.Context, nodes []int32, veto func(node int32, r framework.Rejection)) (engine.Usage, error) {
	if !c.g.has[fnFilter] {
		return engine.Usage{}, nil
	}
	return c.run(ctx, func(i *engine.Instance) error {
		for _, n := range nodes {
			c.node = c.snapshot.Name(n)
			r, err := c.ask(i, fnFilter)
			if err != nil {
				return err
			}
			rejection, err := c.rejection(fnFilter, status{low(r), c.reason})
			if err != nil {
				return err
			}
			if rejection != nil {
				veto(n, *rejection)
			}
		}
		return nil
	})
}

func add(sum *engine.Usage, u engine.Usage) {
	sum.Fuel += u.Fuel
	sum.Memory = u.Memory
	sum.HostCalls = append(sum.HostCalls, u.HostCalls...)
}

// PostFilter calls the guest's, after a PreFilter that prepares it.
func (c *Cycle) PostFilter(ctx context.Context, d *framework.Diagnosis) (node string, u engine.Usage, err error) {
	if !c.g.has[fnPostFilter] {
		return "", u, nil
	}
	_, sum, err := c.PreFilter(ctx)
	if err != nil {
		return "", sum, err
	}
	c.statuses = make(map[string]int)
	for _, i := range c.snapshot.Indices() {
		if v, ok := d.Veto(i); ok {
			c.statuses[c.snapshot.Name(i)] = codeUnschedulable
			if v.Unresolvable {
				c.statuses[c.snapshot.Name(i)] = codeUnresolvable
			}
		}
	}
	r, u, err := c.call(ctx, fnPostFilter)
	add(&sum, u)
	if err != nil {
		return "", sum, err
	}
	switch code := low(r); code {
	case codeSuccess:
		if _, ok := c.snapshot.Index(c.nominated); !ok && c.nominated != "" {
			return "", sum, c.errorf("postfilter nominated %q, which is no node", c.nominated)
		}
		return c.nominated, sum, nil
	case codeUnschedulable, codeUnresolvable:
		return "", sum, nil
	default:
		_, err = c.rejection(fnPostFilter, status{code, c.reason})
		return "", sum, err
	}
}

// PreScore calls the guest's, if it has one. It returns true to leave out
// Score.
func (c *Cycle) PreScore(ctx context.Context, nodes []int32) (skip bool, u engine.Usage, err error) {
	if !c.g.has[fnPreScore] {
		return false, u, nil
	}
	c.filtered = nodes
	r, u, err := c.call(ctx, fnPreScore)
	if err != nil || low(r) == codeSkip {
		return true, u, err
	}
	return false, u, c.passes(fnPreScore, low(r))
}

// passes returns an error for every status but success.
func (c *Cycle) passes(f int, code uint32) error {
	rejection, err := c.rejection(f, status{code, c.reason})
	if err == nil && rejection != nil {
		err = c.errorf("%s failed: %s", functions[f].name, rejection.Reasons[0])
	}
	return err
}

// Score calls the guest for each node.
func (c *Cycle) Score(ctx context.Context, nodes []int32, scores []int64) (engine.Usage, error) {
	if !c.g.has[fnScore] {
		return engine.Usage{}, nil
	}
	return c.run(ctx, func(i *engine.Instance) error {
		for k, n := range nodes {
			c.node = c.snapshot.Name(n)
			r, err := c.ask(i, fnScore)
			if err == nil {
				err = c.passes(fnScore, low(r))
			}
			if err != nil {
				return err
			}
			scores[k] = int64(int32(r >> 32)) //nolint:gosec // the halves
			if (scores[k] < 0 || scores[k] > framework.MaxScore) && !c.g.has[fnNormalize] {
				return c.errorf("score gave node %q the score %d, which is not in 0..%d", c.node, scores[k], framework.MaxScore)
			}
		}
		return nil
	})
}

// Normalize calls the guest's normalization, if it has one.
func (c *Cycle) Normalize(ctx context.Context, nodes []int32, scores []int64) (engine.Usage, error) {
	if !c.g.has[fnNormalize] {
		return engine.Usage{}, nil
	}
	c.normalized = nil
	c.scores = make(map[string]int64, len(nodes))
	for k, n := range nodes {
		c.scores[c.snapshot.Name(n)] = scores[k]
	}
	r, u, err := c.call(ctx, fnNormalize)
	if err == nil {
		err = c.passes(fnNormalize, low(r))
	}
	if err != nil {
		return u, err
	}
	for k, n := range nodes {
		name := c.snapshot.Name(n)
		score, ok := c.normalized[name]
		if !ok && len(c.normalized) == 0 {
			score, ok = scores[k], true // the guest left them as they are
		}
		if !ok || score < 0 || score > framework.MaxScore {
			return u, c.errorf("normalizescore gave node %q the score %d, which is not in 0..%d", name, score, framework.MaxScore)
		}
		scores[k] = score
	}
	return u, nil
}

// placed calls a function about a pod that has a node, in the instance that
// chose it if that is still there.
func (g *Guest) placed(ctx context.Context, f int, pod *corev1.Pod, node string, last bool) (r uint64, reason string, sum engine.Usage, err error) {
	c := g.take(pod.UID)
	if c == nil {
		if c, err = g.Begin(ctx, pod, nil); err != nil {
			return 0, "", sum, err
		}
		c.session.Loosen()
		if _, sum, err = c.PreFilter(ctx); err != nil {
			c.session.End()
			return 0, "", sum, err
		}
	}
	c.node = node
	r, u, err := c.call(ctx, f)
	add(&sum, u)
	reason = c.reason
	if last {
		c.session.End()
	} else {
		g.keep(c)
	}
	if err != nil && errors.Is(err, engine.ErrClosed) {
		err = c.errorf("%s was called in an instance that is no more", functions[f].name)
	}
	return r, reason, sum, err
}

// A RefusalError is what a guest says to a pod that it does not let pass.
type RefusalError struct{ Reason string }

func (r *RefusalError) Error() string { return r.Reason }

// judge returns the error for a status: nil, a *RefusalError or an *engine.Error.
func (g *Guest) judge(f int, code uint32, reason string) error {
	c := &Cycle{g: g}
	r, err := c.rejection(f, status{code, reason})
	if err == nil && r != nil {
		err = &RefusalError{r.Reasons[0]}
	}
	return err
}

// Reserve calls the guest's, if it has one. The error may be a *RefusalError.
func (g *Guest) Reserve(ctx context.Context, pod *corev1.Pod, node string) (engine.Usage, error) {
	return g.simple(ctx, fnReserve, pod, node)
}

// PreBind calls the guest's. The error may be a *RefusalError.
func (g *Guest) PreBind(ctx context.Context, pod *corev1.Pod, node string) (engine.Usage, error) {
	return g.simple(ctx, fnPreBind, pod, node)
}

func (g *Guest) simple(ctx context.Context, f int, pod *corev1.Pod, node string) (engine.Usage, error) {
	if !g.has[f] {
		return engine.Usage{}, nil
	}
	r, reason, u, err := g.placed(ctx, f, pod, node, false)
	if err == nil {
		err = g.judge(f, low(r), reason)
	}
	return u, err
}

// Unreserve calls the guest's, if it has one, and ends what it knows of the
// pod.
func (g *Guest) Unreserve(ctx context.Context, pod *corev1.Pod, node string) (engine.Usage, error) {
	return g.final(ctx, fnUnreserve, pod, node)
}

// PostBind calls the guest's, if it has one, and ends what it knows of the pod.
func (g *Guest) PostBind(ctx context.Context, pod *corev1.Pod, node string) (engine.Usage, error) {
	return g.final(ctx, fnPostBind, pod, node)
}

// Release ends what the guest knows of a pod.
func (g *Guest) Release(pod *corev1.Pod) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.drop(pod.UID)
}

func (g *Guest) final(ctx context.Context, f int, pod *corev1.Pod, node string) (engine.Usage, error) {
	if !g.has[f] {
		g.Release(pod)
		return engine.Usage{}, nil
	}
	_, _, u, err := g.placed(ctx, f, pod, node, true)
	return u, err
}

// Bind calls the guest's. done is false if it leaves the pod to others.
func (g *Guest) Bind(ctx context.Context, pod *corev1.Pod, node string) (done bool, u engine.Usage, err error) {
	if !g.has[fnBind] {
		return false, u, nil
	}
	r, reason, u, err := g.placed(ctx, fnBind, pod, node, false)
	if err != nil || low(r) == codeSkip {
		return false, u, err
	}
	return true, u, g.judge(fnBind, low(r), reason)
}

// Permit calls the guest's. If wait is not 0, the pod is to wait for so long;
// see Wait.
func (g *Guest) Permit(ctx context.Context, pod *corev1.Pod, node string) (wait time.Duration, u engine.Usage, err error) {
	if !g.has[fnPermit] {
		return 0, u, nil
	}
	r, reason, u, err := g.placed(ctx, fnPermit, pod, node, false)
	if err != nil {
		return 0, u, err
	}
	code := uint32(r >> 32)
	if code == codeWait {
		return max(time.Duration(low(r))*time.Millisecond, time.Millisecond), u, nil
	}
	return 0, u, g.judge(fnPermit, code, reason)
}

// Wait has a pod wait until a guest rejects it or the time is over. It always
// returns an error: guests of this ABI have no means to let a pod go on.
func (g *Guest) Wait(ctx context.Context, pod *corev1.Pod, most time.Duration) error {
	return g.c.Waiting.wait(ctx, pod, most)
}
