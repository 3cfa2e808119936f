// Package deployment rolls out the template of each Deployment as ReplicaSets:
// step by step, with a history to go back to.
package deployment

import (
	"fmt"
	"maps"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A view is what a plan is made from.
type view struct {
	d     *appsv1.Deployment
	sets  []*appsv1.ReplicaSet // that the deployment controls
	owner metav1.OwnerReference
	// oldPods is true if pods of sets with another template are still alive.
	oldPods bool
	now     time.Time
}

// A change is one set as it should be, and how it was.
type change struct {
	from, to *appsv1.ReplicaSet
}

// A plan is what is to be done now. Its parts are done in the order in which
// they stand.
type plan struct {
	create   *appsv1.ReplicaSet
	changes  []change
	remove   []*appsv1.ReplicaSet
	revision string // the annotation the deployment should have; "" leaves it
	status   appsv1.DeploymentStatus
	// again is when the plan changes though nothing else does.
	again time.Duration
}

// newPlan decides the next step of a rollout. It is pure.
func newPlan(v view) (plan, error) {
	d := v.d
	fresh, old := split(d, v.sets)
	p := &planner{view: v, fresh: fresh, old: old, changed: map[*appsv1.ReplicaSet]*appsv1.ReplicaSet{}}
	var err error
	switch {
	case d.DeletionTimestamp != nil:
	case d.Spec.Paused:
		p.setPaused()
		p.reviseFresh()
		p.scale(proportional(d, p.fresh, p.old))
		p.cleanUp()
	case isScaling(d, v.sets):
		p.setPaused()
		p.reviseFresh()
		p.scale(proportional(d, p.fresh, p.old))
	case d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType:
		p.setPaused()
		err = p.recreate()
	default:
		p.setPaused()
		err = p.roll()
	}
	if err != nil {
		return plan{}, err
	}
	return p.finish(), nil
}

// A planner gathers a plan.
type planner struct {
	view
	fresh   *appsv1.ReplicaSet
	old     []*appsv1.ReplicaSet
	changed map[*appsv1.ReplicaSet]*appsv1.ReplicaSet // copies that differ
	note    *note
	plan    plan
}

// edit returns a copy of the set to change.
func (p *planner) edit(rs *appsv1.ReplicaSet) *appsv1.ReplicaSet {
	c := p.changed[rs]
	if c == nil {
		c = rs.DeepCopy()
		p.changed[rs] = c
	}
	return c
}

// setPaused notes that the deployment was paused or resumed.
func (p *planner) setPaused() {
	c := find(&p.d.Status, appsv1.DeploymentProgressing)
	switch {
	case c != nil && c.Reason == reasonTimedOut:
		// what has failed is not better for being paused
	case p.d.Spec.Paused && (c == nil || c.Reason != reasonPaused):
		p.note = &note{corev1.ConditionUnknown, reasonPaused, "Deployment is paused"}
	case !p.d.Spec.Paused && c != nil && c.Reason == reasonPaused:
		p.note = &note{corev1.ConditionUnknown, reasonResumed, "Deployment is resumed"}
	}
}

// reviseFresh gives the new set, if there is one, its revision and the
// deployment's annotations.
func (p *planner) reviseFresh() {
	if p.fresh == nil {
		return
	}
	rev := nextRevision(p.old)
	a := annotate(p.d, p.fresh.Annotations, rev)
	if have, ok := number(p.fresh, desiredAnnotation); ok && isScaling(p.d, []*appsv1.ReplicaSet{p.fresh}) {
		// The sizes stay as they are until the set is scaled.
		a[desiredAnnotation] = strconv.Itoa(int(have))
		if m, ok := p.fresh.Annotations[maxAnnotation]; ok {
			a[maxAnnotation] = m
		}
	}
	if !maps.Equal(a, p.fresh.Annotations) || p.fresh.Spec.MinReadySeconds != p.d.Spec.MinReadySeconds {
		c := p.edit(p.fresh)
		c.Annotations = a
		c.Spec.MinReadySeconds = p.d.Spec.MinReadySeconds
	}
	p.plan.revision = a[revisionAnnotation]
	if hasDeadline(p.d) && find(&p.d.Status, appsv1.DeploymentProgressing) == nil && p.note == nil {
		p.note = &note{corev1.ConditionTrue, reasonFound, fmt.Sprintf("Found new replica set %q", p.fresh.Name)}
	}
}

// ensureFresh is reviseFresh, and plans to create the set if there is none.
func (p *planner) ensureFresh(others int32) error {
	if p.fresh != nil {
		p.reviseFresh()
		return nil
	}
	rs, err := newSet(p.d, p.owner, nextRevision(p.old))
	if err != nil {
		return err
	}
	n := newSize(p.d, 0, others)
	rs.Spec.Replicas = &n
	p.plan.create = rs
	p.plan.revision = rs.Annotations[revisionAnnotation]
	p.note = &note{corev1.ConditionTrue, reasonCreated, fmt.Sprintf("Created new replica set %q", rs.Name)}
	return nil
}

// scale plans sizes. Every set that is touched or has pods also learns the
// size of the deployment.
func (p *planner) scale(sizes map[*appsv1.ReplicaSet]int32) {
	for rs, n := range sizes {
		c := p.edit(rs)
		c.Spec.Replicas = &n
	}
	for _, rs := range p.sets {
		n, touched := sizes[rs]
		if !touched {
			n = size(rs)
		}
		if n == 0 && !touched {
			continue
		}
		a := maps.Clone(p.annotations(rs))
		if a == nil {
			a = map[string]string{}
		}
		setSizes(p.d, a)
		if !maps.Equal(a, p.annotations(rs)) {
			p.edit(rs).Annotations = a
		}
	}
}

func (p *planner) annotations(rs *appsv1.ReplicaSet) map[string]string {
	if c := p.changed[rs]; c != nil {
		return c.Annotations
	}
	return rs.Annotations
}

// roll is one step of a rolling update: the new set grows as far as the surge
// allows, and if it need not, the old ones shrink.
func (p *planner) roll() error {
	others := total(p.old, present)
	if err := p.ensureFresh(others); err != nil {
		return err
	}
	if p.fresh == nil {
		return nil
	}
	others += present(p.fresh) - size(p.fresh)
	if n := newSize(p.d, size(p.fresh), others); n != size(p.fresh) {
		p.scale(map[*appsv1.ReplicaSet]int32{p.fresh: n})
		return nil
	}
	if total(p.old, size) > 0 {
		p.scale(shrinkOld(p.d, p.fresh, p.old))
		return nil
	}
	p.cleanUp()
	return nil
}

// recreate is one step of a rollout that ends the old pods first.
func (p *planner) recreate() error {
	down := map[*appsv1.ReplicaSet]int32{}
	for _, rs := range p.old {
		if size(rs) > 0 {
			down[rs] = 0
		}
	}
	if len(down) > 0 {
		p.reviseFresh()
		p.scale(down)
		return nil
	}
	if p.oldPods {
		p.reviseFresh()
		return nil
	}
	if err := p.ensureFresh(0); err != nil {
		return err
	}
	if p.fresh != nil && size(p.fresh) != replicas(p.d) {
		p.scale(map[*appsv1.ReplicaSet]int32{p.fresh: replicas(p.d)})
		return nil
	}
	p.cleanUp()
	return nil
}

// cleanUp forgets old sets when the rollout is complete.
func (p *planner) cleanUp() {
	st, _ := newStatus(p.d, p.fresh, p.old, nil, p.now)
	if complete(p.d, &st) || p.d.Spec.Paused {
		p.plan.remove = surplus(p.d, p.old)
	}
}

// finish computes the status and puts the plan together.
func (p *planner) finish() plan {
	for _, rs := range p.sets {
		if c := p.changed[rs]; c != nil {
			p.plan.changes = append(p.plan.changes, change{from: rs, to: c})
		}
	}
	fresh := p.fresh
	if p.plan.create != nil {
		fresh = p.plan.create
	}
	p.plan.status, p.plan.again = newStatus(p.d, fresh, p.old, p.note, p.now)
	return p.plan
}
