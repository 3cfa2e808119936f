package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"golang.org/x/sys/unix"

	"github.com/proa-project/proa/storage"
)

const (
	// spaceEvery is how long an answer about free space is believed.
	spaceEvery = int64(200 * time.Millisecond)
	// repairEvery is how often a full database is tried to be repaired.
	repairEvery = 2 * time.Second
	// repairTimeout bounds one attempt; defragmenting copies the database.
	repairTimeout = 5 * time.Minute
)

// diskGuard refuses writes when the disk is nearly full: a failing write to
// its log is the end of etcd.
type diskGuard struct {
	dir   string
	least uint64 // bytes
	log   zerolog.Logger

	checked atomic.Int64 // when free was found out, in nanoseconds
	free    atomic.Uint64
}

// admit returns ErrUnavailable if there is not enough space.
func (g *diskGuard) admit() error {
	now := time.Now().UnixNano()
	if checked := g.checked.Load(); now-checked > spaceEvery && g.checked.CompareAndSwap(checked, now) {
		g.measure()
	}
	if free := g.free.Load(); free < g.least {
		return fmt.Errorf("%w: the disk of etcd's data directory has %d MiB left, %d MiB are needed",
			storage.ErrUnavailable, free>>20, g.least>>20)
	}
	return nil
}

// measure finds out how much space is free.
func (g *diskGuard) measure() {
	free := g.least // not known is no reason to refuse
	var stat unix.Statfs_t
	if err := unix.Statfs(g.dir, &stat); err == nil {
		free = stat.Bavail * uint64(stat.Bsize) //nolint:gosec // a block size is positive
	}
	switch before := g.free.Swap(free); {
	case free < g.least && before >= g.least:
		g.log.Error().Uint64("free_bytes", free).Uint64("needed_bytes", g.least).Msg("disk of etcd is nearly full: writes are refused")
	case free >= g.least && before < g.least:
		g.log.Warn().Uint64("free_bytes", free).Msg("disk of etcd has space again")
	}
}

// requestRepair wakes repairQuota.
func (e *Embedded) requestRepair() {
	select {
	case e.repair <- struct{}{}:
	default:
	}
}

// repairQuota lifts the alarm of a full database once enough of it is free.
func (e *Embedded) repairQuota() {
	for {
		select {
		case <-e.repair:
		case <-e.ctx.Done():
			return
		}
		e.config.Log.Error().Int64("quota_bytes", e.config.QuotaBytes).Msg("etcd's database is full: only deletes are possible")
		if !e.repairUntilDone() {
			return
		}
		e.config.Log.Warn().Msg("etcd's database has space again")
	}
}

// repairUntilDone returns false if the store closes before.
func (e *Embedded) repairUntilDone() bool {
	tick := time.NewTicker(repairEvery)
	defer tick.Stop()
	for {
		err := e.repairOnce()
		if err == nil {
			return true
		}
		if e.ctx.Err() == nil && !errors.Is(err, errStillFull) {
			e.config.Log.Warn().Err(err).Msg("etcd's database could not be repaired")
		}
		select {
		case <-tick.C:
		case <-e.ctx.Done():
			return false
		}
	}
}

var errStillFull = errors.New("the database is still full")

// repairOnce gives up history, then the unused pages, then lifts the alarm.
func (e *Embedded) repairOnce() error {
	ctx, cancel := context.WithTimeout(e.ctx, repairTimeout)
	defer cancel()
	if err := e.Compact(ctx, e.local.Rev()); err != nil {
		return err
	}
	db := e.server.Server.Backend()
	settle(db)
	if limit := e.config.QuotaBytes / 10 * 9; db.SizeInUse() > limit {
		return errStillFull
	}
	if err := db.Defrag(); err != nil {
		return fmt.Errorf("defragment etcd's database: %w", err)
	}
	alarms, err := e.client.AlarmList(ctx)
	if err != nil {
		return fmt.Errorf("list etcd's alarms: %w", err)
	}
	for _, alarm := range alarms.Alarms {
		if alarm.Alarm != pb.AlarmType_NOSPACE {
			continue
		}
		if _, err := e.client.AlarmDisarm(ctx, (*clientv3.AlarmMember)(alarm)); err != nil {
			return fmt.Errorf("lift etcd's alarm: %w", err)
		}
	}
	return nil
}

// settle has the size in use tell of everything that was deleted. bbolt counts
// a page as free a commit after the last reader of it has gone, and in a full
// database nobody writes: so it writes twice what is there already.
func settle(b backend.Backend) {
	for range 2 {
		tx := b.BatchTx()
		tx.LockOutsideApply()
		if revision, ok := mvcc.UnsafeReadFinishedCompact(tx); ok {
			mvcc.UnsafeSetFinishedCompact(tx, revision)
		}
		tx.Unlock()
		b.ForceCommit()
	}
}

// registerSize adds the size of the database to the metrics.
func (e *Embedded) registerSize() error {
	if e.metrics == nil {
		return nil
	}
	backend := e.server.Server.Backend()
	return e.metrics.register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "apiserver_storage_size_bytes",
		Help: "Size of the storage database file.",
	}, func() float64 { return float64(backend.Size()) }))
}
