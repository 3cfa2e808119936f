package schedule

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/proa-project/proa/scheduling/framework"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/schedwasm"
)

// foreignPlugin is a guest of kube-scheduler-wasm-extension as a plugin of the
// framework.
type foreignPlugin struct{ base }

// Serves implements framework.PartialPlugin. A guest that is called during the
// binding is also told of its end.
func (p *foreignPlugin) Serves(point framework.Point) bool {
	if point == framework.PointReserve || point == framework.PointPostBind {
		return p.binds()
	}
	return p.base.Serves(point)
}

func (p *foreignPlugin) binds() bool {
	return slices.ContainsFunc(p.points, func(point framework.Point) bool {
		switch point {
		case framework.PointReserve, framework.PointPermit, framework.PointPreBind, framework.PointBind, framework.PointPostBind:
			return true
		default:
			return false
		}
	})
}

// A foreignCycle is one attempt, as one guest sees it.
type foreignCycle struct {
	*schedwasm.Cycle // nil if it could not begin
	binds            bool
	over             bool
	err              error
}

// EndCycle implements framework.Ender.
func (cy *foreignCycle) EndCycle(placed bool) {
	if cy.Cycle != nil {
		cy.End(placed && cy.binds)
	}
}

// begin returns the attempt of the guest.
func (p *foreignPlugin) begin(c *framework.Cycle) (*foreignCycle, error) {
	if cy, ok := c.State(p).(*foreignCycle); ok {
		return cy, cy.err
	}
	cy := &foreignCycle{binds: p.binds()}
	c.SetState(p, cy)
	c.OnEnd(cy)
	cy.err = p.step(cy, func(ctx context.Context, g *Guest) (u engine.Usage, err error) {
		if g.foreign == nil {
			return u, errReplaced
		}
		cy.Cycle, err = g.foreign.Begin(ctx, c.Pod.Pod, c.Snapshot)
		return u, err
	})
	return cy, cy.err
}

// step is one call of the guest; when it fails the attempt is over.
func (p *foreignPlugin) step(cy *foreignCycle, f func(context.Context, *Guest) (engine.Usage, error)) error {
	ctx := context.Background()
	err := p.use(ctx, func(g *Guest) (engine.Usage, error) { return f(ctx, g) })
	if err == nil {
		return nil
	}
	cy.over = true
	return p.failed(err)
}

// PreFilter implements framework.PreFilterPlugin.
func (p *foreignPlugin) PreFilter(c *framework.Cycle) (d framework.Decision, err error) {
	cy, err := p.begin(c)
	if err != nil || cy.over {
		return framework.Decision{Skip: true}, err
	}
	err = p.step(cy, func(ctx context.Context, _ *Guest) (u engine.Usage, err error) {
		d, u, err = cy.PreFilter(ctx)
		return u, err
	})
	if cy.over {
		d = framework.Decision{Skip: true}
	}
	return d, err
}

// Filter implements framework.FilterPlugin.
func (p *foreignPlugin) Filter(c *framework.Cycle, nodes []int32, v *framework.Verdicts) error {
	cy, err := p.begin(c)
	if err != nil || cy.over {
		return err
	}
	type veto struct {
		node int32
		r    framework.Rejection
	}
	var vetoes []veto
	err = p.step(cy, func(ctx context.Context, _ *Guest) (engine.Usage, error) {
		vetoes = vetoes[:0]
		return cy.Filter(ctx, nodes, func(n int32, r framework.Rejection) { vetoes = append(vetoes, veto{n, r}) })
	})
	if err != nil || cy.over {
		return err
	}
	for i := range vetoes {
		v.Codes[vetoes[i].node] = v.Code(vetoes[i].r)
	}
	return nil
}

// PostFilter implements framework.PostFilterPlugin.
func (p *foreignPlugin) PostFilter(c *framework.Cycle, d *framework.Diagnosis) (node, message string, err error) {
	cy, err := p.begin(c)
	if err != nil || cy.over {
		return "", "", err
	}
	err = p.step(cy, func(ctx context.Context, _ *Guest) (u engine.Usage, err error) {
		node, u, err = cy.PostFilter(ctx, d)
		return u, err
	})
	return node, "", err
}

// PreScore implements framework.PreScorePlugin.
func (p *foreignPlugin) PreScore(c *framework.Cycle, nodes []int32) (skip bool, err error) {
	cy, err := p.begin(c)
	if err != nil || cy.over {
		return true, err
	}
	err = p.step(cy, func(ctx context.Context, _ *Guest) (u engine.Usage, err error) {
		skip, u, err = cy.PreScore(ctx, nodes)
		return u, err
	})
	return skip || cy.over, err
}

// Score implements framework.ScorePlugin.
func (p *foreignPlugin) Score(c *framework.Cycle, nodes []int32, scores []int64) error {
	return p.scores(c, scores, func(ctx context.Context, cy *foreignCycle) (engine.Usage, error) {
		return cy.Score(ctx, nodes, scores)
	})
}

// NormalizeScore implements framework.NormalizePlugin.
func (p *foreignPlugin) NormalizeScore(c *framework.Cycle, nodes []int32, scores []int64) error {
	return p.scores(c, scores, func(ctx context.Context, cy *foreignCycle) (engine.Usage, error) {
		return cy.Normalize(ctx, nodes, scores)
	})
}

// scores makes a step that sets scores: all or none.
func (p *foreignPlugin) scores(c *framework.Cycle, scores []int64, f func(context.Context, *foreignCycle) (engine.Usage, error)) error {
	cy, err := p.begin(c)
	if err != nil || cy.over {
		return err
	}
	err = p.step(cy, func(ctx context.Context, _ *Guest) (engine.Usage, error) { return f(ctx, cy) })
	if cy.over {
		clear(scores)
	}
	return err
}

// placed calls the guest about a pod that has a node. Its refusal is an error,
// but no failure of the guest.
func (p *foreignPlugin) placed(ctx context.Context, f func(g *schedwasm.Guest) (engine.Usage, error)) error {
	var refusal *schedwasm.RefusalError
	err := p.use(ctx, func(g *Guest) (engine.Usage, error) {
		if g.foreign == nil {
			return engine.Usage{}, errReplaced
		}
		u, err := f(g.foreign)
		if errors.As(err, &refusal) {
			err = nil
		}
		return u, err
	})
	switch {
	case err != nil:
		return p.failed(err)
	case refusal != nil:
		return refusal
	}
	return nil
}

// Reserve implements framework.ReservePlugin.
func (p *foreignPlugin) Reserve(ctx context.Context, pod *framework.PodInfo, node string) error {
	if !slices.Contains(p.points, framework.PointReserve) {
		return nil
	}
	return p.placed(ctx, func(g *schedwasm.Guest) (engine.Usage, error) { return g.Reserve(ctx, pod.Pod, node) })
}

// Unreserve implements framework.ReservePlugin.
func (p *foreignPlugin) Unreserve(ctx context.Context, pod *framework.PodInfo, node string) {
	p.end(ctx, framework.PointReserve, pod, func(g *schedwasm.Guest) (engine.Usage, error) { return g.Unreserve(ctx, pod.Pod, node) })
}

// MaxWait implements framework.PermitPlugin.
func (p *foreignPlugin) MaxWait() time.Duration { return maxPermit + time.Second }

// Permit implements framework.PermitPlugin.
func (p *foreignPlugin) Permit(ctx context.Context, pod *framework.PodInfo, node string) error {
	var wait time.Duration
	var guest *schedwasm.Guest
	err := p.placed(ctx, func(g *schedwasm.Guest) (u engine.Usage, err error) {
		guest = g
		wait, u, err = g.Permit(ctx, pod.Pod, node)
		return u, err
	})
	if err != nil || wait == 0 {
		return err
	}
	return guest.Wait(ctx, pod.Pod, min(wait, maxPermit))
}

// PreBind implements framework.PreBindPlugin.
func (p *foreignPlugin) PreBind(ctx context.Context, pod *framework.PodInfo, node string) error {
	return p.placed(ctx, func(g *schedwasm.Guest) (engine.Usage, error) { return g.PreBind(ctx, pod.Pod, node) })
}

// Bind implements framework.BindPlugin.
func (p *foreignPlugin) Bind(ctx context.Context, pod *framework.PodInfo, node string) (done bool, err error) {
	err = p.placed(ctx, func(g *schedwasm.Guest) (u engine.Usage, err error) {
		done, u, err = g.Bind(ctx, pod.Pod, node)
		return u, err
	})
	return done && err == nil, err
}

// PostBind implements framework.PostBindPlugin.
func (p *foreignPlugin) PostBind(ctx context.Context, pod *framework.PodInfo, node string) {
	p.end(ctx, framework.PointPostBind, pod, func(g *schedwasm.Guest) (engine.Usage, error) { return g.PostBind(ctx, pod.Pod, node) })
}

// end is the last that a guest hears of a pod. A failure is counted, and is all
// that there is to it.
func (p *foreignPlugin) end(ctx context.Context, point framework.Point, pod *framework.PodInfo, f func(g *schedwasm.Guest) (engine.Usage, error)) {
	if slices.Contains(p.points, point) {
		_ = p.placed(ctx, f)
	}
	if g, ok := p.running.Running(); ok && g.foreign != nil {
		g.foreign.Release(pod.Pod)
	}
}

var (
	_ framework.PartialPlugin    = (*foreignPlugin)(nil)
	_ framework.PreFilterPlugin  = (*foreignPlugin)(nil)
	_ framework.FilterPlugin     = (*foreignPlugin)(nil)
	_ framework.PostFilterPlugin = (*foreignPlugin)(nil)
	_ framework.PreScorePlugin   = (*foreignPlugin)(nil)
	_ framework.NormalizePlugin  = (*foreignPlugin)(nil)
	_ framework.ReservePlugin    = (*foreignPlugin)(nil)
	_ framework.PermitPlugin     = (*foreignPlugin)(nil)
	_ framework.PreBindPlugin    = (*foreignPlugin)(nil)
	_ framework.BindPlugin       = (*foreignPlugin)(nil)
	_ framework.PostBindPlugin   = (*foreignPlugin)(nil)
	_ framework.EnqueuePlugin    = (*foreignPlugin)(nil)
)
