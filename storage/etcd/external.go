package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Dial returns a store in the cluster at Config.Endpoints. It returns
// ErrUnavailable if no member answers. The cluster decides how large a value
// may be.
func Dial(ctx context.Context, config Config) (*Store, error) {
	if err := config.check(false); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	secure, err := tlsConfig(config)
	if err != nil {
		return nil, err
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            config.Endpoints,
		TLS:                  secure,
		DialTimeout:          config.Timeout,
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 3 * time.Second,
		MaxCallSendMsgSize:   4 * maxRequestBytes,
		Logger:               zapLogger(config.Log),
	})
	if err != nil {
		return nil, fmt.Errorf("connect to etcd: %w", err)
	}
	s, err := newStore(config, client)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	if _, err := s.Current(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("connect to etcd at %q: %w", config.Endpoints, err), s.Close())
	}
	s.begin()
	return s, nil
}

// tlsConfig returns nil if no file is named.
func tlsConfig(config Config) (*tls.Config, error) {
	if config.CAFile == "" && config.CertFile == "" {
		return nil, nil //nolint:nilnil // no TLS is meant
	}
	info := transport.TLSInfo{TrustedCAFile: config.CAFile, CertFile: config.CertFile, KeyFile: config.KeyFile}
	secure, err := info.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read the certificates for etcd: %w", err)
	}
	return secure, nil
}

// closeClient closes a client; that its context has ended is what is wanted.
func closeClient(client *clientv3.Client) error {
	if err := client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("close the connection to etcd: %w", err)
	}
	return nil
}
