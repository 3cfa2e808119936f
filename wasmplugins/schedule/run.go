package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/informers"
	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/runner"
)

// Config is what a Point needs. All of it is required.
type Config struct {
	Runner runner.Config
	Engine *engine.Engine
}

// A Point runs the SchedulerPlugins of the API.
type Point struct {
	*Host
	runner *runner.Runner[*pluginsv1.SchedulerPlugin, *Guest]

	publishing sync.Mutex // so that what is set last is the latest
}

// New returns a Point, which does nothing before Run.
func New(c Config) *Point {
	p := &Point{}
	nodes := informers.For[*corev1.Node](c.Runner.Factory)
	hc := HostConfig{
		Engine: c.Engine, Log: c.Runner.Log,
		Node: func(name string) (*corev1.Node, bool) { return nodes.Get("", name) },
	}
	if events := c.Runner.Events; events != nil {
		hc.Event = func(about, _ corev1.ObjectReference, typ, reason, _, note string) {
			events.EventRef(about, typ, reason, note)
		}
	}
	p.Host = NewHost(hc)
	p.runner = runner.New(c.Runner, runner.Point[*pluginsv1.SchedulerPlugin, *Guest]{
		Kind: "SchedulerPlugin",
		Start: func(ctx context.Context, o *pluginsv1.SchedulerPlugin, code runner.Code, c runner.GuestConfig) (*Guest, error) {
			if code.ABI != abi.Native && code.ABI != abi.SchedulerABI {
				return nil, fmt.Errorf("%w: a module with the ABI %s has no part in scheduling", runner.ErrABI, cmp.Or(code.ABI, "unknown"))
			}
			return p.Start(ctx, code.Code, code.ABI, code.Manifest, GuestConfig{
				Name: c.Name, Settings: c.Settings, Limits: c.Limits, Capability: c.Capability, Log: c.Log, Points: o.Spec.Points,
			})
		},
		Amend:   Amend,
		Changed: p.publish,
	})
	return p
}

// publish hands the objects over.
func (p *Point) publish() {
	p.publishing.Lock()
	defer p.publishing.Unlock()
	var list []Running
	for _, h := range p.runner.Handles() {
		list = append(list, h)
	}
	p.Set(list)
}

// Run keeps the plugins as the API has them until ctx is done, then closes them
// all and returns the error of ctx. It can be called once.
func (p *Point) Run(ctx context.Context) error {
	return errors.Join(p.runner.Run(ctx), p.Close())
}

// WaitSynced implements scheduling.Extra: it waits until the objects that were
// there at the start are known. Those whose guests do not run yet refuse pods,
// unless their failurePolicy is Ignore.
func (p *Point) WaitSynced(ctx context.Context) error { return p.runner.WaitSynced(ctx) }
