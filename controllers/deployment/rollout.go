package deployment

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// limits returns how many pods more and how many fewer than wanted a rollout
// may have. A share is rounded up for the surge and down for what may be
// unavailable; if both come to nothing one pod may be unavailable, or the
// rollout could not move.
func limits(d *appsv1.Deployment) (surge, unavailable int32) {
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return 0, 0
	}
	ru := d.Spec.Strategy.RollingUpdate
	if ru == nil {
		ru = &appsv1.RollingUpdateDeployment{}
	}
	want := int(replicas(d))
	s := scaled(ru.MaxSurge, want, true)
	u := scaled(ru.MaxUnavailable, want, false)
	if s == 0 && u == 0 {
		u = 1
	}
	return s, min(u, int32(want)) //nolint:gosec // a replica count
}

func scaled(v *intstr.IntOrString, total int, up bool) int32 {
	if v == nil {
		def := intstr.FromString("25%")
		v = &def
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(v, total, up)
	if err != nil || n < 0 {
		return 0
	}
	return int32(min(n, math.MaxInt32)) // bounded
}

func replicas(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

func size(rs *appsv1.ReplicaSet) int32 {
	if rs.Spec.Replicas == nil {
		return 1
	}
	return *rs.Spec.Replicas
}

// total sums f over the sets.
func total(sets []*appsv1.ReplicaSet, f func(*appsv1.ReplicaSet) int32) int32 {
	var n int32
	for _, rs := range sets {
		n += f(rs)
	}
	return n
}

// available is how many pods of the set will still be available when it has
// come to its size: it may not have shrunk yet.
func available(rs *appsv1.ReplicaSet) int32 { return min(rs.Status.AvailableReplicas, size(rs)) }

// present is how many pods the set may have at this moment: it may not have
// shrunk to its size yet.
func present(rs *appsv1.ReplicaSet) int32 { return max(rs.Status.Replicas, size(rs)) }

// newSize is the size the new set should have now, if have is its size, and
// the old sets have others pods in all.
func newSize(d *appsv1.Deployment, have, others int32) int32 {
	want := replicas(d)
	if have >= want {
		return want
	}
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return want
	}
	surge, _ := limits(d)
	room := want + surge - have - others
	if room <= 0 {
		return have
	}
	return min(have+room, want)
}

// shrinkOld returns the sizes that the old sets should have now, oldest first.
// Pods that are not available go first, for they serve nobody; then as many
// others as availability allows.
func shrinkOld(d *appsv1.Deployment, fresh *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) map[*appsv1.ReplicaSet]int32 {
	out := map[*appsv1.ReplicaSet]int32{}
	_, mayMiss := limits(d)
	atLeast := replicas(d) - mayMiss
	all := total(old, size) + size(fresh)
	// Pods of the new set that are not available yet keep their place.
	freshMissing := size(fresh) - available(fresh)
	most := all - atLeast - freshMissing
	if most <= 0 {
		return out
	}
	sets := byAge(old)
	left := map[*appsv1.ReplicaSet]int32{}
	for _, rs := range sets {
		left[rs] = size(rs)
	}
	for _, rs := range sets {
		if n := min(most, size(rs)-available(rs)); n > 0 {
			left[rs] -= n
			most -= n
		}
	}
	spare := available(fresh) - atLeast
	for _, rs := range sets {
		spare += min(available(rs), left[rs])
	}
	for _, rs := range sets {
		if spare <= 0 {
			break
		}
		n := min(spare, left[rs])
		left[rs] -= n
		spare -= n
	}
	for _, rs := range sets {
		if left[rs] != size(rs) {
			out[rs] = left[rs]
		}
	}
	return out
}

// byAge returns the sets oldest first.
func byAge(sets []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	out := slices.Clone(sets)
	slices.SortFunc(out, func(a, b *appsv1.ReplicaSet) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// isScaling tells whether the deployment's size was changed since the sets
// were made: then they are scaled in proportion before anything else.
func isScaling(d *appsv1.Deployment, sets []*appsv1.ReplicaSet) bool {
	for _, rs := range sets {
		if size(rs) == 0 {
			continue
		}
		if n, ok := number(rs, desiredAnnotation); ok && n != replicas(d) {
			return true
		}
	}
	return false
}

func number(o metav1.Object, annotation string) (int32, bool) {
	n, err := strconv.ParseInt(o.GetAnnotations()[annotation], 10, 32)
	return int32(n), err == nil // parsed as 32 bits
}

// proportional returns the sizes that the sets should have after the
// deployment was scaled, in the middle of a rollout or while it is paused.
func proportional(d *appsv1.Deployment, fresh *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) map[*appsv1.ReplicaSet]int32 {
	out := map[*appsv1.ReplicaSet]int32{}
	want := replicas(d)
	all := slices.Clone(old)
	if fresh != nil {
		all = append(all, fresh)
	}
	var live []*appsv1.ReplicaSet
	for _, rs := range all {
		if size(rs) > 0 {
			live = append(live, rs)
		}
	}
	if one := activeOrLatest(fresh, old, live); one != nil {
		if size(one) != want {
			out[one] = want
		}
		return out
	}
	if fresh != nil && saturated(d, fresh) {
		for _, rs := range old {
			if size(rs) > 0 {
				out[rs] = 0
			}
		}
		return out
	}
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType || len(live) == 0 {
		return out
	}
	distribute(d, live, out)
	return out
}

// distribute shares the change of the deployment's size out between the sets.
func distribute(d *appsv1.Deployment, live []*appsv1.ReplicaSet, out map[*appsv1.ReplicaSet]int32) {
	surge, _ := limits(d)
	var room int32
	if replicas(d) > 0 {
		room = replicas(d) + surge
	}
	room -= total(live, size)
	// The largest first; of equals the newest when growing, the oldest when
	// shrinking.
	slices.SortFunc(live, func(a, b *appsv1.ReplicaSet) int {
		age := a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
		if room > 0 {
			age = -age
		}
		return cmp.Or(cmp.Compare(size(b), size(a)), age, cmp.Compare(a.Name, b.Name))
	})
	left := room
	for _, rs := range live {
		n := share(d, rs, surge)
		if room > 0 {
			n = max(0, min(n, left))
		} else {
			n = min(0, max(n, left))
		}
		out[rs] = size(rs) + n
		left -= n
	}
	// What rounding left over goes to the largest.
	if left != 0 {
		out[live[0]] = max(0, out[live[0]]+left)
	}
	for rs, n := range out {
		if n == size(rs) {
			delete(out, rs)
		}
	}
}

// share is by how much a set should grow or shrink to keep its part of the
// whole.
func share(d *appsv1.Deployment, rs *appsv1.ReplicaSet, surge int32) int32 {
	if replicas(d) == 0 {
		return -size(rs)
	}
	before, ok := number(rs, maxAnnotation)
	if !ok || before <= 0 {
		before = d.Status.Replicas
	}
	if before <= 0 {
		return 0
	}
	part := float64(size(rs)) * float64(replicas(d)+surge) / float64(before)
	return int32(math.Round(part)) - size(rs)
}

// activeOrLatest returns the only set with pods, or the newest if none has
// any, or nil if several have.
func activeOrLatest(fresh *appsv1.ReplicaSet, old, live []*appsv1.ReplicaSet) *appsv1.ReplicaSet {
	switch {
	case len(live) > 1:
		return nil
	case len(live) == 1:
		return live[0]
	case fresh != nil:
		return fresh
	case len(old) > 0:
		return byAge(old)[len(old)-1]
	}
	return nil
}

// saturated tells whether the new set has everything it should.
func saturated(d *appsv1.Deployment, rs *appsv1.ReplicaSet) bool {
	n, ok := number(rs, desiredAnnotation)
	want := replicas(d)
	return ok && n == want && size(rs) == want && rs.Status.AvailableReplicas == want
}
