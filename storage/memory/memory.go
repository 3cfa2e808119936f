// Package memory is a Store that lives in the process and is gone with it:
// the plain model that other Stores are compared with, and the Store of tests.
package memory

import (
	"context"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/proa-project/proa/storage"
)

// futureWait is how long a NotOlderThan read waits for its revision.
const futureWait = 3 * time.Second

// Config configures a Store. The zero value is ready to use.
type Config struct {
	// History is how many changes are remembered before the oldest are
	// compacted. 0 means 100,000.
	History int
}

// A Store keeps everything in memory, with its history.
//
// The versions of a key are in ascending order of revision; the log holds the
// same changes of all keys. Revisions below compacted cannot be read, changes
// below compacted cannot be watched.
type Store struct {
	history int

	mu        sync.RWMutex // guards the fields below
	closed    bool
	revision  int64
	compacted int64
	keys      []string // sorted; every key that has versions
	versions  map[string][]version
	log       []storage.Event
	dropped   int64         // revision of the newest event that left the log
	changed   chan struct{} // closed and replaced at every change
	timers    map[string]*time.Timer

	expiries sync.WaitGroup // armed timers and running expiries
}

// version is one state of a key; item is nil when the key was removed.
type version struct {
	revision int64
	item     *storage.Item
}

// New returns an empty Store at revision 1.
func New(c Config) storage.Store {
	if c.History == 0 {
		c.History = 100_000
	}
	return &Store{
		history:  c.History,
		revision: 1,
		versions: map[string][]version{},
		changed:  make(chan struct{}),
		timers:   map[string]*time.Timer{},
	}
}

// Get implements storage.Reader.
func (s *Store) Get(ctx context.Context, key string, opts storage.GetOptions) (storage.Item, error) {
	if err := s.reach(ctx, opts.Match, opts.Revision); err != nil {
		return storage.Item{}, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	revision, err := s.readable(opts.Match, opts.Revision)
	if err != nil {
		return storage.Item{}, err
	}
	item := s.at(key, revision)
	if item == nil {
		return storage.Item{}, storage.ErrNotFound
	}
	return *item, nil
}

// List implements storage.Reader.
func (s *Store) List(ctx context.Context, prefix string, opts storage.ListOptions) (storage.List, error) {
	if err := s.reach(ctx, opts.Match, opts.Revision); err != nil {
		return storage.List{}, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	revision, err := s.readable(opts.Match, opts.Revision)
	if err != nil {
		return storage.List{}, err
	}
	list := storage.List{Revision: revision, Remaining: -1}
	following := int64(0)
	for i := sort.SearchStrings(s.keys, max(prefix, opts.After)); i < len(s.keys); i++ {
		key := s.keys[i]
		if !strings.HasPrefix(key, prefix) {
			break
		}
		item := s.at(key, revision)
		if key <= opts.After || item == nil || opts.Filter != nil && !opts.Filter(item) {
			continue
		}
		if opts.Limit > 0 && len(list.Items) == opts.Limit {
			list.More = true
			following++
			if opts.Filter != nil {
				break
			}
			continue
		}
		list.Items = append(list.Items, *item)
	}
	if list.More && opts.Filter == nil {
		list.Remaining = following
	}
	return list, nil
}

// Current implements storage.Store.
func (s *Store) Current(ctx context.Context) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return 0, storage.ErrClosed
	}
	return s.revision, nil
}

// Create implements storage.Writer.
func (s *Store) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, storage.ErrClosed
	}
	if s.at(key, s.revision) != nil {
		return 0, storage.ErrExists
	}
	return s.put(key, value, ttl), nil
}

// Update implements storage.Writer.
func (s *Store) Update(ctx context.Context, key string, value []byte, expected int64, ttl time.Duration) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.expect(key, expected); err != nil {
		return 0, err
	}
	return s.put(key, value, ttl), nil
}

// Delete implements storage.Writer.
func (s *Store) Delete(ctx context.Context, key string, expected int64) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.expect(key, expected); err != nil {
		return 0, err
	}
	return s.remove(key), nil
}

// Compact implements storage.Store.
func (s *Store) Compact(ctx context.Context, revision int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return storage.ErrClosed
	case revision > s.revision:
		return &storage.RevisionError{Requested: revision, Limit: s.revision, Err: storage.ErrFutureRevision}
	case revision > s.compacted:
		s.compact(revision)
	}
	return nil
}

// Close implements storage.Store.
func (s *Store) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		for key := range s.timers {
			s.disarm(key)
		}
		close(s.changed)
	}
	s.mu.Unlock()
	s.expiries.Wait()
	return nil
}

// reach waits until a NotOlderThan revision is there.
func (s *Store) reach(ctx context.Context, match storage.Match, revision int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if match != storage.NotOlderThan {
		return nil
	}
	var timeout <-chan time.Time
	for {
		s.mu.RLock()
		current, changed, closed := s.revision, s.changed, s.closed
		s.mu.RUnlock()
		if closed || current >= revision {
			return nil
		}
		if timeout == nil {
			timer := time.NewTimer(futureWait)
			defer timer.Stop()
			timeout = timer.C
		}
		select {
		case <-changed:
		case <-timeout:
			return &storage.RevisionError{Requested: revision, Limit: current, Err: storage.ErrFutureRevision}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// readable returns the revision to read at. It needs mu.
func (s *Store) readable(match storage.Match, revision int64) (int64, error) {
	switch {
	case s.closed:
		return 0, storage.ErrClosed
	case match != storage.Exact:
		return s.revision, nil
	case revision > s.revision:
		return 0, &storage.RevisionError{Requested: revision, Limit: s.revision, Err: storage.ErrFutureRevision}
	case revision < max(s.compacted, 1):
		return 0, &storage.RevisionError{Requested: revision, Limit: s.compacted, Err: storage.ErrCompacted}
	}
	return revision, nil
}

// at returns the item as of revision, or nil. It needs mu.
func (s *Store) at(key string, revision int64) *storage.Item {
	versions := s.versions[key]
	for _, v := range slices.Backward(versions) {
		if v.revision <= revision {
			return v.item
		}
	}
	return nil
}

// expect returns the error of a write that expects a revision. It needs mu.
func (s *Store) expect(key string, expected int64) error {
	if s.closed {
		return storage.ErrClosed
	}
	item := s.at(key, s.revision)
	if item == nil {
		return storage.ErrNotFound
	}
	if item.Revision != expected {
		return &storage.ConflictError{Current: *item}
	}
	return nil
}
