package schedwasm

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/scheduling/framework"
	"github.com/proa-project/proa/wasmplugins/engine"
)

// Config says how a guest is run.
type Config struct {
	Name string // of the plugin
	// Settings are what get_config returns.
	Settings []byte
	// Limits are for all calls for one pod together.
	Limits engine.Limits
	Log    func(engine.Level, []byte)
	// Event records an event for the guest; nil drops it.
	Event func(regarding, related corev1.ObjectReference, typ, reason, action, note string)
	// Node returns a node outside of a scheduling cycle; nil knows none.
	Node func(name string) (*corev1.Node, bool)
	// Waiting are the pods that wait for a Permit, of all guests.
	Waiting *Waiting
}

// The functions of a guest, by their place in exports.
const (
	fnEnqueue = iota
	fnPreFilter
	fnFilter
	fnPostFilter
	fnPreScore
	fnScore
	fnNormalize
	fnReserve
	fnUnreserve
	fnPermit
	fnPreBind
	fnBind
	fnPostBind
)

// functions are the exports with their signatures and points.
var functions = [...]struct { //nolint:gochecknoglobals // a constant in all but name
	name, signature string
	point           framework.Point
}{
	fnEnqueue:    {"enqueue", "()", ""},
	fnPreFilter:  {"prefilter", "()i32", framework.PointPreFilter},
	fnFilter:     {"filter", "()i32", framework.PointFilter},
	fnPostFilter: {"postfilter", "()i64", framework.PointPostFilter},
	fnPreScore:   {"prescore", "()i32", framework.PointPreScore},
	fnScore:      {"score", "()i64", framework.PointScore},
	fnNormalize:  {"normalizescore", "()i32", ""},
	fnReserve:    {"reserve", "()i32", framework.PointReserve},
	fnUnreserve:  {"unreserve", "()", framework.PointReserve},
	fnPermit:     {"permit", "()i64", framework.PointPermit},
	fnPreBind:    {"prebind", "()i32", framework.PointPreBind},
	fnBind:       {"bind", "()i32", framework.PointBind},
	fnPostBind:   {"postbind", "()", framework.PointPostBind},
}

// maxHeld is how many pods whose binding is under way have an instance.
const maxHeld = 64

// A Guest is a module that runs. It is safe for concurrent use. A function that
// the module does not have lets everything pass.
type Guest struct {
	c      Config
	prog   *engine.Program
	points []framework.Point
	events framework.Event
	has    [len(functions)]bool
	binds  bool // it has one of the points that come after the choice of a node
	nodes  encodings

	mu     sync.Mutex // guards the fields below
	held   map[types.UID]*Cycle
	order  []types.UID // of held, the oldest first
	closed bool
}

// Start starts a guest. The errors are *engine.Error.
func Start(ctx context.Context, e *engine.Engine, code *engine.Code, c Config) (*Guest, error) {
	if c.Waiting == nil {
		c.Waiting = NewWaiting()
	}
	g := &Guest{c: c, held: make(map[types.UID]*Cycle), events: ^framework.Event(0)}
	var exports []string
	for f := range functions {
		fn := &functions[f]
		exports = append(exports, "?"+fn.name)
		signature, ok := code.Exports[fn.name]
		if !ok {
			continue
		}
		if signature != fn.signature {
			return nil, &engine.Error{Plugin: c.Name, Reason: engine.BadReply, Detail: "the module's " + fn.name + " is " + signature + ", which should be " + fn.signature}
		}
		g.has[f] = true
		g.binds = g.binds || f >= fnReserve
		if fn.point != "" && !slices.Contains(g.points, fn.point) {
			g.points = append(g.points, fn.point)
		}
	}
	var err error
	g.prog, err = e.Start(ctx, code, engine.ProgramConfig{
		Name: c.Name, Limits: c.Limits, Exports: exports, Log: c.Log, Imports: imports(c.Settings), Instances: maxHeld + 8,
	})
	if err != nil {
		return nil, err
	}
	if g.has[fnEnqueue] {
		if g.events, err = g.enqueue(ctx); err != nil {
			g.prog.Close()
			return nil, err
		}
	}
	return g, nil
}

// Points are those that the guest serves.
func (g *Guest) Points() []framework.Point { return g.points }

// Events are the changes that may let a pod pass which the guest has refused.
func (g *Guest) Events() framework.Event { return g.events }

// Limits are those in force.
func (g *Guest) Limits() engine.Limits { return g.prog.Limits() }

// Close waits for running calls and frees the guest.
func (g *Guest) Close() {
	g.mu.Lock()
	g.closed = true
	for _, c := range g.held {
		c.session.End()
	}
	g.held, g.order = nil, nil
	g.mu.Unlock()
	g.prog.Close()
}

// enqueue asks which changes matter to the guest.
func (g *Guest) enqueue(ctx context.Context) (framework.Event, error) {
	c := &Cycle{g: g}
	_, err := g.prog.Do(context.WithValue(ctx, cycleKey{}, c), engine.Call{}, func(i *engine.Instance) error {
		_, err := i.Call(fnEnqueue)
		return err
	})
	if err != nil || len(c.clusterEvents) == 0 {
		return ^framework.Event(0), err
	}
	events := framework.PodOwn
	for b := c.clusterEvents; len(b) >= 8; b = b[8:] {
		events |= eventsOf(binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:]))
	}
	return events, nil
}

// The kinds of objects and of changes that a guest names.
const (
	kindPod  = 0
	kindNode = 1
	kindAny  = 10

	actionAdd         = 1 << 0
	actionDelete      = 1 << 1
	actionAllocatable = 1 << 2
	actionLabel       = 1 << 3
	actionTaint       = 1 << 4
	// The bits above are conditions and annotations of nodes, and changes of
	// pods that have come and gone with Kubernetes' versions.
	actionOther = ^uint32(1<<5 - 1)
)

// eventsOf returns the changes that an entry stands for; of objects that no
// plugin here can look at there is none. It errs on the side of more.
func eventsOf(kind, action uint32) framework.Event {
	var e framework.Event
	add := func(bits uint32, events framework.Event) {
		if action&bits != 0 {
			e |= events
		}
	}
	switch kind {
	case kindPod:
		add(actionAdd, framework.PodAdded)
		add(actionDelete, framework.PodRemoved)
		add(actionOther|actionAllocatable|actionLabel|actionTaint, framework.PodLabels|framework.PodShrunk)
	case kindNode:
		add(actionAdd, framework.NodeAdded)
		add(actionAllocatable|actionOther, framework.NodeAllocatable)
		add(actionLabel|actionOther, framework.NodeLabels)
		add(actionTaint|actionOther, framework.NodeTaints)
	case kindAny:
		e = ^framework.Event(0)
	}
	return e
}

// keep holds a cycle for the pod's binding.
func (g *Guest) keep(c *Cycle) {
	uid := c.pod.UID
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || c.session.Err() != nil {
		c.session.End()
		return
	}
	g.drop(uid)
	if len(g.held) == maxHeld {
		g.drop(g.order[0])
	}
	g.held[uid] = c
	g.order = append(g.order, uid)
}

// take returns the pod's cycle, nil if there is none.
func (g *Guest) take(uid types.UID) *Cycle {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.held[uid]
	g.forget(uid)
	return c
}

func (g *Guest) drop(uid types.UID) {
	if c := g.held[uid]; c != nil {
		c.session.End()
		g.forget(uid)
	}
}

func (g *Guest) forget(uid types.UID) {
	if _, ok := g.held[uid]; ok {
		delete(g.held, uid)
		g.order = slices.DeleteFunc(g.order, func(u types.UID) bool { return u == uid })
	}
}

// Waiting are pods that wait for a Permit to let them go on.
type Waiting struct {
	mu   sync.Mutex // guards the field below
	pods map[types.UID]*waiting
}

type waiting struct {
	pod      *corev1.Pod
	rejected chan struct{} // closed when somebody does
}

// NewWaiting returns an empty Waiting.
func NewWaiting() *Waiting { return &Waiting{pods: make(map[types.UID]*waiting)} }

var (
	// errTimeout is the end of a wait that nobody has ended before.
	errTimeout = errors.New("nobody has let the pod go on in time")
	// errRejected is the end of a wait by another plugin.
	errRejected = errors.New("the pod was rejected while it waited")
)

// wait has the pod wait: it always ends with an error, since a guest has no
// means to let another pod go on.
func (w *Waiting) wait(ctx context.Context, pod *corev1.Pod, most time.Duration) error {
	me := &waiting{pod, make(chan struct{})}
	w.mu.Lock()
	w.pods[pod.UID] = me
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.pods[pod.UID] == me {
			delete(w.pods, pod.UID)
		}
	}()
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-me.rejected:
		return errRejected
	case <-t.C:
		return errTimeout
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *Waiting) get(uid types.UID) *corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.pods[uid]; p != nil {
		return p.pod
	}
	return nil
}

func (w *Waiting) reject(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.pods[uid]
	if p == nil {
		return false
	}
	delete(w.pods, uid)
	close(p.rejected)
	return true
}

// Held is how many pods whose binding is under way have an instance.
func (g *Guest) Held() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.held)
}
