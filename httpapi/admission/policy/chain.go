package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/admission"
)

// Config configures a Chain.
type Config struct {
	// Sources are asked for policies; their order does not matter.
	Sources []Source
	// Budget is how long all policies together may take for one write, in both
	// phases. Default 10 s for webhooks' sake; plugins have limits of their
	// own, far below.
	Budget time.Duration
	// ExemptNamespaces are those in which plugins have no say.
	ExemptNamespaces []string
	// Off is the switch outside the API: while it returns true, no policy is
	// called. Nil is never.
	Off func() bool
	// Traces keeps what has happened; nil keeps nothing.
	Traces *Traces
	// Recorder gets every write before any policy sees it; nil for none.
	Recorder Recorder
}

// A Recorder keeps requests, to be judged again later.
type Recorder interface {
	// Record must be quick, and not keep the request, which changes; the JSON
	// of its objects may be kept.
	Record(r *admission.Request)
}

// A Chain runs policies. It is safe for concurrent use.
type Chain struct {
	c      Config
	sorted atomic.Pointer[sorted]
}

// sorted is the one order of the policies of all sources.
type sorted struct {
	of               []*Set
	mutate, validate []Policy
}

// New returns a Chain.
func New(c Config) *Chain {
	c.Budget = cmp.Or(c.Budget, 10*time.Second)
	ch := &Chain{c: c}
	ch.sorted.Store(&sorted{})
	return ch
}

// Mutator returns the part of the chain that changes objects.
func (c *Chain) Mutator() admission.Mutator { return mutator{c} }

// Validator returns the part of the chain that only refuses.
func (c *Chain) Validator() admission.Validator { return validator{c} }

type mutator struct{ c *Chain }

func (m mutator) Mutate(ctx context.Context, r *admission.Request) error { return m.c.mutate(ctx, r) }

type validator struct{ c *Chain }

func (v validator) Validate(ctx context.Context, r *admission.Request) error {
	return v.c.validate(ctx, r)
}

// current returns the policies in order.
func (c *Chain) current(ctx context.Context) (*sorted, error) {
	have := c.sorted.Load()
	same := len(have.of) == len(c.c.Sources)
	for i, s := range c.c.Sources {
		set, err := c.policies(ctx, s)
		if err != nil {
			return nil, err
		}
		same = same && have.of[i] == set
	}
	if same {
		return have, nil
	}
	return c.sort(ctx)
}

// policies asks a source.
func (c *Chain) policies(ctx context.Context, s Source) (*Set, error) {
	set, err := s.Policies(ctx)
	if err != nil && ctx.Err() == nil && !errors.As(err, new(apierrors.APIStatus)) {
		err = apierrors.NewServiceUnavailable("the admission policies are not loaded yet: " + err.Error())
	}
	return set, err
}

// sort puts the policies of all sources in order.
func (c *Chain) sort(ctx context.Context) (*sorted, error) {
	next := &sorted{}
	for _, s := range c.c.Sources {
		set, err := c.policies(ctx, s)
		if err != nil {
			return nil, err
		}
		next.of = append(next.of, set)
	}
	for _, set := range next.of {
		next.mutate = append(next.mutate, set.Mutate...)
		next.validate = append(next.validate, set.Validate...)
	}
	slices.SortStableFunc(next.mutate, inOrder)
	slices.SortStableFunc(next.validate, inOrder)
	c.sorted.Store(next)
	return next, nil
}

func inOrder(a, b Policy) int {
	x, y := a.ID(), b.ID()
	return cmp.Or(cmp.Compare(a.Order(), b.Order()), cmp.Compare(rank(x.Kind), rank(y.Kind)), cmp.Compare(objectOf(x.Name), objectOf(y.Name)))
}

// objectOf is the part of a policy's name that names an object. What comes from
// one object stays in the order of its source, as the webhooks of a
// configuration do.
func objectOf(name string) string {
	object, _, _ := strings.Cut(name, "/")
	return object
}

// guarded says that policies have no say in a write: with those of the kinds
// that policies are made of a cluster is always mended.
func guarded(r *admission.Request) bool {
	return r.Resource.Group == pluginsv1.GroupName || r.Resource.Group == "admissionregistration.k8s.io"
}

// matching returns the policies that want to see a write.
func (c *Chain) matching(ctx context.Context, all []Policy, r *admission.Request) ([]Policy, error) {
	var list []Policy
	exempt := slices.Contains(c.c.ExemptNamespaces, r.Namespace) && r.Namespace != ""
	for _, p := range all {
		if exempt && p.ID().Kind == AdmissionPlugin {
			continue
		}
		ok, err := p.Matches(ctx, r)
		if err != nil {
			id := p.ID()
			return nil, fmt.Errorf("match %s %q: %w", id.Kind, id.Name, err)
		}
		if ok {
			list = append(list, p)
		}
	}
	return list, nil
}

// session is what the two phases of one write share.
type session struct {
	left time.Duration
	all  *sorted    // the policies, so that a change never comes between the phases
	memo map[ID]any // what policies keep
}

// begin returns the call for one phase, or nil if no policy wants to see the
// write.
func (c *Chain) begin(ctx context.Context, r *admission.Request, phase pluginsv1.Phase) (*call, error) {
	if guarded(r) || c.c.Off != nil && c.c.Off() {
		return nil, nil
	}
	s, ok := r.Session.(*session)
	if !ok {
		all, err := c.current(ctx)
		if err != nil {
			return nil, err
		}
		s = &session{left: c.c.Budget, all: all}
		r.Session = s
	}
	list := s.all.mutate
	if phase == pluginsv1.PhaseValidate {
		list = s.all.validate
	}
	if len(list) == 0 {
		return nil, nil
	}
	list, err := c.matching(ctx, list, r)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	now := time.Now()
	cl := &call{c: c, r: r, s: s, began: now, policies: list, trace: c.c.Traces.of(ctx, r)}
	cl.in = Input{Request: r, Phase: phase, Deadline: now.Add(s.left), memo: &s.memo}
	if cl.in.Object, err = r.ObjectJSON(); err != nil {
		return nil, err
	}
	if cl.in.OldObject, err = r.OldObjectJSON(); err != nil {
		return nil, err
	}
	cl.before = cl.in.Object
	return cl, nil
}

// mutate is the mutating phase.
func (c *Chain) mutate(ctx context.Context, r *admission.Request) error {
	if c.c.Recorder != nil {
		c.c.Recorder.Record(r)
	}
	cl, err := c.begin(ctx, r, pluginsv1.PhaseMutate)
	if err != nil || cl == nil {
		return err
	}
	return cl.end(cl.mutate(ctx))
}

// validate is the validating phase.
func (c *Chain) validate(ctx context.Context, r *admission.Request) error {
	cl, err := c.begin(ctx, r, pluginsv1.PhaseValidate)
	if err != nil || cl == nil {
		return err
	}
	return cl.end(cl.validate(ctx))
}
