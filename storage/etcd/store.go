package etcd

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/proa-project/proa/storage"
)

// A Store keeps items in etcd.
type Store struct {
	config  Config
	client  *clientv3.Client
	leases  leases
	metrics *metrics

	// local, when etcd runs in this process, tells what it has applied. It
	// waits for commits to disk, and so is not for the common way.
	local applied
	// known is the highest revision that a write was acknowledged with or
	// that was seen, while etcd runs in this process: all writes are ours.
	known atomic.Int64
	// admit, if set, refuses writes that etcd could not take now.
	admit func() error
	// exhausted, if set, is told that etcd is out of space.
	exhausted func()

	// outage is true from a request that etcd gave no answer to until the next
	// that it does.
	outage atomic.Bool

	// ctx ends when the store closes.
	ctx     context.Context //nolint:containedctx // the life of the store
	cancel  context.CancelFunc
	running sync.WaitGroup // goroutines and watchers of the store
	once    sync.Once
	err     error // of Close
}

// applied is what the store asks an etcd in this process directly.
type applied interface {
	Rev() int64
	FirstRev() int64
}

var _ storage.Store = (*Store)(nil)

// newStore returns a store on a client, which it will close.
func newStore(config Config, client *clientv3.Client) (*Store, error) {
	s := &Store{config: config, client: client}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.leases = leases{grant: s.grant}
	var err error
	if s.metrics, err = newMetrics(config.Metrics); err != nil {
		s.cancel()
		return nil, err
	}
	return s, nil
}

// begin starts what the store does by itself, when its fields are filled in.
func (s *Store) begin() {
	if s.config.Compaction > 0 {
		s.running.Go(s.compactRegularly)
	}
}

// Create implements storage.Writer.
func (s *Store) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (int64, error) {
	put, err := s.put(ctx, key, value, ttl)
	if err != nil {
		return 0, err
	}
	absent := clientv3.Compare(clientv3.ModRevision(key), "=", 0)
	response, err := s.txn(ctx, "create", absent, put, nil)
	switch {
	case err != nil:
		return 0, err
	case !response.Succeeded:
		return 0, storage.ErrExists
	}
	return response.Header.Revision, nil
}

// Update implements storage.Writer.
func (s *Store) Update(ctx context.Context, key string, value []byte, expected int64, ttl time.Duration) (int64, error) {
	put, err := s.put(ctx, key, value, ttl)
	if err != nil {
		return 0, err
	}
	return s.swap(ctx, "update", key, expected, put)
}

// Delete implements storage.Writer.
func (s *Store) Delete(ctx context.Context, key string, expected int64) (int64, error) {
	return s.swap(ctx, "delete", key, expected, clientv3.OpDelete(key))
}

// put returns the operation that writes key.
func (s *Store) put(ctx context.Context, key string, value []byte, ttl time.Duration) (clientv3.Op, error) {
	if ttl <= 0 {
		return clientv3.OpPut(key, string(value)), nil
	}
	if err := s.usable(ctx); err != nil {
		return clientv3.Op{}, err
	}
	lease, err := s.leases.get(ctx, ttl)
	if err != nil {
		return clientv3.Op{}, s.explain(ctx, "lease", "", 0, err)
	}
	return clientv3.OpPut(key, string(value), clientv3.WithLease(lease)), nil
}

// swap carries out op if key is at the expected revision.
func (s *Store) swap(ctx context.Context, operation, key string, expected int64, op clientv3.Op) (int64, error) {
	if expected <= 0 {
		expected = -1 // 0 would mean that key is absent
	}
	same := clientv3.Compare(clientv3.ModRevision(key), "=", expected)
	response, err := s.txn(ctx, operation, same, op, []clientv3.Op{clientv3.OpGet(key)})
	switch {
	case err != nil:
		return 0, err
	case response.Succeeded:
		return response.Header.Revision, nil
	}
	kvs := response.Responses[0].GetResponseRange().Kvs
	if len(kvs) == 0 {
		return 0, storage.ErrNotFound
	}
	return 0, &storage.ConflictError{Current: item(kvs[0])}
}

// txn is the one way that a write takes.
func (s *Store) txn(ctx context.Context, operation string, condition clientv3.Cmp, then clientv3.Op, otherwise []clientv3.Op) (*clientv3.TxnResponse, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	if s.admit != nil {
		if err := s.admit(); err != nil {
			return nil, err
		}
	}
	done := s.metrics.start(operation)
	limited, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	response, err := s.client.Do(limited, clientv3.OpTxn([]clientv3.Cmp{condition}, []clientv3.Op{then}, otherwise))
	done(err)
	if err != nil {
		return nil, s.explain(ctx, operation, string(then.KeyBytes()), 0, err)
	}
	s.answered()
	s.learn(response.Txn().Header.Revision)
	return response.Txn(), nil
}

// learn raises known.
func (s *Store) learn(revision int64) {
	for known := s.known.Load(); revision > known; known = s.known.Load() {
		if s.known.CompareAndSwap(known, revision) {
			return
		}
	}
}

// usable returns why a call cannot begin.
func (s *Store) usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.ctx.Err() != nil {
		return storage.ErrClosed
	}
	return nil
}

// Close implements storage.Store.
func (s *Store) Close() error {
	s.once.Do(func() {
		s.cancel()
		s.running.Wait()
		s.err = closeClient(s.client)
		s.metrics.close()
	})
	return s.err
}
