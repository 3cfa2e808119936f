package watchcache

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/proa-project/proa/storage"
)

// Config configures a Cache.
type Config struct {
	// Store is where the items are. It must be set; the Cache closes it.
	Store storage.Store
	// Prefix is what is cached, with a trailing slash. "" means "/registry/".
	Prefix string

	// Decorate returns a copy of value that carries revision. What value
	// carries already is replaced. nil means that values stay as they are.
	Decorate func(value []byte, revision int64) []byte
	// Extract returns what readers select by, from a value as it is in
	// Store. An item for which it fails is served without fields. nil means
	// that no item has any.
	Extract func(key string, value []byte) (storage.Fields, error)

	// RingSize is how many recent events are kept of each resource. 0 means
	// 8,192.
	RingSize int
	// RingBytes is how many bytes of values these may have; one event is
	// kept in any case. 0 means 16 MiB.
	RingBytes int
	// FreshWait is how long a fresh read waits for the cache to catch up
	// before it goes to Store. 0 means 1 second.
	FreshWait time.Duration

	// Log takes what an operator should know. The zero value drops it.
	Log zerolog.Logger
	// Metrics is where the cache registers its metrics; nil is nowhere.
	Metrics prometheus.Registerer
}

func (c Config) withDefaults() (Config, error) {
	if c.Store == nil {
		return c, errors.New("a watch cache needs a store")
	}
	if c.Prefix == "" {
		c.Prefix = "/registry/"
	}
	if c.Prefix[len(c.Prefix)-1] != '/' {
		return c, errors.New("the prefix of a watch cache must end with a slash")
	}
	if c.RingSize < 0 || c.RingBytes < 0 || c.FreshWait < 0 {
		return c, errors.New("negative size or time in the configuration of a watch cache")
	}
	if c.RingSize == 0 {
		c.RingSize = 8192
	}
	if c.RingBytes == 0 {
		c.RingBytes = 16 << 20
	}
	if c.FreshWait == 0 {
		c.FreshWait = time.Second
	}
	return c, nil
}
