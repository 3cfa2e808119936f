package etcd

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestLeases checks when items share a lease.
func TestLeases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var granted []int64
		var fault error
		l := leases{grant: func(_ context.Context, seconds int64) (clientv3.LeaseID, error) {
			if fault != nil {
				return 0, fault
			}
			granted = append(granted, seconds)
			return clientv3.LeaseID(len(granted)), nil
		}}
		get := func(ttl time.Duration, want clientv3.LeaseID) {
			t.Helper()
			id, err := l.get(t.Context(), ttl)
			if err != nil || id != want {
				t.Errorf("lease %d, error %v; want %d", id, err, want)
			}
		}
		get(time.Hour, 1)
		get(time.Hour, 1)
		get(time.Minute, 2)
		get(time.Hour, 1)
		<-time.After(59 * time.Second)
		get(time.Hour, 1)
		get(time.Minute, 3) // a twentieth of a minute is over
		<-time.After(time.Second)
		get(time.Hour, 4)
		for range leaseItems - 1 {
			get(time.Hour, 4)
		}
		get(time.Hour, 5) // the fourth is full
		<-time.After(time.Minute)
		get(time.Second, 6)
		for i, want := range []int64{3660, 63, 63, 3660, 3660, 2} {
			if granted[i] != want {
				t.Errorf("lease %d lives for %d s, want %d", i+1, granted[i], want)
			}
		}
		fault = errors.New("no")
		if _, err := l.get(t.Context(), 2*time.Second); !errors.Is(err, fault) {
			t.Errorf("error %v", err)
		}
		if n := len(l.open); n != 1 {
			t.Errorf("%d leases are remembered, want 1: the others take no more items", n)
		}
	})
}
