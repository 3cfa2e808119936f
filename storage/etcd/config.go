package etcd

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Config configures a store. The fields without a default must be set where
// their group is used.
type Config struct {
	// DataDir is the directory of the server in the process; it is created
	// with mode 0700. For Start.
	DataDir string
	// QuotaBytes bounds the database of the server in the process. 0 means
	// 8 GiB. For Start.
	QuotaBytes int64
	// MinFreeBytes is how much space the file system of DataDir must have
	// left for writes to be accepted. 0 means 128 MiB, which is what etcd may
	// need for its next log segment and for growing its database; less than 0
	// turns the check off. For Start.
	MinFreeBytes int64
	// NoSync leaves out flushing to disk: a crash of the machine loses data.
	// For tests of other things.
	NoSync bool

	// Endpoints are the URLs of the cluster's members. For Dial.
	Endpoints []string
	// CAFile, CertFile and KeyFile are PEM files: whom to trust, and who we
	// are. All empty means no TLS. For Dial.
	CAFile, CertFile, KeyFile string

	// Compaction is how much history is kept at least. 0 means 5 minutes;
	// less than 0 leaves compaction to others.
	Compaction time.Duration
	// Timeout is how long one request may take before it fails with
	// ErrUnavailable. 0 means 3 seconds.
	Timeout time.Duration
	// PageSize is how many items are fetched at once. 0 means 10,000 for
	// Start and 1,000 for Dial.
	PageSize int

	// Log takes warnings and errors of etcd. The zero value drops them.
	Log zerolog.Logger
	// Metrics is where the store registers its metrics; nil is nowhere.
	Metrics prometheus.Registerer
}

// maxRequestBytes is the largest write: the 3 MiB that a request to the API
// may have, and what defaulting and encoding add to it.
const maxRequestBytes = 4 << 20

func (c Config) withDefaults() Config {
	if c.QuotaBytes == 0 {
		c.QuotaBytes = 8 << 30
	}
	if c.MinFreeBytes == 0 {
		c.MinFreeBytes = 128 << 20
	}
	if c.Compaction == 0 {
		c.Compaction = 5 * time.Minute
	}
	if c.Timeout == 0 {
		c.Timeout = 3 * time.Second
	}
	if c.PageSize == 0 {
		c.PageSize = 1000
	}
	return c
}

// check finds what makes no sense.
func (c Config) check(embedded bool) error {
	switch {
	case embedded && c.DataDir == "":
		return errors.New("no data directory for etcd")
	case embedded && len(c.Endpoints) > 0:
		return errors.New("endpoints of an etcd cluster given for the server in the process")
	case !embedded && len(c.Endpoints) == 0:
		return errors.New("no endpoints of an etcd cluster")
	case (c.CertFile == "") != (c.KeyFile == ""):
		return errors.New("an etcd client certificate needs both its file and its key's")
	case c.PageSize < 0 || c.Timeout < 0 || c.QuotaBytes < 0:
		return errors.New("negative size or time in the configuration of etcd")
	}
	return nil
}
