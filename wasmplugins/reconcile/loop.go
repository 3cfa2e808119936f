package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/httpapi/request"
	"github.com/proa-project/proa/informers"
)

// A loop is one Reconciler at work, as long as what it works on is the same.
type loop struct {
	p      *Point
	handle *handle
	work   string       // see workOf
	rest   *client.REST // as the ServiceAccount
	cancel context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex        // guards the fields below
	cycle    *cycle            // nil while the kinds are not known
	guest    *guest            // that was last seen
	kept     bool              // the Reconciler has its finalizer
	troubles map[string]string // why a kind cannot be read, by kind
	failing  map[informers.Key]string
	last     informers.Key // of failing, the latest
}

// workOf is what a Reconciler works on, in a form that can be compared.
func workOf(o *pluginsv1.Reconciler) string {
	b, _ := json.Marshal([]any{o.UID, o.DeletionTimestamp != nil, o.Spec.For, o.Spec.Owns, o.Spec.ResyncSeconds, o.Spec.ServiceAccount}) // plain data
	return string(b)
}

func newLoop(p *Point, h *handle) *loop {
	o := h.Object()
	l := &loop{
		p: p, handle: h, work: workOf(o), done: make(chan struct{}),
		troubles: map[string]string{}, failing: map[informers.Key]string{},
	}
	if a := o.Spec.ServiceAccount; a != nil { // the API requires one
		l.rest = p.rest.Impersonate(request.ServiceAccountUser(a.Namespace, a.Name))
	}
	return l
}

func (l *loop) start(ctx context.Context) {
	ctx, l.cancel = context.WithCancel(ctx)
	go l.run(ctx)
}

// stop returns when nothing of the loop runs any more.
func (l *loop) stop() {
	l.cancel()
	<-l.done
}

func (l *loop) run(ctx context.Context) {
	defer close(l.done)
	if l.handle.Object().DeletionTimestamp != nil {
		l.release(ctx)
		return
	}
	if l.rest == nil {
		l.trouble("serviceAccount", errNobody)
		return
	}
	for ctx.Err() == nil {
		c, err := l.discover(ctx)
		l.trouble("discovery", err)
		if err != nil {
			pause(ctx, l.p.c.Discover)
			continue
		}
		c.run(ctx)
	}
}

// discover finds out what the kinds are.
func (l *loop) discover(ctx context.Context) (*cycle, error) {
	spec := &l.handle.Object().Spec
	c := newCycle(l)
	var err error
	if c.primary, err = discover(ctx, l.p.rest, &spec.For); err != nil {
		return nil, err
	}
	for i := range spec.Owns {
		k, err := discover(ctx, l.p.rest, &spec.Owns[i])
		if err != nil {
			return nil, err
		}
		c.owned = append(c.owned, k)
	}
	return c, nil
}

// check has all objects looked at if the guest is another than before.
func (l *loop) check() {
	g, running := l.handle.Running()
	l.mu.Lock()
	news := running && g != l.guest
	if news {
		l.guest = g
	}
	c := l.cycle
	l.mu.Unlock()
	if news && c != nil {
		c.all()
	}
}

// enter says which cycle runs, nil for none.
func (l *loop) enter(c *cycle) {
	l.mu.Lock()
	l.cycle = c
	clear(l.failing)
	l.mu.Unlock()
	l.touch()
}

// trouble notes why something cannot be read, or that it can.
func (l *loop) trouble(what string, err error) {
	l.mu.Lock()
	before, had := l.troubles[what]
	if err == nil {
		delete(l.troubles, what)
	} else {
		l.troubles[what] = err.Error()
	}
	news := had != (err != nil) || err != nil && before != err.Error()
	l.mu.Unlock()
	if !news {
		return
	}
	l.touch()
	if err != nil {
		l.p.events.Event(l.handle.Object(), "Warning", "CannotWatch", err.Error())
	}
}

// outcome notes how it went with an object; "" is well.
func (l *loop) outcome(k informers.Key, failure string) {
	l.mu.Lock()
	before := l.failing[k]
	if failure == "" {
		delete(l.failing, k)
	} else {
		l.failing[k], l.last = failure, k
	}
	l.mu.Unlock()
	if before != failure {
		l.touch()
	}
}

// touch has the Reconciler's status written.
func (l *loop) touch() { l.p.runner.Touch(l.handle.Name()) }

const conditionReconciling = "Reconciling"

// amend adds to a Reconciler's status. A process that does not lead knows
// nothing to add.
func (p *Point) amend(o *pluginsv1.Reconciler, _ *guest) {
	l := p.get(o.Name)
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := metav1.Condition{Type: conditionReconciling, Status: metav1.ConditionTrue, Reason: "AllWell", ObservedGeneration: o.Generation}
	o.Status.Failing = int32(len(l.failing)) //nolint:gosec // as many objects do not fit in memory
	o.Status.Objects = 0
	if l.cycle != nil {
		o.Status.Objects = int32(l.cycle.primary.copy.Len()) //nolint:gosec // as many objects do not fit in memory
	}
	switch {
	case len(l.troubles) > 0:
		first := slices.Sorted(maps.Keys(l.troubles))[0]
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, "CannotWatch", cut(l.troubles[first])
	case len(l.failing) > 0:
		last := l.last
		if l.failing[last] == "" {
			for last = range l.failing {
				break
			}
		}
		c.Status, c.Reason = metav1.ConditionFalse, "ObjectsFail"
		c.Message = cut(fmt.Sprintf("%d of %d objects fail, such as %s: %s", len(l.failing), o.Status.Objects, last, l.failing[last]))
	}
	meta.SetStatusCondition(&o.Status.Conditions, c)
}

// maxMessage bounds what is told of a failure.
const maxMessage = 1024

func cut(s string) string {
	if len(s) > maxMessage {
		return s[:maxMessage] + "..."
	}
	return s
}

// resync is how often all objects are looked at; 0 is never.
func (l *loop) resync() time.Duration {
	return time.Duration(l.handle.Object().Spec.ResyncSeconds) * time.Second
}
