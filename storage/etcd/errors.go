package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/proa-project/proa/storage"
)

// explain turns an error of etcd into one of package storage. ctx is that of
// the caller. What is not known to be the caller's doing is ErrUnavailable:
// the outcome is open.
func (s *Store) explain(ctx context.Context, operation, key string, revision int64, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, rpctypes.ErrCompacted):
		return &storage.RevisionError{Requested: revision, Limit: s.oldest(), Err: storage.ErrCompacted}
	case errors.Is(err, rpctypes.ErrFutureRev):
		limit, currentErr := s.Current(ctx)
		if currentErr != nil {
			limit = 0
		}
		return &storage.RevisionError{Requested: revision, Limit: limit, Err: storage.ErrFutureRevision}
	case errors.Is(err, rpctypes.ErrRequestTooLarge), tooLongForWire(err):
		return fmt.Errorf("%s %q: %w", operation, key, storage.ErrTooLarge)
	case errors.Is(err, rpctypes.ErrNoSpace):
		if s.exhausted != nil {
			s.exhausted()
		}
		return fmt.Errorf("%s %q: %w: the quota of etcd's database is used up", operation, key, storage.ErrUnavailable)
	case errors.Is(err, context.DeadlineExceeded):
		s.silent(err)
		return fmt.Errorf("%s %q: %w: etcd gave no answer within %v", operation, key, storage.ErrUnavailable, s.config.Timeout)
	}
	s.silent(err)
	return fmt.Errorf("%s %q: %w: %w", operation, key, storage.ErrUnavailable, err)
}

// silent notes that etcd does not do what it should, and logs the first time.
func (s *Store) silent(err error) {
	if s.ctx.Err() == nil && !s.outage.Swap(true) {
		s.config.Log.Warn().Err(err).Msg("etcd gives no answers")
	}
}

// answered notes that etcd has given an answer, and logs the end of an outage.
func (s *Store) answered() {
	if s.outage.Load() && s.outage.Swap(false) {
		s.config.Log.Info().Msg("etcd gives answers again")
	}
}

// oldest returns the oldest revision that is left, or 0 if that is unknown.
func (s *Store) oldest() int64 {
	if s.local == nil {
		return 0
	}
	return max(s.local.FirstRev(), 0)
}

// tooLongForWire tells whether the transport refused a message for its length:
// what is longer than etcd's limit by some margin never reaches etcd, and comes
// back with the code of a server that is busy, to no end. Package rpctypes has
// no name for it.
func tooLongForWire(err error) bool {
	st, ok := status.FromError(err)
	return ok && st.Code() == codes.ResourceExhausted && strings.Contains(st.Message(), "larger than max")
}
