package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// TLS says whom a client trusts and who it is. All values are PEM.
type TLS struct {
	// CA is who may vouch for the server; empty trusts the system's roots.
	CA []byte
	// Cert and Key are the client's certificate, or empty.
	Cert, Key []byte
	// GetCert, if set, is asked for the certificate at each connection
	// instead of Cert and Key: for certificates that are renewed.
	GetCert func() (*tls.Certificate, error)
	// ServerName is the name to verify instead of the host of the URL.
	ServerName string
	// Insecure accepts any server. It is for kubeconfig files that say so.
	Insecure bool
}

var errBadCA = errors.New("no certificate in PEM")

// NewTransport returns a transport over TLS 1.2 or later and HTTP/2. It finds
// out within a minute when the server is gone without a word.
func NewTransport(t TLS) (*http.Transport, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName, InsecureSkipVerify: t.Insecure} //nolint:gosec // only if asked for
	if len(t.CA) > 0 {
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(t.CA) {
			return nil, fmt.Errorf("server CA: %w", errBadCA)
		}
	}
	switch {
	case t.GetCert != nil:
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return t.GetCert() }
	case len(t.Cert) > 0 || len(t.Key) > 0:
		pair, err := tls.X509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("client certificate: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:     cfg,
		TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 25,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  true,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	}, nil
}
