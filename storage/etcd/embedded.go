package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"golang.org/x/sys/unix"

	"github.com/proa-project/proa/storage"
)

const (
	// One member elects itself after one to five ticks, five being the least
	// that etcd allows for an election: short ticks start fast. Each wakes an
	// idle process, though: 10 ms cost a hundredth of a processor.
	tickMilliseconds     = 20
	electionMilliseconds = 5 * tickMilliseconds
	// snapshotEntries is how many log entries a restart may have to replay.
	snapshotEntries = 5000
	// catchUpEntries is how many entries stay in memory for followers, of
	// which there are none.
	catchUpEntries = 100
	// oldFiles is how many old snapshots and log segments stay on disk; a
	// restart reads them.
	oldFiles = 2
	// startTimeout is how long the member may take to elect itself.
	startTimeout = 30 * time.Second
)

// Embedded is a Store in an etcd server inside this process.
type Embedded struct {
	*Store
	server *embed.Etcd
	lock   *os.File
	repair chan struct{}
	once   sync.Once
	err    error // of Close
}

// Start runs an etcd server on Config.DataDir and returns when it serves. It
// fails if another process uses the directory.
func Start(ctx context.Context, config Config) (*Embedded, error) {
	if err := config.check(true); err != nil {
		return nil, err
	}
	if config.PageSize == 0 {
		config.PageSize = maxPage // no message goes over a wire, and etcd counts the rest for every page
	}
	config = config.withDefaults()
	if err := os.MkdirAll(config.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("make etcd's data directory: %w", err)
	}
	if err := os.Chmod(config.DataDir, 0o700); err != nil { //nolint:gosec // a directory needs its x bit
		return nil, fmt.Errorf("protect etcd's data directory: %w", err)
	}
	lock, err := lockDir(config.DataDir)
	if err != nil {
		return nil, err
	}
	e := &Embedded{lock: lock, repair: make(chan struct{}, 1)}
	if err := e.start(ctx, config); err != nil {
		return nil, errors.Join(err, e.stop())
	}
	return e, nil
}

// start fills in e.
func (e *Embedded) start(ctx context.Context, config Config) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err := checkDatabase(config.DataDir)
	if err != nil {
		return err
	}
	if e.server, err = startServer(serverConfig(config)); err != nil {
		return fmt.Errorf("start etcd in %q: %w", config.DataDir, err)
	}
	select {
	case <-e.server.Server.ReadyNotify():
	case <-e.server.Server.StopNotify():
		return fmt.Errorf("start etcd in %q: it stopped at once", config.DataDir)
	case <-ctx.Done():
		return fmt.Errorf("start etcd in %q: it has not come up: %w", config.DataDir, ctx.Err())
	}
	store, err := newStore(config, v3client.New(e.server.Server))
	if err != nil {
		return err
	}
	e.Store = store
	e.local = e.server.Server.KV()
	e.learn(e.local.Rev())
	e.exhausted = e.requestRepair
	if config.MinFreeBytes > 0 {
		guard := &diskGuard{dir: config.DataDir, least: uint64(config.MinFreeBytes), log: config.Log}
		guard.free.Store(guard.least) // until it is known
		e.admit = guard.admit
	}
	if err := e.registerSize(); err != nil {
		return err
	}
	e.begin()
	e.running.Go(e.repairQuota)
	return nil
}

// startServer starts etcd, and makes an error of its panic about a log that it
// does not understand.
func startServer(config *embed.Config) (server *embed.Etcd, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			server, err = nil, fmt.Errorf("its files are damaged: etcd panicked: %v", reason)
		}
	}()
	return embed.StartEtcd(config)
}

// serverConfig returns a server without any listener. The URLs are names that
// etcd wants a member to have; nothing listens or connects there.
func serverConfig(config Config) *embed.Config {
	c := embed.NewConfig()
	nowhere := url.URL{Scheme: "http", Host: "localhost:0"}
	c.Name = "proa"
	c.Dir = config.DataDir
	c.ListenPeerUrls, c.ListenClientUrls = nil, nil
	c.AdvertisePeerUrls, c.AdvertiseClientUrls = []url.URL{nowhere}, []url.URL{nowhere}
	c.InitialCluster = c.Name + "=" + nowhere.String()
	c.TickMs, c.ElectionMs = tickMilliseconds, electionMilliseconds
	c.SnapshotCount, c.SnapshotCatchUpEntries = snapshotEntries, catchUpEntries
	c.MaxSnapFiles, c.MaxWalFiles = oldFiles, oldFiles
	c.QuotaBackendBytes = config.QuotaBytes
	c.MaxRequestBytes = maxRequestBytes
	c.UnsafeNoFsync = config.NoSync
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zapLogger(config.Log))
	return c
}

// checkDatabase finds out whether the database can be opened, if there is one:
// etcd would panic.
func checkDatabase(dir string) error {
	path := filepath.Join(dir, "member", "snap", "db")
	if _, err := os.Stat(path); err != nil {
		return nil //nolint:nilerr // etcd makes one
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		return fmt.Errorf("open etcd's database %q: %w", path, err)
	}
	return nil
}

// lockDir keeps a second process out of a data directory. etcd has locks, but
// waits for them for ever.
func lockDir(dir string) (*os.File, error) {
	path := filepath.Join(dir, "lock")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) // in the directory that the caller named
	if err != nil {
		return nil, fmt.Errorf("lock etcd's data directory: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = errors.New("another process uses it")
		}
		return nil, errors.Join(fmt.Errorf("lock etcd's data directory %q: %w", dir, err), f.Close())
	}
	return f, nil
}

// Close implements storage.Store.
func (e *Embedded) Close() error {
	e.once.Do(func() { e.err = e.stop() })
	return e.err
}

// stop ends what start has begun.
func (e *Embedded) stop() error {
	var err error
	if e.Store != nil {
		err = e.Store.Close()
	}
	if e.server != nil {
		e.server.Close()
	}
	return errors.Join(err, e.lock.Close())
}

var _ storage.Store = (*Embedded)(nil)
