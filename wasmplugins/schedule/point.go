package schedule

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/scheduling/framework"
	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/schedwasm"
)

const (
	// defaultTimeout is for all that a guest does in one scheduling cycle.
	defaultTimeout = 20 * time.Millisecond
	// defaultForeign is the same for guests that are called for each node.
	defaultForeign = 200 * time.Millisecond
)

// HostConfig is what a Host needs. Engine is required.
type HostConfig struct {
	Engine *engine.Engine
	Log    zerolog.Logger
	// Event records an event of a guest of kube-scheduler-wasm-extension; nil
	// drops it.
	Event func(regarding, related corev1.ObjectReference, typ, reason, action, note string)
	// Node returns a node to such a guest outside of a scheduling cycle; nil
	// knows none.
	Node func(name string) (*corev1.Node, bool)
}

// A Host starts guests and has them take part in scheduling, as a
// scheduling.Extra.
type Host struct {
	c       HostConfig
	nodes   *nodes
	waiting *schedwasm.Waiting

	mu      sync.Mutex // guards the fields below
	list    []framework.Extra
	made    map[string]made
	changed map[int]func()
	next    int
}

// made is the plugin of a running object, and what it was made of.
type made struct {
	of     Running
	native bool
	points []framework.Point
	events framework.Event
	plugin framework.Plugin
}

// NewHost returns a Host without plugins.
func NewHost(c HostConfig) *Host {
	return &Host{
		c: c, nodes: &nodes{engine: c.Engine}, waiting: schedwasm.NewWaiting(),
		made: make(map[string]made), changed: make(map[int]func()),
	}
}

// Close frees what the guests had in common. They must have been closed.
func (h *Host) Close() error {
	h.nodes.mu.Lock()
	defer h.nodes.mu.Unlock()
	h.nodes.closed = true
	return h.nodes.close()
}

// Start starts a guest. An error that wraps abi.ErrSettings says that the guest
// refuses its settings; the others are *engine.Error.
func (h *Host) Start(ctx context.Context, code *engine.Code, abiName string, m abi.Manifest, c GuestConfig) (*Guest, error) {
	switch abiName {
	case abi.Native:
		if c.Limits.Timeout == 0 {
			c.Limits.Timeout = defaultTimeout
		}
		return startNative(ctx, h.c.Engine, h.nodes, code, m, c)
	case abi.SchedulerABI:
		return h.startForeign(ctx, code, c)
	}
	return nil, &engine.Error{Plugin: c.Name, Reason: engine.BadReply, Detail: "the module has the ABI " + cmp.Or(abiName, "of nobody") + ", which has no part in scheduling"}
}

func (h *Host) startForeign(ctx context.Context, code *engine.Code, c GuestConfig) (*Guest, error) {
	if c.Limits.Timeout == 0 {
		c.Limits.Timeout = defaultForeign
	}
	f, err := schedwasm.Start(ctx, h.c.Engine, code, schedwasm.Config{
		Name: c.Name, Settings: c.Settings, Limits: c.Limits, Log: c.Log,
		Event: h.c.Event, Node: h.c.Node, Waiting: h.waiting,
	})
	if err != nil {
		return nil, err
	}
	if _, err := choose(c.Name, f.Points(), c.Points); err != nil {
		f.Close()
		return nil, err
	}
	return &Guest{foreign: f, has: f.Points(), events: f.Events()}, nil
}

// Set makes the plugins those of the objects, and tells who has subscribed.
func (h *Host) Set(objects []Running) {
	h.mu.Lock()
	defer h.mu.Unlock()
	sorted := slices.Clone(objects)
	slices.SortStableFunc(sorted, func(a, b Running) int {
		return cmp.Or(cmp.Compare(a.Object().Spec.Order, b.Object().Spec.Order), cmp.Compare(a.Name(), b.Name()))
	})
	old := h.made
	h.made = make(map[string]made)
	var list []framework.Extra
	for _, r := range sorted {
		m, ok := h.make(r, old[r.Name()])
		if !ok {
			continue
		}
		h.made[r.Name()] = m
		spec := &r.Object().Spec
		e := framework.Extra{Enabled: framework.Enabled{Plugin: m.plugin, Weight: int64(max(spec.Weight, 1))}, Schedulers: spec.SchedulerNames}
		if len(e.Schedulers) == 0 {
			e.Schedulers = []string{corev1.DefaultSchedulerName}
		}
		list = append(list, e)
	}
	if slices.EqualFunc(h.list, list, func(a, b framework.Extra) bool {
		return a.Enabled == b.Enabled && slices.Equal(a.Schedulers, b.Schedulers)
	}) {
		return
	}
	h.list = list
	for _, f := range h.changed {
		f()
	}
}

// make returns the plugin of an object: the one from before if nothing about it
// is new. It returns false if the object has no part in scheduling for now.
func (h *Host) make(r Running, before made) (made, bool) {
	m := made{of: r}
	switch g, ok := r.Running(); {
	case ok:
		m.native, m.points, m.events = g.native != nil, g.at(r.Object()), g.events
	case r.Object().Spec.FailurePolicy == ignore:
		return m, false
	case before.of == r: // it was there and may come again
		return before, true
	default: // until it is there, pods are refused
		m.native, m.points, m.events = true, []framework.Point{framework.PointPreFilter}, ^framework.Event(0)
	}
	if before.of == r && before.native == m.native && slices.Equal(before.points, m.points) && before.events == m.events {
		return before, true
	}
	b := base{running: r, name: r.Name(), points: m.points, events: m.events}
	if m.native {
		m.plugin = &nativePlugin{base: b, nodes: h.nodes}
	} else {
		m.plugin = &foreignPlugin{base: b}
	}
	return m, true
}

// Plugins implements scheduling.Extra.
func (h *Host) Plugins() []framework.Extra {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.list
}

// Subscribe implements scheduling.Extra.
func (h *Host) Subscribe(changed func()) (cancel func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.next
	h.next++
	h.changed[n] = changed
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.changed, n)
	}
}

// Amend puts the points of a guest into the status of its object; nil is none.
func Amend(o *pluginsv1.SchedulerPlugin, g *Guest) {
	if g == nil {
		return
	}
	o.Status.Points = nil
	for _, p := range g.at(o) {
		o.Status.Points = append(o.Status.Points, pluginsv1.SchedulerPoint(p))
	}
}
