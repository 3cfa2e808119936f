package controlplane

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/storage/etcd"
	"github.com/proa-project/proa/storage/watchcache"
)

// registryPrefix is where all kinds are kept.
const registryPrefix = "/registry/"

// openStore opens etcd, embedded or external, and puts the watch cache in
// front of it.
func openStore(ctx context.Context, config Config, metrics prometheus.Registerer) (storage.Store, error) {
	c := etcd.Config{
		DataDir:   filepath.Join(config.DataDir, "etcd"),
		Endpoints: config.Etcd.Endpoints,
		CAFile:    config.Etcd.CAFile,
		CertFile:  config.Etcd.CertFile,
		KeyFile:   config.Etcd.KeyFile,
		Log:       component(config.Log, "etcd"),
		Metrics:   metrics,
	}
	inner, err := openEtcd(ctx, c)
	if err != nil {
		return nil, err
	}
	extract := newExtractor(api.Resources())
	cache, err := watchcache.New(ctx, watchcache.Config{
		Store:    inner,
		Prefix:   registryPrefix,
		Decorate: api.SetRevision,
		Extract:  extract.fields,
		Log:      component(config.Log, "watchcache"),
		Metrics:  metrics,
	})
	if err != nil {
		return nil, errors.Join(err, inner.Close())
	}
	return cache, nil
}

// openEtcd starts etcd in this process, or connects to a cluster if there are
// endpoints.
func openEtcd(ctx context.Context, c etcd.Config) (storage.Store, error) {
	if len(c.Endpoints) > 0 {
		return etcd.Dial(ctx, c)
	}
	return etcd.Start(ctx, c)
}

// An extractor finds the kind that a key belongs to.
type extractor map[string]*api.Resource

func newExtractor(resources []*api.Resource) extractor {
	e := extractor{}
	for _, r := range resources {
		if r.StoredAs == nil {
			e[r.Storage] = r
		}
	}
	return e
}

// fields extracts what readers select by. Of kinds that are not in the table,
// such as those that users define, these are the labels.
func (e extractor) fields(key string, value []byte) (storage.Fields, error) {
	for end := len(registryPrefix); ; {
		i := strings.IndexByte(key[end:], '/')
		if i < 0 {
			labels, _ := api.Labels(value) // what is no object has none
			return storage.Fields{Labels: labels}, nil
		}
		end += i + 1
		if r := e[key[:end]]; r != nil {
			labels, fields, err := r.Extract(value)
			return storage.Fields{Labels: labels, Fields: fields}, err
		}
	}
}
