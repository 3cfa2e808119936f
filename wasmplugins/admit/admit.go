// Package admit is the extension point of admission: it makes policies of
// AdmissionPlugins.
//
// A plugin's module may be of any ABI that can judge a write; which one it is
// decides the adapter (see start). A plugin's candidate runs beside it, and
// either has no say, and is compared, or has the say in a share of the writes.
package admit

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/admission/celpolicy"
	"github.com/proa-project/proa/httpapi/admission/match"
	"github.com/proa-project/proa/httpapi/admission/policy"
	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/kubewarden"
	"github.com/proa-project/proa/wasmplugins/native"
	"github.com/proa-project/proa/wasmplugins/rego"
	"github.com/proa-project/proa/wasmplugins/runner"
)

// A Guest judges writes, whatever its ABI.
type Guest interface {
	// Admit asks for the judgement on a write in a phase. The errors are those
	// of engine.Program.Do.
	Admit(ctx context.Context, c engine.Call, phase string, r *abi.AdmissionRequest) (*abi.AdmissionReply, engine.Usage, error)
	Close()
}

// guest is a Guest of a version.
type guest struct {
	Guest

	digest string
}

type handle = runner.Handle[*pluginsv1.AdmissionPlugin, *guest]

// Config configures a Point. Engine is required.
type Config struct {
	Runner runner.Config
	Engine *engine.Engine
	// NamespaceLabels is for namespaceSelector.
	NamespaceLabels match.NamespaceLabels
	// Authorize is for the variable authorizer of match conditions.
	Authorize celpolicy.Authorize
	// StartupWait is how long a write waits for the first copy of the plugins
	// after the start of the process. Default 10 s.
	StartupWait time.Duration
	// Metrics, nil for none, count what plugins say.
	Metrics *Metrics
}

// A Point is all AdmissionPlugins. It is a policy.Source.
type Point struct {
	c          Config
	plugins    *runner.Runner[*pluginsv1.AdmissionPlugin, *guest]
	candidates *runner.Runner[*pluginsv1.AdmissionPlugin, *guest]
	set        atomic.Pointer[policy.Set]
	tallies    tallies
}

// New returns a Point, which does nothing before Run.
func New(c Config) *Point {
	c.StartupWait = cmp.Or(c.StartupWait, 10*time.Second)
	p := &Point{c: c}
	p.set.Store(&policy.Set{})
	p.candidates = runner.New(c.Runner, runner.Point[*pluginsv1.AdmissionPlugin, *guest]{
		Kind: policy.AdmissionPlugin + "-candidate", Start: p.start, Common: candidateOf, Silent: true, Changed: p.changed,
	})
	p.plugins = runner.New(c.Runner, runner.Point[*pluginsv1.AdmissionPlugin, *guest]{
		Kind: policy.AdmissionPlugin, Start: p.start, Changed: p.changed, Amend: p.amend,
	})
	return p
}

// candidateOf returns the module of a plugin's candidate, nil for none.
func candidateOf(o *pluginsv1.AdmissionPlugin) *pluginsv1.Common {
	c := o.Spec.Candidate
	if c == nil {
		return nil
	}
	common := o.Spec.Common
	if c.Module != "" {
		common.Module, common.Digest = c.Module, ""
	}
	common.Digest = cmp.Or(c.Digest, common.Digest)
	if c.Settings != nil {
		common.Settings = c.Settings
	}
	return &common
}

// start starts a module by its ABI.
func (p *Point) start(ctx context.Context, _ *pluginsv1.AdmissionPlugin, code runner.Code, c runner.GuestConfig) (*guest, error) {
	var g Guest
	var err error
	switch code.ABI {
	case abi.Native:
		g, err = native.Start(ctx, p.c.Engine, code.Code, native.Config{Name: c.Name, Limits: c.Limits, Settings: c.Settings, Capability: c.Capability, Log: c.Log})
	case abi.KubewardenABI, abi.KubewardenWASI:
		g, err = kubewarden.Start(ctx, p.c.Engine, code.Code, kubewarden.Config{Name: c.Name, Limits: c.Limits, Settings: c.Settings, Capability: c.Capability, Log: c.Log})
	case abi.RegoABI, abi.GatekeeperABI:
		g, err = rego.Start(ctx, p.c.Engine, code.Code, rego.Config{Name: c.Name, Limits: c.Limits, Settings: c.Settings, Capability: c.Capability, Log: c.Log})
	default:
		return nil, fmt.Errorf("%w: a module with the ABI %s cannot judge writes", runner.ErrABI, cmp.Or(code.ABI, "unknown"))
	}
	if err != nil {
		return nil, err
	}
	return &guest{g, code.Digest}, nil
}

// Run runs the plugins until ctx is done, and returns its error.
func (p *Point) Run(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- p.candidates.Run(ctx) }()
	err := p.plugins.Run(ctx)
	<-done
	return err
}

// WaitReady waits until the plugins that were there at the start run, or are
// known to fail, or returns the error of ctx.
func (p *Point) WaitReady(ctx context.Context) error { return p.plugins.WaitReady(ctx) }

// Ready returns an error until WaitReady would return.
func (p *Point) Ready() error { return p.plugins.Ready() }

// Policies implements policy.Source.
func (p *Point) Policies(ctx context.Context) (*policy.Set, error) {
	if p.plugins.Synced() {
		return p.set.Load(), nil
	}
	wait, cancel := context.WithTimeout(ctx, p.c.StartupWait)
	defer cancel()
	if err := p.plugins.WaitSynced(wait); err != nil {
		return nil, err
	}
	return p.set.Load(), nil
}

// changed makes the set anew. Both runners call it.
func (p *Point) changed() {
	if p.plugins == nil || p.candidates == nil {
		return
	}
	candidates := map[string]*handle{}
	for _, h := range p.candidates.Handles() {
		if h.Object().Spec.Candidate != nil {
			candidates[h.Name()] = h
		}
	}
	set := &policy.Set{}
	for _, h := range p.plugins.Handles() {
		b, err := p.bind(h, candidates[h.Name()])
		if err != nil { // the API validates selectors, so this is a stored object of another version
			p.c.Runner.Log.Error().Err(err).Str("plugin", h.Name()).Msg("admission plugin cannot be matched")
			continue
		}
		for _, phase := range b.object.Spec.Phases {
			if phase == pluginsv1.PhaseMutate {
				set.Mutate = append(set.Mutate, b)
			} else {
				set.Validate = append(set.Validate, b)
			}
		}
	}
	p.set.Store(set)
}

// bind makes a policy of a plugin as it is now.
func (p *Point) bind(h, candidate *handle) (*binding, error) {
	o := h.Object()
	b := &binding{
		point: p, object: o, handle: h, candidate: candidate, metrics: p.c.Metrics.of(o.Name),
		conditions: celpolicy.NewConditions(o.Spec.MatchConditions),
	}
	var err error
	b.matcher, err = match.New(match.Spec{Rules: match.Rules(o.Spec.Rules), Namespaces: o.Spec.NamespaceSelector, Objects: o.Spec.ObjectSelector})
	if err != nil {
		return nil, err
	}
	if c := o.Spec.Candidate; c != nil && c.NamespaceSelector != nil {
		if b.canary, err = metav1.LabelSelectorAsSelector(c.NamespaceSelector); err != nil {
			return nil, fmt.Errorf("candidate.namespaceSelector: %w", err)
		}
	}
	return b, nil
}
