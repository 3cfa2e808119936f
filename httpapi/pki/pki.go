// Package pki is the certificate authority of a cluster: it makes and keeps
// the keys and certificates by which servers, nodes and users know each other.
//
// There are two roots. The cluster's own signs what the API server shows and
// what clients identify themselves with. The nodes' root signs what node
// agents serve; only the API server trusts it, so that whoever holds a join
// token can never obtain a certificate that passes for the API server.
package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// The lifetimes of what is signed.
const (
	rootLife = 10 * 365 * 24 * time.Hour
	leafLife = 365 * 24 * time.Hour
	// backdate lets clocks differ between machines.
	backdate = 5 * time.Minute
	// renewBefore is how long before its end a certificate is replaced.
	renewBefore = 60 * 24 * time.Hour
)

// The names of the files in the folder of an Authority.
const (
	caCertFile     = "ca.crt"
	caKeyFile      = "ca.key"
	nodeCACertFile = "node-ca.crt"
	nodeCAKeyFile  = "node-ca.key"
	servingFile    = "serving.pem"
	accountKeyFile = "service-account.key"
)

// ErrCorrupt is a folder whose files contradict each other or cannot be read.
var ErrCorrupt = errors.New("damaged certificate authority")

// Config says where an Authority lives.
type Config struct {
	// Dir holds the files. It is made, with mode 0700, if it is not there.
	Dir string
	// Now is the clock; the default is time.Now.
	Now func() time.Time
}

// An Authority signs certificates for one cluster. It is safe for use by
// several goroutines, and several processes may open the same folder.
type Authority struct {
	dir     string
	now     func() time.Time
	cluster *root
	nodes   *root
	account *ecdsa.PrivateKey
}

// A root is a self-signed certificate and its key.
type root struct {
	cert *x509.Certificate
	pem  []byte
	key  *ecdsa.PrivateKey
}

// Open reads the authority in the folder and makes what is missing. The error
// wraps ErrCorrupt if the files there are not usable.
func Open(cfg Config) (*Authority, error) {
	a := &Authority{dir: cfg.Dir, now: cfg.Now}
	if a.now == nil {
		a.now = time.Now
	}
	if a.dir == "" {
		return nil, errors.New("open certificate authority: no folder given")
	}
	if err := os.MkdirAll(a.dir, 0o700); err != nil {
		return nil, fmt.Errorf("open certificate authority: %w", err)
	}
	var err error
	if a.cluster, err = a.openRoot(caCertFile, caKeyFile, "proa-ca"); err != nil {
		return nil, err
	}
	if a.nodes, err = a.openRoot(nodeCACertFile, nodeCAKeyFile, "proa-node-ca"); err != nil {
		return nil, err
	}
	if a.account, err = a.openKey(accountKeyFile); err != nil {
		return nil, err
	}
	return a, nil
}

// exists reports whether there certainly is a file.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// openRoot makes the key first: a certificate that is missing beside a key,
// after a crash, is signed again by the same key, and a second process that
// comes at the same time finds the same key.
func (a *Authority) openRoot(certFile, keyFile, name string) (*root, error) {
	certPath := filepath.Join(a.dir, certFile)
	keyPath := filepath.Join(a.dir, keyFile)
	if !exists(keyPath) && exists(certPath) {
		// A second process may have made both between the two looks; the key
		// it has made first.
		if !exists(keyPath) {
			return nil, fmt.Errorf("%w: %s is there but its key %s is not", ErrCorrupt, certPath, keyFile)
		}
	}
	key, err := a.openKey(keyFile)
	if err != nil {
		return nil, err
	}
	certPEM, err := os.ReadFile(certPath)
	if errors.Is(err, os.ErrNotExist) {
		made, merr := a.selfSign(name, key)
		if merr != nil {
			return nil, merr
		}
		certPEM, err = createFile(certPath, made)
	}
	if err != nil {
		return nil, fmt.Errorf("open certificate authority: %w", err)
	}
	cert, err := ParseCertificate(certPEM)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, certPath, err)
	}
	if !key.PublicKey.Equal(cert.PublicKey) {
		return nil, fmt.Errorf("%w: %s does not belong to %s", ErrCorrupt, certPath, keyFile)
	}
	if !cert.IsCA {
		return nil, fmt.Errorf("%w: %s is not a certificate authority", ErrCorrupt, certPath)
	}
	if a.now().After(cert.NotAfter) {
		return nil, fmt.Errorf("%w: %s ended on %s", ErrCorrupt, certPath, cert.NotAfter.Format(time.DateOnly))
	}
	return &root{cert: cert, pem: certPEM, key: key}, nil
}

func (a *Authority) selfSign(name string, key *ecdsa.PrivateKey) ([]byte, error) {
	t := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             a.now().Add(-backdate).UTC(),
		NotAfter:              a.now().Add(rootLife).UTC(),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	return sign(t, t, &key.PublicKey, key)
}

// openKey reads a private key, or makes it if it is not there.
func (a *Authority) openKey(file string) (*ecdsa.PrivateKey, error) {
	path := filepath.Join(a.dir, file)
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		_, made, kerr := newKey()
		if kerr != nil {
			return nil, kerr
		}
		data, err = createFile(path, made)
	}
	if err != nil {
		return nil, fmt.Errorf("open certificate authority: %w", err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%w: %s is not PEM", ErrCorrupt, path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, path, err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%w: %s is a %T, not an ECDSA key", ErrCorrupt, path, parsed)
	}
	return key, nil
}

// PEM returns the certificate of the cluster's root. It must not be modified.
func (a *Authority) PEM() []byte { return a.cluster.pem }

// Hash returns the cluster root's hash, see Hash.
func (a *Authority) Hash() string { return Hash(a.cluster.cert) }

// Pool returns a pool with the cluster's root: what clients of the API server
// and the API server's authn.ClientCerts trust.
func (a *Authority) Pool() *x509.CertPool { return poolOf(a.cluster.cert) }

// NodePool returns a pool with the nodes' root: what the API server trusts
// when it connects to a node agent.
func (a *Authority) NodePool() *x509.CertPool { return poolOf(a.nodes.cert) }

// ServiceAccountKey returns the key that signs service account tokens.
func (a *Authority) ServiceAccountKey() crypto.Signer { return a.account }

// Hash returns the hash that pins a root certificate, as sha256:<hex>, over
// its public key in DER.
func Hash(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// ParseCertificate returns the first certificate in PEM data.
func ParseCertificate(data []byte) (*x509.Certificate, error) {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			return x509.ParseCertificate(block.Bytes)
		}
	}
	return nil, errors.New("no certificate found in PEM data")
}

func poolOf(cert *x509.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(cert)
	return p
}

// leaf signs a certificate that ends a year from now, or with its root.
func (a *Authority) leaf(r *root, t *x509.Certificate, public crypto.PublicKey) ([]byte, error) {
	t.NotBefore = a.now().Add(-backdate).UTC()
	t.NotAfter = a.now().Add(leafLife).UTC()
	if t.NotAfter.After(r.cert.NotAfter) {
		t.NotAfter = r.cert.NotAfter
	}
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.BasicConstraintsValid = true
	return sign(t, r.cert, public, r.key)
}

// sign gives the certificate a random serial number and returns it as PEM.
func sign(t, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("sign certificate of %q: %w", t.Subject.CommonName, err)
	}
	t.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, t, parent, public, key)
	if err != nil {
		return nil, fmt.Errorf("sign certificate of %q: %w", t.Subject.CommonName, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// newKey returns a new ECDSA P-256 key, and the key as PEM.
func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode key: %w", err)
	}
	var b bytes.Buffer
	if err := pem.Encode(&b, &pem.Block{Type: "PRIVATE KEY", Bytes: der}); err != nil {
		return nil, nil, fmt.Errorf("encode key: %w", err)
	}
	return key, b.Bytes(), nil
}
