package etcd

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// leaseItems is how many items share a lease at most: etcd removes them
	// at one stroke.
	leaseItems = 1000
	// leaseSpread bounds for how long a lease is handed out.
	leaseSpread = time.Minute
)

// leases hands out leases that many items share: items with the same time to
// live that are written within a twentieth of it, or a minute, end together.
type leases struct {
	grant func(ctx context.Context, seconds int64) (clientv3.LeaseID, error)

	mu   sync.Mutex // guards open; held while a lease is granted
	open map[time.Duration]*sharedLease
}

// sharedLease is a lease that still takes items.
type sharedLease struct {
	id    clientv3.LeaseID
	until time.Time // when it stops to take items
	left  int       // how many it still takes
}

// get returns a lease that lives for at least ttl from now.
func (l *leases) get(ctx context.Context, ttl time.Duration) (clientv3.LeaseID, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if lease := l.open[ttl]; lease != nil && lease.left > 0 && now.Before(lease.until) {
		lease.left--
		return lease.id, nil
	}
	spread := min(ttl/20, leaseSpread)
	seconds := int64((ttl + spread + time.Second - 1) / time.Second)
	id, err := l.grant(ctx, seconds)
	if err != nil {
		return 0, err
	}
	if l.open == nil {
		l.open = map[time.Duration]*sharedLease{}
	}
	for other, lease := range l.open {
		if !now.Before(lease.until) {
			delete(l.open, other)
		}
	}
	l.open[ttl] = &sharedLease{id: id, until: now.Add(spread), left: leaseItems - 1}
	return id, nil
}

// grant asks etcd for a lease.
func (s *Store) grant(ctx context.Context, seconds int64) (clientv3.LeaseID, error) {
	if s.admit != nil {
		if err := s.admit(); err != nil {
			return 0, err
		}
	}
	done := s.metrics.start("lease")
	limited, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	response, err := s.client.Grant(limited, seconds)
	done(err)
	if err != nil {
		return 0, err
	}
	return response.ID, nil
}
