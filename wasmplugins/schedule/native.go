package schedule

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"

	"github.com/proa-project/proa/scheduling/framework"
	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
)

// nativePlugin is a guest of the native ABI as a plugin of the framework.
type nativePlugin struct {
	base
	nodes *nodes
	cycle cycle // of who has the nodes
}

// A cycle is one attempt, as one guest sees it.
type cycle struct {
	session *engine.Session
	prog    *program
	reply   *abi.PrepareReply
	// over says that the guest has failed and is left out.
	over bool
	err  error // why it has not even begun

	// prepared is the last reply that was decoded: the same bytes mean the
	// same.
	prepared []byte
	decoded  *abi.PrepareReply
	codes    [abi.MaxReasons + 1]framework.Code
}

// EndCycle implements framework.Ender.
func (cy *cycle) EndCycle(bool) {
	if cy.session != nil {
		cy.session.End()
	}
	cy.session, cy.prog, cy.reply, cy.over, cy.err = nil, nil, nil, false, nil
}

// begin returns the attempt of the guest; at its first call it hands over the
// pod and the nodes. The attempt is over if the guest has failed before and is
// to be left out.
func (p *nativePlugin) begin(c *framework.Cycle) (*cycle, error) {
	if cy, ok := c.State(p).(*cycle); ok {
		return cy, cy.err
	}
	if err := p.nodes.lend(c); err != nil {
		return nil, err
	}
	cy := &p.cycle
	c.SetState(p, cy)
	c.OnEnd(cy)
	cy.err = p.step(cy, func(ctx context.Context, g *Guest) (engine.Usage, error) { return p.open(ctx, cy, c, g) })
	return cy, cy.err
}

// step is one call of the guest; when it fails the attempt is over.
func (p *nativePlugin) step(cy *cycle, f func(context.Context, *Guest) (engine.Usage, error)) error {
	ctx := context.Background() // an attempt takes milliseconds
	err := p.use(ctx, func(g *Guest) (engine.Usage, error) { return f(ctx, g) })
	if err == nil {
		return nil
	}
	cy.over = true
	return p.failed(err)
}

// open begins the session.
func (p *nativePlugin) open(ctx context.Context, cy *cycle, c *framework.Cycle, g *Guest) (engine.Usage, error) {
	if g.native == nil {
		return engine.Usage{}, errReplaced
	}
	prog, err := g.native.with(ctx, p.nodes.window)
	if err != nil {
		return engine.Usage{}, err
	}
	pod, err := p.nodes.podJSON(c.Pod)
	if err != nil {
		return engine.Usage{}, err
	}
	s, err := prog.Begin(ctx, engine.Call{Seed: string(c.Pod.Pod.UID)})
	if err != nil {
		return engine.Usage{}, err
	}
	cy.session, cy.prog = s, prog
	return s.Run(ctx, func(i *engine.Instance) error {
		if cy.reply, err = cy.prepare(i, schedulerName(c.Pod.Pod), pod); err != nil || !g.native.all {
			return err
		}
		return call(i, fnNodes, uint64(prog.table), abi.NodeStride, p.count(), uint64(uint32(p.nodes.table.gen))) //nolint:gosec // the bits
	})
}

func (cy *cycle) prepare(i *engine.Instance, scheduler string, pod []byte) (*abi.PrepareReply, error) {
	if !i.Has(int(fnPrepare)) {
		return &abi.PrepareReply{}, nil
	}
	b, err := exchange(i, fnPrepare, abi.AppendPrepareRequest(nil, scheduler, pod))
	if err != nil {
		return nil, err
	}
	if cy.decoded == nil || !bytes.Equal(b, cy.prepared) {
		r, err := abi.ParsePrepareReply(b)
		if err != nil {
			return nil, i.Errorf(engine.BadReply, "%s: %v", abi.ExportPrepare, err)
		}
		cy.prepared, cy.decoded = append(cy.prepared[:0], b...), r
	}
	return cy.decoded, nil
}

// count is how many records the guest looks at.
func (p *nativePlugin) count() uint64 { return uint64(len(p.nodes.table.of.Generation)) }

// PreFilter implements framework.PreFilterPlugin.
func (p *nativePlugin) PreFilter(c *framework.Cycle) (framework.Decision, error) {
	cy, err := p.begin(c)
	if err != nil || cy.over {
		return framework.Decision{Skip: true}, err
	}
	d := framework.Decision{Skip: cy.reply.SkipFilter}
	if r := cy.reply.Reject; r != nil {
		d.Rejection = &framework.Rejection{Reasons: r.Reasons, Unresolvable: r.Unresolvable}
	}
	if cy.reply.Nodes != nil {
		d.Restrict = true
		for _, name := range *cy.reply.Nodes {
			if i, ok := c.Snapshot.Index(name); ok {
				d.Nodes = append(d.Nodes, i)
			}
		}
	}
	return d, nil
}

// Filter implements framework.FilterPlugin.
func (p *nativePlugin) Filter(c *framework.Cycle, list []int32, v *framework.Verdicts) error {
	cy, err := p.begin(c)
	if err != nil || cy.over || cy.reply.SkipFilter {
		return err
	}
	return p.step(cy, func(ctx context.Context, _ *Guest) (engine.Usage, error) {
		return cy.session.Run(ctx, func(i *engine.Instance) error {
			if !i.Has(int(fnFilter)) {
				return nil // the module was replaced by one without
			}
			out, err := cy.answers(i, p.count())
			if err != nil {
				return err
			}
			for k := range out {
				out[k] = abi.NotAsked
			}
			for _, n := range list {
				out[n] = 0
			}
			if err = call(i, fnFilter, uint64(cy.prog.out), p.count()); err != nil {
				return err
			}
			if out, err = cy.answers(i, p.count()); err != nil {
				return err
			}
			return cy.vetoes(i, c.Snapshot, list, out, v)
		})
	})
}

// answers is where the guest writes.
func (cy *cycle) answers(i *engine.Instance, n uint64) ([]byte, error) {
	b, ok := i.View(cy.prog.out, uint32(n)) //nolint:gosec // smaller than the table
	if !ok {
		return nil, i.Errorf(engine.BadReply, "%s gave memory that is not there", abi.ExportTable)
	}
	return b, nil
}

// vetoes takes over the guest's codes, all or none.
func (cy *cycle) vetoes(i *engine.Instance, s *framework.Snapshot, list []int32, out []byte, v *framework.Verdicts) error {
	reasons := cy.reply.Reasons
	most := byte(len(reasons)) //nolint:gosec // at most MaxReasons
	clear(cy.codes[:len(reasons)+1])
	all := byte(0)
	for _, n := range list {
		code := out[n]
		if code > most {
			return i.Errorf(engine.BadReply, "%s answered %d for node %q, but there are %d reasons", abi.ExportFilter, code, s.Name(n), most)
		}
		all |= code
	}
	if all == 0 {
		return nil
	}
	for _, n := range list {
		code := out[n]
		if code == 0 {
			continue
		}
		if cy.codes[code] == 0 {
			r := &reasons[code-1]
			cy.codes[code] = v.Code(framework.Rejection{Reasons: []string{r.Reason}, Unresolvable: r.Unresolvable})
		}
		v.Codes[n] = cy.codes[code]
	}
	return nil
}

// PreScore implements framework.PreScorePlugin.
func (p *nativePlugin) PreScore(c *framework.Cycle, list []int32) (skip bool, err error) {
	cy, err := p.begin(c)
	if err != nil || cy.over || cy.reply.SkipScore {
		return true, err
	}
	if !slices.Contains(p.points, framework.PointPreScore) {
		return false, nil
	}
	err = p.step(cy, func(ctx context.Context, _ *Guest) (engine.Usage, error) {
		return cy.session.Run(ctx, func(i *engine.Instance) (err error) {
			skip, err = cy.preScore(i, p.count(), list)
			return err
		})
	})
	return skip || cy.over, err
}

func (cy *cycle) preScore(i *engine.Instance, n uint64, list []int32) (skip bool, err error) {
	if !i.Has(int(fnPreScore)) {
		return false, nil // the module was replaced by one without
	}
	if err = cy.feasible(i, n, list); err != nil {
		return false, err
	}
	r, err := i.Call(int(fnPreScore), uint64(cy.prog.out), n)
	if err == nil && low(r) > 1 {
		err = i.Errorf(engine.BadReply, "%s returned %d", abi.ExportPreScore, int32(low(r))) //nolint:gosec // as the guest means it
	}
	return low(r) == 1, err
}

// feasible tells the guest which nodes are left.
func (cy *cycle) feasible(i *engine.Instance, n uint64, list []int32) error {
	out, err := cy.answers(i, 4*n)
	if err != nil {
		return err
	}
	for k := range out {
		out[k] = 0xff // NotFeasible
	}
	for _, n := range list {
		binary.LittleEndian.PutUint32(out[4*n:], 0)
	}
	return nil
}

// Score implements framework.ScorePlugin.
func (p *nativePlugin) Score(c *framework.Cycle, list []int32, scores []int64) error {
	cy, err := p.begin(c)
	if err != nil || cy.over {
		return err
	}
	return p.step(cy, func(ctx context.Context, _ *Guest) (engine.Usage, error) {
		return cy.session.Run(ctx, func(i *engine.Instance) error {
			if !i.Has(int(fnScore)) {
				return nil // the module was replaced by one without
			}
			if err := cy.feasible(i, p.count(), list); err != nil {
				return err
			}
			if err := call(i, fnScore, uint64(cy.prog.out), p.count()); err != nil {
				return err
			}
			out, err := cy.answers(i, 4*p.count())
			if err != nil {
				return err
			}
			most := int32(framework.MaxScore)
			if cy.reply.Normalize != "" {
				most = 1<<31 - 1
			}
			for k, n := range list {
				score := int32(binary.LittleEndian.Uint32(out[4*n:])) //nolint:gosec // the guest's i32
				if score < 0 || score > most {
					clear(scores)
					return i.Errorf(engine.BadReply, "%s gave node %q the score %d, which is not in 0..%d", abi.ExportScore, c.Snapshot.Name(n), score, most)
				}
				scores[k] = int64(score)
			}
			return nil
		})
	})
}

// NormalizeScore implements framework.NormalizePlugin.
func (p *nativePlugin) NormalizeScore(c *framework.Cycle, _ []int32, scores []int64) error {
	cy, err := p.begin(c)
	if err == nil && !cy.over && cy.reply.Normalize != "" {
		framework.Normalize(scores, cy.reply.Normalize == abi.NormalizeReverse)
	}
	return err
}

var (
	_ framework.PartialPlugin    = (*nativePlugin)(nil)
	_ framework.PreFilterPlugin  = (*nativePlugin)(nil)
	_ framework.FilterPlugin     = (*nativePlugin)(nil)
	_ framework.PostFilterPlugin = (*nativePlugin)(nil)
	_ framework.PreScorePlugin   = (*nativePlugin)(nil)
	_ framework.NormalizePlugin  = (*nativePlugin)(nil)
	_ framework.ReservePlugin    = (*nativePlugin)(nil)
	_ framework.PermitPlugin     = (*nativePlugin)(nil)
	_ framework.PreBindPlugin    = (*nativePlugin)(nil)
	_ framework.BindPlugin       = (*nativePlugin)(nil)
	_ framework.PostBindPlugin   = (*nativePlugin)(nil)
	_ framework.EnqueuePlugin    = (*nativePlugin)(nil)
)
