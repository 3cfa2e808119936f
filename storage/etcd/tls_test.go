package etcd_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/storage/etcd"
)

// authority signs certificates for one test.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.issue(t, "ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// issue writes name.crt and name.key; the first is the authority's own.
func (a *authority) issue(t *testing.T, name string, cert *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert.SerialNumber = big.NewInt(time.Now().UnixNano())
	cert.Subject = pkix.Name{CommonName: name}
	cert.NotBefore, cert.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		a.cert, a.key = cert, key
		parent, signer = cert, key
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{
		a.file(name + ".crt"): {Type: "CERTIFICATE", Bytes: der},
		a.file(name + ".key"): {Type: "EC PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	a.issue(t, "server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: both})
	a.issue(t, "client", &x509.Certificate{ExtKeyUsage: both})
	m := newMember(t, "https", func(c *embed.Config) {
		c.ClientTLSInfo.CertFile, c.ClientTLSInfo.KeyFile = a.file("server.crt"), a.file("server.key")
		c.ClientTLSInfo.TrustedCAFile, c.ClientTLSInfo.ClientCertAuth = a.file("ca.crt"), true
	})
	config := etcd.Config{
		Endpoints: []string{m.url.String()}, Timeout: time.Second,
		CAFile: a.file("ca.crt"), CertFile: a.file("client.crt"), KeyFile: a.file("client.key"),
	}
	s := dial(t, config)
	if _, err := s.Create(t.Context(), "/registry/pods/a/x", []byte("v"), 0); err != nil {
		t.Error(err)
	}

	config.CertFile, config.KeyFile = "", ""
	if _, err := etcd.Dial(t.Context(), config); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("Dial without a client certificate: %v", err)
	}
	config.CAFile = newAuthority(t).file("ca.crt")
	if _, err := etcd.Dial(t.Context(), config); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("Dial with another authority: %v", err)
	}
}
