package election

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

func TestSighting(t *testing.T) {
	const d = 15 * time.Second
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	// The holder's clock is hours behind, which does not matter.
	theirs := claim(&coordinationv1.Lease{}, "them", d, now.Add(-3*time.Hour))
	s := sighting{}.see(theirs, now)
	if s.free("me", theirs, d, now.Add(d)) {
		t.Error("free before its time is over")
	}
	s = s.see(theirs, now.Add(14*time.Second)) // the same lease
	if !s.free("me", theirs, d, now.Add(d+time.Millisecond)) {
		t.Error("not free though its holder is silent")
	}
	renewed := claim(theirs, "them", d, now.Add(-2*time.Hour))
	s = s.see(renewed, now.Add(14*time.Second))
	if s.free("me", renewed, d, now.Add(20*time.Second)) {
		t.Error("free though it was renewed")
	}
	if !s.free("them", renewed, d, now) {
		t.Error("its holder may not renew it")
	}
	if renewed.Spec.LeaseTransitions == nil || *renewed.Spec.LeaseTransitions != 0 || !renewed.Spec.AcquireTime.Equal(theirs.Spec.AcquireTime) {
		t.Errorf("renewing counts as taking: %+v", renewed.Spec)
	}
	mine := claim(renewed, "me", d, now)
	if *mine.Spec.HolderIdentity != "me" || *mine.Spec.LeaseTransitions != 1 || *mine.Spec.LeaseDurationSeconds != 15 {
		t.Errorf("taken: %+v", mine.Spec)
	}
	released := mine.DeepCopy()
	released.Spec.HolderIdentity = new(string)
	if s = s.see(released, now); !s.free("them", released, d, now) {
		t.Error("not free though it was given back")
	}
	long := int32(60)
	theirs.Spec.LeaseDurationSeconds = &long
	s = sighting{}.see(theirs, now)
	if s.free("me", theirs, d, now.Add(30*time.Second)) {
		t.Error("the holder's own duration does not count")
	}
}
